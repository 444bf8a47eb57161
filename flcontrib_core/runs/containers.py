"""Containers of a log's bytes: a directory, or one zip file.

Both give the same two answers – which files with which sizes, and a stream of one file's bytes – so that everything
above them reads a directory and a bundle alike. A container is checked when it is opened; nothing is ever extracted.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import platform
import stat
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.runs.limits import MAX_ENTRIES
from flcontrib_core.runs.problems import MAX_PROBLEMS, problem, refusal, shown

MAX_FOLDERS = 16
"""How deep a run directory is listed."""
PORTABLE = slice(2, None)
"""What of a file's signature is the same on every machine that mounts it: its size and time."""
GROWING = "epochs.jsonl"
"""The one file that is appended to while a run is being recorded."""


class ByteStream(Protocol):
    """One file's bytes, once, from the beginning."""

    def read(self, count: int) -> bytes:
        """The next ``count`` bytes; fewer only at the end. Raises ``RunLogError`` when the bytes are not sound."""
        ...

    def skip(self, count: int) -> None:
        """Go on ``count`` bytes later, without reading what lies between where that is possible."""
        ...

    def close(self) -> None:
        """Lets go of the file."""
        ...


class Container(Protocol):
    """The files of one log, wherever they lie."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Every file and its size in bytes."""
        ...

    @property
    def can_grow(self) -> bool:
        """Is this a directory that a recorder may still be writing to?"""
        ...

    def bound_passes(self, passes: int, why: str) -> None:
        """Raises ``RunLogError`` where going through the files this often takes too much inflating."""
        ...

    def open(self, name: str) -> ByteStream:
        """The file's bytes from the beginning."""
        ...

    def signature(self, name: str) -> tuple[int, ...]:
        """Changes when the file is written to again; no promise about its content."""
        ...

    def map(self, name: str) -> mmap.mmap | None:
        """The file mapped copy-on-write, or None where it has to be streamed."""
        ...

    def close(self) -> None:
        """Lets go of what is held open."""
        ...


class HashingStream:
    """A stream that knows the sha256 of what has been read through it."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()

    def read(self, count: int) -> bytes:
        """The next bytes, which are hashed on their way."""
        data = self._stream.read(count)
        self._hash.update(data)
        return data

    def skip(self, count: int) -> None:
        """What is not read is not hashed."""
        self._stream.skip(count)

    def hexdigest(self) -> str:
        """sha256 of what was read so far."""
        return self._hash.hexdigest()

    def close(self) -> None:
        self._stream.close()


def name_fault(name: str) -> str | None:
    """Why may this not be the name of a file in a log? None when it may."""
    if not name or len(name) > 255:
        return "a name of 1 to 255 characters"
    if name.startswith("/") or "\\" in name or ":" in name:
        return "a relative name with forward slashes, without drive or stream"
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in name):
        return "a name without control characters"
    parts = name.removesuffix("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "a name without '..', '.' or empty parts"
    return None


def folded(name: str) -> str:
    """What a file system that ignores case and normal form would make of the name."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold()).rstrip("/")


