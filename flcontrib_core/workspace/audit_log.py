"""What happened here, in an order nobody can change unnoticed.

Every entry carries the hash of the one before it, so the last hash – the *head*, printed in every report – fixes the
whole history: an edit, a cut or a rewrite no longer leads to it. Entries live in the index and, as one small object
each, in ``log/`` (named by sequence and hash), from which the index is rebuilt. A copy is made after the entry's commit
and before its writer is answered: only a kill between the two leaves an entry without one, and only at the end.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.provenance import canonical_json
from flcontrib_core.workspace.disk import Staging
from flcontrib_core.workspace.faults import DamagedIndex
from flcontrib_core.workspace.index import Index
from flcontrib_core.workspace.index_file import Transaction

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
        """The entry of a text; ValueError, KeyError or TypeError when it is none."""
        fields = json.loads(text)
        return cls(
            **{name: fields[name] for name in ("sequence", "kind", "subject", "at", "body", "previous")},
            hash=_sha256(text),
        )

    @classmethod
    def of(cls, row: sqlite3.Row) -> LogEntry:
        """The entry in a row with ``entry`` and ``hash``; raises DamagedIndex when they do not belong together."""
        if _sha256(row["entry"]) != row["hash"]:
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
        """The head a report printed. Raises WorkspaceError for anything else."""
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
        return f"log entry {self.sequence} {self.problem}"


@dataclass(frozen=True)
class ChainCheck:
    """What a look at the whole chain found."""

    head: ChainHead
    broken: BrokenLink | None
    uncopied: tuple[int, ...]
    """Entries without a copy: a kill came between commit and copy, or another program wrote them."""
    mendable: bool
    """Do the copies know better than the index?"""
    heads: tuple[ChainHead, ...] = ()
    """Every end the chain has had, oldest first."""

    def __str__(self) -> str:
        if self.broken is not None:
            return f"broken: {self.broken}"
        return f"sound: every one of {self.head.sequence} entries follows the one before it"


class AuditLog:
    """Appends to the chain inside the transaction that does the thing, copies it out, and checks it."""

    def __init__(self, index: Index, folder: Path, staging: Staging, now: Callable[[], datetime] = wall_clock) -> None:
        self._index = index
        self._folder = folder
        self._staging = staging
        self._now = now

    def now(self) -> datetime:
        """By the clock that entries are dated by."""
        return self._now()

    def append(self, transaction: Transaction, kind: str, subject: str, body: dict[str, Any]) -> LogEntry:
        """Adds an entry; it exists when the transaction commits, and its copy is on disk before that returns."""
        last = transaction.execute("SELECT sequence, hash FROM log ORDER BY sequence DESC LIMIT 1")
        sequence, previous = (last[0]["sequence"] + 1, last[0]["hash"]) if last else (1, GENESIS)
        fields = {"sequence": sequence, "previous": previous, "kind": kind, "subject": subject, "body": body}
        text = canonical_json({**fields, "at": self._now().isoformat(timespec="seconds")})
        entry = self._insert(transaction, text)
        transaction.after_commit(lambda: self._copy_out(entry, text))
        return entry

    def entries(self, kind: str | None = None, subject: str | None = None) -> tuple[LogEntry, ...]:
        """The history, oldest first; of one kind and about one subject where given."""
        asked = {"kind": kind, "subject": subject}
        given = {name: value for name, value in asked.items() if value is not None}
        only = " AND ".join(f"{name} = ?" for name in given)  # names of ours; one condition for all uses no index
        where = f"WHERE {only} " if only else ""
        rows = self._index.read(f"SELECT entry, hash FROM log {where}ORDER BY sequence", tuple(given.values()))
        return tuple(LogEntry.of(row) for row in rows)

    def head(self) -> ChainHead:
        """Where the chain ends now; print it wherever a result leaves the house."""
        last = self._index.read("SELECT sequence, hash FROM log ORDER BY sequence DESC LIMIT 1")
        return ChainHead(last[0]["sequence"], last[0]["hash"]) if last else ChainHead(0, GENESIS)

    def verify(self, head: ChainHead | str | None = None) -> BrokenLink | None:
        """The first place where the chain is broken, or does not contain the ``head`` that was printed earlier."""
        return self.check(self._index.read, head).broken

    def check(self, read: Callable[[str], list[sqlite3.Row]], head: ChainHead | str | None = None) -> ChainCheck:
        """The whole chain as ``read`` finds it in the index."""
        copies = copies_in(self._folder)  # before the index is read: a copy is only made after its commit
        return check_chain(read("SELECT * FROM log ORDER BY sequence"), copies, head)

    def restore_copies(self) -> tuple[int, ...]:
        """Writes the copies that a kill between commit and copy left out; returns their sequences."""
        with self._index.alone():  # a living writer has made its copy when it lets go
            missing = self.check(self._index.read).uncopied
            for sequence in missing:
                (row,) = self._index.read("SELECT entry, hash FROM log WHERE sequence = ?", (sequence,))
                self._write_copy(LogEntry.of(row), row["entry"])
        return missing

    def rebuild(self, transaction: Transaction, quarantine: Path) -> tuple[int, list[str]]:
        """Fills an empty index from the copies; returns how many, and where those were moved that do not belong.

        The chain is followed back from its last entry. What is damaged, or stands beside the chain because somebody
        wrote a second history, is set aside.
        """
        texts: dict[tuple[int, str], str] = {}
        misfits: list[Path] = []
        for path in sorted(self._folder.glob("*.json")):
            name, content = _COPY_NAME.fullmatch(path.name), path.read_bytes()
            if name is None or hashlib.sha256(content).hexdigest() != name[2]:
                misfits.append(path)
            else:
                texts[int(name[1]), name[2]] = content.decode()
        chain: list[str] = []
        following: LogEntry | None = None
        for sequence, fingerprint in sorted(texts, reverse=True):
            belongs = following is None or sequence < following.sequence - 1
            if belongs or (following is not None and fingerprint == following.previous):
                chain.append(texts[sequence, fingerprint])
                following = LogEntry.parse(chain[-1])
            else:
                misfits.append(self._copy_path(sequence, fingerprint))
        for text in reversed(chain):
            self._insert(transaction, text)
        return len(chain), [str(self._staging.disk.set_aside(path, quarantine)) for path in misfits]

    def _insert(self, transaction: Transaction, text: str) -> LogEntry:
        entry = LogEntry.parse(text)
        transaction.execute(
            "INSERT INTO log (sequence, kind, subject, previous, hash, entry) VALUES (?, ?, ?, ?, ?, ?)",
            (entry.sequence, entry.kind, entry.subject, entry.previous, entry.hash, text),
        )
        return entry

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


def copies_in(folder: Path) -> frozenset[tuple[int, str]]:
    """(sequence, hash) of the entries' copies, by their names alone."""
    names = (_COPY_NAME.fullmatch(path.name) for path in folder.glob("*.json"))
    return frozenset((int(name[1]), name[2]) for name in names if name is not None)


