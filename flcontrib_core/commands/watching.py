"""``watch``: a run that is still growing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from flcontrib_core.commands.assessing import memory_of
from flcontrib_core.commands.options import (
    ESTIMATOR_OPTIONS,
    WORKER_OPTIONS,
    SectionedCommand,
    computing_of,
    settings_from,
    with_options,
)
from flcontrib_core.commands.printing import print_json
from flcontrib_core.errors import SettingsError

if TYPE_CHECKING:
    from flcontrib_core.auditing import LiveLook
    from flcontrib_core.history.assess import Computing
    from flcontrib_core.runs import NonFinite
    from flcontrib_core.workspace import Notices


@click.command(cls=SectionedCommand, epilog="Example: flcontrib watch recording/ --every 5")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@with_options(ESTIMATOR_OPTIONS, WORKER_OPTIONS)
@click.option("--every", type=click.FloatRange(0.1, 3600), default=5.0, help="Seconds between looks [5].")
@click.option("--until", type=click.IntRange(1), metavar="T", help="Stop after this epoch (default: never).")
@click.option("--on-alert", metavar="COMMAND", help="Program told of each alert: its JSON line on standard input.")
@click.option("--webhook", metavar="URL", help="Address that each alert's JSON is posted to.")
@click.option("--notify", is_flag=True, help="Tell whom `flcontrib settings` names for the workspace.")
@click.option("--workspace", metavar="DIR", help="Folder that remembers evaluations (default: the platform's).")
@click.option("--no-memory", is_flag=True, help="Neither read nor write the workspace.")
def watch(
    folder: Path,
    every: float,
    until: int | None,
    on_alert: str | None,
    webhook: str | None,
    notify: bool,
    **options: Any,
) -> None:
    """Follow a growing log: new epochs are computed and alerts raised as they arrive, one JSON line per event.

    Each look is another chance of a false alarm, so windows alert at the sequential threshold (the online preset) and
    are provisional: confirm them with ``flcontrib audit`` when the run has ended. --on-alert and --webhook pass each
    alert on, --notify as the workspace's settings say; one that cannot be reached is reported on stderr, and the watch
    goes on.
    """
    from flcontrib_core.auditing import AuditSettings, LiveAudit
    from flcontrib_core.workspace import Notices

    notices = _named_notices(options) if notify else Notices()
    notices = Notices(on_alert or notices.command, webhook or notices.webhook)
    computing = cast("Computing", {**computing_of(options), **memory_of(options)})
    nonfinite: NonFinite = "absent" if options.get("nonfinite") == "absent" else "refuse"
    live = LiveAudit(folder, AuditSettings(settings_from(options)), nonfinite=nonfinite)
    if not (folder / "manifest.json").exists():
        there = "holds no recording yet." if folder.is_dir() else "does not exist yet; is the path right?"
        click.echo(f"{folder} {there} Waiting for its first epoch.", err=True)
    while True:
        news = live.look(lambda run: computing)
        if news is not None:
            _print(news, notices)
        if until is not None and live.run is not None and live.run.epoch_count >= until:
            print_json({"event": "done", "epoch": live.run.epoch_count})
            return
        time.sleep(every)


def _named_notices(options: dict[str, Any]) -> Notices:
    """Whom the workspace's settings name, said aloud. Never without being asked: the folder may be somebody else's."""
    from flcontrib_core.workspace import Workspace

    with Workspace(options.get("workspace")) as workspace:
        notices = workspace.preferences.notices()
        named = [f"{what} {name}" for what, name in (("runs", notices.command), ("posts to", notices.webhook)) if name]
        if not named:
            raise SettingsError(f"--notify: the settings of {workspace.path} name nobody; see flcontrib settings")
        click.echo(f"on an alert {workspace.path} {' and '.join(named)}", err=True)
        return notices


def _print(news: LiveLook, notices: Notices) -> None:
    """A line per new epoch and per new alert, which is passed on."""
    from flcontrib_core.reports.as_json import alert_json, numbers

    history, last = news.history, news.run.epoch_count
    for t in range(news.first_new, last + 1):
        values = {u: numbers(history.of(u).values[t]) for u in history.utilities}
        print_json({"event": "epoch", "epoch": t, "clients": list(history.client_ids), "values": values})
    for alert in news.new_alerts:
        notice = {"event": "alert", "epoch": last, "provisional": True, **alert_json(alert)}
        print_json(notice)
        for fault in notices.tell(notice):
            click.echo(fault, err=True)
