"""``runs`` and ``results``: what a workspace holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flcontrib_core.commands.given_files import GivenFile
from flcontrib_core.commands.printing import print_json, say, table
from flcontrib_core.errors import WorkspaceError

if TYPE_CHECKING:
    from flcontrib_core.workspace import ResultEntry, RunEntry, Workspace

WORKSPACE = click.option("--workspace", type=click.Path(path_type=Path), help="Folder of runs and results.")
JSON = click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")


@click.group()
def runs() -> None:
    """The runs of a workspace: list them, add one, follow one that is being recorded, remove one."""


@runs.command("list", epilog="Example: flcontrib runs list --workspace audits")
@WORKSPACE
@JSON
def list_runs(workspace: Path | None, as_json: bool) -> None:
    """Every run with its size, when it came, its results and its alerts."""
    from flcontrib_core.words.numbers import size
    from flcontrib_core.workspace import Workspace

    with Workspace(workspace) as opened:
        found = [_run_json(entry, opened) for entry in opened.runs()]
    if as_json:
        print_json(found)
        return
    header = ["run", "digest", "clients", "epochs", "size", "added", "results", "open alerts"]
    rows = [
        [r["name"], r["digest"][:12], str(r["clients"]), str(r["epochs"]), size(r["size"]), r["added_at"][:10],
         str(r["results"]), f"{r['open_alerts']} of {r['alerts']}"]
        for r in found
    ]  # fmt: skip
    click.echo(table(header, rows) if rows else "no run in this workspace")


def _run_json(entry: RunEntry, workspace: Workspace) -> dict[str, Any]:
    alerts = workspace.alerts.list(entry.digest)
    return {
        "digest": entry.digest,
        "name": entry.name,
        "kind": entry.kind,
        "clients": entry.clients,
        "epochs": entry.epochs,
        "size": entry.size,
        "added_at": entry.added_at,
        "tags": list(entry.tags),
        "note": entry.note,
        "available": entry.available,
        "results": len(workspace.results(entry.digest)),
        "alerts": len(alerts),
        "open_alerts": sum(alert.state.value == "new" for alert in alerts),
    }


@runs.command("add", epilog="Example: flcontrib runs add run.flrun --name 'May, ward 3' --tag pilot")
@click.argument("source", type=GivenFile())
@click.option("--name", help="What to call it (default: its own name).")
@click.option("--tag", "tags", multiple=True, help="A tag; repeat for more.")
@click.option("--note", help="A note for whoever opens it.")
@click.option("--by", default="", metavar="NAME", help="Who adds it.")
@WORKSPACE
@JSON
def add_run(
    source: Path,
    name: str | None,
    tags: tuple[str, ...],
    note: str | None,
    by: str,
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Bring a log or a table into the workspace, checked as an upload is; - is standard input."""
    from flcontrib_core.workspace import Workspace

    with Workspace(workspace) as opened:
        entry = opened.add_run(source, name)
        if tags or note:
            entry = opened.describe_run(entry.digest, by=by, tags=tags or None, note=note)
        answer = _run_json(entry, opened)
    if as_json:
        print_json(answer)
    else:
        say(f"{entry.name}: {entry.digest}")


@runs.command("rm", epilog="Example: flcontrib runs rm 409cc87e")
@click.argument("digests", nargs=-1, required=True)
@WORKSPACE
@JSON
def remove_runs(digests: tuple[str, ...], workspace: Path | None, as_json: bool) -> None:
    """Remove runs and what was computed from them; the audit log keeps that they were there.

    DIGESTS are digests or their beginnings, as the list prints them. All are looked up before any is removed.
    """
    from flcontrib_core.words.numbers import size
    from flcontrib_core.workspace import Workspace

    with Workspace(workspace) as opened:
        gone = [opened.delete_run(entry.digest) for entry in [named_run(opened, digest) for digest in digests]]
    if as_json:
        print_json([{"digest": g.digest, "name": g.name, "freed": g.bytes_freed, "kept": list(g.kept)} for g in gone])
        return
    say(*(f"{g.name}: {size(g.bytes_freed)} freed. Kept: {'; '.join(g.kept) or 'nothing'}" for g in gone))


@runs.command("follow", epilog="Example: flcontrib runs follow recording/ --until 40")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", help="What to call it (default: its own name).")
@click.option("--until", type=click.IntRange(1), metavar="T", help="The training ends with this epoch.")
@WORKSPACE
@JSON
def follow_run(folder: Path, name: str | None, until: int | None, workspace: Path | None, as_json: bool) -> None:
    """Follow a folder that a recorder is writing: one run on the dashboard, from its first epoch to its end.

    New epochs are computed in the background as they arrive; alerts are provisional. The whole is taken in and audited
    when epoch T is there, or when somebody says that the training has ended (here or on the page).
    """
    from flcontrib_core.workspace import Workspace, follow_recording

    with Workspace(workspace) as opened:
        entry, job = follow_recording(opened, folder, name=name, until=until)
    if as_json:
        print_json({"digest": entry.digest, "name": entry.name, "folder": entry.source, "job": job.id})
    else:
        say(f"{entry.name} is followed: {entry.digest}")


@runs.command("ended", epilog="Example: flcontrib runs ended 409cc87e --by ada")
@click.argument("digest")
@click.option("--by", default="", metavar="NAME", help="Who says so.")
@WORKSPACE
def end_run(digest: str, by: str, workspace: Path | None) -> None:
    """Say that the training of a followed recording has ended: the whole of it is taken in and audited."""
    from flcontrib_core.workspace import Workspace

    with Workspace(workspace) as opened:
        entry = named_run(opened, digest)
        opened.say_ended(entry.digest, by)
        opened.jobs.poll()
    say(f"{entry.name}: its end is noted")


def named_run(workspace: Workspace, digest: str) -> RunEntry:
    """The one run whose digest begins so."""
    found = [entry for entry in workspace.runs() if digest and entry.digest.startswith(digest)]
    if len(found) != 1:
        raise WorkspaceError(f"{digest[:40]!r} is the beginning of {len(found)} runs' digests; it must be one")
    return found[0]


@click.group()
def results() -> None:
    """The stored results of a workspace."""


@results.command("list", epilog="Example: flcontrib results list --run 409cc87e")
@click.option("--run", "run", metavar="DIGEST", help="Only of this run.")
@WORKSPACE
@JSON
def list_results(run: str | None, workspace: Path | None, as_json: bool) -> None:
    """Every result with its run, what was asked, its version and when it was stored; newest first."""
    from flcontrib_core.words import budget
    from flcontrib_core.workspace import Workspace

    with Workspace(workspace) as opened:
        digest = None if run is None else named_run(opened, run).digest
        names = {entry.digest: entry.name for entry in opened.runs()}
        found = opened.results(digest)
    if as_json:
        print_json([_result_json(entry) for entry in found])
        return
    header = ["result", "run", "kind", "asked", "version", "stored"]
    rows = []
    for e in found:
        about = [e.digest[:12], names.get(e.run_digest, e.run_digest[:12]), e.kind, budget(e.settings)]
        rows.append([*about, e.version, e.stored_at[:16]])
    click.echo(table(header, rows) if rows else "no result in this workspace")


def _result_json(entry: ResultEntry) -> dict[str, Any]:
    return {
        "digest": entry.digest,
        "run": entry.run_digest,
        "kind": entry.kind,
        "settings": entry.settings,
        "version": entry.version,
        "size": entry.size,
        "stored_at": entry.stored_at,
        "available": entry.available,
        "outdated": entry.outdated,
    }
