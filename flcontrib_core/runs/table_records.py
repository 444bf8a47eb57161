"""Cuts the text of a table into records, a few at a time, with every size capped before the work is done.

Most tables are plain: no quotes, every row as wide as the first. Such text is cut by columns, a block at a time, which
takes a third of what a record at a time takes; from the first block on that is not plain, ``csv`` reads the rest.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs.containers import unreadable
from flcontrib_core.runs.limits import MAX_RECORD_BYTES, MAX_TABLE_BYTES
from flcontrib_core.runs.problems import refusal

Record = list[str]
_RECORDS, _CHARACTERS = 2048, 1 << 20
"""A chunk has at most this many records, and about this much text."""
_PIECE = 1 << 16
_BLOCK = 1 << 18
"""Bytes that are cut by columns at a time."""
_COMMA, _END = ord(","), ord("\n")
_MARK = "\ufeff".encode()


class Columns:
    """Records of one width, kept by columns."""

    def __init__(self, columns: list[list[str]]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Record]:
        return map(list, zip(*self.columns, strict=True))


Chunk = list[Record] | Columns


class _Lines:
    """The lines of a text, and how much of it has gone into the record that is being read."""

    def __init__(self, text: io.TextIOWrapper, name: str, total: int) -> None:
        self._text = text
        self._name = name
        self.pending = 0
        """Set to 0 by the reader after each record; a quoted cell may hold line breaks, so lines do not bound it."""
        self.total = total

    def __iter__(self) -> Iterator[str]:
        rest = ""
        while piece := self._text.read(_PIECE):
            self.pending += len(piece)
            self.total += len(piece)
            if self.pending > MAX_RECORD_BYTES + _PIECE:
                found = f"a row of more than {MAX_RECORD_BYTES} characters"
                raise refusal("E_TABLE", self._name, found, f"at most {MAX_RECORD_BYTES}")
            if self.total > MAX_TABLE_BYTES:
                raise _too_much(self._name)
            known = rest + piece
            # A carriage return at the end may be half of a line break.
            end = max(known.rfind("\n"), known.rfind("\r", 0, -1)) + 1
            yield from io.StringIO(known[:end], newline="")
            rest = known[end:]
        if rest:
            yield rest


class _PlainText:
    """The beginning of a table that can be cut by columns, and the stream of what comes after it."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._rest = b""
        self._unended = False
        """Was a line end put to the last line, which had none?"""
        self.total = 0

    def chunks(self) -> Iterator[Chunk]:
        """The first record alone, then the others by columns; ends before the first block that is not plain."""
        width, begin = 0, 0
        while block := self._next():
            begin = 0
            if not width:
                first = block[: block.index(b"\n") + 1]
                width = first.count(b",") + 1
                cut = _cut(first.removeprefix(_MARK), width)
                if cut is None:
                    break
                yield list(cut)
                begin = self.total = len(first)
            if begin < len(block):
                cut = _cut(block[begin:], width)
                if cut is None:
                    break
                yield cut
            self.total += len(block) - begin
            if self.total > MAX_TABLE_BYTES:
                raise _too_much(self._name)
        self._rest = (block[begin:-1] if self._unended else block[begin:]) + self._rest

    def rest(self) -> io.BufferedReader:
        """What was not cut."""
        return io.BufferedReader(_After(self._rest, self._file), _PIECE)

    def _next(self) -> bytes:
        """Whole lines; nothing at the end, and where a line is too long to be looked at here."""
        while True:
            piece = self._file.read(_BLOCK)
            known = self._rest + piece
            end = known.rfind(b"\n") + 1 if piece else len(known)
            self._rest = known[end:]
            if not piece and known and not known.endswith(b"\n"):
                self._unended = True
                return known + b"\n"
            if end or not piece or len(known) > MAX_RECORD_BYTES:
                return known[:end]


class _After(io.RawIOBase):
    """Some bytes, and then what a file still has."""

    def __init__(self, first: bytes, file: BinaryIO) -> None:
        self._first = memoryview(first)
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._first:
            content = self._file.read(len(buffer))
        else:
            content, self._first = bytes(self._first[: len(buffer)]), self._first[len(buffer) :]
        buffer[: len(content)] = content
        return len(content)


def _cut(block: bytes, width: int) -> Columns | None:
    """Whole lines as columns; None where a sign has another meaning, or a row another width, or a cell no end."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    if width < 2 or b'"' in block or b"\r" in block or b"\0" in block:
        return None
    signs = np.frombuffer(block, dtype=np.uint8)
    places = np.flatnonzero((signs == _COMMA) | (signs == _END))
    if len(places) % width:
        return None
    ends = signs[places].reshape(-1, width)
    if (ends[:, :-1] != _COMMA).any() or (ends[:, -1] != _END).any():
        return None
    longest = int(np.diff(places, prepend=-1).max())
    if (
        longest > csv.field_size_limit()
        or int(np.diff(places[width - 1 :: width], prepend=-1).max()) > MAX_RECORD_BYTES
    ):
        return None
    try:
        cells = block[:-1].decode("utf-8").replace("\n", ",").split(",")
    except UnicodeDecodeError:
        return None
    return Columns([cells[place::width] for place in range(width)])


def _too_much(name: str) -> RunLogError:
    found = f"more than {MAX_TABLE_BYTES} characters"
    return refusal("E_FILE_SIZE", name, found, f"at most {MAX_TABLE_BYTES}")


def read_records(file: BinaryIO, name: str) -> Iterator[Chunk]:
    """The records of a comma-separated text in chunks. Text that cannot be cut into cells ends the reading."""
    plain = _PlainText(file, name)
    try:
        yield from plain.chunks()
    except OSError as bad:
        raise unreadable(name, bad) from bad
    yield from _other_records(plain.rest(), name, plain.total)


def _other_records(file: io.BufferedReader, name: str, total: int) -> Iterator[list[Record]]:
    """The same with quoted cells, rows of any width and whatever else ``csv`` takes or refuses."""
    encoding = "utf-8" if total else "utf-8-sig"
    with io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        lines = _Lines(text, name, total)
        chunk: list[Record] = []
        begun = total
        fault: RunLogError | None = None
        try:
            for record in csv.reader(iter(lines), strict=True):
                lines.pending = 0
                chunk.append(record)
                if len(chunk) == _RECORDS or lines.total - begun > _CHARACTERS:
                    yield chunk
                    chunk, begun = [], lines.total
        except UnicodeDecodeError as bad:
            fault = refusal("E_TABLE", name, f"bytes that are not UTF-8 ({bad.reason})", "UTF-8")
        except csv.Error as bad:
            fault = refusal("E_TABLE", name, str(bad))
        except OSError as bad:
            fault = unreadable(name, bad)
        except RunLogError as refused:
            fault = refused
        if chunk:
            yield chunk  # what came before the fault may have faults of its own
        if fault is not None:
            raise fault
