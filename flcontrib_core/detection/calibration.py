"""Thresholds, false-alarm rates and probabilities as measured on labelled runs, shipped with the package.

Thresholds are not chosen, they are measured: on honest simulated runs the largest score of each run has an
exponential tail, S > s with probability ∝ exp(−s/β). The fitted tail gives the score that a wanted share of honest
runs exceeds; ln(m/8)·β corrects for the number of clients among which the largest was taken. The shipped numbers
stand in ``calibration.json`` with their provenance; ``flcontrib calibrate`` makes them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import resources
from math import exp, lgamma, log, log1p
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core.detection.objections import FalseAlarmRate
from flcontrib_core.detection.scorecard import Ladder, Scorecard
from flcontrib_core.errors import SettingsError
from flcontrib_core.vocabulary import FloatArray

REFERENCE_CLIENTS = 8
TAIL_SHARE = 0.2
"""The tail is fitted to this share of the largest run maxima."""
LARGEST_PROBABILITY = 0.99
LEAST_NEIGHBOURS = 25
"""Clients of similar score from which a probability is read"""
LEAST_COMPARABLE = 100
"""Honest runs of a similar regime from which a false-alarm rate is read; with fewer, all regimes together."""


@dataclass(frozen=True)
class Threshold:
    """Score that alerts among eight clients, and the scale of its tail."""

    level: float
    scale: float

    def excess(self, score: FloatArray, clients: int) -> FloatArray:
        """u = (S − level − scale·ln(m/8)) / scale; 0 is the default preset's threshold."""
        return np.asarray((score - self.level) / self.scale - log(max(clients, 1) / REFERENCE_CLIENTS))


@dataclass(frozen=True)
class Odds:
    """How probable is dishonesty at a score? A rising ladder of measured shares, joined by straight lines.

    Departure: the measured design's logistic curve follows the thousands of quiet clients and is wrong by a factor
    of three for the few near the threshold, which are the ones a reader asks about.
    """

    scores: tuple[float, ...]
    """u of each rung, rising"""
    shares: tuple[float, ...]
    """share of dishonest clients there, not falling"""

    def probability(self, u: float) -> float:
        """Never said above 0.99; beyond the ladder its end holds."""
        return min(LARGEST_PROBABILITY, float(np.interp(u, self.scores, self.shares)))


@dataclass(frozen=True)
class HonestRun:
    """One honest run of the calibration's test set and the largest u it reached: the false alarms' evidence."""

    group: str
    clients: int
    participation: float
    epochs: int
    largest: float
    """u of the strongest window of kind 1 or 2 (all channels)"""
    largest_value_only: float
    """the same, read as a table"""
    alerts_online: bool | None = None
    """Did any look at the growing run alert at the online preset? None = the run was not replayed."""


@dataclass(frozen=True)
class RunRegime:
    """What makes a run comparable with the honest runs of the calibration."""

    clients: int
    participation: float
    """mean share of the clients that take part, over epochs with participants"""
    values_alone: bool
    """Is it read as a table, without the channels of the updates?"""

    def resembles(self, run: HonestRun) -> bool:
        return 0.5 <= self.clients / run.clients <= 2.0 and abs(self.participation - run.participation) <= 0.25


