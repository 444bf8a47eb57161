"""``note``: facts that an operator declares about a client, for the sealed record."""

from __future__ import annotations

from pathlib import Path

import click

from flcontrib_core.commands.printing import print_json, say
from flcontrib_core.errors import SettingsError


@click.command(epilog="Example: flcontrib note run.flrun --client hospital-b --epochs 12:20 'new GPU' --by ada")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("text")
@click.option("--client", required=True, metavar="ID", help="Whom it is about.")
@click.option("--epochs", required=True, metavar="A:B", help="First and last epoch, counted from 1.")
@click.option("--by", required=True, metavar="NAME", help="Who declares it.")
@click.option("--workspace", type=click.Path(path_type=Path), help="Folder of runs and results.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")
def note(run: Path, text: str, client: str, epochs: str, by: str, workspace: Path | None, as_json: bool) -> None:
    """Declare a fact about a client and epochs of a run, such as a new GPU or a privacy filter switched on.

    It is sealed in the workspace's audit log and shown beside a change of behaviour in these epochs, on the page, in
    the report and in the client's extract. It never hides harm.
    """
    from flcontrib_core.codec import encode
    from flcontrib_core.detection import DeclaredNote
    from flcontrib_core.runs import read_run_log
    from flcontrib_core.words import note_line
    from flcontrib_core.workspace import Workspace

    log = read_run_log(run)
    if client not in log.client_ids:
        raise SettingsError(f"the run has no client {client!r}; check the name")
    first, _, last = epochs.partition(":")
    if not first.isdecimal() or not (last or first).isdecimal() or int(last or first) > log.epoch_count:
        raise SettingsError(f"--epochs {epochs}: give two epochs of the run, e.g. 3:{log.epoch_count}")
    with Workspace(workspace) as opened:
        declared = opened.alerts.note(log.digest, client, (int(first), int(last or first)), text, by)
    if as_json:
        print_json(encode(DeclaredNote, declared)[0])
    else:
        say(f"{client}, {note_line(declared)}")
