"""A read-only HTTP API beside the pages: the command line's JSON for holders of a token.

``flcontrib token create`` makes one; where sign-in is on, ``[tokens]`` of its file may name others by their sha256. No
token itself is stored anywhere. Nothing can be changed here, and no request can name a path on the server.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import tomllib
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from flcontrib_core.errors import FLContribError, SettingsError
from flcontrib_core.reports import Record, audit_json, extract_json
from flcontrib_core.workspace import GrantKind, RunEntry, Workspace, stored_report
from flcontrib_dashboard.accounts import FILE, Account, Role, account_from, sign_in_is_on
from flcontrib_dashboard.addresses import under_base

Answer = dict[str, Any] | list[Any]


class Refused(FLContribError):
    """A request that gets no answer; ``status`` says which kind of no."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


def token_account(token: str, today: date | None = None) -> Account | None:
    """Whose token of the sign-in file this is; None for an unknown or expired one. Raises SettingsError for a broken
    file."""
    if not token or not sign_in_is_on():
        return None
    try:
        entries = tomllib.loads(Path(os.environ[FILE]).read_text(encoding="utf-8")).get("tokens", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as broken:
        raise SettingsError(f"{FILE}: {broken}") from None
    if not isinstance(entries, dict):
        raise SettingsError("[tokens] of the sign-in file is not a table of tokens")
    fingerprint = hashlib.sha256(token.encode()).hexdigest()
    for name, entry in entries.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("expires"), date):
            raise SettingsError(f"token {name[:80]!r} needs sha256, role and expires = a date")
        known = hmac.compare_digest(str(entry.get("sha256", "")).lower(), fingerprint)
        if known and (today or datetime.now(UTC).date()) <= entry["expires"]:
            return account_from(name, entry)
    return None


def granted_account(workspace: Workspace, token: str) -> Account | None:
    """Whose token of ``flcontrib token create`` this is; None for any other, a link's too."""
    grant = workspace.grants.find(token, GrantKind.TOKEN)
    return None if grant is None else Account(Role(grant.role), grant.name, grant.client, grant.runs)


def runs(workspace: Workspace, account: Account, _: dict[str, str]) -> Answer:
    """GET /api/runs: the runs this account may name."""
    seen = [r for r in workspace.runs() if account.may_see(r.digest, account.client)]
    if account.role is Role.CLIENT:  # not even how the run is called, or how many took part
        return [{"digest": r.digest, "added_at": r.added_at} for r in seen]
    return [
        {"digest": r.digest, "name": r.name, "kind": r.kind, "clients": r.clients, "epochs": r.epochs}
        | {"size": r.size, "added_at": r.added_at, "tags": list(r.tags), "note": r.note}
        for r in seen
    ]


def audit_of(workspace: Workspace, account: Account, path: dict[str, str]) -> Answer:
    """GET /api/runs/DIGEST/audit: the result that opens first, with what was decided; not for clients."""
    if account.role is Role.CLIENT:
        raise Refused(403, "a client's token opens its own extract and nothing else")
    report = _report(workspace, _run(workspace, path["digest"]))
    return {**audit_json(report), "decisions": workspace.alerts.reviews(report.history.run_digest).to_json()}


def extract_of(workspace: Workspace, account: Account, path: dict[str, str]) -> Answer:
    """GET /api/runs/DIGEST/extract/CLIENT: one client's extract."""
    if account.role is Role.CLIENT and not account.may_see(path["digest"], path["client"]):
        raise Refused(403, "a client's token opens its own extract and nothing else")
    entry = _run(workspace, path["digest"])
    report = _report(workspace, entry)
    if path["client"] not in report.history.client_ids:
        raise Refused(404, "no such client in this run")
    record = Record(chain_head=str(workspace.head()), reviews=workspace.alerts.reviews(entry.digest))
    run = workspace.open_run(entry.digest) if entry.available else None
    return extract_json(report, path["client"], run, record)


def _run(workspace: Workspace, digest: str) -> RunEntry:
    """Only a whole digest names a run here."""
    entry = workspace.find_run(digest)
    if entry is None:
        raise Refused(404, "no such run")
    return entry


def _report(workspace: Workspace, entry: RunEntry) -> Any:
    first = workspace.default_result(entry.digest)  # the one that every page opens first
    if first is None:
        raise Refused(404, "this run has no result")
    return stored_report(workspace, first)


def _answering(ask: Callable[[Workspace, Account, dict[str, str]], Answer]) -> Callable[..., Any]:
    """A route that asks for a token first."""

    def answer(token: str, path: dict[str, str]) -> tuple[Answer, int]:
        from flcontrib_dashboard import state  # its caches want a running server

        try:
            account = granted_account(state.shared_workspace(), token) or token_account(token)
            if account is None:
                raise Refused(401, "send a valid token: Authorization: Bearer …")
            return ask(state.shared_workspace(), account, path), 200
        except Refused as refused:
            return {"error": str(refused)}, refused.status
        except FLContribError:
            return {"error": "this cannot be answered; the operator finds the reason in the dashboard"}, 500

    async def route(request: Request) -> JSONResponse:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        given = token.strip() if kind.lower() == "bearer" else ""
        told, status = await anyio.to_thread.run_sync(partial(answer, given, dict(request.path_params)))
        return JSONResponse(told, status, {"Cache-Control": "no-store"})

    return route


def api_routes() -> list[Route]:
    """The routes of the API, all of them GET."""
    asked = {
        "/api/runs": runs,
        "/api/runs/{digest}/audit": audit_of,
        "/api/runs/{digest}/extract/{client:path}": extract_of,
    }
    return [Route(under_base(path), _answering(ask), methods=["GET"]) for path, ask in asked.items()]
