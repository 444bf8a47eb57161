"""``log``: the workspace's record of what happened, checked as it lies there, and stamped by an outside party."""

from __future__ import annotations

from pathlib import Path

import click

from flcontrib_core.commands.printing import print_json
from flcontrib_core.errors import SettingsError


@click.group(epilog="Example: flcontrib log verify --workspace audits")
def log() -> None:
    """The audit log of a workspace: runs, results, alerts and decisions, each sealed by the next."""


@log.command(epilog="Example: flcontrib log verify --workspace audits")
@click.option("--workspace", type=click.Path(path_type=Path), help="Folder of runs and results.")
@click.option("--head", metavar="N:SHA256", help="A head that a report printed: it must lie on this chain.")
@click.option("--stamp", type=click.Path(path_type=Path), metavar="FILE", help="An authority's answer (.tsr).")
@click.option("--roots", type=click.Path(path_type=Path), metavar="FILE", help="Certificates (PEM) you trust for it.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")
def verify(workspace: Path | None, head: str | None, stamp: Path | None, roots: Path | None, as_json: bool) -> int:
    """Follow the sealed chain from its first entry to its last; exit code 1 where it is broken. Changes nothing."""
    from flcontrib_core.workspace import check_log, read_stamp

    if roots is not None and stamp is None:
        raise SettingsError("--roots are the certificates for a time stamp; name it with --stamp")
    chain = check_log(workspace, head)
    broken = chain.broken
    stamped = None if stamp is None else read_stamp(stamp, chain.heads, roots)
    if as_json:
        print_json(
            {
                "ok": broken is None,
                "entries": chain.head.sequence,
                "head": str(chain.head),
                "broken": None if broken is None else {"entry": broken.sequence, "problem": broken.problem},
                "uncopied": list(chain.uncopied),
                "stamp": stamped
                and {
                    "head": str(stamped.head),
                    "at": stamped.at.isoformat(),
                    "authority_checked": stamped.authority_checked,
                },
            }
        )
        return 0 if broken is None else 1
    click.echo(str(chain))
    if broken is None:
        click.echo(f"head {chain.head}")
    if stamped is not None:
        checked = "signature checked" if stamped.authority_checked else "signature not checked: give --roots"
        click.echo(f"the first {stamped.head.sequence} entries existed at {stamped.at.isoformat()} ({checked})")
    if chain.uncopied:
        numbers = ", ".join(map(str, chain.uncopied))
        why = "the machine stopped while they were written, or another program wrote them"
        click.echo(f"entries without a copy: {numbers} ({why})", err=True)
    return 0 if broken is None else 1


@log.command(epilog="Example: flcontrib log stamp -o head.tsq   (then: flcontrib log verify --stamp head.tsr)")
@click.option("--workspace", type=click.Path(path_type=Path), help="Folder of runs and results.")
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="The request, to carry by hand.")
def stamp(workspace: Path | None, out: Path) -> None:
    """Write a request for a time stamp of the log's head (RFC 3161). Nothing is sent; it holds a hash alone."""
    from flcontrib_core.files import write_atomic
    from flcontrib_core.workspace import check_log, request_stamp

    chain = check_log(workspace)
    if chain.broken is not None:
        raise SettingsError(f"a broken chain is not stamped: {chain.broken}")
    write_atomic(out, request_stamp(chain.head))
    click.echo(f"{out}: a request for head {chain.head}\nsend it to a time-stamping authority and keep its answer")
