"""Equal problems of a log as one: what is wrong, how often, and the first places where it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flcontrib_core.errors import Problem
from flcontrib_core.runs.problems import MAX_PROBLEMS, span, table_row
from flcontrib_core.words import numbers

FEW = 3
"""Places and things found that are named one by one."""


@dataclass(frozen=True)
class ProblemGroup:
    """Problems of one kind, which one thing mends: in a table, all of one column."""

    problems: tuple[Problem, ...]
    cut: bool
    """Reading ended at the fiftieth problem: there may be more of these."""

    @property
    def code(self) -> str:
        """The code they share."""
        return self.problems[0].code

    @property
    def count(self) -> str:
        """How often, in words; '' for one."""
        times = len(self.problems)
        return ("" if times == 1 else f"{times} times") + (" or more" if self.cut and times > 1 else "")

    @property
    def places(self) -> str:
        """Where: the rows of a table's column in one breath, of anything else the first few."""
        rows = [table_row(p.where) for p in self.problems]
        tables = {row[0] for row in rows if row is not None}
        if None not in rows and len(tables) == 1 and len(rows) > 1:
            return f"{tables.pop()}, rows {span([row[1] for row in rows if row is not None])}"
        return _few([p.where for p in self.problems])

    @property
    def found(self) -> str:
        """What was found there: the first few different things."""
        return _few([p.found for p in self.problems])

    def sentence(self) -> str:
        """The group in one line."""
        first = self.problems[0]
        often = f" ({self.count})" if self.count else ""
        return f"{self.code}{often} {self.places}: found {self.found}; expected {first.expected}. {first.fix}"


def problem_groups(problems: Sequence[Problem]) -> tuple[ProblemGroup, ...]:
    """The problems in groups, each where its first one stood."""
    groups: dict[tuple[str, ...], list[Problem]] = {}
    for problem in problems:
        row = table_row(problem.where)
        column = "" if row is None else row[0]
        groups.setdefault((problem.code, problem.expected, problem.fix, column), []).append(problem)
    cut = len(problems) >= MAX_PROBLEMS and problems[0].code.startswith("E_")  # warnings are never cut
    return tuple(ProblemGroup(tuple(members), cut) for members in groups.values())


def _few(things: Sequence[str]) -> str:
    different = list(dict.fromkeys(things))
    more = len(different) - FEW
    return ", ".join(different[:FEW]) + (f" and {more} more" if more > 0 else "")


def accepted_with(remarks: int) -> str:
    """What is said of a log that was kept although something was found."""
    follow = "it follows" if remarks == 1 else "they follow"
    return f"Accepted with {numbers.several(remarks, 'remark')}; {follow} into every export."
