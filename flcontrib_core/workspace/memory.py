"""Which coalition utilities are already known, from whichever estimator, budget, seed or day?

A *shelf* holds one game, found by a key that stands for the epoch's digest, the weights and the evaluator's recipe
(everything that can move a utility's last bit). Values are kept as they are, so recalling never changes a result.
Whole epochs are recalled and kept at once (``recall_epoch``, ``keep_epoch``), or a shelf is lent to a
``CoalitionOracle`` as its ``EvaluationMemory``.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.workspace.disk import Disk
from flcontrib_core.workspace.faults import storage_faults
from flcontrib_core.workspace.index import Index
from flcontrib_core.workspace.index_file import Transaction
from flcontrib_core.workspace.objects import set_aside
from flcontrib_core.workspace.segments import (
    GameLabel,
    SegmentContent,
    SegmentWriter,
    heading_size,
    open_for_appending,
    read_label,
    read_segment,
)

FLUSH_VALUES = 4096
FLUSH_SECONDS = 2.0
"""What a kill may cost a shelf that is lent to an oracle: values not yet flushed are computed again."""


@dataclass(frozen=True)
class MemoryStatistics:
    """How much is remembered, and how often remembering saved an evaluation."""

    games: int
    coalitions: int
    asked: int
    recalled: int
    bytes: int

    @property
    def hit_rate(self) -> float | None:
        return self.recalled / self.asked if self.asked else None


@dataclass(frozen=True)
class MemoryRoom:
    """Where shelves stand and what they need."""

    root: Path
    quarantine: Path
    index: Index
    disk: Disk
    report_damage: Callable[[Path, str], None]
    clock: Callable[[], float] = time.monotonic

    def folder(self, key: str) -> Path:
        if re.fullmatch(r"[0-9a-f]{64}", key) is None:
            raise WorkspaceError(f"{key[:80]!r} is not the key of a game; use the sha256 of what it stands for")
        return self.root / key[:2] / key


class MemoryShelf:
    """The remembered utilities of one game; flushed in batches, on ``flush`` and at the end of ``with``."""

    def __init__(self, room: MemoryRoom, label: GameLabel) -> None:
        self.label = label
        self.asked = 0
        self.recalled = 0
        self.damaged = 0
        """Records whose checksum failed; their values are simply not known any more."""
        self._room = room
        self._folder = room.folder(label.key)
        self._known: dict[bytes, np.ndarray] | None = None
        self._pending: dict[bytes, np.ndarray] = {}
        self._flushed_at = room.clock()
        self._writer: SegmentWriter | None = None
        self._entered = (0, 0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def recall(self, keys: list[bytes]) -> dict[bytes, np.ndarray]:
        """The utilities (U,) of those coalitions that are known."""
        known = self.everything()
        found = {key: known[key] for key in keys if key in known}
        self.count(len(keys), len(found))
        return found

    def count(self, asked: int, recalled: int) -> None:
        """Adds to the hit rate what somebody else asked of ``everything``."""
        self.asked += asked
        self.recalled += recalled

    def keep(self, values: dict[bytes, np.ndarray]) -> None:
        """Remembers new utilities; durable at the next flush (every 4096 values or 2 seconds, or by ``flush``)."""
        known = self.everything()
        for key, value in values.items():
            if len(key) != self.label.key_bytes or np.shape(value) != (self.label.utilities,):
                raise WorkspaceError(
                    f"a coalition of game {self.label.key[:12]}… has {self.label.key_bytes} bytes and "
                    f"{self.label.utilities} utilities; found {len(key)} bytes and shape {np.shape(value)}"
                )
            if key not in known:
                known[key] = self._pending[key] = np.array(value, dtype=np.float64)
        if len(self._pending) >= FLUSH_VALUES or self._room.clock() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Makes everything kept so far durable."""
        if self._pending:
            with storage_faults(self._folder):
                if self._writer is None:
                    self._writer = open_for_appending(self._folder, self.label, self._room.disk)
                self._writer.append(list(self._pending), np.array(list(self._pending.values())))
            self._pending = {}
        self._flushed_at = self._room.clock()

    def close(self) -> None:
        """Flushes, lets another process append, and adds to the workspace's statistics."""
        self.flush()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        state = (len(self._known or ()), self.asked, self.recalled)
        if state != self._entered and self._room.index.impaired is None:
            _, asked, recalled = self._entered
            with self._room.index.write() as transaction:
                _enter_shelf(transaction, self.label, state[0], self.asked - asked, self.recalled - recalled)
            self._entered = state

    def everything(self) -> dict[bytes, np.ndarray]:
        """All that is known of this game (the shelf's own dictionary, not a copy)."""
        if self._known is None:
            self._known = {}
            for path in sorted(self._folder.glob("*.seg")):
                self._known.update(self._read(path))
        return self._known

    def _read(self, path: Path) -> dict[bytes, np.ndarray]:
        with storage_faults(path):
            content = read_segment(path, self.label)
            if content is None and path.stat().st_size < heading_size(self.label):
                return {}  # begun by a process that died before its first record, or begins just now
        if content is None:
            content = SegmentContent([], np.empty((0, self.label.utilities)), 0, 0, damaged=1)
        if content.damaged and self._room.index.impaired is None:
            self._rescue(path, content)
        self.damaged += content.damaged
        return dict(zip(content.keys, content.values, strict=True))

    def _rescue(self, path: Path, content: SegmentContent) -> None:
        """Moves a damaged segment aside and writes its whole records into a new one, unless somebody appends to it."""
        with storage_faults(path):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if content.keys:
                    writer = open_for_appending(self._folder, self.label, self._room.disk)
                    writer.append(content.keys, content.values)
                    writer.close()
                moved = set_aside(path, self._room.quarantine, self._room.disk)
            except BlockingIOError:
                return
            finally:
                os.close(descriptor)
        self._room.report_damage(moved, f"{content.damaged} damaged records of remembered utilities are forgotten")


