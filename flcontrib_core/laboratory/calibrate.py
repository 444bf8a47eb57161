"""How the shipped thresholds are made, and what they give on runs they have never seen.

A tuning set is simulated; one threshold per expert, persistence and the sequential preset are fitted to its honest
runs and the probability to all of them. A test set from another seed base is then read with them: its honest runs and
its report stand in the file beside the thresholds, with seeds, settings, versions and counts. No threshold sees a test
run. ``flcontrib calibrate`` does it all.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from math import isfinite
from typing import Any

import numpy as np

from flcontrib_core.detection.alerts import QUIET, raise_alerts, read_verdicts
from flcontrib_core.detection.calibration import (
    Calibration,
    HonestRun,
    Odds,
    Threshold,
    fit_exceeded,
    fit_probability,
    fit_tail,
)
from flcontrib_core.detection.channels import standardise
from flcontrib_core.detection.experts import EXPERTS, NOISE, REPETITION, VALUE_ONLY, score_experts
from flcontrib_core.detection.free_riding import LEAST_IDLE, find_idle, idle_maxima
from flcontrib_core.detection.likeness import ALIKE, LEAST_ALIKE, AlikeRole, alike_maximum, find_alike
from flcontrib_core.detection.online import FIRST_LOOK, ONLINE_PRESET, OnlineReader, history_until
from flcontrib_core.detection.persistence import persistence
from flcontrib_core.detection.reading import reading_of
from flcontrib_core.detection.windows import WindowModel
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.laboratory import scoring
from flcontrib_core.laboratory.calibration_set import (
    ATTACK_GROUPS,
    CALIBRATED,
    DRIFT_GROUP,
    HONEST_GROUPS,
    LabelledSettings,
    draw_runs,
)
from flcontrib_core.laboratory.labelled_history import LabelledHistory, assess_labelled
from flcontrib_core.vocabulary import FloatArray, OnProgress, no_progress

EXPERT_RATE = 0.0032
"""Share of honest runs that one expert alone may call; seven together stay below 2 %."""
RATES = {NOISE.name: 0.0012, REPETITION.name: 0.0008, VALUE_ONLY.name: 0.015}
"""Other shares: the tails of noise and repetition are heavier than exponential and most of what they are for is far
beyond them; a table has one expert only."""
PERSISTENT_RATE = 0.03
IDLE_RATE = 0.002
"""Share of innocent runs with a client that contributes nothing (each of three kinds), or acts together."""
ONLINE_RATE = 0.02
STRICT = 2.0
LOW_QUALITY = "honest, low quality"
REFERENCE_CROWD = 8.0

Assess = Callable[[LabelledSettings, bool], LabelledHistory]
"""Simulates and assesses one run; the second argument asks for what a replay needs."""


@dataclass(frozen=True)
class CalibrationPlan:
    """How many runs of each kind, from which seeds."""

    tuning_base: int = 11000
    test_base: int = 42000
    tuning_honest: int = 100
    """per honest group"""
    test_honest: int = 44
    drift: int = 40
    tuning_attacks: int = 24
    """per attack group"""
    test_attacks: int = 16
    replayed: int = 30
    """of each honest group, read again after each epoch for the sequential threshold"""
    datasets: tuple[str, ...] = CALIBRATED

    def tuning_runs(self) -> tuple[tuple[LabelledSettings, bool], ...]:
        """Which runs the thresholds are fitted to, and which of them are replayed as they grew."""
        return self._runs(self.tuning_base, self.tuning_honest, self.tuning_attacks)

    def test_runs(self) -> tuple[tuple[LabelledSettings, bool], ...]:
        """The same of the set on which they are counted."""
        return self._runs(self.test_base, self.test_honest, self.test_attacks)

    def _runs(self, base: int, honest: int, attacks: int) -> tuple[tuple[LabelledSettings, bool], ...]:
        drawn: list[tuple[LabelledSettings, bool]] = []
        for group in HONEST_GROUPS:
            drawn += [(run, k < self.replayed) for k, run in enumerate(draw_runs(group, honest, base, self.datasets))]
        drawn += [(run, False) for run in draw_runs(DRIFT_GROUP, self.drift, base, self.datasets)]
        for group in ATTACK_GROUPS:
            drawn += [(run, False) for run in draw_runs(group, attacks, base, self.datasets)]
        return tuple(drawn)


def calibrate(
    plan: CalibrationPlan, on_progress: OnProgress = no_progress, assess: Assess = assess_labelled
) -> Calibration:
    """Simulate, fit, and measure on the disjoint test set; the whole provenance stands in the result."""
    tuning_runs, test_runs = plan.tuning_runs(), plan.test_runs()
    total = len(tuning_runs) + len(test_runs)
    assessed: list[LabelledHistory] = []
    for done, (labelled, replay) in enumerate((*tuning_runs, *test_runs)):
        on_progress(done, total, f"{labelled.group} ({labelled.settings.dataset})")
        assessed.append(assess(labelled, replay))
    tuning, test = assessed[: len(tuning_runs)], assessed[len(tuning_runs) :]
    on_progress(total, total, "fitting")
    fitted = fit_calibration(tuning)
    runs = tuple(honest_run(run, fitted) for run in test if run.honest)
    return replace(
        fitted, honest_runs=runs, provenance=provenance(plan, tuning, test) | {"test report": report(test, fitted)}
    )


def fit_calibration(tuning: Sequence[LabelledHistory], model: WindowModel | None = None) -> Calibration:
    """Thresholds from the tuning set's honest runs, the probability from all of its runs."""
    model = model or WindowModel()
    honest = [run for run in tuning if run.honest]
    experts = (*EXPERTS, VALUE_ONLY)
    scored = [score_experts(standardise(run.history), experts, model) for run in honest]
    thresholds: dict[str, Threshold] = {}
    for e, expert in enumerate(experts):
        maxima = np.array([float(r[e].score.max(initial=-np.inf)) for r in scored])
        client_count = np.array([max(1.0, float(r[e].scored.sum())) for r in scored])
        thresholds[expert.name] = fit_tail(maxima, client_count, RATES.get(expert.name, EXPERT_RATE))
    good = [run for run in honest if run.group != LOW_QUALITY]
    for name, bare in (("persistent", False), ("persistent value-only", True)):
        thresholds[name] = fit_tail(*persistent_maxima([run.history for run in good], bare), PERSISTENT_RATE)
    idle = [idle_maxima(run.history) for run in honest]
    for kind, least in LEAST_IDLE.items():
        maxima = np.array([of_kind[kind] for of_kind in idle])
        thresholds[kind.value] = fit_exceeded(maxima, IDLE_RATE, least)
    thresholds[ALIKE] = fit_exceeded(np.array([alike_maximum(run.history) for run in honest]), IDLE_RATE, LEAST_ALIKE)
    even = Odds((0.0,), (0.5,))
    first = Calibration(
        thresholds, even, even, even, even, even, even, {"default": 0.0, "strict": STRICT, ONLINE_PRESET: STRICT}
    )
    windows, persistent = _client_odds(tuning, first, model)
    idle_odds, alike_odds = _idle_odds(tuning, first)
    fitted = replace(first, window_odds=windows, persistent_odds=persistent, idle_odds=idle_odds, alike_odds=alike_odds)
    looks = np.array([strongest_look(run, fitted, model) for run in honest if run.own_cosines])
    if not len(looks):
        return fitted
    online = fit_tail(looks, np.full(len(looks), REFERENCE_CROWD), ONLINE_RATE)
    return replace(fitted, presets={**fitted.presets, ONLINE_PRESET: round(max(online.level, 0.0), 2)})


