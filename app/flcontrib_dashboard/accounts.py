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
from flcontrib_core.workspace import Display, GrantKind, Job, ResultEntry, RunEntry, Workspace

FILE = "FLCONTRIB_SIGN_IN"
"""Environment variable with the path of the sign-in file; unset: no sign-in."""
SHORTEST_DIGEST = 8
LINK_ONLY = "this link opens one run, to be read"
FOR_OPERATORS = "Auditors read and comment; ask an operator to do this."


class NotAllowed(FLContribError):
    """This account may not do that."""


class Role(StrEnum):
    """What an account may do."""

    OPERATOR = "operator"
    AUDITOR = "auditor"
    """Reads everything, comments, decides nothing."""
    CLIENT = "client"
    """Sees its own extract of the runs it is named for, and may reply."""
    READER = "reader"
    """Holds a link to one run: reads it, and nothing else. No account of the file is one."""


@dataclass(frozen=True)
class Account:
    """Somebody who signed in. Without sign-in there is one nameless operator."""

    role: Role
    name: str = ""
    client: str = ""
    runs: tuple[str, ...] = ()
    """Beginnings of the digests of a client's runs: a client's name means another site in another federation."""
    by_link: bool = False
    """Did a link bring it here? Then it reads, and files no reply."""

    def may_see(self, run_digest: str, client: str) -> bool:
        """May it have this client's extract of this run?"""
        if self.role in (Role.OPERATOR, Role.AUDITOR):
            return True
        named = any(run_digest.startswith(run) for run in self.runs)
        return named and (self.role is Role.READER or client == self.client)


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
        role = Role.READER
    if role is Role.READER:
        raise SettingsError(f"account {name[:80]!r}: the role is one of {', '.join(r for r in Role if r != role)}")
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
    if not getattr(user, "is_logged_in", False) or not _vouched_for(user.get("email_verified")):
        return None
    address = user.get("email")
    return str(address).strip().lower() if address else None


def _vouched_for(verified: object) -> bool:
    """What a provider says of an address: many say nothing, some say it in a word instead of a truth value."""
    return verified in (None, True) or str(verified).strip().lower() == "true"


def link_token() -> str:
    """The token of the link that opened this page, kept for the session's other pages; empty without one."""
    given = st.query_params.get("share", "")
    if given:
        st.session_state["share"] = given
    return str(st.session_state.get("share", ""))


def link_holder(token: str) -> Account | None:
    """Who holds a link may read what it names; None for one that was never given, has ended or was withdrawn."""
    from flcontrib_dashboard import state  # which asks here first

    grant = state.shared_workspace().grants.find(token, GrantKind.LINK)
    if grant is None:
        return None
    name = f"link until {grant.expires[:10]}"
    return Account(Role(grant.role), name, grant.client, grant.runs, by_link=True)


def current() -> Account | None:
    """Who is looking at this page; None for somebody the file does not name. A link counts before an account, for it
    allows less."""
    if token := link_token():
        return link_holder(token)
    if not sign_in_is_on():
        return ANYBODY
    address = signed_in()
    return None if address is None else read_accounts(Path(os.environ[FILE])).get(address)


READERS_PAGES = frozenset(
    {"overview", "alerts", "contributions", "client", "epoch", "change_points", "clusters", "help"}
)
"""What a link to a run opens: every page that only reads it."""


def reads_only() -> bool:
    """Did a link bring whoever looks at this page? Then nothing is asked of them."""
    account = current()
    return account is None or account.by_link


def opens(view: str) -> bool:
    """Is this page there for whoever looks?"""
    return view in READERS_PAGES or not reads_only()


def operates() -> bool:
    """May whoever looks at this page change what is stored?"""
    account = current()
    return account is not None and account.role is Role.OPERATOR


def operator_button(label: str, *, submits: bool = False, **options: Any) -> bool:
    """A button, or a form's, that only operators can press: for everybody else it is disabled and says why."""
    if not operates():
        options |= {"disabled": True, "help": FOR_OPERATORS}
    return bool(st.form_submit_button(label, **options) if submits else st.button(label, **options))


def your_name() -> str:
    """The name of who signed in; empty without sign-in, where people type it."""
    account = current()
    return "" if account is None else account.name


