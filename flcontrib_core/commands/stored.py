"""``runs`` and ``results``: what a workspace holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flcontrib_core.commands.given_files import GivenFile
from flcontrib_core.commands.printing import print_json, say, table
from flcontrib_core.errors import SettingsError, WorkspaceError

if TYPE_CHECKING:
    from flcontrib_core.workspace import ResultEntry, RunEntry, Workspace

WORKSPACE = click.option("--workspace", type=click.Path(path_type=Path), help="Folder of runs and results.")
JSON = click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")


@click.group(epilog="Example: flcontrib runs list --find ward   or   flcontrib runs add run.flrun")
def runs() -> None:
    """The runs of a workspace: find them, add, describe and follow one, remove some, drop old logs."""


SORTED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "added": lambda r: r["added_at"],
    "name": lambda r: r["name"].casefold(),
    "size": lambda r: -r["size"],
    "alerts": lambda r: (-r["open_alerts"], -r["alerts"]),
    "epochs": lambda r: -r["epochs"],
}
"""By what runs can be sorted; those that matter first."""


@runs.command("list", epilog="Example: flcontrib runs list --find ward --tag pilot --sort alerts")
@click.option(
    "--find", "words", default="", metavar="WORDS", help="Only those with these in a name, tag, note or digest."
)
@click.option("--tag", "tags", multiple=True, help="Only those with this tag; repeat for more.")
@click.option("--sort", type=click.Choice(list(SORTED)), default="added", show_default=True, help="What comes first.")
@WORKSPACE
@JSON
def list_runs(words: str, tags: tuple[str, ...], sort: str, workspace: Path | None, as_json: bool) -> None:
    """Runs with their size, when they came, their results and their alerts."""
    from flcontrib_core.words.numbers import size

    with stored_workspace(workspace) as opened:
        matching = [r for r in opened.runs() if r.matches(words) and set(tags) <= set(r.tags)]
        rows_json = sorted(_runs_json(matching, opened), key=SORTED[sort])
    if as_json:
        print_json(rows_json)
        return
    header = ["run", "digest", "clients", "epochs", "size", "added", "results", "open alerts"]
    rows = [
        [r["name"], r["digest"][:12], str(r["clients"]), str(r["epochs"]), size(r["size"]), r["added_at"][:10],
         str(r["results"]), f"{r['open_alerts']} of {r['alerts']}"]
        for r in rows_json
    ]  # fmt: skip
    none = "no run like that" if words or tags else "no run in this workspace"
    click.echo(table(header, rows) if rows else none)


def _runs_json(entries: Sequence[RunEntry], workspace: Workspace) -> list[dict[str, Any]]:
    """All of them from one look at the results and one at the alerts."""
    only = entries[0].digest if len(entries) == 1 else None
    from flcontrib_core.workspace import observed_once, opening_first

    stored = workspace.results(only, "audit")
    results = Counter(result.run_digest for result in stored)
    first = {digest: result.digest for digest, result in opening_first(stored).items()}
    alerts: dict[str, list[bool]] = {}
    for alert in observed_once(workspace.alerts.list(only), first):
        alerts.setdefault(alert.run_digest, []).append(alert.state.value == "new")
    return [_run_json(entry, results[entry.digest], alerts.get(entry.digest, [])) for entry in entries]


def _run_json(entry: RunEntry, results: int, alerts: list[bool]) -> dict[str, Any]:
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
        "dropped_at": entry.dropped_at,
        "results": results,
        "alerts": len(alerts),
        "open_alerts": sum(alerts),
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
        answer = _runs_json([entry], opened)[0]
    if as_json:
        print_json(answer)
    else:
        say(f"{entry.name}: {entry.digest}")


@runs.command("describe", epilog="Example: flcontrib runs describe 409cc87e --tag pilot --note 'second try'")
@click.argument("digests", nargs=-1, required=True)
@click.option("--name", help="Another name, of one run.")
@click.option("--tag", "tags", multiple=True, help="A tag beside those it has; repeat for more.")
@click.option("--untag", "gone", multiple=True, help="A tag to take away; repeat for more.")
@click.option("--note", help="A note for whoever opens it.")
@click.option("--by", default="", metavar="NAME", help="Who says so.")
@WORKSPACE
@JSON
def describe_runs(
    digests: tuple[str, ...],
    name: str | None,
    tags: tuple[str, ...],
    gone: tuple[str, ...],
    note: str | None,
    by: str,
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Name, tag or note runs. DIGESTS are digests or their beginnings; every earlier name stays known."""

    if name is not None and len(digests) > 1:
        raise SettingsError("--name is for one run; two runs never have one name")
    with stored_workspace(workspace) as opened:
        described = []
        for entry in [named_run(opened, digest) for digest in digests]:
            kept = [t for t in (*entry.tags, *tags) if t not in gone] if tags or gone else None
            described.append(opened.describe_run(entry.digest, by=by, name=name, tags=kept, note=note))
        answer = _runs_json(described, opened)
    if as_json:
        print_json(answer)
    else:
        say(*(f"{r['name']}: {', '.join(r['tags']) or 'no tag'}" for r in answer))


