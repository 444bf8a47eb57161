"""Cactus plots (figure all_methods): how many instances each method assesses within a time, and within an error.

Departure: the paper does not say which k/T its two-sided FLContrib used; we take 0.5. Times are CPU seconds of one
process. What was not run is predicted from the same method's seconds per evaluation on the same data set and its
evaluations per epoch, and drawn with open signs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from flcontrib_core.charts.panels import Line, Panel, PanelFacts
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.settings import PAPER_SETTINGS, AssessSettings
from flcontrib_core.history.trajectory import scheduling_problem
from flcontrib_core.laboratory.reproduction.figure import Figure, Recipe, Row, number, where
from flcontrib_core.laboratory.reproduction.grid import (
    CUT_OFF_SECONDS,
    CutOffReached,
    Instance,
    Stage,
    assess_within,
    limited_to,
    paper_grid,
    squared_errors,
)
from flcontrib_core.reports.paper_figure import Claim, PaperFigure
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.scheduling.choose import choose_epochs
from flcontrib_core.scheduling.schedule import BudgetSettings
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
LEAST = 1e-10
"""Errors below this, rounding, are drawn here."""
SLACK = 1.1
"""What counts as no more CPU than a peer's: clocks of a shared machine differ by this."""


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


def instances(stage: Stage) -> list[Instance]:
    """All 132, or a part of them that runs in minutes."""
    if stage.full:
        return [i for i in paper_grid() if i.dataset in stage.datasets]
    sizes = stage.sizes(4, 8, 16)
    some = [Instance(d, m, 12, s) for d in stage.tables for m in sizes for s in stage.repeats]
    some += [Instance(d, m, 25, s) for d in stage.tables for m in sizes[:-1] for s in stage.repeats]
    some += [Instance(d, 32, 12, 0) for d in stage.tables if stage.clients is None]
    return some + [Instance("cifar10", 4, 12, s) for s in stage.repeats if "cifar10" in stage.datasets]


def work(stage: Stage, instance: Instance) -> list[Row]:
    """One row per method: seconds, evaluations, and squared errors where exact values are known."""
    run = stage.train(instance)
    limit = CUT_OFF_SECONDS
    try:
        ours = _ours(run)
    except CutOffReached:
        names = (*METHODS, *OUR_ESTIMATORS)
        return [{"method": name, "seconds": limit, "predicted": False, "solved": False} for name in names]
    rate = ours[-1].row["evaluations"] / max(ours[-1].row["seconds"], 1e-9)
    truth = None
    rows: list[Row] = []
    for name, settings in METHODS.items():
        needed = evaluations_per_epoch(name, instance.clients, instance.participants) * instance.epochs
        if name in (EXACT, TMR) and (needed / rate > limit or (not stage.full and instance.participants > MOST_EXACT)):
            rows.append({"method": name, "seconds": needed / rate, "predicted": True, "solved": needed / rate <= limit})
            continue
        try:
            found = assess_within(run, settings, limit)
        except CutOffReached:
            rows.append({"method": name, "seconds": limit, "predicted": False, "solved": False})
            continue
        truth = found.history if name == EXACT else truth
        row: Row = {"method": name, "seconds": found.seconds, "predicted": False, "solved": True}
        row["evaluations"] = int(found.history.evaluations.sum())
        rows.append(row if truth is None else row | squared_errors(found.history, truth, settings.fill))
    return [*(o.row if truth is None else o.row | squared_errors(o.history, truth) for o in ours), *rows]


@dataclass(frozen=True)
class Scheduled:
    """Ours under one budget: its row, and the history that goes with it."""

    row: Row
    history: ContributionHistory


