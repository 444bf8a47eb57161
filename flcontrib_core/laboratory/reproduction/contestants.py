"""Who is compared in the cactus plots, what each costs, and how long it would take where it was not run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from flcontrib_core.history.settings import PAPER_SETTINGS, AssessSettings
from flcontrib_core.laboratory.reproduction.figure import Row, where
from flcontrib_core.laboratory.reproduction.grid import CUT_OFF_SECONDS, paper_grid
from flcontrib_core.shapley.auto import Auto
from flcontrib_core.shapley.comfedsv import ComFedSV
from flcontrib_core.shapley.complementary import Complementary
from flcontrib_core.shapley.exact import Exact
from flcontrib_core.shapley.gtg import GTG
from flcontrib_core.shapley.multi_round import TruncatedMultiRound
from flcontrib_core.shapley.surrogate import Surrogate

SHARE = 0.5
EXACT, TMR, COMFEDSV, GTG_NAME = "exact", "TMR", "ComFedSV", "GTG-Shapley"
PAPER, OURS, SURROGATE = "FLContrib, two-sided (paper)", "ours: auto + schedule", "ours: surrogate, every epoch"
METHODS: dict[str, AssessSettings] = {
    EXACT: AssessSettings(estimator=Exact()),
    TMR: AssessSettings(estimator=TruncatedMultiRound()),
    COMFEDSV: AssessSettings(estimator=ComFedSV(allow_unobserved=True)),
    GTG_NAME: AssessSettings(estimator=GTG()),
    PAPER: replace(PAPER_SETTINGS, budget=replace(PAPER_SETTINGS.budget, budget=SHARE)),
}
OUR_ESTIMATORS: dict[str, Auto | Surrogate] = {OURS: Auto(), SURROGATE: Surrogate()}
PEERS = (TMR, COMFEDSV, GTG_NAME, PAPER)
OUR_SHARES = (0.25, 0.5, 0.75, 1.0)
"""k/T at which ours is recorded: a curve over CPU."""
DRAWN = {OURS: SHARE, SURROGATE: 1.0}
"""The points of it that are drawn."""
SOLVED_IN_PAPER = {EXACT: 96, TMR: 96, COMFEDSV: 84, GTG_NAME: 125, PAPER: 125}
MOST_EXACT = 10
"""Participants up to which the small scale computes exact values; above they are predicted."""


def evaluations_per_epoch(method: str, clients: int, participants: int) -> float:
    """By the methods' own cost models, before anything is measured."""
    n = participants
    if method in (EXACT, TMR):
        return 2.0**n - 1
    if method == COMFEDSV:
        return max(10, math.ceil(clients * math.log(max(clients, 2)))) * n
    if method == GTG_NAME:
        return GTG().cost(n, None).likely
    if method == PAPER:
        return SHARE * Complementary().cost(n, None).likely
    likely = Surrogate().cost(n, None).likely
    return likely if method == SURROGATE else SHARE * (2.0**n - 1 if n <= 8 else likely)


@dataclass(frozen=True)
class Rates:
    """Seconds per evaluation, and how the evaluations really spent compare with the cost model."""

    seconds: float
    factor: float


def predicted_rows(rows: list[Row]) -> list[Row]:
    """The instances of the paper's grid that were not run, each method from its own measured rate and cost."""
    run = {(r["dataset"], r["clients"], r["epochs"], r["seed"], r["method"]) for r in rows}
    rates: dict[tuple[str, str], Rates] = {}
    for dataset in {r["dataset"] for r in rows}:
        for method in (*METHODS, *OUR_ESTIMATORS):
            measured = [
                r for r in where(rows, dataset=dataset, method=method) if r.get("evaluations") and not r["predicted"]
            ]
            if measured:
                model = [r["epochs"] * evaluations_per_epoch(method, r["clients"], _half(r)) for r in measured]
                factor = np.median([r["evaluations"] / m for r, m in zip(measured, model, strict=True)])
                slowest = np.median([r["seconds"] / r["evaluations"] for r in measured])
                rates[dataset, method] = Rates(float(slowest), float(factor))
    guessed: list[Row] = []
    for i in paper_grid():
        for method in (*METHODS, *OUR_ESTIMATORS):
            rate = rates.get((i.dataset, method))
            if rate is None or (i.dataset, i.clients, i.epochs, i.seed, method) in run:
                continue
            needed = i.epochs * evaluations_per_epoch(method, i.clients, i.participants) * rate.factor
            seconds = needed * rate.seconds
            row: Row = {"dataset": i.dataset, "clients": i.clients, "epochs": i.epochs, "seed": i.seed}
            row |= {"method": method, "seconds": seconds, "evaluations": needed}
            row |= {"predicted": True, "solved": seconds <= CUT_OFF_SECONDS}
            guessed.append(row)
    return guessed


def _half(row: Row) -> int:
    return max(1, round(0.5 * int(row["clients"])))


def at_full_scale(rows: list[Row]) -> list[Row]:
    """The same instances at the paper's scale: as many evaluations, each as dear as one measured there."""
    cost = {r["dataset"]: r["full_evaluation"] for r in rows if r.get("full_evaluation")}
    predictions: list[Row] = []
    for row in rows:
        if row["dataset"] in cost and row.get("evaluations"):
            seconds = row["evaluations"] * cost[row["dataset"]]
            predictions.append({**row, "seconds": seconds, "predicted": True, "solved": seconds <= CUT_OFF_SECONDS})
    return predictions
