"""The named ways in which storage can fail.

Every fault of the disk or of SQLite leaves the workspace under one of these names, so that a job can be *paused*
where space ran out, a page can go on reading where nothing may be written, and nobody sees a bare ``errno``.
"""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flcontrib_core.errors import WorkspaceError


class NoSpaceLeft(WorkspaceError):
    """The disk, the quota or the job's file-size limit is used up."""


class ReadOnlyWorkspace(WorkspaceError):
    """Nothing may be written here; reading still works."""


class DamagedIndex(WorkspaceError):
    """The database is not what was written; opening the workspace again rebuilds it."""


class BrokenChain(WorkspaceError):
    """The audit log was changed behind the workspace's back; reading and writing go on, the break stays visible."""


class DamagedObject(WorkspaceError):
    """A stored object no longer has the content its name promises."""

    def __init__(self, message: str, name: str) -> None:
        self.name = name
        super().__init__(message)


OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_ROOM_A_COMMIT_NEEDS = 1 << 16


@contextmanager
def storage_faults(place: Path) -> Iterator[None]:
    """Turns OSError and sqlite3.Error inside the block into the named kinds above; other errors pass unchanged."""
    try:
        yield
    except OSError as fault:
        raise _named(fault, place) from fault
    except sqlite3.Error as fault:
        raise _named_sqlite(fault, place) from fault


def _named(fault: OSError, place: Path) -> WorkspaceError:
    if fault.errno in OUT_OF_SPACE:
        return _no_space(place, fault.strerror or "no space left")
    if fault.errno in _FORBIDDEN:
        return _read_only(place, fault.strerror)
    if fault.errno == errno.ENOENT and not place.exists():
        return gone(place)
    return WorkspaceError(f"{place}: {fault}")


def _named_sqlite(fault: sqlite3.Error, place: Path) -> WorkspaceError:
    name = str(getattr(fault, "sqlite_errorname", ""))
    if name == "SQLITE_FULL" or (name == "SQLITE_IOERR_WRITE" and _file_size_is_limited()):
        return _no_space(place, fault)
    if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")) and _out_of_room(place):
        return _no_space(place, fault)
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN")):
        return _read_only(place, fault)
    if is_damage(fault):
        return DamagedIndex(f"{place}: {fault}; open the workspace again to rebuild its index from the objects")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return WorkspaceError(f"{place}: another process kept the index locked for too long; try again")
    return WorkspaceError(f"{place}: {name or type(fault).__name__}: {fault}")


def is_damage(fault: sqlite3.Error) -> bool:
    """Does this error mean that the file is not what was written?"""
    name = str(getattr(fault, "sqlite_errorname", ""))
    return name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or "malformed JSON" in str(fault)


def gone(place: Path) -> WorkspaceError:
    """A folder that was there is not: moved, deleted, or its disk is not mounted."""
    return WorkspaceError(f"{place} is gone: bring it back (is its disk mounted?) or choose another workspace")


def _no_space(place: Path, fault: object) -> NoSpaceLeft:
    return NoSpaceLeft(f"{place}: {fault}; what was finished is kept. Free some space, then resume")


def _read_only(place: Path, fault: object) -> ReadOnlyWorkspace:
    return ReadOnlyWorkspace(f"{place}: {fault}; make the folder writable or choose another workspace")


def _file_size_is_limited() -> bool:
    """SQLite calls a write beyond the process's file-size limit an I/O error."""
    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY


def _out_of_room(place: Path) -> bool:
    """On a full disk SQLite may fail before it writes, for want of a file beside its own: ask the system."""
    there = next((p for p in (place, *place.parents) if p.exists()), place)
    disk = os.statvfs(there)
    return disk.f_bavail * disk.f_frsize < _ROOM_A_COMMIT_NEEDS
