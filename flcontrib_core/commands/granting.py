"""``token`` and ``share``: who may read what until when, beside the accounts of the sign-in file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flcontrib_core.commands.printing import print_json, say, table
from flcontrib_core.commands.stored import JSON, WORKSPACE, named_run, stored_workspace

if TYPE_CHECKING:
    from flcontrib_core.workspace import Grant, GrantKind

DAYS = click.option("--days", type=click.IntRange(1, 366), default=30, show_default=True, help="How long it holds.")
BY = click.option("--by", default="", metavar="NAME", help="Who does this, for the audit log.")


@click.group(epilog="Example: flcontrib token create --role auditor --days 90 --name dashboards")
def token() -> None:
    """Tokens for the read-only HTTP API of ``flcontrib serve``: make one, list them, revoke one."""


@token.command("create", epilog="Example: flcontrib token create --role auditor --days 90 --name dashboards")
@click.option("--role", type=click.Choice(["operator", "auditor", "client"]), default="auditor", show_default=True)
@click.option("--client", default="", metavar="ID", help="Whose extract a client's token opens.")
@click.option("--run", "run", metavar="DIGEST", help="Of which run.")
@click.option("--name", default="", help="What it is for.")
@DAYS
@BY
@WORKSPACE
@JSON
def create_token(
    role: str, client: str, run: str | None, name: str, days: int, by: str, workspace: Path | None, as_json: bool
) -> None:
    """Make a token. It is printed once and stored nowhere: send it as ``Authorization: Bearer TOKEN``.

    Operators and auditors read every run and its audit; a client reads its own extract of one run.
    """
    from flcontrib_core.workspace import GrantKind, Workspace

    with Workspace(workspace) as opened:
        runs = () if run is None else (named_run(opened, run).digest,)
        grant, text = opened.grants.give(
            GrantKind.TOKEN, role=role, days=days, by=by, name=name, runs=runs, client=client
        )
    if as_json:
        print_json({"token": text, **_json(grant)})
    else:
        say(text, f"{grant.role}, id {grant.id}, until {grant.expires}")


@click.group(epilog="Example: flcontrib share create 409cc87e --days 14")
def share() -> None:
    """Links that open one run, read-only, until they end: make one, list them, revoke one."""


@share.command(
    "create", epilog="Example: flcontrib share create 409cc87e --days 14 --address https://audits.example.org"
)
@click.argument("run")
@click.option("--client", default="", metavar="ID", help="Only this client's extract, not the whole run.")
@click.option("--name", default="", help="For whom it is.")
@click.option("--address", default="http://localhost:8501", show_default=True, help="Where browsers reach the server.")
@DAYS
@BY
@WORKSPACE
@JSON
def create_link(
    run: str, client: str, name: str, address: str, days: int, by: str, workspace: Path | None, as_json: bool
) -> None:
    """Make a link to a run (its digest, or the beginning of it). Whoever has the link reads, and changes nothing.

    It matters on a server with sign-in; without it everybody who reaches the server sees everything anyway.
    """
    from flcontrib_core.workspace import GrantKind

    with stored_workspace(workspace) as opened:
        runs, role = (named_run(opened, run).digest,), "client" if client else "reader"
        grant, text = opened.grants.give(
            GrantKind.LINK, role=role, days=days, by=by, name=name, runs=runs, client=client
        )
    link = f"{address.rstrip('/')}/?share={text}"
    if as_json:
        print_json({"link": link, **_json(grant)})
    else:
        say(link, f"id {grant.id}, until {grant.expires}")


def _list(kind: GrantKind, workspace: Path | None, as_json: bool) -> None:
    from datetime import UTC, datetime

    with stored_workspace(workspace) as opened:
        grants, now = opened.grants.list(kind), datetime.now(UTC)
    if as_json:
        print_json([_json(grant) | {"holds": grant.holds(now)} for grant in grants])
        return
    states = ["withdrawn" if g.withdrawn else "holds" if g.holds(now) else "ended" for g in grants]
    rows = [
        [g.id, g.name, g.role, g.client, ", ".join(r[:12] for r in g.runs), g.expires[:16], state]
        for g, state in zip(grants, states, strict=True)
    ]
    header = ["id", "name", "role", "client", "run", "until", "state"]
    click.echo(table(header, rows) if rows else f"no {kind.value} in this workspace")


def _revoke(identity: str, by: str, workspace: Path | None) -> None:
    with stored_workspace(workspace) as opened:
        grant = opened.grants.withdraw(identity, by)
    say(f"{grant.kind.value} {grant.id} opens nothing any more")


def _json(grant: Grant) -> dict[str, Any]:
    return {
        "id": grant.id,
        "kind": grant.kind.value,
        "name": grant.name,
        "role": grant.role,
        "runs": list(grant.runs),
        "client": grant.client,
        "expires": grant.expires,
        "given_by": grant.given_by,
        "given_at": grant.given_at,
        "withdrawn": grant.withdrawn,
    }


@token.command("list", epilog="Example: flcontrib token list")
@WORKSPACE
@JSON
def list_tokens(workspace: Path | None, as_json: bool) -> None:
    """Every token that was ever made, and whether it still holds."""
    from flcontrib_core.workspace import GrantKind

    _list(GrantKind.TOKEN, workspace, as_json)


@share.command("list", epilog="Example: flcontrib share list")
@WORKSPACE
@JSON
def list_links(workspace: Path | None, as_json: bool) -> None:
    """Every link that was ever made, and whether it still holds."""
    from flcontrib_core.workspace import GrantKind

    _list(GrantKind.LINK, workspace, as_json)


@token.command("revoke", epilog="Example: flcontrib token revoke 5f0c9a1be2d34c77 --by ada")
@click.argument("identity")
@BY
@WORKSPACE
def revoke_token(identity: str, by: str, workspace: Path | None) -> None:
    """End a token at once, by its id."""
    _revoke(identity, by, workspace)


@share.command("revoke", epilog="Example: flcontrib share revoke 5f0c9a1be2d34c77 --by ada")
@click.argument("identity")
@BY
@WORKSPACE
def revoke_link(identity: str, by: str, workspace: Path | None) -> None:
    """End a link at once, by its id."""
    _revoke(identity, by, workspace)
