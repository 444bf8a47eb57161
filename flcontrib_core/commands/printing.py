"""How a command talks: results on stdout, progress and messages on stderr."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import time
from itertools import zip_longest
from typing import Any

import click

TABLE_WIDTH = 80


def print_json(value: Any) -> None:
    """One JSON value on standard output, strictly: no NaN."""
    click.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


def say(*lines: str, err: bool = False) -> None:
    """Prints lines that may hold names from a log: what would steer the terminal is spelled out instead.

    On a terminal a long line goes on below, between two words and indented; in a file or a pipe it stays one line.
    """
    from flcontrib_core.words.numbers import visible

    stream = sys.stderr if err else sys.stdout
    width = shutil.get_terminal_size().columns if stream.isatty() else 0
    for line in lines:
        click.echo(folded(visible(line), width), err=err)


def folded(line: str, width: int) -> str:
    """A line that is longer than ``width`` as several, the further ones indented by two; 0 folds nothing."""
    if not 20 <= width < len(line):
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(
        line.strip(), width, initial_indent=indent, subsequent_indent=indent + "  ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def table(header: list[str], rows: list[list[str]]) -> str:
    """A plain aligned table; the first column to the left, the others to the right.

    One that is wider than 80 columns has its headings, and then its first column, on several lines, and closer columns.
    """
    from flcontrib_core.words.numbers import visible

    header, rows = [visible(h) for h in header], [[visible(str(c)) for c in row] for row in rows]
    widths, gap = [max(len(r[i]) for r in [header, *rows]) for i in range(len(header))], "  "
    if _too_wide(widths, gap):
        widths = [
            max([len(r[i]) for r in rows] + [len(word) for word in header[i].split()]) for i in range(len(header))
        ]
        longest_word = max(len(word) for r in [header, *rows] for word in r[0].split() or [""])
        widths[0] = max(widths[0] - _too_wide(widths, gap), longest_word)
        gap = " " if _too_wide(widths, gap) else gap
    lines = [*_lines(header, widths, gap), gap.join("─" * w for w in widths)]
    return "\n".join([*lines, *(line for row in rows for line in _lines(row, widths, gap))])


def _too_wide(widths: list[int], gap: str) -> int:
    """By how many characters a table of these columns exceeds a usual terminal; 0 where it fits."""
    return max(0, sum(widths) + len(gap) * (len(widths) - 1) - TABLE_WIDTH)


def _lines(cells: list[str], widths: list[int], gap: str) -> list[str]:
    """A row of a table: as many lines as its longest cell needs."""
    folds = [
        [cell] if len(cell) <= width else textwrap.wrap(cell, width, break_on_hyphens=False)
        for cell, width in zip(cells, widths, strict=True)
    ]
    lines = []
    for parts in zip_longest(*folds, fillvalue=""):
        padded = [part.rjust(width) for part, width in zip(parts, widths, strict=True)]
        lines.append(gap.join([parts[0].ljust(widths[0]), *padded[1:]]).rstrip())
    return lines


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
