"""A job's desk: is its worker alive, how far is it, what has it so far, and how did it end – even on a full disk?

A desk is no store. Its status file has two slots that are overwritten in turn, each with a number and a checksum: a
reader takes the newest whole one, so an update is atomic, and because the file has its full size from the start, the
last word ("paused: no space") can be written where neither SQLite nor an object can. The worker holds the file's lock
from birth to death: the lock, unlike a process number, cannot be left behind, inherited by a stranger or kept by a
zombie. The preview is a report of the epochs so far, replaced as a whole; nothing is lost with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from flcontrib_core.codec import decode, encode
from flcontrib_core.files import write_atomic
from flcontrib_core.workspace.disk import Disk, Staging
from flcontrib_core.workspace.objects import pack_record, unpack_record

_SLOT = 8192
_HEAD = struct.Struct("<QII")
"""number of the update, length, checksum"""
_LONGEST_TEXT = 1500
"""Characters of a label or an error; worst case 4 bytes each as escaped JSON text still fits a slot."""
_PREVIEW = "preview"
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class Progress:
    """How far a job is. ``seconds`` by a clock that never jumps, since the worker began."""

    done: int
    total: int
    label: str
    seconds: float
    first_done: int
    """``done`` when this attempt first reported: what earlier attempts had finished."""
    first_seconds: float

    @property
    def seconds_left(self) -> float | None:
        """At the pace of this attempt; None before a pace is known."""
        gained = self.done - self.first_done
        if gained <= 0 or self.total <= 0:
            return None
        return (self.seconds - self.first_seconds) / gained * max(0, self.total - self.done)


@dataclass(frozen=True)
class JobStatus:
    """What the worker says of itself."""

    attempt: int = 0
    pid: int | None = None
    seconds: float = 0.0
    progress: Progress | None = None
    outcome: str | None = None
    """The state it ended in; None while it works, or when it died without a word."""
    error: str = ""
    result: str | None = None


class StatusFile:
    """An open status file; the holder of its lock writes, anybody reads."""

    def __init__(self, path: Path, descriptor: int, disk: Disk) -> None:
        self.path = path
        self.descriptor = descriptor
        self._disk = disk
        self._number = max((number for number, _ in _slots(descriptor)), default=0)

    @classmethod
    def create(cls, path: Path, staging: Staging) -> None:
        """Writes the file in full size, so that later updates need no space."""
        staging.write_file(path, _packed(1, JobStatus()) + bytes(_SLOT))
        path.chmod(0o600)

    @classmethod
    def claim(cls, path: Path, disk: Disk) -> StatusFile | None:
        """The file with its lock held; None when a worker (or another starter) has it."""
        descriptor = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return cls(path, descriptor, disk)

    def write(self, status: JobStatus, *, durably: bool = False) -> None:
        """Overwrites the older slot."""
        self._number += 1
        self._disk.overwrite(self.descriptor, _packed(self._number, status), (self._number - 1) % 2 * _SLOT)
        if durably:
            self._disk.sync(self.descriptor)

    def close(self) -> None:
        """Gives up the lock, unless a child process holds it too."""
        os.close(self.descriptor)


def read_status(path: Path) -> tuple[JobStatus, bool]:
    """The newest whole status, and whether somebody holds the lock (a worker lives)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            alive = False
        except BlockingIOError:
            alive = True
        newest = max(_slots(descriptor), key=lambda slot: slot[0], default=(0, JobStatus()))
        return newest[1], alive
    finally:
        os.close(descriptor)


class Previews:
    """The unfinished reports of a workspace's jobs, by job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def wanted(self, job_id: str) -> bool:
        """Is this a job of the workspace? A computation outside of one has nobody who would look."""
        return (self._folder / job_id).is_dir()

    def keep(self, job_id: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Replaces what was there."""
        content = pack_record({}, arrays)
        write_atomic(self._folder / job_id / _PREVIEW, hashlib.sha256(content).digest() + content)

    def stamp(self, job_id: str) -> str | None:
        """Changes when the preview does; None while there is none. Cheap enough to be asked every second."""
        try:
            status = (self._folder / job_id / _PREVIEW).stat()
        except FileNotFoundError:
            return None
        return f"{status.st_mtime_ns:x}-{status.st_ino:x}"

    def load(self, job_id: str) -> dict[str, np.ndarray] | None:
        """The arrays; None where there are none, or not the ones that were kept."""
        try:
            content = (self._folder / job_id / _PREVIEW).read_bytes()
        except FileNotFoundError:
            return None
        digest, record = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        return unpack_record(record)[1] if hashlib.sha256(record).digest() == digest else None


def _packed(number: int, status: JobStatus) -> bytes:
    progress = status.progress
    if progress is not None:
        progress = replace(progress, label=progress.label[:200])
    short = replace(status, error=status.error[:_LONGEST_TEXT], progress=progress)
    text = json.dumps(encode(JobStatus, short)[0], ensure_ascii=False).encode(errors="replace")
    return (_HEAD.pack(number, len(text), zlib.crc32(text)) + text).ljust(_SLOT, b"\0")


def _slots(descriptor: int) -> list[tuple[int, JobStatus]]:
    whole = []
    for position in (0, _SLOT):
        slot = os.pread(descriptor, _SLOT, position)
        if len(slot) < _HEAD.size:
            continue
        number, length, checksum = _HEAD.unpack_from(slot)
        text = slot[_HEAD.size : _HEAD.size + length]
        if len(text) == length and number and zlib.crc32(text) == checksum:
            whole.append((number, decode(JobStatus, json.loads(text))))
    return whole