def persistent_maxima(histories: Iterable[ContributionHistory], bare: bool) -> tuple[FloatArray, FloatArray]:
    """Each run's largest persistence score and its number of clients; ``bare``: read as a table."""
    maxima, client_count = [], []
    for history in histories:
        channels = standardise(replace(history, channels=None) if bare else history)
        standing = persistence(channels, history.channels, np.zeros(channels.participated.shape, dtype=bool))
        maxima.append(float(standing.unchecked_score().max(initial=-np.inf)))
        client_count.append(len(channels.client_ids))
    return np.array(maxima), np.array(client_count, dtype=np.float64)


def _client_odds(runs: Iterable[LabelledHistory], calibration: Calibration, model: WindowModel) -> tuple[Odds, Odds]:
    """Odds of dishonesty by the strongest window, and by persistence where a client is harmful throughout."""
    windows: list[tuple[float, bool]] = []
    persistent: list[tuple[float, bool]] = []
    for run in runs:
        reading = reading_of(run.history, calibration, 0.0, model)
        left_out = {finding.client for finding in reading.exact} | reading.reflections()
        for i, name in enumerate(run.history.client_ids):
            window = reading.search.strongest[i]
            if i in left_out:
                continue
            if i in reading.persistent():
                persistent.append((float(reading.persistent_u[i]), name in run.truth))
            elif window is not None:
                windows.append((window.u, name in run.truth))
    by_window, by_persistence = np.array(windows), np.array(persistent).reshape(-1, 2)
    return fit_probability(*by_window.T), fit_probability(*by_persistence.T)


