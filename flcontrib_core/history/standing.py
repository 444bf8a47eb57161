"""Which checks of the log itself a verdict stands on: those that held, those that speak against it, those that could
not be made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flcontrib_core.history.meaning import METRICS, LogMeaning
from flcontrib_core.runs.run_log import RunLog


class CheckOutcome(StrEnum):
    """What came of a check."""

    HELD = "held"
    DOUBTED = "doubted"
    NOT_POSSIBLE = "not-possible"


@dataclass(frozen=True)
class LogCheck:
    """One check of a log against itself."""

    name: str
    """A key of ``CHECKS``."""
    outcome: CheckOutcome


CHECKS = {
    "learns": ("W_NO_LEARNING",),
    "slope": ("W_SLOPE",),
    "reading": ("W_UPDATE_SIGN", "W_UPDATE_MODEL", "W_LABEL_SHIFT", "W_INPUT_SCALE"),
    "metrics": ("W_METRICS",),
    "aggregate": ("W_AGGREGATE", "W_AGGREGATE_RULE"),
}
"""name -> the warnings that speak against it"""


def log_checks(run: RunLog, meaning: LogMeaning) -> tuple[LogCheck, ...]:
    """Every check with what came of it."""
    raised = {warning.code for warning in (*run.warnings, *meaning.warnings)}
    rebuilt = meaning.curve is not None
    possible = {
        "learns": rebuilt,
        "slope": rebuilt and any(len(record.participants) > 1 for record in run.epochs),
        "reading": rebuilt,
        "metrics": rebuilt and any(name in record.metrics for record in run.epochs for name in METRICS),
        "aggregate": any(record.has_global for record in run.epochs),
    }
    outcomes = []
    for name, codes in CHECKS.items():
        untold = CheckOutcome.HELD if possible[name] else CheckOutcome.NOT_POSSIBLE
        outcomes.append(LogCheck(name, CheckOutcome.DOUBTED if raised.intersection(codes) else untold))
    return tuple(outcomes)