def _ours(run: RunLog) -> list[Scheduled]:
    """Each of our estimators over all epochs once, and what the schedules of every share take from it."""
    found: list[Scheduled] = []
    for name, estimator in OUR_ESTIMATORS.items():
        settings = AssessSettings(estimator=estimator)
        everything = assess_within(run, settings)
        began = time.process_time()
        problem = scheduling_problem(run, settings)
        around = everything.seconds - float(everything.of_epoch.sum())
        measuring = time.process_time() - began
        for share in OUR_SHARES:
            began = time.process_time()
            chosen = list(choose_epochs(problem, BudgetSettings(budget=share)).chosen)
            planning = measuring + time.process_time() - began if share < 1 else 0.0
            seconds = around + float(everything.of_epoch[chosen].sum()) + planning
            row: Row = {"method": name, "share": share, "seconds": seconds}
            row |= {"evaluations": int(everything.history.evaluations[chosen].sum())}
            row |= {"predicted": False, "solved": seconds <= CUT_OFF_SECONDS}
            found.append(Scheduled(row, limited_to(everything.history, chosen)))
    return found


def evaluations(stage: Stage, instance: Instance) -> float:
    """All methods together, exact ones as far as they are run."""
    most = MOST_EXACT if not stage.full else 20
    names = [m for m in (*METHODS, *OUR_ESTIMATORS) if m not in (EXACT, TMR) or instance.participants <= most]
    per_epoch = sum(evaluations_per_epoch(m, instance.clients, instance.participants) for m in names)
    return instance.epochs * (per_epoch + 60)


def drawn_rows(rows: Iterable[Row]) -> list[Row]:
    """One row per instance and method: of ours the share that is drawn."""
    return [row for row in rows if row.get("share") in (None, DRAWN.get(row["method"]))]


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
            measured = [r for r in where(rows, dataset=dataset, method=method) if r.get("evaluations")]
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
            row |= {"method": method, "seconds": seconds, "predicted": True, "solved": seconds <= CUT_OFF_SECONDS}
            guessed.append(row)
    return guessed


def _half(row: Row) -> int:
    return max(1, round(0.5 * int(row["clients"])))


def read(stage: Stage, rows: list[Row]) -> Figure:
    """Sorted columns as lines, and the counts and orders that the paper states."""
    shown = drawn_rows(rows)
    guessed = [] if stage.full or stage.base is not None else predicted_rows(shown)
    times = shown + guessed
    names = (*SOLVED_IN_PAPER, OURS, SURROGATE)
    panels = (
        Panel(
            "CPU seconds", "instances solved", tuple(_sorted(times, n, "seconds") for n in names), logarithmic=True,
            limit=CUT_OFF_SECONDS if guessed or stage.full else None,
        ),
        *(
            Panel(f"MSE, {u}", "instances", tuple(_sorted(shown, n, f"mse_{u}") for n in names[1:]), logarithmic=True)
            for u in ("loss", "accuracy")
        ),
    )  # fmt: skip
    claims = (
        *_time_claims(times, bool(guessed)),
        *_error_claims(shown),
        *(_ahead(rows, u) for u in ("loss", "accuracy")),
    )
    ran = len({(r["dataset"], r["clients"], r["epochs"], r["seed"]) for r in shown})
    take_away = f"{ran} of the paper's 132 instances were run" + (", the others' times predicted." if guessed else ".")
    title = "Methods compared: time and squared error over instances"
    note = f"{stage.describe()} FLContrib with k/T = {SHARE}, zero fill; ours with k/T = {SHARE}, equal fill, γ = 0.3."
    facts = PanelFacts(title, take_away, panels, 3, names)
    return Figure(PaperFigure("cactus", stage.scale, note, claims, facts), (*rows, *guessed))


def _sorted(rows: list[Row], method: str, column: str) -> Line:
    some = [r for r in where(rows, method=method) if r.get("solved") and r.get(column) is not None]
    some.sort(key=lambda r: float(r[column]))
    heights = tuple(max(float(r[column]), LEAST) for r in some)
    guesses = tuple(bool(r["predicted"]) for r in some)
    return Line(method, tuple(float(k + 1) for k in range(len(some))), heights, guesses)


