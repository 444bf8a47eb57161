"""Whole files on disk: ``write_atomic`` for everything that leaves the house, and the syncs it rests on.

A reader of the path finds the file that was there before or the whole new one, whatever moment a kill, a full disk or a
power cut chose. A kill may leave the unnamed half beside it (``.NAME.….part``), which nothing reads.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from pathlib import Path

from flcontrib_core.errors import FileNotWritten


def write_atomic(path: str | os.PathLike[str], content: bytes | str) -> Path:
    """Writes a file in one step, durably; text as UTF-8. Raises FileNotWritten, and then the old file still stands.

    A link is followed; a pipe or a device has no old content to protect and is written to directly.
    """
    given = Path(path)
    data = content.encode() if isinstance(content, str) else content
    try:
        target = Path(os.path.realpath(given))
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            _replace(target, data)
    except OSError as fault:
        raise FileNotWritten(
            f"{given} cannot be written: {fault.strerror or fault}; what was there before is unchanged. "
            "Free some space or choose another place"
        ) from fault
    return given


def make_folder(path: str | os.PathLike[str]) -> Path:
    """The folder, made with those above it where it is not there. Raises FileNotWritten."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise FileNotWritten(f"the folder {os.fspath(path)} cannot be made: {fault.strerror or fault}") from fault
    return Path(path)


def sync(descriptor: int) -> None:
    """Makes what was written survive a power cut."""
    if sys.platform == "darwin":  # fsync alone stops at the drive's cache
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Makes names that were added to or taken from a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def _replace(target: Path, content: bytes) -> None:
    partial = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if target.exists():
                os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))
            file.write(content)
            file.flush()
            sync(descriptor)
        os.replace(partial, target)
    except BaseException:  # raised again, whatever it is
        partial.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)
