"""A file as an argument, or ``-`` for what comes on standard input."""

from __future__ import annotations

import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click

ENDINGS = {b"PK\x03\x04": ".flrun", b"PAR1": ".parquet", b"{": ".json", b"<": ".html"}
"""What a file of ours begins with; anything else is taken for a CSV table."""


class GivenFile(click.Path):
    """A path. ``-`` is standard input, which is kept in a file of its own until the command ends."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path itself, or that of the copy."""
        if value != "-" or ctx is None:
            return super().convert(value, param, ctx)
        if ctx.meta.setdefault(__name__, False):
            self.fail("standard input can be read only once; give one of the two as a file", param, ctx)
        if sys.stdin.isatty():
            self.fail("- stands for standard input, and nothing comes there; pipe a file in", param, ctx)
        ctx.meta[__name__] = True
        folder = Path(tempfile.mkdtemp(prefix="flcontrib-"))  # for its owner alone
        ctx.call_on_close(partial(_remove, folder))
        return _stored(sys.stdin.buffer, folder)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _stored(stream: BinaryIO, folder: Path) -> Path:
    begin = stream.read(4)
    ending = next((ending for magic, ending in ENDINGS.items() if begin.lstrip().startswith(magic)), ".csv")
    path = folder / f"stdin{ending}"
    with path.open("wb") as copy:
        copy.write(begin)
        shutil.copyfileobj(stream, copy, 1 << 20)
    return path
