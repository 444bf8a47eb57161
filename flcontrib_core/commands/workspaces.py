"""``log verify``: the workspace's record of what happened, checked as it lies there."""

from __future__ import annotations

from pathlib import Path

import click

from flcontrib_core.commands.printing import print_json


@click.group()
def log() -> None:
    """The audit log of a workspace: runs, results, alerts and decisions, each sealed by the next."""


@log.command(epilog="Example: flcontrib log verify --workspace audits")
@click.option("--workspace", type=click.Path(path_type=Path), help="Folder of runs and results.")
@click.option("--head", metavar="N:SHA256", help="A head that a report printed: it must lie on this chain.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")
def verify(workspace: Path | None, head: str | None, as_json: bool) -> int:
    """Follow the sealed chain from its first entry to its last; exit code 1 where it is broken. Changes nothing."""
    from flcontrib_core.workspace import check_log

    chain = check_log(workspace, head)
    broken = chain.broken
    if as_json:
        print_json(
            {
                "ok": broken is None,
                "entries": chain.head.sequence,
                "head": str(chain.head),
                "broken": None if broken is None else {"entry": broken.sequence, "problem": broken.problem},
                "uncopied": list(chain.uncopied),
            }
        )
        return 0 if broken is None else 1
    if broken is None:
        click.echo(f"sound: every one of {chain.head.sequence} entries follows the one before it\nhead {chain.head}")
    else:
        click.echo(f"broken: {broken}")
    if chain.uncopied:
        numbers = ", ".join(map(str, chain.uncopied))
        why = "the machine stopped while they were written, or another program wrote them"
        click.echo(f"entries without a copy: {numbers} ({why})", err=True)
    return 0 if broken is None else 1
