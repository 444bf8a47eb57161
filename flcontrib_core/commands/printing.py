"""How a command talks: results on stdout, progress and messages on stderr."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import click


def print_json(value: Any) -> None:
    """One JSON value on standard output, strictly: no NaN."""
    click.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


def say(*lines: str, err: bool = False) -> None:
    """Prints lines that may hold names from a log: what would steer the terminal is spelled out instead."""
    from flcontrib_core.words.numbers import visible

    for line in lines:
        click.echo(visible(line), err=err)


def table(header: list[str], rows: list[list[str]]) -> str:
    """A plain aligned table; the first column to the left, the others to the right."""
    from flcontrib_core.words.numbers import visible

    header, rows = [visible(h) for h in header], [[visible(str(c)) for c in row] for row in rows]
    widths = [max(len(r[i]) for r in [header, *rows]) for i in range(len(header))]

    def line(cells: list[str]) -> str:
        padded = [c.rjust(w) for c, w in zip(cells, widths, strict=True)]
        return "  ".join([cells[0].ljust(widths[0]), *padded[1:]])

    return "\n".join([line(header), line(["─" * w for w in widths]), *(line(r) for r in rows)])


class ProgressLine:
    """A one-line progress message on stderr: a bar on a terminal, sparse lines otherwise, nothing when quiet."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.terminal = sys.stderr.isatty()
        self.began = time.monotonic()
        self.first: tuple[float, int, int] | None = None
        """When the first step of this kind of work was reported, how far it was, and of how many"""
        self.last = 0.0
        self.shown = False

    def __call__(self, done: int, total: int, label: str) -> None:
        now = time.monotonic()
        finished = done >= total
        if self.first is None or self.first[2] != total or done < self.first[1]:
            self.first = (now, done, total)
        if self.quiet or (now - self.last < (0.1 if self.terminal else 5.0) and not finished):
            return
        self.last = now
        since, at, _ = self.first  # what came before the first step (imports, recalled epochs) says nothing of the rest
        left = (now - since) / (done - at) * (total - done) if done > at else 0.0
        text = f"{done}/{total} {label}" + (f", about {left:.0f} s left" if left > 1 else "")
        if self.terminal:
            sys.stderr.write(f"\r\x1b[2K{text}")
            self.shown = True
        elif now - self.began > 5:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Wipes the line of progress."""
        if self.shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