class DirectoryContainer:
    """A run directory: plain files in plain folders; links, pipes and devices are refused.

    A recorder may be appending to it. It writes an epoch's file before the line that names it, so the length of
    epochs.jsonl is fixed *before* the files are listed: every epoch that is read then has its file.
    """

    can_grow = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._compared = slice(None)
        self._sizes: dict[str, int] = {}
        self._signatures: dict[str, tuple[int, ...]] = {}
        problems: list[Problem] = []
        lines_before = self._length_of_epoch_lines()
        self._list("", problems)
        if GROWING in self._sizes:
            self._sizes[GROWING] = min(lines_before, self._sizes[GROWING])
        seen: dict[str, str] = {}
        for name in self._sizes:
            twin = seen.setdefault(folded(name), name)
            if twin != name:
                problems.append(problem("E_FILE_DUP", shown(name), f"also {shown(twin)}"))
        if problems:
            raise RunLogError(tuple(problems[:MAX_PROBLEMS]))

    @property
    def sizes(self) -> Mapping[str, int]:
        return self._sizes

    def _length_of_epoch_lines(self) -> int:
        try:
            return os.lstat(self._path / GROWING).st_size
        except FileNotFoundError:
            return 0
        except OSError as bad:
            raise unreadable(self._path / GROWING, bad) from bad

    def _list(self, prefix: str, problems: list[Problem]) -> None:
        try:
            with os.scandir(self._path / prefix) as entries:
                for entry in sorted(entries, key=lambda e: e.name):
                    self._note(entry, prefix, problems)
        except OSError as bad:
            raise unreadable(self._path / prefix, bad) from bad

    def _note(self, entry: os.DirEntry[str], prefix: str, problems: list[Problem]) -> None:
        name = prefix + entry.name
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return  # a recorder's temporary file, renamed meanwhile
        if stat.S_ISREG(status.st_mode):
            self._sizes[name] = status.st_size
            self._signatures[name] = _signature(status)
        elif stat.S_ISDIR(status.st_mode):
            # Other folders are listed too: what is found in them is what a zip of this directory would hold.
            if not entry.name.startswith(".") and name.count("/") < MAX_FOLDERS:
                self._list(name + "/", problems)
        else:
            problems.append(problem("E_FILE_TYPE", shown(name), "a link, pipe or device"))
        if len(self._sizes) > MAX_ENTRIES:
            raise refusal("E_FILE_COUNT", str(self._path), f"more than {MAX_ENTRIES} files")

    def _open(self, name: str) -> int:
        try:
            handle = os.open(os.path.join(self._path, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as bad:
            raise unreadable(self._path / name, bad) from bad
        status = os.fstat(handle)
        grown = name == GROWING and _signature(status)[:2] == self._signatures[name][:2]
        same = _signature(status)[self._compared] == self._signatures[name][self._compared]
        if not stat.S_ISREG(status.st_mode) or not (grown or same):
            os.close(handle)
            raise changed(name)
        return handle

    def bound_passes(self, passes: int, why: str) -> None:
        """Plain files are read where they are needed."""

    def open(self, name: str) -> ByteStream:
        """The file's bytes, if it is still the one that was listed."""
        return _FileStream(self._open(name), name, self._sizes[name])

    def signature(self, name: str) -> tuple[int, ...]:
        """Device, inode, size and time of the file."""
        return self._signatures[name]

    def same_as(self, earlier: Container) -> bool:
        """Are these the very files of an earlier listing, none added, written to or taken away?"""
        if not isinstance(earlier, DirectoryContainer) or self._path != earlier._path:
            return False
        # A line that was being written while the files were listed has not been read yet.
        whole = self._sizes.get(GROWING) == self._signatures.get(GROWING, (0, 0, 0))[2]
        return whole and self._signatures == earlier._signatures and self._sizes == earlier._sizes

    def map(self, name: str) -> mmap.mmap | None:
        handle = self._open(name)
        try:
            # Copy-on-write: callers get writable arrays (torch asks for them) and the file stays as it is.
            return mmap.mmap(handle, self._sizes[name], access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as bad:
            raise unreadable(self._path / name, bad) from bad
        finally:
            os.close(handle)

    def close(self) -> None:
        """Nothing is held open between reads."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_path": self._path.absolute(), "_machine": platform.node()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In another process; on another machine the same file has another device and number."""
        elsewhere = state.pop("_machine") != platform.node()
        self.__dict__.update(state, _compared=PORTABLE if elsewhere else state["_compared"])


class OneFileContainer(DirectoryContainer):
    """One file of a run directory, without a listing of the others."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._compared = path, slice(None)
        try:
            status = os.lstat(path / name)
        except OSError as bad:
            raise unreadable(path / name, bad) from bad
        self._sizes, self._signatures = {name: status.st_size}, {name: _signature(status)}


class MemoryContainer:
    """Files that are not written yet: what a recorder is about to put into a directory."""

    can_grow = True

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._contents = contents
        self.sizes: Mapping[str, int] = {name: len(content) for name, content in contents.items()}

    def bound_passes(self, passes: int, why: str) -> None:
        """Nothing has to be inflated."""

    def open(self, name: str) -> ByteStream:
        """The content given for that name."""
        return _BytesStream(self._contents[name])

    def signature(self, name: str) -> tuple[int, ...]:
        return (self.sizes[name],)

    def map(self, name: str) -> mmap.mmap | None:
        """There is no file to map."""
        return None

    def close(self) -> None:
        """Nothing is held open."""


class _BytesStream:
    def __init__(self, content: bytes) -> None:
        self._content = memoryview(content)
        self._offset = 0

    def read(self, count: int) -> bytes:
        data = self._content[self._offset : self._offset + count]
        self._offset += len(data)
        return bytes(data)

    def skip(self, count: int) -> None:
        self._offset += count

    def close(self) -> None:
        self._content.release()


class _FileStream:
    def __init__(self, handle: int, name: str, size: int) -> None:
        self._handle: int | None = handle
        self._name = name
        self._left = size
        self._offset = 0

    def read(self, count: int) -> bytes:
        if self._handle is None:
            return b""
        parts: list[bytes] = []
        wanted = min(count, self._left)
        while wanted:
            try:
                part = os.pread(self._handle, wanted, self._offset)
            except OSError as bad:
                raise unreadable(self._name, bad) from bad
            if not part:
                raise changed(self._name)
            parts.append(part)
            self._offset += len(part)
            self._left -= len(part)
            wanted -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def skip(self, count: int) -> None:
        count = min(count, self._left)
        self._offset += count
        self._left -= count

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()


def _signature(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def unreadable(path: object, cause: Exception) -> RunLogError:
    """The refusal of a file that cannot be read."""
    return refusal("E_READ", str(path), str(cause))


def changed(name: str) -> RunLogError:
    """The refusal of a file that is not the one that was checked."""
    return refusal("E_CHANGED", name, "another file than the one that was checked")
