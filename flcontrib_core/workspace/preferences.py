"""Preferences of a workspace: how its jobs run, who is told of alerts, what its pages show.

Each change is an entry of the audit log; the last one holds, for the dashboard and for commands alike.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import platformdirs

from flcontrib_core.codec import decode, encode
from flcontrib_core.errors import SettingsError
from flcontrib_core.execution.engine import Execution
from flcontrib_core.execution.notices import checked_address, command_words, tell_address, tell_command
from flcontrib_core.workspace.audit_log import AuditLog, LogEntry
from flcontrib_core.workspace.index import Index

_CHANGED = "preference-changed"


@dataclass(frozen=True)
class Notices:
    """Who is told of each alert of a run that is followed while it grows."""

    command: str | None = None
    """A program that reads the alert's JSON; no shell reads it."""
    webhook: str | None = None
    """An address that the JSON is posted to."""

    def __post_init__(self) -> None:
        if self.command is not None:
            command_words(self.command)
        if self.webhook is not None:
            checked_address(self.webhook)

    def tell(self, notice: Mapping[str, Any]) -> list[str]:
        """Passes a notice on to whoever is named; what went wrong, in words."""
        faults = [None if self.command is None else tell_command(command_words(self.command), notice)]
        faults.append(None if self.webhook is None else tell_address(self.webhook, notice))
        return [fault for fault in faults if fault is not None]


@dataclass(frozen=True)
class Display:
    """What the pages of a workspace show beside its runs."""

    samples: bool = True
    """The sample runs that come with the tool."""


@dataclass(frozen=True)
class Tour:
    """Who has seen enough of the tour for newcomers."""

    over_for: tuple[str, ...] = ()
    """Names of accounts; '' is everybody where there is no sign-in."""


Preference = TypeVar("Preference", Execution, Notices, Display, Tour)
_SUBJECTS: dict[type, str] = {Execution: "execution", Notices: "notices", Display: "display", Tour: "tour"}


class Preferences:
    """What holds for all jobs, watches and pages of a workspace."""

    def __init__(self, index: Index, log: AuditLog) -> None:
        self._index = index
        self._log = log

    def execution(self) -> Execution:
        """As it was last set; the usual one where it never was."""
        return self._read(Execution)

    def set_execution(self, execution: Execution) -> None:
        """Holds from the next job on; setting what holds already writes nothing. Another cluster than before is agreed
        to on this machine."""
        before = self.execution()
        self._write(Execution, execution)
        if execution.address is not None and execution.address != before.address:
            self.agree_to_cluster()

    def agree_to_cluster(self) -> None:
        """From this machine jobs go to the cluster that the workspace names."""
        _note(self._agreement_to(self.execution()))

    def agreed_execution(self) -> Execution:
        """Where jobs compute. Raises SettingsError for a cluster that nobody named on this machine: what answers at its
        address would run code here, and the workspace may have come from elsewhere."""
        held = self.execution()
        if held.address is None or self._agreement_to(held).exists():
            return held
        raise SettingsError(
            f"this workspace sends its jobs to the Ray cluster at {held.address}, which nobody has named on this "
            "machine. Name that address in its settings to compute there, or choose the engine 'local'"
        )

    def notices(self) -> Notices:
        """Who is told; nobody where it was never set."""
        return self._read(Notices)

    def set_notices(self, notices: Notices, named: Collection[str] = ("command", "webhook")) -> None:
        """Holds from the next alert on. What is ``named``, and that alone, is agreed to on this machine: a workspace
        that came from elsewhere may name more."""
        self._write(Notices, notices)
        for part in named:
            if getattr(notices, part) is not None:
                _note(self._agreement(notices, part))

    def agreed_notices(self) -> Notices:
        """Who is told without anybody asking again: whom this user named on this machine.

        A workspace that came from elsewhere starts no program and posts nothing: what it names counts here when it was
        set here, which a note outside the workspace says.
        """
        held = self.notices()
        agreed = {part: self._agreement(held, part).exists() for part in ("command", "webhook")}
        return Notices(**{part: getattr(held, part) for part, here in agreed.items() if here})

    def _agreement(self, notices: Notices, part: str) -> Path:
        return self._agreed(f"agreed-{part}s", getattr(notices, part))

    def _agreement_to(self, execution: Execution) -> Path:
        return self._agreed("agreed-clusters", execution.address)

    def _agreed(self, kind: str, named: str | None) -> Path:
        """Where it is noted, outside the workspace, that this user named this for it on this machine."""
        text = json.dumps([str(self._index.path.resolve()), named])
        folder = Path(platformdirs.user_config_dir("flcontrib", appauthor=False)) / kind
        return folder / sha256(text.encode()).hexdigest()

    def display(self) -> Display:
        """What the pages show."""
        return self._read(Display)

    def set_display(self, display: Display) -> None:
        """Holds from the next look at a page on."""
        self._write(Display, display)

    def tour_is_over(self, name: str) -> bool:
        """Has whoever has this name closed the tour?"""
        return name in self._read(Tour).over_for

    def set_tour(self, name: str, *, over: bool) -> None:
        """Closes the tour for this name for good, or opens it again."""
        others = tuple(n for n in self._read(Tour).over_for if n != name)
        self._write(Tour, Tour((*others, name) if over else others))

    def _read(self, kind: type[Preference]) -> Preference:
        rows = self._index.read(
            "SELECT entry, hash FROM log WHERE kind = ? AND subject = ? ORDER BY sequence DESC LIMIT 1",
            (_CHANGED, _SUBJECTS[kind]),
        )
        return decode(kind, LogEntry.of(rows[0]).body) if rows else kind()

    def _write(self, kind: type[Preference], value: Preference) -> None:
        if value != self._read(kind):
            with self._index.write() as transaction:
                self._log.append(transaction, _CHANGED, _SUBJECTS[kind], encode(kind, value)[0])


def _note(note: Path) -> None:
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
    except OSError as fault:
        raise SettingsError(f"that you agreed to it cannot be noted in {note.parent}: {fault.strerror}") from None
