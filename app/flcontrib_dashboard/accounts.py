"""Who may do what, where sign-in is on: operators everything, auditors read and comment, a client only its own extract.

Off by default: then everybody who reaches the server is its operator, and it answers on this machine only. On, one file
holds Streamlit's own ``[auth]`` (OpenID Connect) and ``[accounts]``: who is what. Nobody it does not name gets in.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import streamlit as st

from flcontrib_core.errors import FLContribError, SettingsError
from flcontrib_core.workspace import Workspace

FILE = "FLCONTRIB_SIGN_IN"
"""Environment variable with the path of the sign-in file; unset: no sign-in."""
SHORTEST_DIGEST = 8


class NotAllowed(FLContribError):
    """This account may not do that."""


class Role(StrEnum):
    """What an account may do."""

    OPERATOR = "operator"
    AUDITOR = "auditor"
    """Reads everything, comments, decides nothing."""
    CLIENT = "client"
    """Sees its own extract of the runs it is named for, and may reply."""


@dataclass(frozen=True)
class Account:
    """Somebody who signed in. Without sign-in there is one nameless operator."""

    role: Role
    name: str = ""
    client: str = ""
    runs: tuple[str, ...] = ()
    """Beginnings of the digests of a client's runs: a client's name means another site in another federation."""

    def may_see(self, run_digest: str, client: str) -> bool:
        """May it have this client's extract of this run?"""
        if self.role is not Role.CLIENT:
            return True
        return client == self.client and any(run_digest.startswith(run) for run in self.runs)


ANYBODY = Account(Role.OPERATOR)


def sign_in_is_on() -> bool:
    """Does this server ask who is there?"""
    return bool(os.environ.get(FILE))


def account_from(name: str, entry: object) -> Account:
    """An account as the file describes it: a role, or a table with more. Raises SettingsError where it is none."""
    fields: Mapping[str, Any] = {"role": entry} if isinstance(entry, str) else entry if isinstance(entry, dict) else {}
    try:
        role = Role(str(fields.get("role")))
    except ValueError:
        raise SettingsError(f"account {name[:80]!r}: the role is one of {', '.join(Role)}") from None
    client, runs = str(fields.get("client", "")), tuple(str(run) for run in fields.get("runs", ()))
    if role is Role.CLIENT and (not client or not runs or any(len(run) < SHORTEST_DIGEST for run in runs)):
        words = f"runs = [digests, at least {SHORTEST_DIGEST} characters of each]"
        raise SettingsError(f"account {name[:80]!r}: a client needs client = its name in the log, and {words}")
    return Account(role, name, client, runs)


def read_accounts(path: Path) -> dict[str, Account]:
    """The accounts of a sign-in file by e-mail address in lower case. Raises SettingsError saying what is wrong."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
        raise SettingsError(f"{path}: {fault}; it holds [auth] and [accounts] as TOML") from None
    entries = content.get("accounts")
    if not isinstance(content.get("auth"), dict) or not isinstance(entries, dict) or not entries:
        raise SettingsError(f"{path} needs [auth] (your OpenID Connect provider) and [accounts] (who is what)")
    return {name.strip().lower(): account_from(name, entry) for name, entry in entries.items()}


def signed_in() -> str | None:
    """The e-mail address the provider vouches for; None before sign-in. An address it calls unverified is none."""
    user = st.user
    if not getattr(user, "is_logged_in", False) or user.get("email_verified") is False:
        return None
    address = user.get("email")
    return str(address).strip().lower() if address else None


def current() -> Account | None:
    """Who is looking at this page; None for somebody the file does not name."""
    if not sign_in_is_on():
        return ANYBODY
    address = signed_in()
    return None if address is None else read_accounts(Path(os.environ[FILE])).get(address)


def your_name() -> str:
    """The name of who signed in; empty without sign-in, where people type it."""
    account = current()
    return "" if account is None else account.name


AUDITORS_MAY_NOT: Mapping[str, frozenset[str]] = {
    "": frozenset(
        {"add_run", "delete_run", "describe_run", "store_result", "checkpoints", "utility_memory", "mend"}
        | {"name_result", "pin_result", "enter_recording", "say_ended", "settle_recording", "raise_provisional"}
    ),
    "preferences": frozenset({"set_execution", "set_notices", "set_display"}),
    "jobs": frozenset({"submit", "cancel", "resume", "finish"}),
    "alerts": frozenset({"decide", "assign", "reply", "raise_alerts", "note"}),
}


class Limited:
    """A workspace as an account may use it: what it may not do raises NotAllowed, whatever page asks."""

    def __init__(self, whole: object, part: str = "") -> None:
        self._whole, self._part = whole, part

    def __getattr__(self, name: str) -> Any:
        if name in AUDITORS_MAY_NOT[self._part]:
            raise NotAllowed("auditors read and comment; ask an operator to do this")
        found = getattr(self._whole, name)
        return Limited(found, name) if not self._part and name in AUDITORS_MAY_NOT else found


def limited(workspace: Workspace) -> Workspace:
    """The workspace as whoever looks at this page may use it. Raises NotAllowed for clients and strangers."""
    account = current()
    if account is None or account.role is Role.CLIENT:
        raise NotAllowed("this account sees its own extract and nothing else")
    return cast(Workspace, Limited(workspace)) if account.role is Role.AUDITOR else workspace
