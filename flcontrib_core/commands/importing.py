"""``import``: a log from files on disk."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flcontrib_core.commands.printing import print_json
from flcontrib_core.errors import RunLogError

if TYPE_CHECKING:
    from flcontrib_core.runs.importing import Understanding


@click.command(
    "import", epilog="Example: flcontrib import checkpoints/ -o run   or   flcontrib import values.csv -o v.csv"
)
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--out", "target", type=click.Path(path_type=Path), help="Where the log is written.")
@click.option(
    "--kind", type=click.Choice(["models", "updates"]), help="What clients' files hold (default: recognised)."
)
@click.option(
    "--initial", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The model before round 1."
)
@click.option(
    "--column", "columns", multiple=True, metavar="WHAT=NAME",
    help="Tables: which column is epoch, client, participated (empty: every row took part), or the utility WHAT, such "
    "as loss=Verlust (repeatable; default: recognised).",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what was understood, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")
def import_(source: Path, target: Path | None, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Make a log from files: a folder (or zip) of .pt, .npz or .safetensors per round and client, or a table (CSV).

    Rounds and clients are told by the paths (round_3/site-a.pt, client_a_round_3.npz, site-1/epoch-3/model.pt), counts
    by a JSON or CSV beside them. Whether files are models or updates is recognised by comparing them with the
    server's. It says what it understood before it writes. Nothing in the files is executed. A table (CSV, Parquet) may
    have any column names, separators and decimal commas: --column names what is not recognised.
    """
    if dry_run:
        target = None
    elif target is None:
        raise click.UsageError("say with -o where the log is to be written, or --dry-run to see what would be")
    elif target.exists():
        raise click.UsageError(f"{target} exists; name a new place")
    from flcontrib_core.runs import holds_tensor_files

    of_tensors = source.is_dir() or holds_tensor_files(source)
    understood = (_folder if of_tensors else _table)(source, target, options)
    if target is None:
        if as_json:
            print_json({"run": None, "digest": None, "understood": understood, "warnings": []})
        return
    from flcontrib_core.runs import check_run_log
    from flcontrib_core.words.numbers import several

    checked = check_run_log(target)
    if not checked.ok:  # it stands there as the files have it: --nonfinite absent may still read it
        raise RunLogError(checked.errors)
    if as_json:
        warnings = [problem.to_json() for problem in checked.warnings]
        print_json({"run": str(target), "digest": checked.digest, "understood": understood, "warnings": warnings})
        return
    for problem in checked.warnings:
        click.echo(f"warning {problem.sentence()}", err=True)
    click.echo(f"{target}: {several(len(checked.clients), 'client')}, {several(checked.epochs, 'epoch')}")
    click.echo(f"digest {checked.digest}")


def _table(source: Path, target: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    """What was understood of a table, which is written where a place is given."""
    from flcontrib_core.runs.import_table import ForeignTable
    from flcontrib_core.words import table_understood

    if target is not None and target.suffix.lower() != ".csv":
        raise click.UsageError("a table becomes a table: give -o a name that ends in .csv")
    named = [text.partition("=") for text in options["columns"]]
    if wrong := next((what for what, sign, name in named if not sign or not (name or what == "participated")), None):
        raise click.UsageError(f"--column {wrong}: give WHAT=NAME, such as epoch=Round")
    table = ForeignTable(source, {what: name for what, _, name in named})
    understood = table.understood.to_json()
    click.echo(f"understood: {table_understood(understood)}", err=True)
    if target is not None:
        table.write(target)
    return understood


@click.command(epilog="Example: flcontrib template -o values.csv && flcontrib audit values.csv")
@click.option("-o", "--out", "target", type=click.Path(path_type=Path), required=True, help="Where it is written.")
def template(target: Path) -> None:
    """Write a small contribution table to fill in: a CSV with every state a cell can have."""
    from flcontrib_core.files import write_atomic
    from flcontrib_core.runs import table_template

    if target.suffix.lower() != ".csv":
        raise click.UsageError("give -o a name that ends in .csv")
    if target.exists():
        raise click.UsageError(f"{target} exists; name a new place")
    write_atomic(target, table_template().encode())
    click.echo(f"{target}: no row = did not take part, empty cell = took part, not computed")


class _Enough(Exception):
    """Everything was understood, and nothing is to be written."""


def _folder(source: Path, target: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    """What was understood of a folder, of which a log is written where a place is given."""
    from flcontrib_core.runs.import_folders import unpacked
    from flcontrib_core.runs.importing import import_folder

    told: list[dict[str, Any]] = []

    def tell(understood: Understanding) -> None:
        told.append(understood.to_json())
        _tell(told[0])
        if target is None:
            raise _Enough

    with suppress(_Enough), unpacked(source) as folder:
        settled = {"kind": options["kind"], "initial": options["initial"], "name": source.stem}
        import_folder(folder, target or source, tell=tell, **settled)  # `tell` ends it before anything is written
    return told[0]


def _tell(understood: dict[str, Any]) -> None:
    click.echo("understood:", err=True)
    for key, value in understood.items():
        click.echo(f"  {key.replace('_', ' ')}: {value}", err=True)
