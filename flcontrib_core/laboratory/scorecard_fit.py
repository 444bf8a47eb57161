"""Fits the scorecard of ``detection.weighing`` to the harmful windows of labelled runs.

Gradient-boosted stumps are sums of steps of one measurement each, so what they learn *is* a scorecard: it is read off
by moving one measurement at a time. The limit is taken where few runs accuse an innocent by a window, each scored by
a card that has not seen its run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from flcontrib_core.detection.calibration import Calibration
from flcontrib_core.detection.reading import reading_of
from flcontrib_core.detection.scorecard import Ladder, Scorecard
from flcontrib_core.detection.weighing import MEANING, window_case
from flcontrib_core.detection.windows import WindowModel
from flcontrib_core.laboratory.corpus import AssessedRun
from flcontrib_core.laboratory.corpus_scoring import acted
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

WINDOW_RATES = {"plain": 0.005, "changing": 0.012, "attacked": 0.006, "mixed": 0.006}
"""family of runs -> share of them in which a window may accuse an innocent; other verdicts need room beside it"""
FOLDS = 5
FEWEST_WINDOWS = 60
"""With fewer harmful windows there is nothing to learn from."""
PRESET_SCALE = 0.5
"""Log odds per unit of a preset: two units more halve the innocents accused and keep most of what is found."""
STUMPS, STEP, LEAF, PENALTY = 200, 0.08, 12, 2.0


@dataclass(frozen=True)
class HarmfulWindows:
    """Windows above the threshold in which harm was measured, of many runs."""

    measured: FloatArray
    """(windows, measurements) in the order of ``MEANING``"""
    run: IntArray
    """(windows,) which run"""
    right: BoolArray
    """(windows,) is it a dishonest client's, and did it act in it?"""
    innocent: BoolArray
    """(windows,) is it a client's that did nothing in the whole run?"""
    families: tuple[str, ...]
    """of each run"""

    @property
    def suffice(self) -> bool:
        """Are there enough, right and wrong, to learn from?"""
        return len(self.run) >= FEWEST_WINDOWS and min(self.right.sum(), (~self.right).sum()) >= LEAF


def fit_scorecard(windows: HarmfulWindows) -> Scorecard:
    """The card of these windows, and the limit at which few innocents are accused by it."""
    odds = np.zeros(len(windows.run))
    fold = windows.run % FOLDS
    for k in range(FOLDS):
        seen = fold != k
        if (~seen).any():
            model = _boosted(windows.measured[seen], windows.right[seen])
            odds[~seen] = model.decision_function(windows.measured[~seen])
    base, ladders = _read_off(_boosted(windows.measured, windows.right), windows.measured)
    return Scorecard(base, round(_limit(windows, odds), 4), PRESET_SCALE, ladders)


def harmful_windows(calibration: Calibration, runs: Sequence[AssessedRun]) -> HarmfulWindows:
    """What is learned from: the windows that harm alone would accuse."""
    measured: list[list[float]] = []
    of_run, right, innocent = [], [], []
    bare = replace(calibration, scorecard=None)
    for number, run in enumerate(runs):
        reading = reading_of(run.history, bare, 0.0, WindowModel())
        truth = acted(run)
        for window in reading.search.windows:
            case = window_case(run.history, reading.channels, reading.search, window, reading.model)
            if case.numbers.harm_measured and case.oversized_harm is None:  # such need no weighing
                client = run.history.client_ids[window.client]
                a, b = case.epochs
                measurements = case.measurements()
                measured.append([measurements[name] for name in MEANING])
                of_run.append(number)
                right.append(any(first <= b and a <= last for first, last in truth.get(client, ())))
                innocent.append(client not in truth)
    families = tuple(run.run_id.split("/")[1] for run in runs)
    table = np.array(measured).reshape(-1, len(MEANING))
    return HarmfulWindows(
        table, np.array(of_run, dtype=np.int64), np.array(right, bool), np.array(innocent, bool), families
    )


def _boosted(measured: FloatArray, right: BoolArray) -> HistGradientBoostingClassifier:
    model = HistGradientBoostingClassifier(
        max_iter=STUMPS,
        learning_rate=STEP,
        max_depth=1,
        min_samples_leaf=LEAF,
        l2_regularization=PENALTY,
        monotonic_cst=list(MEANING.values()),
        early_stopping=False,
        random_state=0,
    )
    return model.fit(measured, right)


def _read_off(model: HistGradientBoostingClassifier, measured: FloatArray) -> tuple[float, dict[str, Ladder]]:
    """Base and ladders; each ladder's points are centred on the windows they were fitted to."""
    nothing = np.full((1, measured.shape[1]), np.nan)
    base = float(model.decision_function(nothing)[0])
    ladders: dict[str, Ladder] = {}
    total = base
    for column, name in enumerate(MEANING):
        values = np.unique(measured[:, column][np.isfinite(measured[:, column])])
        moved = np.repeat(nothing, len(values), axis=0)
        moved[:, column] = values
        points = model.decision_function(moved) - base if len(values) else np.zeros(0)
        own = measured[:, column]
        mean = float(np.where(np.isnan(own), 0.0, np.interp(own, values, points) if len(values) else 0.0).mean())
        rises = np.flatnonzero(np.diff(points))
        edges = tuple(float(np.round((values[k] + values[k + 1]) / 2, 6)) for k in rises)
        kept = [*points[rises], points[-1]] if len(values) else [0.0]
        if edges or abs(mean) > 0:
            ladders[name] = Ladder(edges, tuple(round(float(p) - mean, 4) for p in kept), round(-mean, 4))
            total += mean
    return round(total, 4), ladders


def _limit(windows: HarmfulWindows, odds: FloatArray) -> float:
    """The log odds above which, in every family, no more than its share of runs accuses an innocent by a window."""
    limits = [float(np.quantile(odds[~windows.right], 0.5))]
    for family, rate in WINDOW_RATES.items():
        members = [number for number, name in enumerate(windows.families) if name == family]
        worst = [
            float(odds[mine].max()) for number in members if (mine := (windows.run == number) & windows.innocent).any()
        ]
        allowed = int(rate * len(members))
        if len(worst) > allowed:
            limits.append(sorted(worst, reverse=True)[allowed])
    return max(limits)
