"""What can go wrong, in named kinds. Every message says what was found, where, and what to do."""

from __future__ import annotations

from dataclasses import dataclass


class FLContribError(Exception):
    """Parent of every error this package raises on purpose."""


@dataclass(frozen=True)
class Problem:
    """One fault or warning of a run log: a stable code, the place, found, expected, and how to mend it."""

    code: str
    where: str
    found: str
    expected: str
    fix: str
    clients: tuple[str, ...] = ()
    """Ids of the clients it is about. ``expected`` and ``fix`` name nobody; ``where`` and ``found`` may name these."""

    def to_json(self) -> dict[str, str]:
        """The five parts that people and programs read."""
        return {
            "code": self.code,
            "where": self.where,
            "found": self.found,
            "expected": self.expected,
            "fix": self.fix,
        }

    def sentence(self) -> str:
        """Code, place, what was found, what was expected and how to mend it, in one line."""
        return f"{self.code} {self.where}: found {self.found}; expected {self.expected}. {self.fix}"


class RunLogError(FLContribError):
    """A run log was refused; ``problems`` holds all that was found (first 50)."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(p.sentence() for p in problems))


class SettingsError(FLContribError):
    """A setting is outside its range or does not fit the run."""


class CostRefusal(FLContribError):
    """The request would cost too much; the message names the cost and what is offered instead."""

    def __init__(self, message: str, evaluations: float, offered: str) -> None:
        self.evaluations = evaluations
        self.offered = offered
        super().__init__(message)


class MemoryRefusal(FLContribError):
    """The run needs more memory than this machine has to give."""


class NonFiniteUtility(FLContribError):
    """A sub-model's utility is NaN or infinite; names the epoch and the coalition."""

    def __init__(self, message: str, players: tuple[int, ...] = ()) -> None:
        self.players = players
        super().__init__(message)


class ScheduleError(FLContribError):
    """No schedule exists for the request, or a solver's answer did not hold."""


class WorkspaceError(FLContribError):
    """The workspace cannot be used as it is (damaged, newer version, read-only, full)."""


class FileNotWritten(FLContribError):
    """A report, table or picture could not be written where it was wanted; what was there before is unchanged."""


class FileNotRead(FLContribError):
    """Something else than a plain file of a fitting size stands where one should be read."""


class MissingPart(FLContribError):
    """The run lacks a part this computation needs (a model, a validation set, an optional package)."""


class AnswerError(FLContribError):
    """An answer from elsewhere is missing a part, contradicts another, or belongs to no question."""


class UnsupportedPlatform(FLContribError):
    """This operating system lacks what the command stands on."""
