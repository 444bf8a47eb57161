"""Whole files on disk: ``write_atomic`` for everything that leaves the house, ``read_plain`` for what comes back.

A reader of the path finds the file that was there before or the whole new one, whatever moment a kill, a full disk or a
power cut chose. A kill may leave the unnamed half beside it (``.NAME.….part``), which nothing reads.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from pathlib import Path

from flcontrib_core.errors import FileNotRead, FileNotWritten


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


def read_plain(path: str | os.PathLike[str], most: int) -> bytes:
    """A file in a folder that others write to as well: a plain one of at most ``most`` bytes.

    Raises FileNotFoundError where there is none and FileNotRead for a link, a pipe, a device, a folder or a larger one.
    """
    try:
        # Without waiting: a pipe would be waited for without end.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            plain = stat.S_ISREG(os.fstat(handle).st_mode)
            content = file.read(most + 1) if plain else b""
    except FileNotFoundError:
        raise
    except OSError as fault:
        if not os.path.islink(path):
            raise FileNotRead(f"{os.fspath(path)}: {fault.strerror or fault}") from fault
        plain = False
    if not plain:
        raise FileNotRead(f"{os.fspath(path)} is a link, a pipe, a device or a folder; give a plain file")
    if len(content) > most:
        raise FileNotRead(f"{os.fspath(path)} has more than {most} bytes, more than can belong there")
    return content


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raises FileNotWritten where a folder could not be made or filled, by what stands there now; makes nothing."""
    given = Path(path).absolute()
    nearest = next(place for place in (given, *given.parents) if os.path.lexists(place))
    if nearest != given and not nearest.is_dir():
        raise FileNotWritten(f"{os.fspath(path)}: {nearest} is a file, and no folder can stand in it")
    if nearest.is_dir() and not os.access(nearest, os.W_OK | os.X_OK):
        raise FileNotWritten(f"{os.fspath(path)}: no permission to write in {nearest}; name another folder")


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
