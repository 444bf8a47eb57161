"""How are coalition utilities kept compactly, appended safely, and read while somebody appends?

A *segment* is an append-only file: a heading that says what game its values belong to, then records of
``count`` packed coalitions and their float64 utilities, each with its own checksum. One process appends (it holds
the file's lock), any number read. A crash can only tear the last record, which no reader takes for whole.

Why not SQLite: a value costs its 8 bytes per utility plus the coalition's bits and nothing else, a flush is one
``fsync``, damage stays inside one record, and dropping a run's memory is deleting files.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.vocabulary import UtilityMatrix
from flcontrib_core.workspace.disk import Disk
from flcontrib_core.workspace.provenance import canonical_json

_MAGIC = b"FLCMEM1\n"
_HEADING = struct.Struct("<8sI16s")
"""magic, length of the label, its checksum"""
_RECORD = struct.Struct("<4sI16s")
"""mark, coalitions, checksum"""
_MARK = b"rec\n"


@dataclass(frozen=True)
class GameLabel:
    """Which game a value belongs to. ``key`` stands for the epoch's digest, the weights and the evaluator's recipe."""

    key: str
    key_bytes: int
    """Bytes of one packed coalition."""
    utilities: int
    family: str
    """Whose runs these values serve; not part of the game, only asked when a run is deleted."""

    def is_same_game(self, other: GameLabel) -> bool:
        return replace(self, family=other.family) == other

    @property
    def value_bytes(self) -> int:
        return self.key_bytes + 8 * self.utilities


@dataclass(frozen=True)
class SegmentContent:
    """What could be read of a segment."""

    keys: list[bytes]
    values: UtilityMatrix
    sound: int
    """Bytes up to the end of the last whole record."""
    size: int
    damaged: int
    """Records inside the file whose checksum does not hold (a torn last one is not damage)."""


def read_label(path: Path) -> GameLabel | None:
    """What a segment says it holds; None when its heading is damaged."""
    with path.open("rb") as segment:
        heading = segment.read(_HEADING.size)
        if len(heading) < _HEADING.size:
            return None
        magic, length, checksum = _HEADING.unpack(heading)
        if magic != _MAGIC or length > 1 << 20:
            return None
        text = segment.read(length)
    if _checksum(text) != checksum:
        return None
    return GameLabel(**json.loads(text))


def read_segment(path: Path, label: GameLabel) -> SegmentContent | None:
    """Every value whose record is whole; None when the segment is not of this game or its heading is damaged."""
    found = read_label(path)
    if found is None or not found.is_same_game(label):
        return None
    content = path.read_bytes()
    keys: list[bytes] = []
    values: list[UtilityMatrix] = []
    position = sound = _HEADING.size + _HEADING.unpack(content[: _HEADING.size])[1]
    damaged = suspicious = 0
    for end, body in _records(content, position, label):
        if body is None:
            suspicious += 1  # damage if a whole record follows, otherwise only a torn end
            continue
        split = len(body) // label.value_bytes * label.key_bytes
        keys += [body[at : at + label.key_bytes] for at in range(0, split, label.key_bytes)]
        values.append(np.frombuffer(body, "<f8", offset=split).reshape(-1, label.utilities))
        damaged, sound = damaged + suspicious, end
        suspicious = 0
    matrix = np.concatenate(values) if values else np.empty((0, label.utilities))
    return SegmentContent(keys, matrix, sound, len(content), damaged)


def _records(content: bytes, position: int, label: GameLabel) -> Iterator[tuple[int, bytes | None]]:
    """(end, body) of each record; body None where its checksum fails. Resynchronises on the next mark."""
    while position + _RECORD.size <= len(content):
        mark, count, checksum = _RECORD.unpack_from(content, position)
        start = position + _RECORD.size
        end = start + count * label.value_bytes
        body = content[start:end]
        if mark == _MARK and end <= len(content) and _checksum(body) == checksum:
            yield end, body
            position = end
        else:
            yield position, None
            following = content.find(_MARK, position + 1)
            if following < 0:
                return
            position = following


class SegmentWriter:
    """The one process that appends to a segment."""

    def __init__(self, path: Path, descriptor: int, end: int, disk: Disk) -> None:
        self.path = path
        self._descriptor = descriptor
        self._end = end
        self._disk = disk

    def append(self, keys: list[bytes], values: UtilityMatrix) -> None:
        """Durable when it returns; on failure the segment is as it was before."""
        body = b"".join(keys) + np.ascontiguousarray(values, "<f8").tobytes()
        record = _RECORD.pack(_MARK, len(keys), _checksum(body)) + body
        os.lseek(self._descriptor, self._end, os.SEEK_SET)
        try:
            self._disk.write(self._descriptor, record)
            self._disk.sync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self._end)
            raise
        self._end += len(record)

    def close(self) -> None:
        os.close(self._descriptor)


def open_for_appending(folder: Path, label: GameLabel, disk: Disk) -> SegmentWriter:
    """A writer on the first segment of the shelf that nobody else appends to; a new one where there is none."""
    disk.make_folder(folder)
    for number in range(1, 10_000):
        path = folder / f"{number}.seg"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process appends there
            os.close(descriptor)
            continue
        content = read_segment(path, label)
        if content is not None:
            if content.sound < content.size:
                disk.truncate(descriptor, content.sound)
            return SegmentWriter(path, descriptor, content.sound, disk)
        heading = _heading(label)
        if os.fstat(descriptor).st_size < len(heading):  # new, or its writer died before the first record
            disk.truncate(descriptor, 0)
            disk.write(descriptor, heading)
            disk.sync(descriptor)
            disk.sync_folder(folder)
            return SegmentWriter(path, descriptor, len(heading), disk)
        os.close(descriptor)
    raise WorkspaceError(f"{folder} holds too many segments that cannot be appended to")


def heading_size(label: GameLabel) -> int:
    return len(_heading(label))


def _heading(label: GameLabel) -> bytes:
    text = canonical_json(asdict(label)).encode()
    return _HEADING.pack(_MAGIC, len(text), _checksum(text)) + text


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
