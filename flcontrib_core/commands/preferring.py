"""``settings``: what holds for a workspace, for its dashboard and for commands alike."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from flcontrib_core.commands.printing import print_json
from flcontrib_core.execution.engine import DEVICES, ENGINES, Execution

EMPTY: dict[str, Any] = {"workers": None, "address": None, "gpus": 0.0, "device": "cpu"}
"""What an empty value of an option puts back."""


@click.command(
    epilog="Example: flcontrib settings --workspace audits --webhook https://hooks.example.org/x --no-samples"
)
@click.option("--workspace", type=click.Path(path_type=Path), help="Folder of runs and results.")
@click.option("--workers", type=click.IntRange(0, 256), help="Processes of every job; 0 for all cores but one.")
@click.option("--engine", type=click.Choice(ENGINES), help="Where jobs compute.")
@click.option("--address", metavar="ADDRESS", help="Ray: a running cluster; an empty word for one of this machine.")
@click.option("--gpus", type=click.FloatRange(0, 64), metavar="N", help="Ray: GPUs of each task, or a share of one.")
@click.option("--device", type=click.Choice(DEVICES), help="What jobs evaluate models on.")
@click.option("--samples/--no-samples", default=None, help="Show or hide the sample runs on every page.")
@click.option("--on-alert", metavar="COMMAND", help="Program told of each alert of a followed run; '' for none.")
@click.option("--webhook", metavar="URL", help="Where each such alert is posted; '' for nowhere.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")
def settings(
    workspace: Path | None,
    workers: int | None,
    engine: str | None,
    address: str | None,
    gpus: float | None,
    device: str | None,
    samples: bool | None,
    on_alert: str | None,
    webhook: str | None,
    as_json: bool,
) -> None:
    """Show or change what holds for a workspace. Without options nothing is changed; every change is in its audit log.

    The page Settings shows the same. The command for alerts is set here alone: no page says what a server runs.
    """
    from flcontrib_core.workspace import Workspace

    with Workspace(workspace) as opened:
        preferences = opened.preferences
        given: dict[str, Any] = {"workers": workers, "address": address, "gpus": gpus, "device": device}
        preferences.set_execution(_changed(preferences.execution(), engine, given))
        if address:  # named here, also where the workspace named it before
            preferences.agree_to_cluster()
        if samples is not None:
            preferences.set_display(replace(preferences.display(), samples=samples))
        notices = preferences.notices()
        if on_alert is not None:
            notices = replace(notices, command=on_alert or None)
        if webhook is not None:
            notices = replace(notices, webhook=webhook or None)
        named = {"command": on_alert, "webhook": webhook}  # what is only shown is not agreed to
        preferences.set_notices(notices, [part for part, value in named.items() if value])
        execution, shows = preferences.execution(), preferences.display().samples
        held: dict[str, object] = asdict(execution)
        held |= {"samples": shows, "on_alert": notices.command, "webhook": notices.webhook}
        if as_json:
            print_json({"workspace": str(opened.path), **held})
            return
        click.echo(f"workspace: {opened.path}")
        click.echo(f"computing: {execution}")
        click.echo(f"sample runs: {'shown' if shows else 'hidden'}")
        click.echo(f"command on alert: {notices.command or 'none'}")
        click.echo(f"webhook on alert: {notices.webhook or 'none'}")


def _changed(held: Execution, engine: str | None, given: dict[str, Any]) -> Execution:
    """What holds after the options that were given; an empty one puts back what is usual."""
    if engine not in (None, held.engine):  # an address and GPUs are the other engine's
        held = Execution(held.workers, str(engine), device=held.device)
    return replace(held, **{name: value or EMPTY[name] for name, value in given.items() if value is not None})
