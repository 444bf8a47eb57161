"""``watch``: a run that is still growing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flcontrib_core.commands.assessing import memory_of
from flcontrib_core.commands.options import ESTIMATOR_OPTIONS, settings_from, with_options
from flcontrib_core.commands.printing import print_json
from flcontrib_core.errors import MissingPart, RunLogError

if TYPE_CHECKING:
    from flcontrib_core.detection import OnlineReader
    from flcontrib_core.runs import NonFinite, RunLog


@click.command(epilog="Example: flcontrib watch recording/ --every 5")
@click.argument("folder", type=click.Path(path_type=Path))
@with_options(ESTIMATOR_OPTIONS)
@click.option("--every", type=click.FloatRange(0.1, 3600), default=5.0, help="Seconds between looks [5].")
@click.option("--until", type=click.IntRange(1), metavar="T", help="Stop after this epoch (default: never).")
@click.option("--on-alert", metavar="COMMAND", help="Program told of each alert: its JSON line on standard input.")
@click.option("--webhook", metavar="URL", help="Address that each alert's JSON is posted to.")
@click.option("--workspace", metavar="DIR", help="Folder that remembers evaluations (default: the platform's).")
@click.option("--no-memory", is_flag=True, help="Neither read nor write the workspace; every look computes anew.")
def watch(
    folder: Path, every: float, until: int | None, on_alert: str | None, webhook: str | None, **options: Any
) -> None:
    """Follow a growing log: new epochs are computed and alerts raised as they arrive, one JSON line per event.

    Each look is another chance of a false alarm, so windows alert at the sequential threshold (the online preset) and
    are provisional: confirm them with ``flcontrib audit`` when the run has ended. --on-alert and --webhook pass each
    alert on; one that cannot be reached is reported on stderr, and the watch goes on.
    """
    from flcontrib_core.detection import OnlineReader

    tell = _teller(on_alert, webhook)
    memory, reader = memory_of(options), OnlineReader()
    run: RunLog | None = None
    if not (folder / "manifest.json").exists():
        there = "holds no recording yet." if folder.is_dir() else "does not exist yet; is the path right?"
        click.echo(f"{folder} {there} Waiting for its first epoch.", err=True)
    while True:
        run = _look(folder, run, reader, options, memory, tell)
        if until is not None and run is not None and run.epoch_count >= until:
            print_json({"event": "done", "epoch": run.epoch_count})
            return
        time.sleep(every)


def _teller(command: str | None, address: str | None) -> Callable[[dict[str, Any]], None]:
    """Passes an alert on to whoever was named; what is wrong with a name is said before anything is computed."""
    from flcontrib_core.execution.notices import checked_address, command_words, tell_address, tell_command

    words = None if command is None else command_words(command)
    place = None if address is None else checked_address(address)

    def tell(notice: dict[str, Any]) -> None:
        faults = [None if words is None else tell_command(words, notice)]
        faults.append(None if place is None else tell_address(place, notice))
        for fault in faults:
            if fault is not None:
                click.echo(fault, err=True)

    return tell


def _look(
    folder: Path,
    before: RunLog | None,
    reader: OnlineReader,
    options: dict[str, Any],
    memory: dict[str, Any],
    tell: Callable[[dict[str, Any]], None],
) -> RunLog | None:
    """Computes and prints what is new since the reading ``before``; returns the reading that holds now."""
    run = _read_on(folder, before, options)
    if run is None or run is before:
        return before
    from flcontrib_core.history.assess import assess_contributions
    from flcontrib_core.history.updates_only import history_of_updates, lacking_part
    from flcontrib_core.reports.as_json import alert_json, numbers

    known = before.epoch_count if before is not None else 0
    if run.epoch_count > known:
        settings, lacking = settings_from(options), lacking_part(run)
        if lacking is None:
            history = assess_contributions(run, settings, **memory)
        else:
            history = history_of_updates(run, settings, lacking)
        for t in range(known + 1, run.epoch_count + 1):
            values = {u: numbers(history.of(u).values[t]) for u in history.utilities}
            print_json({"event": "epoch", "epoch": t, "clients": list(history.client_ids), "values": values})
        for alert in reader.look(history):
            notice = {"event": "alert", "epoch": run.epoch_count, "provisional": True, **alert_json(alert)}
            print_json(notice)
            tell(notice)
    return run


def _read_on(folder: Path, before: RunLog | None, options: dict[str, Any]) -> RunLog | None:
    """The recording as it stands; None before its first epoch has ended. Only what is new in it is read."""
    from flcontrib_core.runs import RunLog, read_run_log

    if not (folder / "manifest.json").exists():
        return None
    nonfinite: NonFinite = "absent" if options.get("nonfinite") == "absent" else "refuse"
    try:
        run = read_run_log(folder, nonfinite=nonfinite, previous=before)
    except RunLogError as refused:
        if all(problem.code == "E_EPOCH_NONE" for problem in refused.problems):
            return None
        raise
    if not isinstance(run, RunLog):
        raise MissingPart(f"{folder}: only a recording in a directory can be watched")
    return run
