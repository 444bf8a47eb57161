"""Leave to read: tokens for the HTTP API and links to one run, which end on their day and can be withdrawn.

A grant is an entry of the audit log. Its token is the grant's id and a signature over everything it allows, made with a
key that only the workspace's folder holds: nothing in the log gives a token away, and nobody can make a grant say more.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from flcontrib_core.errors import SettingsError, WorkspaceError
from flcontrib_core.files import sync
from flcontrib_core.provenance import canonical_json
from flcontrib_core.workspace.audit_log import AuditLog, LogEntry
from flcontrib_core.workspace.index import Index

LONGEST_DAYS = 366
_GIVEN, _WITHDRAWN = "grant-given", "grant-withdrawn"
_KEY = "grants.key"
_KEY_BYTES = 32


class GrantKind(StrEnum):
    """What a grant opens."""

    TOKEN = "token"
    """The HTTP API."""
    LINK = "link"
    """The pages of one run, or one client's extract of it."""


@dataclass(frozen=True)
class Grant:
    """What somebody may read until when."""

    id: str
    kind: GrantKind
    name: str
    role: str
    """'operator', 'auditor' or 'client' for a token; 'reader' or 'client' for a link"""
    runs: tuple[str, ...]
    """Whole digests; none for a role that reads all runs."""
    client: str
    expires: str
    """ISO time, UTC."""
    given_by: str
    given_at: str = ""
    withdrawn: bool = False

    def holds(self, now: datetime) -> bool:
        """Does it still open anything?"""
        return not self.withdrawn and now < datetime.fromisoformat(self.expires)


class Grants:
    """The grants of a workspace."""

    def __init__(self, index: Index, log: AuditLog, folder: Path) -> None:
        self._index, self._log, self._folder = index, log, folder

    def give(
        self,
        kind: GrantKind,
        *,
        role: str,
        days: int,
        by: str,
        name: str = "",
        runs: tuple[str, ...] = (),
        client: str = "",
    ) -> tuple[Grant, str]:
        """Enters a grant; its token is returned here and stored nowhere. Raises SettingsError for one that is none."""
        allowed = ("operator", "auditor", "client") if kind is GrantKind.TOKEN else ("reader", "client")
        if role not in allowed:
            raise SettingsError(f"a {kind.value} is for one of {', '.join(allowed)}, not {role[:40]!r}")
        if (role == "client") != bool(client) or (kind is GrantKind.LINK or role == "client") != bool(runs):
            raise SettingsError("a client's grant names the client and its run, a link names one run, others neither")
        if not 1 <= days <= LONGEST_DAYS:
            raise SettingsError(f"{days} days: a grant lasts 1 to {LONGEST_DAYS}")
        until = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds")
        grant = Grant(secrets.token_hex(8), kind, name.strip()[:80], role, runs, client, until, by.strip()[:200])
        with self._index.write() as transaction:
            for run in runs:
                if not transaction.execute("SELECT 1 FROM runs WHERE digest = ?", (run,)):
                    raise WorkspaceError(f"no run {run[:12]}… in this workspace")
            self._log.append(transaction, _GIVEN, grant.id, _body(grant))
        return grant, self.token(grant)

    def token(self, grant: Grant) -> str:
        """What opens a grant: its id and the signature over everything it allows."""
        signed = hmac.new(self._key(), canonical_json({"id": grant.id, **_body(grant)}).encode(), hashlib.sha256)
        return f"{grant.id}.{base64.urlsafe_b64encode(signed.digest()).decode().rstrip('=')}"

    def find(self, token: str, kind: GrantKind, now: datetime | None = None) -> Grant | None:
        """The grant that a token opens; None for an unknown, ended or withdrawn one, and for one of the other kind."""
        identity, _, signature = token.partition(".")
        grant = next(iter(self._listed(identity)), None) if signature and identity else None
        if grant is None or grant.kind is not kind or not (self._folder / _KEY).exists():
            return None
        right = hmac.compare_digest(self.token(grant).encode(), token.encode())
        return grant if right and grant.holds(now or datetime.now(UTC)) else None

    def list(self, kind: GrantKind | None = None) -> tuple[Grant, ...]:
        """Every grant ever given, newest first."""
        return tuple(g for g in reversed(self._listed()) if kind in (None, g.kind))

    def withdraw(self, identity: str, by: str) -> Grant:
        """Ends a grant at once."""
        grant = next(iter(self._listed(identity)), None) if identity else None
        if grant is None:
            raise WorkspaceError(f"no token or link {identity[:40]!r} in this workspace")
        if not grant.withdrawn:
            with self._index.write() as transaction:
                self._log.append(transaction, _WITHDRAWN, grant.id, {"by": by.strip()[:200]})
        return replace(grant, withdrawn=True)

    def _listed(self, identity: str | None = None) -> tuple[Grant, ...]:
        ended = {e.subject for e in self._log.entries(_WITHDRAWN, identity)}
        return tuple(_grant(e, e.subject in ended) for e in self._log.entries(_GIVEN, identity))

    def _key(self) -> bytes:
        """The key of this workspace, made when it is first needed; without it no token opens anything."""
        path = self._folder / _KEY
        if not path.exists():
            self._make_key(path)
        key = path.read_bytes()
        if len(key) != _KEY_BYTES:
            raise WorkspaceError(f"{path} is no key of {_KEY_BYTES} bytes; remove it, and all tokens and links end")
        return key

    @staticmethod
    def _make_key(path: Path) -> None:
        """Written whole under another name first: a kill leaves no half a key, and of two makers the first wins."""
        partial = path.with_name(f".{_KEY}.{secrets.token_hex(8)}.part")
        try:
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
                file.flush()
                sync(file.fileno())
            with suppress(FileExistsError):
                os.link(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def _body(grant: Grant) -> dict[str, Any]:
    """What is signed and logged: everything it allows."""
    left_out = ("id", "given_at", "withdrawn")
    return {name: value for name, value in asdict(grant).items() if name not in left_out} | {"runs": list(grant.runs)}


def _grant(entry: LogEntry, withdrawn: bool) -> Grant:
    body = entry.body
    return Grant(
        entry.subject,
        GrantKind(body["kind"]),
        body["name"],
        body["role"],
        tuple(body["runs"]),
        body["client"],
        body["expires"],
        body["given_by"],
        entry.at,
        withdrawn,
    )
