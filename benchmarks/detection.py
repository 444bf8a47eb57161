"""How often do verdicts find what was planted, and how often do they accuse the innocent?

The main figures are counted on the *report* part of the corpus, which nothing was fitted to, group by group and beside
what other published rules say of the same updates; the others come from growing runs, from federations that another
script made, from half a budget, and from the paper. ``small`` takes a slice of each, enough to see that the machinery
holds; the figures to quote are ``full``'s. Counting rules: ``flcontrib_core/laboratory/corpus_scoring.py`` and
``scoring.py``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.cached_runs import assess_cached, cached
from benchmarks.detection_corpus import corpus_rows, peer_rows
from benchmarks.detection_counting import alarms, found, number_of, scores_of
from benchmarks.detection_paper import paper_rows
from benchmarks.detection_speed import speed_rows
from benchmarks.independent_federation import FLIP, LARGE, NOISE, SILENT, draw, record
from benchmarks.measurement import Measurement
from flcontrib_core.detection.online import FIRST_LOOK
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.laboratory import scoring
from flcontrib_core.laboratory.calibrate import CalibrationPlan, first_alerts
from flcontrib_core.laboratory.calibration_set import (
    CALIBRATED,
    HONEST_GROUPS,
    LabelledSettings,
    draw_runs,
)
from flcontrib_core.laboratory.labelled_history import LabelledHistory, acted_truth
from flcontrib_core.laboratory.simulation.simulated_run import simulate_in_memory
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode

FRESH = CalibrationPlan.test_base
BUDGET = 43300
STRONG_FLIPS = ("flip .5", "flip .7", "flip 1")
EXACT = AssessSettings(utilities=("loss",))
HALF = AssessSettings(utilities=("loss",), budget=BudgetSettings(budget=0.5, fairness=FairnessMode.TWO_SIDED))


@dataclass(frozen=True)
class Scale:
    """How many runs of each kind, beside those of the corpus."""

    independent: int
    budget: int
    replayed: int
    """per honest group, and three times as many as per kind of flip"""
    paper: int


SCALES = {
    "small": Scale(independent=2, budget=1, replayed=1, paper=1),
    "full": Scale(independent=20, budget=8, replayed=30, paper=6),
}


def run(scale: str) -> list[Measurement]:
    size = SCALES[scale]
    rows = speed_rows(large=scale == "full")
    rows += corpus_rows(scale)
    rows += peer_rows(scale)
    rows += _online(size)
    rows += _independent(size)
    rows += _budget(size)
    return rows + paper_rows(size.paper)


def _assessed(
    group: str, count: int, base: int, datasets: Sequence[str] = CALIBRATED, replay: bool = False
) -> list[LabelledHistory]:
    return [assess_cached(labelled, replay) for labelled in draw_runs(group, count, base, datasets)]


def _online(size: Scale) -> list[Measurement]:
    """Runs read again after each epoch at the sequential threshold."""

    def replayed(group: str, count: int) -> list[LabelledHistory]:
        return _assessed(group, count, FRESH, replay=True)

    loud = [bool(first_alerts(run)) for group in HONEST_GROUPS for run in replayed(group, size.replayed)]
    delays, seen = [], []
    for run in (run for group in STRONG_FLIPS for run in replayed(group, max(1, size.replayed // 3))):
        first = first_alerts(run)
        for client, windows in run.truth.items():
            began = max(windows[0][0], FIRST_LOOK)
            seen.append(first.get(client, 0) >= windows[0][0])
            if seen[-1]:
                delays.append(max(0, first[client] - began))
    note = f"{sum(loud)} of {len(loud)} runs"
    return [
        Measurement("online: honest runs that alert at any look", float(np.mean(loud)), 0.03, False, note=note),
        Measurement("online: median delay", float(np.median(delays)) if delays else np.nan, 3.0, False, "epochs"),
        Measurement("online: flipping clients seen while the run grows", float(np.mean(seen)), note=f"of {len(seen)}"),
    ]


def _independent(size: Scale) -> list[Measurement]:
    """Federations of Gaussian clusters that share no code with the simulator."""

    def assessed(kind: str) -> list[LabelledHistory]:
        return [cached(f"independent {kind} {k}", lambda k=k: _recorded(kind, k)) for k in range(size.independent)]

    def _recorded(kind: str, number: int) -> LabelledHistory:
        plan = draw(kind, number)
        with tempfile.TemporaryDirectory() as folder:
            record(plan, Path(folder) / "run")
            log = read_run_log(Path(folder) / "run")
            assert isinstance(log, RunLog)
            made = LabelledHistory(kind, plan.share, assess_contributions(log, EXACT), acted_truth(log))
            log.close()
        return made

    honest = [s for kind in ("honest", "skewed", "careless") for s in scores_of(assessed(kind))]
    flips = scores_of(assessed(FLIP))
    return [
        alarms("another script's runs: honest runs that alert", honest, 0.02),
        Measurement("another script's runs: flips, F1", scoring.f1(flips), 0.95, note=number_of(flips)),
        Measurement("another script's runs: flips, mean IoU", scoring.mean_iou(flips), 0.80),
        found("another script's runs: pure noise, recall", scores_of(assessed(NOISE)), 0.85),
        found("another script's runs: scaled ×5, recall", scores_of(assessed(LARGE)), 0.75),
        found("another script's runs: zero, recall", scores_of(assessed(SILENT)), 1.0),
    ]


def _assessed_with(labelled: LabelledSettings, settings: AssessSettings) -> LabelledHistory:
    def assess() -> LabelledHistory:
        log = simulate_in_memory(labelled.settings)
        history = assess_contributions(log, settings)
        return LabelledHistory(labelled.group, labelled.settings.participation, history, acted_truth(log))

    return cached(f"{labelled!r} {settings!r}", assess)


def _budget(size: Scale) -> list[Measurement]:
    """The two-sided schedule at k/T = .5 against computing every epoch, on the same runs."""
    drawn = [r for group in ("flip .3", *STRONG_FLIPS) for r in draw_runs(group, size.budget, BUDGET)]
    halves = [_assessed_with(labelled, HALF) for labelled in drawn]
    whole = scores_of([_assessed_with(labelled, EXACT) for labelled in drawn])
    tables = scores_of([replace(r, history=replace(r.history, channels=None)) for r in halves])
    lost = scoring.recall(whole) - scoring.recall(scores_of(halves))
    return [
        Measurement("budget k/T = .5, two-sided: recall lost", lost, 0.05, False, note=number_of(drawn)),
        found("the same budget, values alone: recall", tables),
    ]
