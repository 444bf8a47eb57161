"""Starts the process that decodes a Parquet file, and gives its rows as text.

The child runs isolated (``-I``): neither the current folder nor PYTHONPATH nor the user's own packages are on its path,
only absolute folders of this process, and those last. What it writes is read like any other untrusted table.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from flcontrib_core.errors import MissingPart, RunLogError
from flcontrib_core.execution.children import python_command
from flcontrib_core.runs import limits
from flcontrib_core.runs.problems import refusal, shown

_CHILD = Path(__file__).with_name("parquet_child.py")
_LONGEST_FRAME = 1 << 20


@contextmanager
def parquet_text(file: BinaryIO, name: str) -> Iterator[tuple[list[str], int, BinaryIO]]:
    """The columns, the number of rows and the rows as comma-separated UTF-8 of the Parquet file that is open."""
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingPart(f"{name} is a Parquet file: reading it needs pyarrow (pip install 'flcontrib[audit]')")
    size = os.fstat(file.fileno()).st_size
    child = subprocess.Popen(
        python_command("-I", str(_CHILD), json.dumps(_limits(size)), json.dumps(_folders())),
        stdin=file,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=_CHILD.parent,
        env=_environment(),
    )
    try:
        assert child.stdout is not None
        frames = _Frames(child, child.stdout, name)
        columns, rows = frames.header()
        yield columns, rows, io.BufferedReader(frames, limits.PIECE_BYTES)
    finally:
        child.kill()
        child.communicate()


def _limits(size: int) -> dict[str, int]:
    return {
        "rows": limits.MAX_TABLE_ROWS,
        "cells": limits.MAX_TABLE_CELLS,
        "columns": limits.MAX_TABLE_UTILITIES + 2,
        "row_groups": limits.MAX_ROW_GROUPS,
        "footer": limits.MAX_PARQUET_FOOTER,
        "expanded": min(limits.MAX_EXPANDED_PARQUET, max(limits.BOMB_FLOOR, limits.MAX_RATIO * size)),
        "memory": limits.PARQUET_MEMORY,
        "milliseconds": limits.PARQUET_MILLISECONDS,
    }


def _folders() -> list[str]:
    here = os.getcwd()
    return [p for p in sys.path if os.path.isabs(p) and os.path.realpath(p) != os.path.realpath(here)]


def _environment() -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ARROW_"))}
    # The library's own allocators reserve address space far beyond what they use, which the limit would count.
    return plain | {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}


class _Frames(io.RawIOBase):
    """The child's frames as one readable stream of text; a refusal, or an end without the last frame, is raised."""

    def __init__(self, child: subprocess.Popen[bytes], pipe: Any, name: str) -> None:
        self._child = child
        self._pipe = pipe
        self._name = name
        self._rest = memoryview(b"")
        self._ended = False

    def readable(self) -> bool:
        return True

    def header(self) -> tuple[list[str], int]:
        kind, payload = self._next()
        columns, rows = json.loads(payload) if kind == b"H" else ([], 0)
        return columns, rows

    def readinto(self, buffer: Any) -> int:
        while not self._rest and not self._ended:
            kind, payload = self._next()
            self._ended = kind == b"Z"
            self._rest = memoryview(payload)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def _next(self) -> tuple[bytes, bytes]:
        head = self._pipe.read(5)
        length = int.from_bytes(head[1:], "big")
        payload = self._pipe.read(length) if len(head) == 5 and length <= _LONGEST_FRAME else b""
        if len(head) != 5 or len(payload) != length:
            raise self._died()
        if head[:1] == b"R":
            code, found, expected = json.loads(payload)
            key = "E_FILE_SIZE:parquet" if code == "E_FILE_SIZE" else "E_TABLE"
            raise refusal(key, self._name, shown(found)[1:-1], expected)
        return head[:1], payload

    def _died(self) -> RunLogError:
        """A signal ended the child: its time was over, or the library itself gave up. Or it says more than it may."""
        self._child.kill()  # one that waits for somebody to read what it says would never end
        self._child.wait()
        found = f"pages that take more than {limits.PARQUET_MILLISECONDS / 1000:g} s, or break the decoder"
        return refusal("E_FILE_SIZE:parquet", self._name, found)
