"""Cuts the text of a table into records, a few at a time, with every size capped before the work is done."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import BinaryIO

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs.containers import unreadable
from flcontrib_core.runs.limits import MAX_RECORD_BYTES, MAX_TABLE_BYTES
from flcontrib_core.runs.problems import refusal

Record = list[str]
_RECORDS, _CHARACTERS = 2048, 1 << 20
"""A chunk has at most this many records, and about this much text."""


_PIECE = 1 << 16


class _Lines:
    """The lines of a text, and how much of it has gone into the record that is being read."""

    def __init__(self, text: io.TextIOWrapper, name: str) -> None:
        self._text = text
        self._name = name
        self.pending = 0
        """Set to 0 by the reader after each record; a quoted cell may hold line breaks, so lines do not bound it."""
        self.total = 0

    def __iter__(self) -> Iterator[str]:
        rest = ""
        while piece := self._text.read(_PIECE):
            self.pending += len(piece)
            self.total += len(piece)
            if self.pending > MAX_RECORD_BYTES + _PIECE:
                found = f"a row of more than {MAX_RECORD_BYTES} characters"
                raise refusal("E_TABLE", self._name, found, f"at most {MAX_RECORD_BYTES}")
            if self.total > MAX_TABLE_BYTES:
                found = f"more than {MAX_TABLE_BYTES} characters"
                raise refusal("E_FILE_SIZE", self._name, found, f"at most {MAX_TABLE_BYTES}")
            known = rest + piece
            # A carriage return at the end may be half of a line break.
            end = max(known.rfind("\n"), known.rfind("\r", 0, -1)) + 1
            yield from io.StringIO(known[:end], newline="")
            rest = known[end:]
        if rest:
            yield rest


def read_records(file: BinaryIO, name: str) -> Iterator[list[Record]]:
    """The records of a comma-separated text in chunks. Text that cannot be cut into cells ends the reading."""
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        lines = _Lines(text, name)
        chunk: list[Record] = []
        begun = 0
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
