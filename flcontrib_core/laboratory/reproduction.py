"""Do the paper's experiments come out again? Each figure as data, scaled to a small machine.

Every figure is a function of a ``Stage`` (data set, scale, seeds) that returns plain rows; nothing here draws. The
training set-up is the appendix's (``paper_settings``) with fewer training rows at the small scale.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.laboratory.simulation import SimulationSettings, paper_settings, simulate_in_memory
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode
from flcontrib_core.shapley.registry import estimator_by_name
from flcontrib_core.vocabulary import FillPolicy, OnProgress, no_progress

Row = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """On what a figure is made: the small scale takes minutes, the full one hours."""

    dataset: str = "adult"
    data_dir: Path | None = None
    full: bool = False
    seeds: int = 2
    base: SimulationSettings | None = None
    """Training set-up; None = the paper's for the data set."""

    def settings(self, **changes: Any) -> SimulationSettings:
        if self.base is not None:
            return replace(self.base, **changes)
        small: dict[str, Any] = {} if self.full else {"train_rows": 4000, "validation_rows": 400, "local_epochs": 2}
        return paper_settings(self.dataset, data_dir=self.data_dir, **{**small, **changes})

    @property
    def repeats(self) -> range:
        return range(3 if self.full else self.seeds)


@dataclass(frozen=True)
class Figure:
    """What an experiment shows and its rows."""

    name: str
    question: str
    paper: str
    rows: tuple[Row, ...]


def _values(run: RunLog, **changes: Any) -> ContributionHistory:
    return assess_contributions(run, AssessSettings(observe=False, **changes))


def change_points(stage: Stage, on_progress: OnProgress = no_progress) -> Figure:
    """How much of the change-point mass falls into the poisoned window? (Figure change_point_detection)"""
    from flcontrib_core.detection.change_points import ChangePointSettings, ChangeSeries, mass_in_window
    from flcontrib_core.detection.change_points import change_points as read

    rows: list[Row] = []
    cases = ((4, 1, 0.5, 0.91), (4, 1, 0.7, 0.97), (8, 2, 0.7, 0.82))
    window, epochs = (10, 20), 30
    for n, (clients, dishonest, p, paper) in enumerate(cases):
        masses: list[float] = []
        honest: list[float] = []
        for seed in stage.repeats:
            on_progress(n * len(stage.repeats) + seed, len(cases) * len(stage.repeats), "change points")
            run = simulate_in_memory(
                stage.settings(
                    clients=clients, epochs=epochs, split="iid", attack="label-flip", strength=p, dishonest=dishonest,
                    windows=(window,), participation=1.0, seed=seed,
                )
            )  # fmt: skip
            assert run.truth is not None
            points = read(_values(run, utilities=("loss",)), ChangePointSettings(ChangeSeries.CUMULATIVE))
            marked = {d.client for d in run.truth.dishonest}
            for client in run.client_ids:
                (masses if client in marked else honest).append(mass_in_window(points, client, window))
        rows.append(
            {
                "clients": clients, "dishonest": dishonest, "flip": p, "mass_in_window": float(np.nanmean(masses)),
                "honest_mass_in_window": float(np.nanmean(honest)), "paper": paper,
            }
        )  # fmt: skip
    return Figure(
        "change-points", "share of change-point mass inside the poisoned window", ".91 / .97 / .82", tuple(rows)
    )


def jaccard(stage: Stage, on_progress: OnProgress = no_progress) -> Figure:
    """How well does K-means keep honest and dishonest clients apart? (Figure jaccard_similarity)"""
    from flcontrib_core.detection.separation import separate

    cases = (
        [(8, 1, p) for p in (0.1, 0.3, 0.5, 0.7, 0.9)] + [(n, 1, 0.5) for n in (4, 16)] + [(8, d, 0.5) for d in (2, 3)]
    )
    rows: list[Row] = []
    for n, (clients, dishonest, p) in enumerate(cases):
        scores = []
        for seed in stage.repeats:
            on_progress(n * len(stage.repeats) + seed, len(cases) * len(stage.repeats), "jaccard")
            run = simulate_in_memory(
                stage.settings(
                    clients=clients, epochs=20, split="iid", attack="label-flip", strength=p, dishonest=dishonest,
                    windows=((8, 13),), participation=0.5, seed=seed,
                )
            )  # fmt: skip
            assert run.truth is not None
            found = separate(_values(run, utilities=("loss",)), dishonest=[d.client for d in run.truth.dishonest])
            if found is not None and found.jaccard is not None:
                scores.append(found.jaccard)
        adjusted = [s.adjusted for s in scores if s.adjusted is not None]
        rows.append(
            {
                "clients": clients, "dishonest": dishonest, "flip": p,
                "jaccard": float(np.mean([s.raw for s in scores])) if scores else None,
                "single_cluster": (clients - dishonest) / clients,
                "adjusted": float(np.mean(adjusted)) if adjusted else None,
            }
        )  # fmt: skip
    return Figure(
        "jaccard", "separation by K-means, beside one single cluster", "rises with flip and clients", tuple(rows)
    )


