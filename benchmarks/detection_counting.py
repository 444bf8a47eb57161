"""How are labelled runs read, and their verdicts turned into figures beside a goal?"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measurement import Measurement
from flcontrib_core.detection.alerts import read_verdicts
from flcontrib_core.laboratory import scoring
from flcontrib_core.laboratory.labelled_history import LabelledHistory
from flcontrib_core.laboratory.scoring import RunScore


def scores_of(runs: Sequence[LabelledHistory], preset: str = "default") -> list[RunScore]:
    return [scoring.score_run(read_verdicts(r.history, preset, check_sensitivity=False), r.truth) for r in runs]


def number_of(runs: Sequence[object]) -> str:
    return f"{len(runs)} runs"


def alarms(name: str, scores: Sequence[RunScore], goal: float | None = None) -> Measurement:
    """The share of runs in which an honest client stands accused."""
    note = f"{sum(s.alerts for s in scores)} of {len(scores)} runs"
    return Measurement(name, scoring.alerting_share(scores), goal, False, note=note)


def found(name: str, scores: Sequence[RunScore], goal: float | None = None) -> Measurement:
    """The share of dishonest clients that were found."""
    clients = [f for s in scores for f in s.found]
    return Measurement(name, scoring.recall(scores), goal, note=f"{sum(clients)} of {len(clients)} clients")
