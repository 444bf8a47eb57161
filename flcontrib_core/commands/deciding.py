"""``decide``: what people say about an alert, for the sealed record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flcontrib_core.commands.printing import print_json, say, table
from flcontrib_core.commands.stored import stored_workspace
from flcontrib_core.errors import SettingsError

if TYPE_CHECKING:
    from flcontrib_core.workspace import AlertEntry, Workspace

WORKSPACE = click.option("--workspace", type=click.Path(path_type=Path), help="Folder of runs and results.")
JSON = click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")


@click.command(epilog="Example: flcontrib decide 3f2a --as dismissed --by ada --reason 'announced maintenance'")
@click.argument("alert", required=False)
@click.option("--as", "state", metavar="STATE", help="new, acknowledged, dismissed or confirmed.")
@click.option("--reason", default="", help="Why; a dismissal needs one.")
@click.option("--comment", default="", help="A comment for the record.")
@click.option("--owner", metavar="NAME", help="Who looks after the alert from now on ('' for nobody).")
@click.option("--by", metavar="NAME", default="", help="Who decides.")
@click.option("--share", is_flag=True, help="The client may read the reason or comment in its extract.")
@WORKSPACE
@JSON
def decide(
    alert: str | None,
    state: str | None,
    reason: str,
    comment: str,
    owner: str | None,
    by: str,
    share: bool,
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Record a decision, a comment or an owner for an alert; without ALERT, list the alerts and where they stand.

    ALERT is the beginning of an alert's name as the list prints it. What is recorded is sealed in the audit log and
    shows in headline, cards, report and extract.
    """
    with stored_workspace(workspace) as opened:
        if alert is None:
            entries: tuple[AlertEntry, ...] = opened.alerts.list()
        else:
            if state is None and owner is None and not comment:
                raise SettingsError("nothing to record: give --as, --comment or --owner")
            entry = opened.alerts.find(alert)
            if state is not None:
                entry = opened.alerts.decide(entry.id, state, by, reason, shared=share)
            if owner is not None:
                entry = opened.alerts.assign(entry.id, owner, by)
            if comment:
                entry = opened.alerts.comment(entry.id, by, comment, shared=share)
            entries = (entry,)
        if as_json:
            print_json([_alert_json(e) for e in entries])
            return
        _print_alerts(opened, entries, with_history=alert is not None)


def _alert_json(entry: AlertEntry) -> dict[str, Any]:
    from flcontrib_core.codec import encode
    from flcontrib_core.detection import ReviewStep

    return {
        "id": entry.id,
        "run": entry.run_digest,
        **{key: entry.finding.get(key) for key in ("client", "verdict", "window", "probability")},
        "state": entry.state.value,
        "owner": entry.owner,
        "raised_at": entry.raised_at,
        "history": [encode(ReviewStep, step)[0] for step in entry.history],
    }


def _print_alerts(workspace: Workspace, entries: tuple[AlertEntry, ...], *, with_history: bool) -> None:
    from flcontrib_core.words import state_name, step_line
    from flcontrib_core.words.numbers import window

    names = {run.digest: run.name for run in workspace.runs()}
    rows = []
    for entry in entries:
        epochs = entry.finding.get("window")
        where = "whole run" if epochs is None else window(*epochs)
        about = [names.get(entry.run_digest, entry.run_digest[:12]), entry.finding["client"], entry.finding["verdict"]]
        rows.append([entry.id[:12], *about, where, state_name(entry.state), entry.owner or "–"])
    if not rows:
        click.echo("no alert in this workspace")
        return
    click.echo(table(["alert", "run", "client", "observed", "epochs", "state", "owner"], rows))
    if with_history:
        say("", *(step_line(step) for entry in entries for step in entry.history))
