"""The second half of a calibration: how often innocents are accused, and how probable each verdict is, on the corpus.

The first half fits each expert's tail on plain honest runs. Here thresholds are raised until few *innocents* stand
accused, in plain, honestly changing and attacked runs alike, and the shares of dishonest clients are counted verdict by
verdict, also where nothing was found. The rates shown beside an alert are counted on the corpus's other part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from flcontrib_core.detection.alerts import QUIET, client_verdicts, raise_alerts
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
from flcontrib_core.detection.experts import EXPERTS, NOISE, UPDATE_EXPERTS, VALUE_ONLY, score_experts
from flcontrib_core.detection.findings import VerdictKind
from flcontrib_core.detection.free_riding import LEAST_IDLE
from flcontrib_core.detection.likeness import ALIKE, LEAST_ALIKE
from flcontrib_core.detection.online import FIRST_LOOK, ONLINE_PRESET, OnlineReader, history_until
from flcontrib_core.detection.presets import regime_of
from flcontrib_core.detection.reading import Reading, reading_of
from flcontrib_core.detection.windows import WindowModel
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.remarks import EpochRemark, NoValues, WithoutValues
from flcontrib_core.laboratory.calibrate import (
    EXPERT_RATE,
    ONLINE_RATE,
    PERSISTENT_RATE,
    RATES,
    REFERENCE_CROWD,
    persistent_maxima,
)
from flcontrib_core.laboratory.corpus import AssessedRun, Part, assess_corpus, corpus, kept_runs, read_assessed
from flcontrib_core.laboratory.scorecard_fit import WINDOW_RATES, fit_scorecard, harmful_windows
from flcontrib_core.vocabulary import CellState, IntArray, OnProgress, no_progress

ACCUSED_RATE = 0.004
"""Share of runs in which likeness, one kind of idleness or, without a scorecard, one expert alone may accuse an
innocent."""
ACCUSED_RATES = {NOISE.name: 0.002}
"""Other shares: what the noise expert is for lies far beyond its honest tail."""
MOST_ROUNDS = 8
REPLAYED, FEWEST_REPLAYED = 60, 40
"""Plain runs that are read again after each epoch for the online preset, and innocent ones to count its rate on."""
PERSISTENT, PERSISTENT_BARE = "persistent", "persistent value-only"
PLAIN = f"{Part.TUNING}/plain/"
LOW_QUALITY = "plain/low-quality/"
"""Harm over the whole run that is really there: the tail of persistence is fitted to runs without it."""
NUMBERS = {
    Part.TUNING: {"plain/*": 30, "changing/rare-class/*": 12, "changing/*": 3, "attacked/*": 8, "mixed/*": 30},
    Part.REPORT: {"plain/*": 12, "changing/*": 1},
}
"""Runs per group of the corpus: those that are fitted to, and the innocent ones on which rates are counted."""
WINDOW, QUESTION, NOTHING = "window", "question", "quiet"


def refine_on_corpus(
    first: Calibration,
    share: float = 1.0,
    folder: Path | None = None,
    on_progress: OnProgress = no_progress,
    only_kept: bool = False,
    also: Path | None = None,
) -> Calibration:
    """``refine`` on assessed runs of the corpus: ``share`` of the usual numbers, kept in ``folder``.

    ``only_kept``: of these only the ones that the folder holds already; nothing is simulated. ``also``: a folder of
    further labelled runs to fit to, of anybody's making.
    """
    with TemporaryDirectory() as temporary:
        place = Path(temporary) if folder is None else folder
        parts = [list(corpus(part, _counts(numbers, share))) for part, numbers in NUMBERS.items()]
        if only_kept:
            parts = [kept_runs(runs, place) for runs in parts]
        total = sum(len(runs) for runs in parts)
        assessed: list[list[AssessedRun]] = [[], []]
        for number, runs in enumerate(parts):
            for run in assess_corpus(runs, place):
                on_progress(sum(map(len, assessed)), total, run.run_id)
                assessed[number].append(run)
        if also is not None:
            assessed[0] += read_assessed(also)
        refined = refine(first, *assessed)
        return replace(refined, updates_alone=refine_updates_alone(refined, *assessed))


def refine_updates_alone(
    first: Calibration, tuning: Iterable[AssessedRun], others: Iterable[AssessedRun]
) -> Calibration:
    """``refine`` for logs without model or validation set: the same runs, read by their updates.

    The tails of the experts that are heard there are fitted anew: their other channels are missing.
    """
    heard = {expert.name for expert in UPDATE_EXPERTS}
    others_thresholds = {name: limit for name, limit in first.thresholds.items() if name not in heard}
    bare = [[replace(run, history=of_updates(run.history)) for run in runs] for runs in (tuning, others)]
    alone = replace(first, thresholds=others_thresholds, honest_runs=(), provenance={}, scorecard=None)
    return replace(refine(alone, *bare), updates_alone=None)  # one level: nobody reads the fit it began from


def of_updates(history: ContributionHistory) -> ContributionHistory:
    """The history as a log without model or validation set gives it: no value, no margin, the updates' own channels."""
    raw = history.channels
    assert raw is not None
    unknown = np.full(history.participated.shape, np.nan)
    state = history.state.copy()
    state[state == CellState.COMPUTED] = CellState.NOT_COMPUTED
    return replace(
        history,
        values=np.where(state == CellState.NOT_COMPUTED, np.nan, 0.0),
        state=state,
        remarks=(EpochRemark((), WithoutValues(NoValues.NO_MODEL)),),
        channels=replace(
            raw,
            solo_margin=unknown,
            solo_worst_class=unknown,
            solo_loss=unknown,
            solo_class_margin=np.full((*history.participated.shape, 0), np.nan),
            validation_rows=0,
        ),
    )