@dataclass(frozen=True)
class Calibration:
    """Everything measured that a reading needs."""

    thresholds: Mapping[str, Threshold]
    """expert (or 'persistent', 'persistent value-only') -> threshold"""
    window_odds: Odds
    """of clients with a harmful window"""
    persistent_odds: Odds
    """of clients that are harmful throughout: most of those in the tuning runs are honest and of low quality"""
    idle_odds: Odds
    """of clients that contribute nothing"""
    alike_odds: Odds
    """of clients whose updates are those of others"""
    question_odds: Odds
    """of clients that changed without measured harm"""
    quiet_odds: Odds
    """of clients of whom nothing was found, by their strongest window"""
    presets: Mapping[str, float]
    """preset -> the u that alerts"""
    honest_runs: tuple[HonestRun, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    scorecard: Scorecard | None = None
    """how much a window's measurements weigh together; None = harm alone decides, as for a table of contributions"""
    updates_alone: Calibration | None = None
    """the same, measured on logs that hold updates and nothing that says what they did to the model"""

    def of_updates_alone(self) -> Calibration:
        """What a log of updates alone is read with: its own calibration, else this one without the rates of others."""
        return self.updates_alone or replace(self, honest_runs=())

    def preset(self, name: str) -> float:
        if name not in self.presets:
            raise SettingsError(f"preset {name!r} is unknown; choose one of {', '.join(self.presets)}")
        return float(self.presets[name])

    def false_alarms(self, threshold: float, regime: RunRegime, online: bool = False) -> FalseAlarmRate:
        """How many honest runs alert: of comparable ones where at least 100 are known, else of all.

        ``online`` counts runs with an alert at *any* look while they grew, at the online preset.
        """
        measured = [r for r in self.honest_runs if not online or r.alerts_online is not None]
        similar = [r for r in measured if regime.resembles(r)]
        comparable = len(similar) >= LEAST_COMPARABLE
        runs = similar if comparable else measured
        if online:
            alerting = sum(bool(r.alerts_online) for r in runs)
        else:
            alerting = sum((r.largest_value_only if regime.values_alone else r.largest) > threshold for r in runs)
        return FalseAlarmRate(
            alerting=alerting,
            runs=len(runs),
            upper=upper_bound(alerting, len(runs)) if runs else None,
            clients=(max(2, regime.clients // 2), 2 * regime.clients) if comparable else None,
            every_epoch=online,
        )


@lru_cache(maxsize=256)
def upper_bound(successes: int, trials: int, confidence: float = 0.95) -> float:
    """Upper end of the Clopper–Pearson interval of a share: the p at which so few successes are just too rare.

    >>> round(upper_bound(0, 144), 4)
    0.0253
    """
    if successes >= trials:
        return 1.0
    rare = (1.0 - confidence) / 2
    ways = [lgamma(trials + 1) - lgamma(k + 1) - lgamma(trials - k + 1) for k in range(successes + 1)]
    low, high = successes / trials, 1.0
    for _ in range(60):  # the tail falls with p: halve until the digits end
        p = 0.5 * (low + high)
        tail = sum(exp(w + k * log(p) + (trials - k) * log1p(-p)) for k, w in enumerate(ways))
        low, high = (p, high) if tail > rare else (low, p)
    return high


def fit_tail(maxima: FloatArray, clients: FloatArray, rate: float) -> Threshold:
    """The threshold that a share ``rate`` of honest runs exceeds, from the exponential tail of their maxima.

    ``maxima`` (runs,) is each run's largest score, ``clients`` (runs,) among how many it was the largest; −inf where
    an expert could say nothing.
    """
    if not 0 < rate < TAIL_SHARE:
        raise SettingsError(f"rate {rate}: a false-alarm rate between 0 and {TAIL_SHARE} is needed")
    if np.isfinite(maxima).sum() < 20:
        raise SettingsError(f"{np.isfinite(maxima).sum()} honest runs with a score: at least 20 are needed for a tail")
    scale = 1.0
    cut = 0.0
    for _ in range(20):  # the correction for the number of clients needs the scale it helps to find
        reference = maxima - scale * np.log(np.maximum(clients, 1) / REFERENCE_CLIENTS)
        cut = float(np.quantile(reference[np.isfinite(reference)], 1 - TAIL_SHARE))
        scale = float((reference[reference > cut] - cut).mean())
    share = float((maxima - scale * np.log(np.maximum(clients, 1) / REFERENCE_CLIENTS) > cut).mean())
    return Threshold(cut + scale * log(share / rate), scale)


def fit_exceeded(maxima: FloatArray, rate: float, least: Threshold) -> Threshold:
    """``least``, or the level that no more than a share ``rate`` of innocent runs exceeds, where that is higher.

    For totals that most innocent runs do not have at all: there is no tail to fit, only runs to count.

    >>> fit_exceeded(np.array([0.0, 0.0, 9.0, 5.0]), 0.25, Threshold(3.0, 1.0)).level
    5.0
    """
    allowed = int(rate * len(maxima))
    reached = float(np.sort(maxima)[::-1][allowed]) if len(maxima) > allowed else 0.0
    return Threshold(max(least.level, reached), least.scale)


def fit_probability(u: FloatArray, dishonest: FloatArray) -> Odds:
    """The share of dishonest clients among neighbours in u, made to rise (pool adjacent violators).

    Each rung stands for at least 25 clients (fewer only where there are fewer in all); half a client of each sort is
    added, so that no share is exactly 0 or 1.
    """
    if not len(u):
        raise SettingsError("no client to measure a probability on; calibrate on more runs")
    order = np.argsort(u, kind="stable")
    rungs: list[tuple[float, float, int]] = []  # sum of u, dishonest, clients
    for members in np.array_split(order, max(1, len(u) // LEAST_NEIGHBOURS)):
        rungs.append((float(u[members].sum()), float(dishonest[members].sum()), len(members)))
        while len(rungs) > 1 and _share(rungs[-2]) >= _share(rungs[-1]):
            last, before = rungs.pop(), rungs.pop()
            rungs.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
    return Odds(tuple(round(r[0] / r[2], 3) for r in rungs), tuple(round(_share(r), 4) for r in rungs))


def _share(rung: tuple[float, float, int]) -> float:
    return (rung[1] + 0.5) / (rung[2] + 1.0)


def to_json(calibration: Calibration) -> str:
    """The calibration as ``from_json`` reads it."""
    text = json.dumps(_body(calibration), indent=1, ensure_ascii=False)
    # a run, or a ladder's numbers, on one line
    text = re.sub(
        r"\[[^\[\]{}]*\]", lambda row: re.sub(r"\n\s*", " ", row[0]).replace("[ ", "[").replace(" ]", "]"), text
    )
    return text.replace("-Infinity", "-99.0") + "\n"


def _body(calibration: Calibration) -> dict[str, Any]:
    own = calibration.updates_alone
    return {
        "thresholds": {
            k: {"level": round(t.level, 4), "scale": round(t.scale, 4)} for k, t in calibration.thresholds.items()
        },
        "odds": {
            name: {"scores": list(o.scores), "shares": list(o.shares)}
            for name, o in (
                ("window", calibration.window_odds),
                ("persistent", calibration.persistent_odds),
                ("idle", calibration.idle_odds),
                ("alike", calibration.alike_odds),
                ("question", calibration.question_odds),
                ("quiet", calibration.quiet_odds),
            )
        },
        "presets": dict(calibration.presets),
        "scorecard": None if calibration.scorecard is None else _card_body(calibration.scorecard),
        "provenance": dict(calibration.provenance),
        "honest_runs": [
            [
                r.group,
                r.clients,
                round(r.participation, 2),
                r.epochs,
                round(r.largest, 2),
                round(r.largest_value_only, 2),
                r.alerts_online,
            ]
            for r in calibration.honest_runs
        ],
        "updates_alone": None if own is None else _body(own),
    }


def _card_body(card: Scorecard) -> dict[str, Any]:
    ladders = {
        name: {"edges": list(ladder.edges), "points": list(ladder.points), "missing": ladder.missing}
        for name, ladder in card.ladders.items()
    }
    return {"base": card.base, "limit": card.limit, "scale": card.scale, "ladders": ladders}


def from_json(text: str) -> Calibration:
    """A calibration as ``to_json`` writes it."""
    return _calibration(json.loads(text))


def _calibration(body: Mapping[str, Any]) -> Calibration:
    own = body.get("updates_alone")
    return Calibration(
        {k: Threshold(t["level"], t["scale"]) for k, t in body["thresholds"].items()},
        _odds(body["odds"]["window"]),
        _odds(body["odds"]["persistent"]),
        _odds(body["odds"]["idle"]),
        _odds(body["odds"]["alike"]),
        _odds(body["odds"]["question"]),
        _odds(body["odds"]["quiet"]),
        body["presets"],
        tuple(HonestRun(*row) for row in body["honest_runs"]),
        body["provenance"],
        None if (card := body.get("scorecard")) is None else _card(card),
        None if own is None else _calibration(own),
    )


def _card(body: Mapping[str, Any]) -> Scorecard:
    ladders = {
        name: Ladder(tuple(ladder["edges"]), tuple(ladder["points"]), ladder["missing"])
        for name, ladder in body["ladders"].items()
    }
    return Scorecard(body["base"], body["limit"], body["scale"], ladders)


def _odds(body: Mapping[str, Any]) -> Odds:
    return Odds(tuple(body["scores"]), tuple(body["shares"]))


def read_calibration(path: Path) -> Calibration:
    """A calibration written by ``flcontrib calibrate``."""
    return from_json(path.read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def shipped_calibration() -> Calibration:
    """The calibration that travels with the package."""
    return from_json(resources.files(__package__).joinpath("calibration.json").read_text(encoding="utf-8"))