class UtilityMemory:
    """The shelves of a workspace, as an assessment uses them. ``family`` is whose runs new values serve."""

    def __init__(self, room: MemoryRoom, family: str) -> None:
        self._room = room
        self._family = family

    def shelf(self, key: str, players: int, utilities: int) -> MemoryShelf:
        """The memory of one game, to be lent to a ``CoalitionOracle``; use it in a ``with`` block."""
        if players < 1 or utilities < 1:
            raise WorkspaceError("a game without players or utilities has nothing to remember")
        return MemoryShelf(self._room, GameLabel(key, (players + 7) // 8, utilities, self._family))

    def recall_epoch(self, key: str) -> dict[bytes, np.ndarray]:
        """Everything known of one game: packed coalition -> utilities (U,)."""
        for path in sorted(self._room.folder(key).glob("*.seg")):
            label = read_label(path)
            if label is not None and label.key == key:
                return MemoryShelf(self._room, label).everything()
        return {}

    def keep_epoch(self, key: str, values: dict[bytes, np.ndarray], recalled: int = 0) -> None:
        """Remembers new utilities of a game, durably; ``recalled`` says how many others memory had answered."""
        for coalition, value in values.items():
            with MemoryShelf(self._room, GameLabel(key, len(coalition), len(value), self._family)) as shelf:
                shelf.count(recalled + len(values), recalled)
                shelf.keep(values)
            return
        if recalled and self._room.index.impaired is None:
            with self._room.index.write() as transaction:
                transaction.execute(
                    "UPDATE shelves SET asked = asked + ?1, recalled = recalled + ?1 WHERE key = ?2", (recalled, key)
                )


def memory_statistics(room: MemoryRoom) -> MemoryStatistics:
    """Sums over all shelves."""
    row = room.index.read("SELECT count(*), total(coalitions), total(asked), total(recalled) FROM shelves")[0]
    games, coalitions, asked, recalled = (int(number) for number in row)
    size = sum(path.stat().st_size for path in room.root.glob("??/*/*.seg"))
    return MemoryStatistics(games, coalitions, asked, recalled, size)


def restore_shelves(transaction: Transaction, root: Path) -> int:
    """Enters every shelf found on disk into a rebuilt index; returns how many."""
    found: dict[str, tuple[GameLabel, set[bytes]]] = {}
    for path in sorted(root.glob("??/*/*.seg")):
        label = read_label(path)
        content = None if label is None else read_segment(path, label)
        if label is not None and content is not None:
            found.setdefault(label.key, (label, set()))[1].update(content.keys)
    for label, coalitions in found.values():
        _enter_shelf(transaction, label, len(coalitions), 0, 0)
    return len(found)


def _enter_shelf(transaction: Transaction, label: GameLabel, coalitions: int, asked: int, recalled: int) -> None:
    transaction.execute(
        "INSERT INTO shelves (key, family, coalitions, asked, recalled) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (key) DO UPDATE SET coalitions = max(coalitions, excluded.coalitions), "
        "family = CASE family WHEN '' THEN excluded.family ELSE family END, "
        "asked = asked + excluded.asked, recalled = recalled + excluded.recalled",
        (label.key, label.family, coalitions, asked, recalled),
    )