def _counts(numbers: dict[str, int], share: float) -> dict[str, int]:
    return {pattern: max(1, round(share * number)) for pattern, number in numbers.items()}


def refine(first: Calibration, tuning: Iterable[AssessedRun], others: Iterable[AssessedRun]) -> Calibration:
    """The calibration with thresholds and probabilities of the corpus; rates are counted on the runs of ``others``."""
    runs = list(tuning)
    idle = {kind.value: limit for kind, limit in LEAST_IDLE.items()}
    least = {**first.thresholds, **_tails_of_new(first, runs), ALIKE: LEAST_ALIKE, **idle}
    base = replace(first, thresholds=least)
    windows = harmful_windows(base, runs)
    card = fit_scorecard(windows) if windows.suffice else first.scorecard
    weighing = replace(base, scorecard=card)
    raised = replace(weighing, thresholds=_raised(weighing, runs))
    ladders: dict[str, Any] = {f"{name}_odds": odds for name, odds in _odds(raised, runs).items()}
    fitted = _with_online_preset(replace(raised, **ladders), runs)
    innocents = [run for run in others if not run.truth.dishonest]
    replayed = {run.run_id for run in _replayed(innocents)}
    innocent = tuple(_innocent_run(run, fitted, run.run_id in replayed) for run in innocents)
    counts = {"tuning": len(runs), "innocent runs of the other part": len(innocent)}
    rates = {"each kind": ACCUSED_RATE, **ACCUSED_RATES, "windows": WINDOW_RATES}
    fit = {"runs": counts, "innocents accused": rates}
    if windows.suffice:
        fit["scorecard"] = {"harmful windows": len(windows.run), "of dishonest clients": int(windows.right.sum())}
    provenance = {**first.provenance, "corpus": fit}
    # runs that the first half counted were read with other thresholds: they say nothing of these
    return replace(fitted, honest_runs=innocent or first.honest_runs, provenance=provenance)