def _time_claims(rows: list[Row], predicted: bool) -> list[Claim]:
    """Counts and times within the cut-off. Predicted ones are told but decide nothing."""
    solved = {m: sum(bool(r["solved"]) for r in where(rows, method=m)) for m in SOLVED_IN_PAPER}
    slowest = {m: max((r["seconds"] for r in where(rows, method=m) if r["solved"]), default=math.nan) for m in solved}
    total = len(where(rows, method=EXACT))
    how = "predicted from the small runs: " if predicted else ""
    said = f"{how}{' / '.join(f'{solved[m]}' for m in solved)} of {total}"
    order = solved[PAPER] >= max(solved[m] for m in (EXACT, TMR, COMFEDSV)) and solved[PAPER] >= solved[GTG_NAME]
    known = not predicted and bool(np.isfinite([*slowest.values()]).all())
    both = f"{how}{number(slowest[PAPER])} against {number(slowest[GTG_NAME])} s"
    return [
        Claim(
            "Solved within 12 000 s: exact / TMR / ComFedSV / GTG-Shapley / FLContrib; FLContrib solves the most",
            "96 / 96 / 84 / 125 / 125 of 132", said, order if total == 132 and not predicted else None,
        ),
        Claim(
            "FLContrib's slowest solved instance takes less time than GTG-Shapley's", "8.3K against 10.9K s", both,
            bool(slowest[PAPER] < slowest[GTG_NAME]) if known else None,
        ),
    ]  # fmt: skip


def _error_claims(rows: list[Row]) -> list[Claim]:
    """Medians over the instances with exact values."""
    middle = {(m, u): _median(where(rows, method=m), f"mse_{u}") for m in (*PEERS, OURS) for u in ("loss", "accuracy")}

    def said(utility: str) -> str:
        return ", ".join(f"{m} {number(middle[m, utility])}" for m in PEERS)

    known = np.isfinite([*middle.values()]).all()
    worst = all(middle[COMFEDSV, u] >= max(middle[m, u] for m in PEERS) for u in ("loss", "accuracy"))
    on_loss = max(middle[GTG_NAME, "loss"], middle[TMR, "loss"]) < middle[PAPER, "loss"]
    on_accuracy = middle[PAPER, "accuracy"] < min(middle[GTG_NAME, "accuracy"], middle[TMR, "accuracy"])
    said_of_both = f"medians, loss: {said('loss')}; accuracy: {said('accuracy')}"
    on_loss_claim = "On loss GTG-Shapley and TMR have lower MSE than FLContrib"
    return [
        Claim("ComFedSV has the highest MSE", "in both utilities", said_of_both, worst if known else None),
        Claim(on_loss_claim, "lower", said("loss"), on_loss if known else None),
        Claim(
            "On accuracy FLContrib has lower MSE than GTG-Shapley and TMR", "lower", said("accuracy"),
            on_accuracy if known else None,
        ),
    ]  # fmt: skip


def _median(rows: list[Row], column: str) -> float:
    return float(np.median([r[column] for r in rows if r.get(column) is not None] or [np.nan]))


def _ahead(rows: list[Row], utility: str) -> Claim:
    """On how many instances ours has no higher MSE than every peer, each at that peer's CPU time.

    Ours is a curve over CPU (k/T, auto or the surrogate alone): its best point within a peer's time counts. Errors of
    rounding are equal.
    """
    column, behind, total = f"mse_{utility}", dict.fromkeys(PEERS, 0), 0
    keys = {(r["dataset"], r["clients"], r["epochs"], r["seed"]) for r in rows if r.get(column) is not None}
    lost = set()
    for key in keys:
        here = where(rows, **dict(zip(("dataset", "clients", "epochs", "seed"), key, strict=True)))
        ours = [r for r in here if r["method"] in OUR_ESTIMATORS]
        total += 1
        for other in (r for r in here if r["method"] in PEERS and r.get(column) is not None):
            fitting = [r[column] for r in ours if r["seconds"] <= SLACK * other["seconds"]]
            if not fitting or min(fitting) > max(other[column], LEAST):
                behind[other["method"]] += 1
                lost.add(key)
    won = total - len(lost)
    names = ", ".join(f"{name} {count}" for name, count in behind.items() if count)
    said = f"{won} of {total} instances" + (f"; behind {names}" if names else "") if total else "–"
    return Claim(
        f"Ours: on {utility} no higher MSE than every peer's at its CPU time + 10 % (goal: 95 % of the instances)",
        "–", said, won >= 0.95 * total if total else None,
    )  # fmt: skip


RECIPE = Recipe("cactus", instances, work, evaluations, read)
