"""How much sooner is a whole run assessed than with GTG-Shapley, at equal or better accuracy?

Adult, the paper's MLP, 64 clients of whom 32 take part in each of 50 epochs, loss and accuracy together. Our side
assesses the whole run with the default settings, reading and assembling included. GTG-Shapley runs with its paper's
defaults on three epochs (early, middle, late), whose mean CPU stands for the others: a whole run of it takes an hour.
On the same three epochs both are compared with direct evaluation of a large balanced sample of coalitions.
GTG-Shapley skips an epoch, or a utility, whose increment is small, and answers 0 there: those are cheap and wrong, so
they are counted and priced as they come, and the errors show it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.measurement import Measurement
from benchmarks.simulated_epochs import BenchmarkEpoch, cpu, epochs_of
from flcontrib_core.assessment.settings import AssessSettings
from flcontrib_core.blas import one_blas_thread
from flcontrib_core.contribution import assess_contributions
from flcontrib_core.shapley.coalitions import everybody
from flcontrib_core.shapley.estimate import EstimatorSettings, ShapleyEstimate
from flcontrib_core.shapley.registry import epoch_estimator
from flcontrib_core.shapley.sampled_shapley import sampled_shapley
from flcontrib_core.shapley.simplex_features import AdaptiveFeatures
from flcontrib_core.shapley.simplex_kernel import metric_factor
from flcontrib_core.simulation.settings import paper_settings
from flcontrib_core.simulation.simulated_run import simulate_in_memory
from flcontrib_core.vocabulary import PlayerByUtility

GOAL = 10.0


def run(scale: str) -> list[Measurement]:
    """50 epochs and references of 100 000 evaluations at ``full``; at ``small`` 4 epochs and one reference of 4 000."""
    if not Path(os.environ.get("FLCONTRIB_DATA", "missing")).is_dir():
        return [Measurement("whole run: data sets found", 0.0, note="left out: FLCONTRIB_DATA names no folder")]
    full = scale == "full"
    epochs, checked, samples = (50, (2, 25, 50), 100_000) if full else (4, (2,), 4_000)
    settings = paper_settings("adult", clients=64, epochs=epochs, seed=0, train_rows=8000, validation_rows=128)
    log = simulate_in_memory(settings)
    with one_blas_thread():
        history, ours = cpu(assess_contributions, log, replace(AssessSettings(), observe=False))
        label = f"64 clients, {epochs} epochs, paper MLP"
        told = f"{int(history.evaluations.sum())} evaluations by {', '.join(sorted(set(history.estimator[1:])))}"
        measured = [Measurement(f"{label}: CPU of the whole assessment", ours, unit="s", note=told)]
        theirs, errors = [], []
        for epoch in epochs_of(log, "adult", checked):
            members = list(log.epochs[epoch.number - 1].participants)
            mine = np.stack([history.values[u][epoch.number, members] for u in history.utilities], axis=1)
            found, seconds = cpu(_gtg, epoch)
            truth, noise = _reference(epoch, samples)
            squared = [((values - truth) ** 2).mean(axis=0) for values in (mine, found.values, truth + noise)]
            errors.append([part / truth.var(axis=0) for part in squared])
            theirs.append(seconds)
            told = f"{found.evaluations} evaluations; {'; '.join(found.notes)}"
            measured.append(Measurement(f"GTG-Shapley, {epoch.name}: CPU", seconds, unit="s", note=told))
        error = np.median(np.array(errors), axis=0)  # (ours, theirs, reference), utilities
        for column, utility in enumerate(history.utilities):
            note = f"ours {error[0, column]:.1e}, GTG {error[1, column]:.1e}, reference's noise {error[2, column]:.1e}"
            name = f"{utility}: NMSE of ours / of GTG-Shapley, median of {len(checked)} epochs"
            measured.append(Measurement(name, float(error[0, column] / error[1, column]), 1.0, False, note=note))
        ratio = float(np.mean(theirs)) * epochs / ours
        note = f"GTG-Shapley's from {len(checked)} epochs" + ("" if full else "; too few to tell")
        goal = GOAL if full else None
        measured.append(Measurement(f"{label}: CPU of GTG-Shapley / ours", ratio, goal, unit="×", note=note))
    return measured


def _gtg(epoch: BenchmarkEpoch) -> ShapleyEstimate:
    return epoch_estimator("gtg").estimate(epoch.oracle(), np.random.default_rng(0), EstimatorSettings())


def _reference(epoch: BenchmarkEpoch, samples: int) -> tuple[PlayerByUtility, PlayerByUtility]:
    """Values from direct evaluations, and their standard errors."""
    game = epoch.game
    features = AdaptiveFeatures(game.weights(everybody(game.players))[0], metric_factor(game.gram())[:, ::-1])
    rng = np.random.default_rng(1)
    return sampled_shapley(game.evaluate, game.weights, features, game.players, samples, rng)
