"""What happened here, in an order nobody can change unnoticed?

Every entry carries the hash of the one before it, so the last hash – the *head*, printed in every report – fixes the
whole history: an edit, a cut or a rewrite no longer leads to it. Entries live in the index and, as one small file
each, in ``log/`` (named by sequence and hash), from which the index can be rebuilt.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.workspace.disk import Staging
from flcontrib_core.workspace.faults import DamagedIndex
from flcontrib_core.workspace.index import Index
from flcontrib_core.workspace.index_file import Transaction
from flcontrib_core.workspace.provenance import canonical_json

GENESIS = "0" * 64
_COPY_NAME = re.compile(r"(\d{8,})-([0-9a-f]{64})\.json")


def wall_clock() -> datetime:
    """For words only: nothing is ordered or measured by it."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class LogEntry:
    """One thing that happened. ``subject`` is the run (or object) it is about."""

    sequence: int
    kind: str
    subject: str
    at: str
    body: dict[str, Any]
    previous: str
    hash: str

    @classmethod
    def parse(cls, text: str) -> LogEntry:
        fields = json.loads(text)
        return cls(
            sequence=fields["sequence"],
            kind=fields["kind"],
            subject=fields["subject"],
            at=fields["at"],
            body=fields["body"],
            previous=fields["previous"],
            hash=hashlib.sha256(text.encode()).hexdigest(),
        )

    @classmethod
    def of(cls, row: sqlite3.Row) -> LogEntry:
        """The entry in a row with ``entry`` and ``hash``; raises DamagedIndex when they do not belong together."""
        if hashlib.sha256(row["entry"].encode()).hexdigest() != row["hash"]:
            raise DamagedIndex(
                f"an entry of the audit log was changed in the index: {row['entry'][:120]!r}; open the workspace again "
                "to restore it from its copy"
            )
        return cls.parse(row["entry"])


@dataclass(frozen=True)
class ChainHead:
    """The end of the chain at some moment; ``str()`` is what a report prints, ``parse`` reads it back."""

    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.sequence}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> ChainHead:
        sequence, _, fingerprint = text.strip().partition(":")
        if not sequence.isdigit() or re.fullmatch(r"[0-9a-f]{64}", fingerprint) is None:
            raise WorkspaceError(f"{text[:80]!r} is not the head of a log; a report prints it as number:sha256")
        return cls(int(sequence), fingerprint)


@dataclass(frozen=True)
class BrokenLink:
    """The first place where the chain does not hold."""

    sequence: int
    problem: str

    def __str__(self) -> str:
        return f"log entry {self.sequence}: {self.problem}"