def _idle_odds(runs: Iterable[LabelledHistory], calibration: Calibration) -> tuple[Odds, Odds]:
    """Odds of dishonesty of clients that contribute nothing, and of those whose updates are those of others."""
    idle: list[tuple[float, bool]] = []
    alike: list[tuple[float, bool]] = []
    for run in runs:
        names = run.history.client_ids
        idle += [(f.u, names[f.client] in run.truth) for f in find_idle(run.history, calibration, 0.0)]
        groups = find_alike(run.history, standardise(run.history), calibration, 0.0)
        alike += [(f.u, names[f.client] in run.truth) for f in groups if f.role is not AlikeRole.ITSELF]
    even = Odds((0.0,), (0.5,))
    return tuple(fit_probability(*np.array(seen).T) if seen else even for seen in (idle, alike))  # type: ignore[return-value]


def strongest_look(run: LabelledHistory, calibration: Calibration, model: WindowModel) -> float:
    """The largest u of any client's window over all looks at the growing run."""
    strongest = QUIET
    for epoch in range(FIRST_LOOK, run.history.epoch_count + 1):
        so_far = history_until(run.history, epoch, run.own_cosines[epoch])
        windows = reading_of(so_far, calibration, np.inf, model).search.strongest
        strongest = max([strongest, *(w.u for w in windows if w is not None)])
    return strongest


def first_alerts(run: LabelledHistory, calibration: Calibration | None = None) -> dict[str, int]:
    """client -> the epoch after which the run, read as it grew, first accused it."""
    reader = OnlineReader(calibration)
    first: dict[str, int] = {}
    for epoch in range(1, run.history.epoch_count + 1):
        for alert in reader.look(history_until(run.history, epoch, run.own_cosines[epoch])):
            if alert.accuses:
                first.setdefault(alert.client, epoch)
    return first


def honest_run(run: LabelledHistory, calibration: Calibration) -> HonestRun:
    """The largest u for which this honest run accuses somebody: with all channels, and read as a table."""

    def largest(history: ContributionHistory) -> float:
        reading = reading_of(history, calibration, 0.0, WindowModel())
        accusing = [a.score for a in raise_alerts(reading, False) if a.verdict in scoring.ACCUSING]
        below = [w.u for w in reading.search.strongest if w is not None and w.u <= 0]
        return max(accusing, default=max(below, default=QUIET))

    return HonestRun(
        run.group,
        len(run.history.client_ids),
        run.participation,
        run.history.epoch_count,
        largest(run.history),
        largest(replace(run.history, channels=None)),
        bool(first_alerts(run, calibration)) if run.own_cosines else None,
    )


def report(test: Sequence[LabelledHistory], calibration: Calibration) -> dict[str, Any]:
    """What the calibration gives on a set it has not seen: recall per group, false alarms, calibration error."""
    scores: dict[str, list[scoring.RunScore]] = {}
    for run in test:
        detection = read_verdicts(run.history, calibration=calibration, check_sensitivity=False)
        scores.setdefault(run.group, []).append(scoring.score_run(detection, run.truth))
    honest = [s for group in HONEST_GROUPS for s in scores.get(group, [])]
    everything = [s for group in scores.values() for s in group]
    probabilities = np.array([p for s in everything for p in s.probabilities])
    labels = np.array([float(y) for s in everything for y in s.labels])
    return {
        "honest runs": len(honest),
        "honest runs that alert": sum(s.alerts for s in honest),
        "drift runs called poisoning": _share(scoring.alerting_share(scores.get(DRIFT_GROUP, []))),
        "calibration error": _share(scoring.calibration_error(probabilities, labels)),
        "recall": {g: _share(scoring.recall(scores[g])) for g in ATTACK_GROUPS if g in scores},
        "mean IoU": _share(scoring.mean_iou(everything)),
    }


def _share(value: float) -> float | None:
    return round(value, 3) if isfinite(value) else None


def provenance(
    plan: CalibrationPlan, tuning: Sequence[LabelledHistory], test: Sequence[LabelledHistory]
) -> dict[str, Any]:
    from flcontrib_core import __version__

    return {
        "made by": "flcontrib calibrate",
        "version": __version__,
        "numpy": metadata.version("numpy"),
        "torch": metadata.version("torch"),
        "python": platform.python_version(),
        "datasets": list(plan.datasets),
        "seed bases": {"tuning": plan.tuning_base, "test": plan.test_base},
        "runs": {"tuning": len(tuning), "test": len(test)},
        "honest runs": {"tuning": sum(r.honest for r in tuning), "test": sum(r.honest for r in test)},
        "replayed runs": {
            "tuning": sum(bool(r.own_cosines) for r in tuning),
            "test": sum(bool(r.own_cosines) for r in test),
        },
        "rates": {
            "each expert": EXPERT_RATE,
            **RATES,
            "persistent": PERSISTENT_RATE,
            "online": ONLINE_RATE,
        },
        "window model": vars(WindowModel()),
    }
