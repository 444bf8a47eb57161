"""How much sooner is a whole run assessed than with GTG-Shapley, at equal or better accuracy?

Adult, the paper's MLP, 64 clients of whom 32 take part in each of 50 epochs, loss and accuracy together. Our side
assesses the whole run, assembling included: with the default settings, whose precision is far beyond GTG-Shapley's, and
with 2n evaluations per epoch, which is nearer to its errors. GTG-Shapley runs with its paper's
defaults on three epochs (early, middle, late), whose mean CPU stands for the others: a whole run of it takes an hour.
Its thresholds are taken as published and, a second time, as shares of the epoch's own range.
On the same three epochs both are compared with direct evaluation of a large balanced sample of coalitions.
GTG-Shapley skips an epoch, or a utility, whose increment is small, and answers 0 there: those are cheap and wrong, so
they are counted and priced as they come, and the errors show it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.measurement import Measurement
from benchmarks.simulated_epochs import BenchmarkEpoch, cpu, epochs_of
from flcontrib_core.blas import one_blas_thread
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.laboratory.simulation.settings import paper_settings
from flcontrib_core.laboratory.simulation.simulated_run import simulate_in_memory
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.shapley import Auto
from flcontrib_core.shapley.coalitions import everybody
from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.shapley.gtg import GTG
from flcontrib_core.shapley.registry import epoch_estimator
from flcontrib_core.shapley.sampled_shapley import sampled_shapley
from flcontrib_core.shapley.simplex_features import AdaptiveFeatures
from flcontrib_core.shapley.simplex_kernel import metric_factor
from flcontrib_core.shapley.thresholds import THRESHOLD_UNITS, ThresholdUnits
from flcontrib_core.vocabulary import FloatArray, PlayerByUtility
from flcontrib_core.words.remarks import remark_phrase

GOAL = 10.0


def run(scale: str) -> list[Measurement]:
    """50 epochs and references of 100 000 evaluations at ``full``; at ``small`` 4 epochs and one reference of 4 000."""
    if not Path(os.environ.get("FLCONTRIB_DATA", "missing")).is_dir():
        return [Measurement("whole run: data sets found", 0.0, note="left out: FLCONTRIB_DATA names no folder")]
    full = scale == "full"
    epochs, checked, samples = (50, (2, 25, 50), 100_000) if full else (4, (2,), 4_000)
    settings = paper_settings("adult", clients=64, epochs=epochs, seed=0, train_rows=8000, validation_rows=128)
    log = simulate_in_memory(settings)
    measured: list[Measurement] = []
    with one_blas_thread():
        epoch_estimator("surrogate"), epoch_estimator("gtg")  # imports are nobody's cost
        games = list(epochs_of(log, "adult", checked))
        references = [_reference(game, samples) for game in games]
        peers = [_peer(units, games, references, epochs) for units in THRESHOLD_UNITS]
        measured += [line for peer in peers for line in peer.told]
        for evaluations, words in ((None, "as it is"), (2 * games[0].game.players, "with 2n evaluations")):
            wanted = replace(AssessSettings(), observe=False, estimator=Auto(evaluations=evaluations))
            history, ours = cpu(assess_contributions, log, wanted)
            error = _errors([_values(history, log, game.number) for game in games], references)
            spent = f"{ours:.1f} s for {int(history.evaluations.sum())} evaluations"
            told = f"{spent}; GTG-Shapley's from {len(checked)} epochs"
            goal = GOAL if full and evaluations else None
            for peer in peers:
                label = f"64 clients, {epochs} epochs: CPU of GTG-Shapley ({peer.units}) / auto {words}"
                measured.append(Measurement(label, peer.seconds / ours, goal, unit="×", note=told))
                measured += _compared(history.utilities, words, error, peer, len(checked))
    return measured


@dataclass(frozen=True)
class Peer:
    """GTG-Shapley under one rule for its thresholds."""

    units: ThresholdUnits
    seconds: float
    """Of a whole run"""
    error: FloatArray
    told: list[Measurement]


def _peer(
    units: ThresholdUnits, games: Sequence[BenchmarkEpoch], references: Sequence[PlayerByUtility], epochs: int
) -> Peer:
    found, seconds = zip(*(cpu(_gtg, game, units) for game in games), strict=True)
    told = []
    for game, estimate, spent in zip(games, found, seconds, strict=True):
        words = f"{estimate.evaluations} evaluations; {'; '.join(remark_phrase(r) for r in estimate.remarks)}"
        told.append(Measurement(f"GTG-Shapley ({units}), {game.name}: CPU", spent, unit="s", note=words))
    error = _errors([estimate.values for estimate in found], references)
    return Peer(units, float(np.mean(seconds)) * epochs, error, told)


def _compared(
    utilities: Sequence[str], words: str, error: FloatArray, peer: Peer, checked: int
) -> Iterator[Measurement]:
    for column, utility in enumerate(utilities):
        mine, other = float(error[column]), float(peer.error[column])
        ratio = mine / other if other else float(mine > 0)
        label = f"{utility}: mean squared error of auto {words} / of GTG-Shapley ({peer.units})"
        told = f"{mine:.1e} and {other:.1e} of the variance, median of {checked} epochs"
        yield Measurement(label, ratio, 1.0, False, note=told)


def _errors(values: Sequence[PlayerByUtility], references: Sequence[PlayerByUtility]) -> FloatArray:
    """(utilities,) median over epochs of the mean squared error over the variance; values that do not vary count 0."""
    found = []
    for estimated, truth in zip(values, references, strict=True):
        spread = truth.var(axis=0)
        found.append(((estimated - truth) ** 2).mean(axis=0) / np.where(spread > 0, spread, np.inf))
    return np.asarray(np.median(found, axis=0))


def _values(history: ContributionHistory, log: RunLog, epoch: int) -> PlayerByUtility:
    members = list(log.epochs[epoch - 1].participants)
    return np.stack([history.of(utility).values[epoch, members] for utility in history.utilities], axis=1)


def _gtg(epoch: BenchmarkEpoch, units: ThresholdUnits) -> ShapleyEstimate:
    return GTG(units=units).estimate(epoch.oracle(), np.random.default_rng(0))


def _reference(epoch: BenchmarkEpoch, samples: int) -> PlayerByUtility:
    """Values from direct evaluations."""
    game = epoch.game
    features = AdaptiveFeatures(game.weights(everybody(game.players))[0], metric_factor(game.gram())[:, ::-1])
    rng = np.random.default_rng(1)
    return sampled_shapley(game.evaluate, game.weights, features, game.players, samples, rng)[0]
