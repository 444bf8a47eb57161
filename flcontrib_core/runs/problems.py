"""Makes problems in the words of the one table, and gathers them so that a person sees all of them at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.runs.problem_codes import PROBLEMS

MAX_PROBLEMS = 50
_TABLE_PLACE = re.compile(r"(.+) row (\d+)(, columns? .+)?", re.DOTALL)


class EnoughProblems(Exception):
    """Raised by ``Findings`` at the fiftieth fault: reading on would only cost time."""


class Findings:
    """The faults (which refuse the log) and warnings (evidence that travels with it) found so far."""

    def __init__(self) -> None:
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []

    def refuse(self, key: str, where: str, found: str, expected: str = "") -> None:
        """Notes a fault of the kind that ``key`` names in the table of problems."""
        self.add(problem(key, where, found, expected))

    def add(self, problem: Problem) -> None:
        """Notes a fault; the fiftieth ends the reading."""
        self.errors.append(problem)
        if len(self.errors) >= MAX_PROBLEMS:
            raise EnoughProblems

    def warn(self, key: str, where: str, found: str, expected: str = "", clients: tuple[str, ...] = ()) -> None:
        """Notes evidence that does not refuse the log; ``clients`` are those it is about."""
        self.warnings.append(problem(key, where, found, expected, clients))

    def raise_errors(self) -> None:
        """Raises the faults noted so far, all of them in one ``RunLogError``."""
        if self.errors:
            raise RunLogError(tuple(self.errors))

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Take over the problems of a part that could not be read, and let the caller go on with the next part."""
        try:
            yield
        except RunLogError as refused:
            for problem in refused.problems:
                self.add(problem)


def problem(key: str, where: str, found: str, expected: str = "", clients: tuple[str, ...] = ()) -> Problem:
    """A problem in the words of the table; ``expected`` only where the table cannot know what this log should have."""
    kind = PROBLEMS[key]
    return Problem(key.partition(":")[0], where, found, expected or kind.expected, kind.fix, clients)


def refusal(key: str, where: str, found: str, expected: str = "") -> RunLogError:
    """The error that carries one problem."""
    return RunLogError((problem(key, where, found, expected),))


def table_place(name: str, row: int, *columns: str) -> str:
    """A place in a table: its row, counted from 1 below the header, and the columns.

    >>> table_place("values.csv", 7, "loss")
    'values.csv row 7, column "loss"'
    """
    named = ", ".join(shown(column, 60) for column in columns)
    return f"{name} row {row}" + (f", column{'s' * (len(columns) > 1)} {named}" if columns else "")


def table_row(where: str) -> tuple[str, int] | None:
    """What ``table_place`` put together: the table with its columns, and the row; None for another place."""
    found = _TABLE_PLACE.fullmatch(where)
    return None if found is None else (f"{found[1]}{found[3] or ''}", int(found[2]))


def shown(value: object, limit: int = 120) -> str:
    """A value from the file in words: quoted, control characters escaped, and cut when it is long.

    >>> shown("a\\nb"), shown([1, 2])
    ('"a\\\\nb"', '[1, 2]')
    """
    if isinstance(value, str):
        text = json.dumps(value[: limit + 1], ensure_ascii=False)
        # A lone surrogate cannot be encoded and an override would turn the whole sentence around: show the escape.
        text = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
    else:
        text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def quoted(names: Sequence[str], most: int = 12) -> str:
    """Names from the file, each as ``shown``, and how many more there are; or that there is none.

    >>> quoted(["b", "a"]), quoted("abc", 2), quoted([])
    ('"b", "a"', '"a", "b" and 1 more', 'none')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(shown(name) for name in names[:most]) or "none") + more


def span(numbers: list[int]) -> str:
    """Ascending integers as ranges: 1–3, 7.

    >>> span([1, 2, 3, 7])
    '1–3, 7'
    """
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    words = [str(a) if a == b else f"{a}–{b}" for a, b in ranges[:12]]
    return ", ".join(words) + (", …" if len(ranges) > 12 else "")


def epochs_named(numbers: list[int]) -> str:
    """Ascending epochs with their noun.

    >>> epochs_named([6]), epochs_named([6, 7, 9])
    ('epoch 6', 'epochs 6–7, 9')
    """
    return f"{'epoch' if len(numbers) == 1 else 'epochs'} {span(numbers)}"
