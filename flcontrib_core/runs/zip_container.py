"""Reads the entries of a checked zip file without trusting what they claim."""

from __future__ import annotations

import mmap
import os
import platform
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs.containers import PORTABLE, ByteStream, changed, unreadable
from flcontrib_core.runs.limits import PIECE_BYTES, most_expanded
from flcontrib_core.runs.problems import refusal, shown
from flcontrib_core.runs.zip_directory import ZipEntry, read_zip_directory

_INPUT = 1 << 18


class ZipContainer:
    """A ``.flrun`` file: its directory is checked on opening; entries are streamed, never extracted.

    Holds one descriptor (reads are positional, so threads may share it). A copy sent to another process opens the
    file again and refuses it if it is not the same.
    """

    can_grow = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None
        self._compared = slice(None)
        self._signature: tuple[int, ...] = ()
        handle = self._open()
        try:
            self._entries = read_zip_directory(handle, os.fstat(handle).st_size)
        except OSError as bad:
            self.close()
            raise unreadable(path, bad) from bad
        except BaseException:  # raised again, whatever it is
            self.close()
            raise
        self._sizes = {name: entry.size for name, entry in self._entries.items()}

    @property
    def sizes(self) -> Mapping[str, int]:
        return self._sizes

    def _open(self) -> int:
        """The descriptor, after making sure that the file is still the one that was checked."""
        try:
            if self._handle is None:
                self._handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            status = os.fstat(self._handle)
        except OSError as bad:
            raise unreadable(self._path, bad) from bad
        signature: tuple[int, ...] = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if self._signature and signature[self._compared] != self._signature[self._compared]:
            raise changed(self._path.name)
        self._signature = self._signature or signature
        return self._handle

    def bound_passes(self, passes: int, why: str) -> None:
        inflated = sum(entry.size for entry in self._entries.values() if entry.method)
        if inflated * passes > (most := most_expanded(os.fstat(self._open()).st_size)):
            found = f"{inflated} deflated bytes to go through {passes} times: {why}"
            raise refusal("E_ZIP_BOMB:all", "archive", found, f"at most {most} for its size")

    def open(self, name: str) -> ByteStream:
        return _EntryStream(self._open(), self._entries[name])

    def signature(self, name: str) -> tuple[int, ...]:
        return (*self._signature, self._entries[name].header_offset)

    def map(self, name: str) -> mmap.mmap | None:
        return None

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handle": None, "_path": self._path.absolute(), "_machine": platform.node()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        elsewhere = state.pop("_machine") != platform.node()
        self.__dict__.update(state, _compared=PORTABLE if elsewhere else state["_compared"])


class _EntryStream:
    """One entry's content: inflated piece by piece, its length and checksum compared with what was declared."""

    def __init__(self, handle: int, entry: ZipEntry) -> None:
        self._handle = handle
        self._entry = entry
        self._offset = entry.data_offset
        self._given = 0
        self._crc = 0
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS) if entry.method else None
        self._pending = b""
        self._end_checked = False

    def read(self, count: int) -> bytes:
        parts: list[bytes] = []
        wanted = min(count, self._entry.size - self._given)
        while wanted > 0:
            part = self._next(wanted)
            self._crc = zlib.crc32(part, self._crc)
            self._given += len(part)
            wanted -= len(part)
            parts.append(part)
        if self._given == self._entry.size and not self._end_checked:
            self._check_end()
            self._end_checked = True
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def skip(self, count: int) -> None:
        if self._inflate is not None:
            while count > 0 and (part := self.read(min(count, PIECE_BYTES))):
                count -= len(part)
            return
        count = min(count, self._entry.size - self._given)
        self._offset += count
        self._given += count
        self._end_checked = True  # bytes that were left out have no checksum

    def _next(self, wanted: int) -> bytes:
        if self._inflate is None:
            return self._take(wanted)
        while True:
            if not self._pending:
                self._pending = self._take(_INPUT)
            try:
                part = self._inflate.decompress(self._pending, wanted)
            except zlib.error as bad:
                raise self._damaged(str(bad)) from None
            self._pending = self._inflate.unconsumed_tail
            if part:
                return part
            if self._inflate.eof:
                raise self._lie(f"{self._given} bytes of content")
            if not self._pending and self._offset == self._entry.end:
                raise self._damaged("compressed data that stops early")

    def _take(self, count: int) -> bytes:
        count = min(count, self._entry.end - self._offset)
        data = os.pread(self._handle, count, self._offset) if count else b""
        if len(data) != count:
            raise changed(shown(self._entry.name))
        self._offset += count
        return data

    def _check_end(self) -> None:
        if self._inflate is not None and not self._inflate.eof:
            # One more byte than declared, or nothing and the end of the deflate stream.
            try:
                more = self._inflate.decompress(self._pending + self._take(_INPUT), 1)
            except zlib.error as bad:
                raise self._damaged(str(bad)) from None
            if more:
                raise self._lie(f"more than the declared {self._entry.size} bytes")
            if not self._inflate.eof:
                raise self._damaged("compressed data without its end")
        if self._inflate is not None and (self._inflate.unused_data or self._offset != self._entry.end):
            raise self._lie("bytes after the end of the compressed data")
        if self._crc != self._entry.crc:
            raise self._damaged("a checksum (CRC-32) that does not match")

    def _damaged(self, found: str) -> RunLogError:
        return refusal("E_ZIP_DATA", shown(self._entry.name), found)

    def _lie(self, found: str) -> RunLogError:
        return refusal("E_ZIP_LIE", shown(self._entry.name), found, f"the declared {self._entry.size} bytes")

    def close(self) -> None:
        """The container owns the descriptor."""