AUDITORS_MAY_NOT: Mapping[str, frozenset[str]] = {
    "": frozenset(
        {"add_run", "delete_run", "drop_logs", "describe_run", "store_result", "checkpoints", "utility_memory", "mend"}
        | {"name_result", "pin_result", "enter_recording", "say_ended", "settle_recording", "raise_provisional"}
    ),
    "preferences": frozenset({"set_execution", "agree_to_cluster", "set_notices", "set_display"}),
    "jobs": frozenset({"submit", "cancel", "resume", "finish"}),
    "alerts": frozenset({"decide", "assign", "reply", "raise_alerts", "note", "mark"}),
    "grants": frozenset({"give", "withdraw", "token", "list"}),
}


class Limited:
    """A workspace as an account may use it: what it may not do raises NotAllowed, whatever page asks."""

    def __init__(self, whole: object, part: str = "") -> None:
        self._whole, self._part = whole, part

    def __getattr__(self, name: str) -> Any:
        if name in AUDITORS_MAY_NOT[self._part]:
            raise NotAllowed(FOR_OPERATORS)
        found = getattr(self._whole, name)
        return Limited(found, name) if not self._part and name in AUDITORS_MAY_NOT else found


OF_ONE_RUN = frozenset({"find_run", "results", "default_result", "latest_result", "open_run", "provisional_alerts"})
"""What a reader may ask about its run, which is the first argument."""
OF_ITS_ALERTS = frozenset({"reviews", "marks", "list"})


class OneRun:
    """A workspace in which one run is all there is, to be read: whatever else is asked for raises NotAllowed."""

    def __init__(self, whole: Workspace, digest: str) -> None:
        self._whole, self._digest = whole, digest
        self.path = f"run {digest}"  # what is cached for whoever sees more is never found here
        self.impaired = whole.impaired
        self.head = whole.head
        self.previews = whole.previews
        self.alerts = cast(Any, _Checked(whole.alerts, OF_ITS_ALERTS, digest))
        self.jobs = self.preferences = self

    def display(self) -> Display:
        """How the pages are shown here."""
        return self._whole.preferences.display()

    def load_result(self, entry: ResultEntry, declared: Any = None) -> Any:
        """A result of the run."""
        if entry.run_digest != self._digest:
            raise NotAllowed(LINK_ONLY)
        return self._whole.load_result(entry, declared)

    def runs(self) -> tuple[RunEntry, ...]:
        """The one run."""
        return tuple(r for r in self._whole.runs() if r.digest == self._digest)

    def settled_as(self, beginning: str) -> None:
        """Nothing: a link names a run, not a recording."""

    def poll(self) -> tuple[Job, ...]:
        """The run's jobs; none is started for a reader."""
        return tuple(j for j in self._whole.jobs.list() if j.run_digest == self._digest)

    def find(self, job_id: str) -> Job:
        """One of the run's jobs."""
        found = next((j for j in self.poll() if j.id == job_id), None)
        if found is None:
            raise NotAllowed(LINK_ONLY)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(_Checked(self._whole, OF_ONE_RUN, self._digest), name)


class _Checked:
    """An object of which a few methods may be called, with one run as their first argument."""

    def __init__(self, whole: object, allowed: frozenset[str], digest: str) -> None:
        self._whole, self._allowed, self._digest = whole, allowed, digest

    def __getattr__(self, name: str) -> Any:
        if name not in self._allowed:
            raise NotAllowed(LINK_ONLY)

        def ask(run_digest: str | None = None, *more: Any, **named: Any) -> Any:
            if run_digest != self._digest:
                raise NotAllowed(LINK_ONLY)
            return getattr(self._whole, name)(run_digest, *more, **named)

        return ask


def limited(workspace: Workspace) -> Workspace:
    """The workspace as whoever looks at this page may use it. Raises NotAllowed for clients and strangers."""
    account = current()
    if account is None or account.role is Role.CLIENT:
        raise NotAllowed("this account sees its own extract and nothing else")
    if account.role is Role.READER:
        return cast(Workspace, OneRun(workspace, account.runs[0]))
    return cast(Workspace, Limited(workspace)) if account.role is Role.AUDITOR else workspace