def methods(stage: Stage, on_progress: OnProgress = no_progress) -> Figure:
    """Time and error of each method against exact values (Figure all_methods: sort a column for its cactus plot)."""
    names = ("exact", "auto", "complementary", "monte-carlo", "gtg", "tmr", "comfedsv")
    sizes = (4, 8, 16) if stage.full else (4, 8)
    rows: list[Row] = []
    for n, clients in enumerate(sizes):
        for seed in stage.repeats:
            run = simulate_in_memory(stage.settings(clients=clients, epochs=12, seed=seed, first_epoch_all=True))
            truth: ContributionHistory | None = None
            for name in names:
                on_progress(
                    n * len(stage.repeats) + seed, len(sizes) * len(stage.repeats), f"{name}, {clients} clients"
                )
                began = time.process_time()
                options = {"allow_unobserved": True} if name == "comfedsv" else {}
                found = _values(run, estimator=estimator_by_name(name, **options))
                seconds = time.process_time() - began
                truth = truth or found
                row: Row = {"method": name, "clients": clients, "seed": seed, "cpu_seconds": seconds}
                for u in found.utilities:
                    row[f"mse_{u}"] = float(np.mean((found.totals(u) - truth.totals(u)) ** 2))
                rows.append(row | {"evaluations": int(found.evaluations.sum())})
    return Figure(
        "methods", "CPU seconds and squared error of total values", "FLContrib fastest, even error", tuple(rows)
    )


def schedulers(stage: Stage, on_progress: OnProgress = no_progress) -> Figure:
    """What do k/T and the scheduling mode cost and buy? (Figure ablation_study)"""
    modes = (FairnessMode.ONE_SIDED, FairnessMode.TWO_SIDED, FairnessMode.TWO_SIDED_LB, FairnessMode.TOP_UTILITY)
    rows: list[Row] = []
    for seed in stage.repeats:
        run = simulate_in_memory(stage.settings(clients=8, epochs=25, seed=seed))
        truth = _values(run, estimator="exact")
        for n, share in enumerate((0.25, 0.5, 0.75)):
            on_progress(seed * 3 + n, 3 * len(stage.repeats), f"k/T = {share}")
            for mode in modes:
                for paper in (False, True):
                    budget = BudgetSettings(
                        budget=share, fairness=mode, gamma=1.0, at_most=paper, paper_denominator=paper
                    )
                    found = _values(run, estimator="exact", budget=budget)
                    fill = FillPolicy.ZERO if paper else FillPolicy.EQUAL
                    assert found.schedule is not None
                    row: Row = {
                        "seed": seed, "share": share, "mode": mode.value, "reading": "paper" if paper else "ours",
                        "epochs": len(found.schedule.chosen), "evaluations": int(found.evaluations.sum()),
                        "exposure_gap": found.schedule.exposure_gap,
                    }  # fmt: skip
                    for u in found.utilities:
                        row[f"mse_{u}"] = float(np.mean((found.totals(u, fill) - truth.totals(u)) ** 2))
                    rows.append(row)
    return Figure("schedulers", "error and cost of budgets", "more epochs, less error; LB cheaper, worse", tuple(rows))


def approximations(stage: Stage, on_progress: OnProgress = no_progress) -> Figure:
    """Complementary contributions against Monte Carlo at equal evaluations (appendix)."""
    rows: list[Row] = []
    for seed in stage.repeats:
        run = simulate_in_memory(stage.settings(clients=16, epochs=6, seed=seed))
        truth = _values(run, estimator="exact")
        for n, factor in enumerate((4, 8, 16)):
            on_progress(seed * 3 + n, 3 * len(stage.repeats), f"{factor} n evaluations")
            for name in ("complementary", "monte-carlo"):
                found = _values(run, estimator=estimator_by_name(name, evaluations=factor * 8))
                row: Row = {"seed": seed, "method": name, "evaluations_per_epoch": factor * 8}
                for u in found.utilities:
                    row[f"mse_{u}"] = float(np.mean((found.totals(u) - truth.totals(u)) ** 2))
                rows.append(row)
    return Figure(
        "approximations", "squared error at equal evaluations", "complementary below Monte Carlo", tuple(rows)
    )


def aggregation(stage: Stage, on_progress: OnProgress = no_progress) -> Figure:
    """Does keeping the best subset of each epoch speed training up? (Figures adult_loss, cifar10_loss)"""
    rows: list[Row] = []
    for seed in stage.repeats:
        for n, rule in enumerate(("fedavg", "greedy")):
            on_progress(seed * 2 + n, 2 * len(stage.repeats), rule)
            run = simulate_in_memory(stage.settings(clients=8, epochs=12, seed=seed, aggregation=rule))
            history = _values(run, utilities=("loss",), estimator="exact")
            track = np.cumsum(history.of("loss").increments + history.of("loss").server_share)
            rows.extend({"seed": seed, "rule": rule, "epoch": t, "loss": float(v)} for t, v in enumerate(track))
    return Figure(
        "aggregation", "validation loss, FedAvg beside the best subset", "best subset falls faster", tuple(rows)
    )


FIGURES: dict[str, Callable[[Stage, OnProgress], Figure]] = {
    "change-points": change_points,
    "jaccard": jaccard,
    "methods": methods,
    "schedulers": schedulers,
    "approximations": approximations,
    "aggregation": aggregation,
}


def reproduce(name: str, stage: Stage, on_progress: OnProgress = no_progress) -> Figure:
    """One figure's data. Raises SettingsError for an unknown name, MissingPart without the data folder."""
    if name not in FIGURES:
        raise SettingsError(f"figure {name!r} is unknown; choose from {', '.join(FIGURES)}")
    return FIGURES[name](stage, on_progress)