def check_chain(
    rows: Sequence[sqlite3.Row], copies: frozenset[tuple[int, str]], head: ChainHead | str | None = None
) -> ChainCheck:
    """Follows the chain through the rows of the log and compares it with its copies and a head printed earlier."""
    printed = ChainHead.parse(head) if isinstance(head, str) else head
    breaks: list[BrokenLink] = []
    unsound = False
    last = ChainHead(0, GENESIS)
    for row in rows:
        if row["sequence"] != last.sequence + 1:
            breaks.append(BrokenLink(last.sequence + 1, f"is missing: the next one is {row['sequence']}"))
        elif (problem := _problem_in(row, last.hash)) is not None:
            breaks.append(BrokenLink(row["sequence"], problem))
            unsound = True
        last = ChainHead(row["sequence"], row["hash"])
        if printed is not None and printed.sequence == last.sequence and printed.hash != last.hash:
            breaks.append(BrokenLink(last.sequence, "is not the one whose hash was printed as head: it was rewritten"))
    entries = {(row["sequence"], row["hash"]) for row in rows}
    copied = {sequence for sequence, _ in entries & copies}
    strangers = sorted(sequence for sequence, _ in copies - entries)
    if strangers and strangers[0] <= last.sequence:
        breaks.append(BrokenLink(strangers[0], "differs from its copy in log/: one of the two was rewritten"))
    end = max([last.sequence, *strangers, printed.sequence if printed else 0])
    if end > last.sequence:
        words = f"is missing: the chain reached {end} and now ends at {last.sequence}"
        breaks.append(BrokenLink(last.sequence + 1, words))
    return ChainCheck(
        head=last,
        broken=min(breaks, key=lambda link: link.sequence, default=None),
        uncopied=tuple(sorted(sequence for sequence, _ in entries - copies)),
        mendable=unsound or any(sequence not in copied for sequence in strangers),
        heads=tuple(ChainHead(row["sequence"], row["hash"]) for row in rows),
    )


def _problem_in(row: sqlite3.Row, previous: str) -> str | None:
    """What is wrong with one row of the chain, if anything."""
    if _sha256(row["entry"]) != row["hash"]:
        return "was edited: its text does not have the recorded hash"
    try:
        entry = LogEntry.parse(row["entry"])
    except (ValueError, KeyError, TypeError):
        return "was rewritten: its text is not an entry"
    if any(getattr(entry, column) != row[column] for column in ("sequence", "kind", "subject", "previous")):
        return "was edited: its columns do not say what its text says"
    return None if entry.previous == previous else "does not follow the entry before it"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
