"""``note`` and ``mark``: what an operator knows about a client, for the sealed record."""

from __future__ import annotations

from pathlib import Path

import click

from flcontrib_core.commands.printing import print_json, say
from flcontrib_core.detection.review import Mark
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
    from flcontrib_core.words import note_line, numbers
    from flcontrib_core.workspace import Workspace

    digest, window = _asked(run, client, epochs)
    with Workspace(workspace) as opened:
        declared = opened.alerts.note(digest, client, window, text, by)
    if as_json:
        print_json(encode(DeclaredNote, declared)[0])
    else:
        say(f"{numbers.named(client)}, {note_line(declared)}")


@click.command(epilog="Example: flcontrib mark run.flrun --client hospital-b --as dishonest --epochs 12:20 --by ada")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--client", required=True, metavar="ID", help="Whom it is about.")
@click.option("--as", "mark_as", required=True, type=click.Choice([m.value for m in Mark]), help="The marking.")
@click.option("--epochs", metavar="A:B", help="First and last epoch it is about, where known.")
@click.option("--by", required=True, metavar="NAME", help="Who marks it.")
@click.option("--workspace", type=click.Path(path_type=Path), help="Folder of runs and results.")
def mark(run: Path, client: str, mark_as: str, epochs: str | None, by: str, workspace: Path | None) -> None:
    """Mark a client by hand, so that groups and change points of a real run can be scored.

    A marking is its author's word, sealed in the workspace's audit log. No verdict reads it, nothing calls it truth.
    """
    from flcontrib_core.words import numbers
    from flcontrib_core.workspace import Workspace

    digest, window = _asked(run, client, epochs or "1:1")
    with Workspace(workspace) as opened:
        made = opened.alerts.mark(digest, client, mark_as, by, window if epochs else None)
    where = "" if made.epochs is None else f" in epochs {made.epochs[0]}–{made.epochs[1]}"
    say(f"{numbers.named(client)}: marked by {made.by} as {made.mark}{where}")


def _asked(run: Path, client: str, epochs: str) -> tuple[str, tuple[int, int]]:
    """(the run's digest, the epochs); raises SettingsError for a client or epochs that it does not have."""
    from flcontrib_core.runs import read_run_log

    log = read_run_log(run)
    if client not in log.client_ids:
        raise SettingsError(f"the run has no client {client!r}; check the name")
    first, _, last = epochs.partition(":")
    if not first.isdecimal() or not (last or first).isdecimal() or int(last or first) > log.epoch_count:
        raise SettingsError(f"--epochs {epochs}: give two epochs of the run, e.g. 3:{log.epoch_count}")
    return log.digest, (int(first), int(last or first))
