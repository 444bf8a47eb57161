"""``settings``: what holds for a workspace, for its dashboard and for commands alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from flcontrib_core.commands.printing import print_json


@click.command(
    epilog="Example: flcontrib settings --workspace audits --webhook https://hooks.example.org/x --no-samples"
)
@click.option("--workspace", type=click.Path(path_type=Path), help="Folder of runs and results.")
@click.option("--workers", type=click.IntRange(0, 256), help="Processes of every job; 0 for all cores but one.")
@click.option("--samples/--no-samples", default=None, help="Show or hide the sample runs on every page.")
@click.option("--on-alert", metavar="COMMAND", help="What `watch --notify` tells of each alert; '' for nothing.")
@click.option("--webhook", metavar="URL", help="Where `watch --notify` posts each alert; '' for nowhere.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")
def settings(
    workspace: Path | None,
    workers: int | None,
    samples: bool | None,
    on_alert: str | None,
    webhook: str | None,
    as_json: bool,
) -> None:
    """Show or change what holds for a workspace. Without options nothing is changed; every change is in its audit log.

    The page Settings shows the same. The command for alerts is set here alone: no page says what a server runs.
    """
    from flcontrib_core.workspace import Workspace

    with Workspace(workspace) as found:
        preferences = found.preferences
        if workers is not None:
            preferences.set_execution(replace(preferences.execution(), workers=workers or None))
        if samples is not None:
            preferences.set_display(replace(preferences.display(), samples=samples))
        told = preferences.notices()
        if on_alert is not None:
            told = replace(told, command=on_alert or None)
        if webhook is not None:
            told = replace(told, webhook=webhook or None)
        preferences.set_notices(told)
        execution, shows = preferences.execution(), preferences.display().samples
        held = {"workers": execution.workers, "engine": execution.engine, "address": execution.address}
        held |= {"samples": shows, "on_alert": told.command, "webhook": told.webhook}
        if as_json:
            print_json({"workspace": str(found.path), **held})
            return
        click.echo(f"workspace: {found.path}")
        usual = "" if execution.workers else " (all cores but one)"
        click.echo(f"workers: {execution.processes}{usual}, engine {execution.engine}")
        click.echo(f"sample runs: {'shown' if shows else 'hidden'}")
        click.echo(f"command on alert: {told.command or 'none'}")
        click.echo(f"webhook on alert: {told.webhook or 'none'}")