class AuditLog:
    """Appends to the chain inside the transaction that does the thing, copies it out, and checks it."""

    def __init__(self, index: Index, folder: Path, staging: Staging, now: Callable[[], datetime] = wall_clock) -> None:
        self._index = index
        self._folder = folder
        self._staging = staging
        self._now = now

    def append(self, transaction: Transaction, kind: str, subject: str, body: dict[str, Any]) -> LogEntry:
        """Adds an entry; it exists when the transaction commits, and its copy is on disk before that returns."""
        last = transaction.execute("SELECT sequence, hash FROM log ORDER BY sequence DESC LIMIT 1")
        sequence, previous = (last[0]["sequence"] + 1, last[0]["hash"]) if last else (1, GENESIS)
        text = canonical_json(
            {
                "sequence": sequence,
                "previous": previous,
                "at": self._now().isoformat(timespec="seconds"),
                "kind": kind,
                "subject": subject,
                "body": body,
            }
        )
        entry = self.insert(transaction, text)
        transaction.after_commit(lambda: self._copy_out(entry, text))
        return entry

    def insert(self, transaction: Transaction, text: str) -> LogEntry:
        """Puts an entry's text into the index as it is (a rebuild restores entries this way)."""
        entry = LogEntry.parse(text)
        transaction.execute(
            "INSERT INTO log (sequence, kind, subject, previous, hash, entry) VALUES (?, ?, ?, ?, ?, ?)",
            (entry.sequence, entry.kind, entry.subject, entry.previous, entry.hash, text),
        )
        return entry

    def entries(self, kind: str | None = None, subject: str | None = None) -> tuple[LogEntry, ...]:
        """The history, oldest first; of one kind and about one subject where given."""
        rows = self._index.read(
            "SELECT entry, hash FROM log WHERE (?1 IS NULL OR kind = ?1) AND (?2 IS NULL OR subject = ?2) "
            "ORDER BY sequence",
            (kind, subject),
        )
        return tuple(LogEntry.of(row) for row in rows)

    def head(self) -> ChainHead:
        """Where the chain ends now; print it wherever a result leaves the house."""
        last = self._index.read("SELECT sequence, hash FROM log ORDER BY sequence DESC LIMIT 1")
        return ChainHead(last[0]["sequence"], last[0]["hash"]) if last else ChainHead(0, GENESIS)

    def verify(self, head: ChainHead | str | None = None) -> BrokenLink | None:
        """The first place where the chain is broken, or does not contain the ``head`` that was printed earlier."""
        if isinstance(head, str):
            head = ChainHead.parse(head)
        copies = self.copies()
        expected, previous = 1, GENESIS
        for row in self._index.read("SELECT * FROM log ORDER BY sequence"):
            broken = _broken_row(row["sequence"], dict(row), expected, previous)
            if broken is None and copies.get(expected, row["hash"]) != row["hash"]:
                broken = BrokenLink(expected, "differs from its copy in log/: one of the two was rewritten")
            if broken is None and head is not None and head.sequence == expected and head.hash != row["hash"]:
                broken = BrokenLink(expected, "is not the entry whose hash was printed as head: history was rewritten")
            if broken is not None:
                return broken
            expected, previous = expected + 1, row["hash"]
        end = max([expected - 1, *copies]) if head is None else max([expected - 1, *copies, head.sequence])
        if end >= expected:
            return BrokenLink(expected, f"is missing: the chain reached {end} and now ends at {expected - 1}")
        return None

    def copies(self) -> dict[int, str]:
        """Sequence -> hash of the entries' copies, by their names alone."""
        names = (_COPY_NAME.fullmatch(path.name) for path in self._folder.glob("*.json"))
        return {int(name[1]): name[2] for name in names if name is not None}

    def loss(self, index: Transaction) -> str | None:
        """What the index has lost or changed that the copies still know; None when nothing."""
        copies = self.copies()  # before the index is read: a copy is only made after its commit
        last = 0
        for row in index.execute("SELECT sequence, entry, hash FROM log ORDER BY sequence"):
            last = row["sequence"]
            if hashlib.sha256(row["entry"].encode()).hexdigest() != row["hash"]:
                return f"entry {last} of the audit log was changed in the index"
        missing = [sequence for sequence in copies if sequence > last]
        return f"entries {min(missing)} to {max(missing)} of the audit log are missing" if missing else None

    def restore_copies(self) -> None:
        """Writes copies that a crash between commit and copy left out."""
        known = self.copies()
        for row in self._index.read("SELECT sequence, hash FROM log ORDER BY sequence"):
            if row["sequence"] not in known:
                (found,) = self._index.read("SELECT entry, hash FROM log WHERE hash = ?", (row["hash"],))
                self._write_copy(LogEntry.of(found), found["entry"])

    def read_copies(self) -> Iterator[tuple[Path, str | None]]:
        """Every copy in order with its text; None where the text is not what the name says."""
        for path in sorted(self._folder.glob("*.json"), key=lambda p: (len(p.name), p.name)):
            name = _COPY_NAME.fullmatch(path.name)
            content = path.read_bytes()
            intact = name is not None and hashlib.sha256(content).hexdigest() == name[2]
            yield path, content.decode() if intact else None

    def _copy_out(self, entry: LogEntry, text: str) -> None:
        """Copies the entry, and first the one before it if its writer died: a copy never stands before a gap."""
        if entry.sequence > 1 and not self._copy_path(entry.sequence - 1, entry.previous).exists():
            row = self._index.read("SELECT entry FROM log WHERE hash = ?", (entry.previous,))[0]
            self._copy_out(LogEntry.parse(row["entry"]), row["entry"])
        self._write_copy(entry, text)

    def _write_copy(self, entry: LogEntry, text: str) -> None:
        self._staging.write_file(self._copy_path(entry.sequence, entry.hash), text.encode())

    def _copy_path(self, sequence: int, fingerprint: str) -> Path:
        return self._folder / f"{sequence:08d}-{fingerprint}.json"


def _broken_row(sequence: int, row: dict[str, Any], expected: int, previous: str) -> BrokenLink | None:
    """What is wrong with one row of the chain, if anything."""
    if sequence != expected:
        return BrokenLink(expected, f"is missing: the next one is {sequence}")
    if hashlib.sha256(row["entry"].encode()).hexdigest() != row["hash"]:
        return BrokenLink(sequence, "was edited: its text does not have the recorded hash")
    try:
        entry = LogEntry.parse(row["entry"])
    except (ValueError, KeyError, TypeError):
        return BrokenLink(sequence, "was rewritten: its text is not an entry")
    columns = (entry.sequence, entry.kind, entry.subject, entry.previous)
    if columns != (sequence, row["kind"], row["subject"], row["previous"]):
        return BrokenLink(sequence, "was edited: its columns do not say what its text says")
    if entry.previous != previous:
        return BrokenLink(sequence, "does not follow the entry before it")
    return None