def _replayed(runs: Iterable[AssessedRun]) -> list[AssessedRun]:
    """REPLAYED of these runs, evenly chosen, which are read once more after each epoch; none without values."""
    known = sorted((run for run in runs if run.history.without_values is None), key=lambda run: run.run_id)
    return known[:: max(1, len(known) // REPLAYED)][:REPLAYED]


def _with_online_preset(calibration: Calibration, runs: list[AssessedRun]) -> Calibration:
    """The u that few plain runs reach at *any* look while they grew."""
    looks = [
        max(
            (w.u for look in _looks(run.history, calibration) for w in look.search.strongest if w is not None),
            default=QUIET,
        )
        for run in _replayed(run for run in runs if run.run_id.startswith(PLAIN))
    ]
    if len(looks) < FEWEST_REPLAYED:
        return calibration
    level = fit_tail(np.array(looks), np.full(len(looks), REFERENCE_CROWD), ONLINE_RATE).level
    return replace(calibration, presets={**calibration.presets, ONLINE_PRESET: round(max(level, 0.0), 2)})


def _looks(history: ContributionHistory, calibration: Calibration) -> Iterator[Reading]:
    """The run as it was read after each epoch. A kept history's own direction knows a little of the future."""
    for epoch in range(FIRST_LOOK, history.epoch_count + 1):
        yield reading_of(history_until(history, epoch), calibration, np.inf, WindowModel(), online=True)


def _unchanged(run: AssessedRun) -> IntArray:
    """Positions of the clients that neither change nor are served by a server that does."""
    changed = {change.client for change in run.changes}
    names = () if None in changed else run.history.client_ids
    return np.array([i for i, name in enumerate(names) if name not in changed], dtype=np.int64)


def _tails_of_new(first: Calibration, runs: list[AssessedRun]) -> dict[str, Threshold]:
    """Thresholds that the first half does not know, fitted to the tail of clients that did nothing new.

    Those of the corpus's plain runs, and of its changing ones where at most half of the clients change.
    """
    new = [expert for expert in (*EXPERTS, VALUE_ONLY) if expert.name not in first.thresholds]
    plain = [run for run in runs if run.run_id.startswith(PLAIN)]
    tails: dict[str, Threshold] = {}
    scored = []
    for run in runs if new else ():
        unchanged = _unchanged(run)
        if len(unchanged) >= len(run.history.client_ids) / 2 and not run.truth.dishonest:
            scored.append(score_experts(standardise(run.history), new, WindowModel(), clients=unchanged))
    for e, expert in enumerate(new):
        maxima = np.array([float(readings[e].score.max(initial=-np.inf)) for readings in scored])
        counts = np.array([max(1.0, float(readings[e].scored.sum())) for readings in scored])
        tails[expert.name] = fit_tail(maxima, counts, RATES.get(expert.name, EXPERT_RATE))
    good = [run.history for run in plain if LOW_QUALITY not in run.run_id]
    for name, bare in ((PERSISTENT, False), (PERSISTENT_BARE, True)):
        if name not in first.thresholds:
            tails[name] = fit_tail(*persistent_maxima(good, bare), PERSISTENT_RATE)
    return tails


def _dishonest(run: AssessedRun) -> frozenset[str]:
    """Clients that acted: who was not asked in its windows did nothing."""
    took_part = dict(zip(run.history.client_ids, run.history.participated.T, strict=True))
    last = run.history.epoch_count
    return frozenset(
        d.client
        for d in run.truth.dishonest
        if any(took_part[d.client][a : b + 1].any() for a, b in d.windows or ((1, last),))
    )


def _raised(calibration: Calibration, runs: list[AssessedRun]) -> dict[str, Threshold]:
    """Every threshold so high that few runs accuse an innocent by it.

    Where one expert falls silent another may speak, so the runs that accuse are read again until nothing changes;
    a threshold that rises makes no other run accuse.
    """
    current, total = calibration, len(runs)
    for _ in range(MOST_ROUNDS):
        accusing: list[AssessedRun] = []
        largest: dict[str, list[float]] = {}
        for run in runs:
            scores = _accusing_scores(reading_of(run.history, current, 0.0, WindowModel()), run)
            for name, score in scores.items():
                largest.setdefault(name, []).append(score)
            if scores:
                accusing.append(run)
        thresholds = dict(current.thresholds)
        for name, seen in largest.items():
            maxima = np.array([*seen, *[0.0] * (total - len(seen))])
            rise = fit_exceeded(maxima, ACCUSED_RATES.get(name, ACCUSED_RATE), Threshold(0.0, 1.0)).level
            limit = thresholds[name]
            thresholds[name] = Threshold(limit.level + rise * limit.scale, limit.scale)
        if thresholds == current.thresholds:
            break
        current, runs = replace(current, thresholds=thresholds), accusing
    return dict(current.thresholds)


def _accusing_scores(reading: Reading, run: AssessedRun) -> dict[str, float]:
    """threshold's name -> the largest u with which an innocent is accused"""
    guilty = _dishonest(run)
    scores: dict[str, float] = {}
    for alert in raise_alerts(reading, check_sensitivity=False):
        if alert.client in guilty or not alert.accuses or alert.probability is None:
            continue
        if alert.verdict is VerdictKind.POISONING_WINDOW and reading.calibration.scorecard is not None:
            continue  # the scorecard's own limit answers for these
        name = ALIKE if alert.expert == "likeness" else alert.expert
        scores[name] = max(scores.get(name, 0.0), alert.score)
    return scores


def _odds(calibration: Calibration, runs: list[AssessedRun]) -> dict[str, Odds]:
    """Shares of dishonest clients by the verdict that a client has, and its score."""
    seen: dict[str, list[tuple[float, bool]]] = {}
    for run in runs:
        guilty = _dishonest(run)
        reading = reading_of(run.history, calibration, 0.0, WindowModel())
        for verdict in client_verdicts(reading, raise_alerts(reading, check_sensitivity=False)):
            name = _LADDERS.get(verdict.verdict)
            if name is not None and verdict.score is not None:
                seen.setdefault(name, []).append((verdict.score, verdict.client in guilty))
    even = Odds((0.0,), (0.5,))
    ladders = {name: fit_probability(*np.array(pairs).T) for name, pairs in seen.items()}
    return {name: ladders.get(name, even) for name in (WINDOW, QUESTION, NOTHING, PERSISTENT, "idle", "alike")}


_LADDERS = {
    VerdictKind.POISONING_WINDOW: WINDOW,
    VerdictKind.BEHAVIOUR_CHANGED: QUESTION,
    VerdictKind.CLASS_MIX_CHANGED: QUESTION,
    VerdictKind.PERSISTENTLY_HARMFUL: PERSISTENT,
    VerdictKind.CONTRIBUTES_NOTHING: "idle",
    VerdictKind.ACTS_TOGETHER: "alike",
    VerdictKind.NOTHING_FOUND: NOTHING,
    VerdictKind.PERSISTENTLY_OPPOSED: NOTHING,
}


def _innocent_run(run: AssessedRun, calibration: Calibration, replay: bool) -> HonestRun:
    """The largest u for which this innocent run accuses somebody: with all channels, and read as a table."""

    def largest(history: ContributionHistory) -> float:
        reading = reading_of(history, calibration, 0.0, WindowModel())
        accusing = [a.score for a in raise_alerts(reading, check_sensitivity=False) if a.accuses]
        below = [w.u for w in reading.search.strongest if w is not None and w.u <= 0]
        return max(accusing, default=max(below, default=QUIET))

    regime = regime_of(run.history)
    return HonestRun(
        run.run_id.split("/")[1],
        regime.clients,
        regime.participation,
        run.history.epoch_count,
        largest(run.history),
        QUIET if run.history.without_values is not None else largest(replace(run.history, channels=None)),
        _accuses_while_growing(run.history, calibration) if replay else None,
    )


def _accuses_while_growing(history: ContributionHistory, calibration: Calibration) -> bool:
    reader = OnlineReader(calibration)
    grown = (history_until(history, epoch) for epoch in range(FIRST_LOOK, history.epoch_count + 1))
    return any(alert.accuses for so_far in grown for alert in reader.look(so_far))