@runs.command("drop-logs", epilog="Example: flcontrib runs drop-logs --older-than 90 --dry-run")
@click.option("--older-than", "days", type=click.IntRange(0), required=True, metavar="DAYS", help="Since it was added.")
@click.option("--dry-run", is_flag=True, help="Only say what would go and what would stay.")
@click.option("--by", default="", metavar="NAME", help="Who asks for it.")
@WORKSPACE
@JSON
def drop_logs(days: int, dry_run: bool, by: str, workspace: Path | None, as_json: bool) -> None:
    """Keep results, drop logs: what clients sent goes, with what was kept to compute faster.

    Results, alerts, decisions and reports stay. A run without a result that can be read, or that is being computed,
    keeps its log. Each drop is in the audit log; added again, a run is what it was.
    """
    from flcontrib_core.words.numbers import several, size

    with stored_workspace(workspace) as opened:
        opened.jobs.poll()
        old_logs = opened.old_logs(days) if dry_run else opened.drop_logs(days, by=by)
    if as_json:
        rows = [
            {"digest": o.entry.digest, "name": o.entry.name, "freed": o.bytes_freed, "stays": o.stays} for o in old_logs
        ]
        print_json({"dry_run": dry_run, "older_than_days": days, "logs": rows})
        return
    verb = "would go" if dry_run else "dropped"
    for old in old_logs:
        say(f"{old.entry.name}: " + (f"stays, {old.stays}" if old.stays else f"{verb}, {size(old.bytes_freed)}"))
    gone = [old for old in old_logs if not old.stays]
    click.echo(f"{several(len(gone), 'log')} {verb}, {size(sum(old.bytes_freed for old in gone))}")


@runs.command("rm", epilog="Example: flcontrib runs rm 409cc87e")
@click.argument("digests", nargs=-1, required=True)
@WORKSPACE
@JSON
def remove_runs(digests: tuple[str, ...], workspace: Path | None, as_json: bool) -> None:
    """Remove runs and what was computed from them; the audit log keeps that they were there.

    DIGESTS are digests or their beginnings, as the list prints them. All are looked up before any is removed.
    """
    from flcontrib_core.words.numbers import size

    with stored_workspace(workspace) as opened:
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

    with stored_workspace(workspace) as opened:
        entry = named_run(opened, digest)
        opened.say_ended(entry.digest, by)
        opened.jobs.poll()
    say(f"{entry.name}: its end is noted")


def stored_workspace(path: Path | None) -> Workspace:
    """The workspace at a path, for what only looks or changes what is there: a mistyped path makes no new one."""
    from flcontrib_core.workspace import Workspace

    if path is not None and not any((path.expanduser() / part).exists() for part in ("index.sqlite", "log", "objects")):
        raise WorkspaceError(
            f"{path} is no workspace: check the path; one begins with what is put into it, as flcontrib runs add does"
        )
    return Workspace(path)


def named_run(workspace: Workspace, digest: str) -> RunEntry:
    """The one run whose digest begins so."""
    matching = [entry for entry in workspace.runs() if digest and entry.digest.startswith(digest)]
    if len(matching) != 1:
        found = f"{len(matching)} runs' digests begin" if matching else "no run's digest begins"
        raise WorkspaceError(f"{found} with {digest[:40]!r}; flcontrib runs list shows them, give enough to tell one")
    return matching[0]


@click.group(epilog="Example: flcontrib results list --run 409cc87e")
def results() -> None:
    """The stored results of a workspace."""


@results.command("list", epilog="Example: flcontrib results list --run 409cc87e")
@click.option("--run", "run", metavar="DIGEST", help="Only of this run.")
@WORKSPACE
@JSON
def list_results(run: str | None, workspace: Path | None, as_json: bool) -> None:
    """Every result with its run, what was asked, its version and when it was stored; newest first."""
    from flcontrib_core.words import budget

    with stored_workspace(workspace) as opened:
        digest = None if run is None else named_run(opened, run).digest
        names = {entry.digest: entry.name for entry in opened.runs()}
        entries = opened.results(digest)
    if as_json:
        print_json([_result_json(entry) for entry in entries])
        return
    header = ["result", "run", "kind", "asked", "version", "stored"]
    rows = []
    for e in entries:
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
