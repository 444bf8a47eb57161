"""Cactus plots (figure all_methods): how many instances each method assesses within a time, and within an error.

Departure: the paper does not say which k/T its two-sided FLContrib used; we take 0.5. Times are CPU seconds of one
process. At the small scale a federation is trained once for the most epochs; its shorter instances are its first
epochs, whose values are computed once and whose seconds count in each of them (an epoch's value never depends on later
ones). What was not run is predicted from the same method's seconds per evaluation on the same data set and its
evaluations per epoch, and drawn with open signs; so are all times at the paper's own scale, from one measured
evaluation there.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from flcontrib_core.charts.panels import Line, Panel, PanelFacts
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.trajectory import scheduling_problem
from flcontrib_core.laboratory.reproduction.contestants import (
    COMFEDSV,
    DRAWN,
    EXACT,
    GTG_NAME,
    METHODS,
    MOST_EXACT,
    OUR_ESTIMATORS,
    OUR_SHARES,
    OURS,
    PAPER,
    PEERS,
    SHARE,
    SOLVED_IN_PAPER,
    SURROGATE,
    TMR,
    at_full_scale,
    evaluations_per_epoch,
    predicted_rows,
)
from flcontrib_core.laboratory.reproduction.figure import Figure, Recipe, Row, number, where
from flcontrib_core.laboratory.reproduction.grid import (
    CLIENTS,
    CUT_OFF_SECONDS,
    EPOCHS,
    CutOffReached,
    Instance,
    KeptEpochs,
    Stage,
    assess_within,
    first_epochs,
    full_evaluation_seconds,
    limited_to,
    paper_grid,
    squared_errors,
)
from flcontrib_core.reports.paper_figure import Claim, PaperFigure
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.scheduling.choose import choose_epochs
from flcontrib_core.scheduling.schedule import BudgetSettings

LEAST = 1e-10
"""Errors below this, rounding, are drawn here."""
SEEDS = 3
"""As in the paper, at the small scale too."""
SLACK = 1.1
"""What counts as no more CPU than a peer's: clocks of a shared machine differ by this."""


def instances(stage: Stage) -> list[Instance]:
    """All 132; small: a federation for each data set, number of clients and seed, which stands for all its lengths.

    The small scale leaves out 64 clients, and 32 with the last seed: 40 minutes of two cores, with the other figures,
    do not pay for them.
    """
    if stage.clients is not None:
        return [Instance(d, m, EPOCHS[0], s) for d in stage.tables for m in stage.clients for s in stage.repeats]
    grid = [i for i in paper_grid() if i.dataset in stage.datasets and i.seed < (stage.seeds or SEEDS)]
    if stage.full:  # one by one: an instance that takes hours is kept when it is done
        return grid
    return [i for i in grid if i.epochs == EPOCHS[-1] and (i.clients <= 16 or (i.clients == 32 and i.seed < 2))]


def work(stage: Stage, instance: Instance) -> list[Row]:
    """One row per length and method: seconds, evaluations, and squared errors where exact values are known."""
    run = stage.train(instance)
    epochs_of_method: dict[str, KeptEpochs] = defaultdict(KeptEpochs)
    first_use = AssessSettings(estimator=OUR_ESTIMATORS[SURROGATE], budget=BudgetSettings(budget=SHARE))
    assess_within(first_epochs(run, 2), first_use)  # what only a first use pays is nobody's cost
    rows: list[Row] = []
    for epochs in [instance.epochs] if stage.full else [t for t in EPOCHS if t <= instance.epochs]:
        part = first_epochs(run, epochs)
        rows += [
            {**row, "epochs": epochs}
            for row in _compared(stage, replace(instance, epochs=epochs), part, epochs_of_method)
        ]
    if not stage.full and stage.base is None and instance.seed == 0 and instance.clients == CLIENTS[0]:
        rows[-1]["full_evaluation"] = full_evaluation_seconds(stage, instance.dataset)
    return rows


def _compared(stage: Stage, instance: Instance, run: RunLog, epochs_of_method: dict[str, KeptEpochs]) -> list[Row]:
    """Every method on one instance."""
    limit = CUT_OFF_SECONDS
    try:
        ours = _ours(run, epochs_of_method)
    except CutOffReached:
        names = (*METHODS, *OUR_ESTIMATORS)
        return [{"method": name, "seconds": limit, "predicted": False, "solved": False} for name in names]
    rate = ours[-1].row["evaluations"] / max(ours[-1].row["seconds"], 1e-9)
    truth = None
    rows: list[Row] = []
    for name, settings in METHODS.items():
        needed = evaluations_per_epoch(name, instance.clients, instance.participants) * instance.epochs
        if name in (EXACT, TMR) and (needed / rate > limit or (not stage.full and instance.participants > MOST_EXACT)):
            row: Row = {"method": name, "seconds": needed / rate, "evaluations": needed, "predicted": True}
            rows.append(row | {"solved": needed / rate <= limit})
            continue
        try:
            assessed = assess_within(run, settings, limit, epochs_of_method[name])
        except CutOffReached:
            rows.append({"method": name, "seconds": limit, "predicted": False, "solved": False})
            continue
        truth = assessed.history if name == EXACT else truth
        row = {"method": name, "seconds": assessed.seconds, "predicted": False, "solved": True}
        row["evaluations"] = int(assessed.history.evaluations.sum())
        rows.append(row if truth is None else row | squared_errors(assessed.history, truth, settings.fill))
    return [*(o.row if truth is None else o.row | squared_errors(o.history, truth) for o in ours), *rows]


@dataclass(frozen=True)
class Scheduled:
    """Ours under one budget: its row, and the history that goes with it."""

    row: Row
    history: ContributionHistory


def _ours(run: RunLog, epochs_of_method: dict[str, KeptEpochs]) -> list[Scheduled]:
    """Each of our estimators over all epochs once, and what the schedules of every share take from it."""
    schedules: list[Scheduled] = []
    for name, estimator in OUR_ESTIMATORS.items():
        settings = AssessSettings(estimator=estimator)
        everything = assess_within(run, settings, kept=epochs_of_method[name])
        began = time.process_time()
        problem = scheduling_problem(run, settings)
        around = everything.seconds - float(everything.of_epoch.sum())
        measuring = time.process_time() - began
        for share in OUR_SHARES:
            began = time.process_time()
            budget_epochs = list(choose_epochs(problem, BudgetSettings(budget=share)).chosen)
            planning = measuring + time.process_time() - began if share < 1 else 0.0
            seconds = around + float(everything.of_epoch[budget_epochs].sum()) + planning
            row: Row = {"method": name, "share": share, "seconds": seconds}
            row |= {"evaluations": int(everything.history.evaluations[budget_epochs].sum())}
            row |= {"predicted": False, "solved": seconds <= CUT_OFF_SECONDS}
            schedules.append(Scheduled(row, limited_to(everything.history, budget_epochs)))
    return schedules


def evaluations(stage: Stage, instance: Instance) -> float:
    """All methods together, exact ones as far as they are run."""
    most = MOST_EXACT if not stage.full else 20
    names = [m for m in (*METHODS, *OUR_ESTIMATORS) if m not in (EXACT, TMR) or instance.participants <= most]
    per_epoch = sum(evaluations_per_epoch(m, instance.clients, instance.participants) for m in names)
    return instance.epochs * (per_epoch + 60)


def drawn_rows(rows: Iterable[Row]) -> list[Row]:
    """One row per instance and method: of ours the share that is drawn."""
    return [row for row in rows if row.get("share") in (None, DRAWN.get(row["method"]))]


def read(stage: Stage, rows: list[Row]) -> Figure:
    """Sorted columns as lines, and the counts and orders that the paper states."""
    shown = drawn_rows(rows)
    guessed = [] if stage.full or stage.base is not None else predicted_rows(shown)
    times, full = shown + guessed, at_full_scale(shown + guessed)
    names = (*SOLVED_IN_PAPER, OURS, SURROGATE)
    clocks = {f"CPU seconds, {stage.scale} scale": times, "CPU seconds at the paper's scale, predicted": full}
    panels = (
        *(
            Panel(words, "instances solved", tuple(_sorted(some, n, "seconds") for n in names), logarithmic=True,
                  limit=CUT_OFF_SECONDS if guessed or stage.full else None)
            for words, some in clocks.items() if some and not (some is full and stage.full)
        ),
        *(
            Panel(f"MSE, {u}", "instances", tuple(_sorted(shown, n, f"mse_{u}") for n in names[1:]), logarithmic=True)
            for u in ("loss", "accuracy")
        ),
        *(_beside_time(rows, u) for u in ("loss", "accuracy")),
    )  # fmt: skip
    claims = (
        *_time_claims(full if guessed else times, bool(guessed)),
        *_error_claims(shown),
        *(_ahead(rows, u) for u in ("loss", "accuracy")),
    )
    ran = len({(r["dataset"], r["clients"], r["epochs"], r["seed"]) for r in shown})
    take_away = f"{ran} of the paper's 132 instances were run" + (", the others' times predicted." if guessed else ".")
    title = "Methods compared: time and squared error over instances"
    of_stage = replace(stage, seeds=stage.seeds or SEEDS).describe()
    note = f"{of_stage} FLContrib with k/T = {SHARE}, zero fill; ours with k/T = {SHARE}, equal fill, γ = 0.3."
    facts = PanelFacts(title, take_away, panels, 2, names)
    return Figure(PaperFigure("cactus", stage.scale, note, claims, facts), (*rows, *guessed))


def _sorted(rows: list[Row], method: str, column: str) -> Line:
    some = [r for r in where(rows, method=method) if r.get("solved") and r.get(column) is not None]
    some.sort(key=lambda r: float(r[column]))
    heights = tuple(max(float(r[column]), LEAST) for r in some)
    guesses = tuple(bool(r["predicted"]) for r in some)
    return Line(method, tuple(float(k + 1) for k in range(len(some))), heights, guesses)


def _beside_time(rows: list[Row], utility: str) -> Panel:
    """Error over CPU, medians over the instances with the most clients that have exact values; ours over k/T."""
    column = f"mse_{utility}"
    with_errors = [r for r in rows if r.get(column) is not None]
    clients = max((r["clients"] for r in with_errors), default=0)
    lines = []
    for name in (*PEERS, *OUR_ESTIMATORS):
        points = []
        for share in OUR_SHARES if name in OUR_ESTIMATORS else (None,):
            some = [r for r in where(with_errors, clients=clients, method=name) if r.get("share") == share]
            if some:
                points.append((_median(some, "seconds"), max(_median(some, column), LEAST)))
        lines.append(Line(name, tuple(x for x, _ in points), tuple(y for _, y in points)))
    title = f"{clients} clients: MSE, {utility} (ours at k/T = {', '.join(f'{share:g}' for share in OUR_SHARES)})"
    return Panel(title, "CPU seconds, medians", tuple(lines), logarithmic=True, logarithmic_x=True)


def _time_claims(rows: list[Row], predicted: bool) -> list[Claim]:
    """Counts and times within the cut-off. Predicted ones are told but decide nothing."""
    solved = {m: sum(bool(r["solved"]) for r in where(rows, method=m)) for m in SOLVED_IN_PAPER}
    slowest = {m: max((r["seconds"] for r in where(rows, method=m) if r["solved"]), default=math.nan) for m in solved}
    total = len(where(rows, method=EXACT))
    how = "predicted for the paper's scale: " if predicted else ""
    said = f"{how}{' / '.join(f'{solved[m]}' for m in solved)} of {total}"
    order = solved[PAPER] >= max(solved[m] for m in (EXACT, TMR, COMFEDSV)) and solved[PAPER] >= solved[GTG_NAME]
    comparable = not predicted and bool(np.isfinite([*slowest.values()]).all())
    both = f"{how}{number(slowest[PAPER])} against {number(slowest[GTG_NAME])} s"
    return [
        Claim(
            "Solved within 12 000 s: exact / TMR / ComFedSV / GTG-Shapley / FLContrib; FLContrib solves the most",
            "96 / 96 / 84 / 125 / 125 of 132", said, order if total == 132 and not predicted else None,
        ),
        Claim(
            "FLContrib's slowest solved instance takes less time than GTG-Shapley's", "8.3K against 10.9K s", both,
            bool(slowest[PAPER] < slowest[GTG_NAME]) if comparable else None,
        ),
    ]  # fmt: skip


def _error_claims(rows: list[Row]) -> list[Claim]:
    """Medians over the instances with exact values."""
    middle = {(m, u): _median(where(rows, method=m), f"mse_{u}") for m in (*PEERS, OURS) for u in ("loss", "accuracy")}

    def said(utility: str) -> str:
        return ", ".join(f"{m} {number(middle[m, utility])}" for m in PEERS)

    comparable = np.isfinite([*middle.values()]).all()
    worst = all(middle[COMFEDSV, u] >= max(middle[m, u] for m in PEERS) for u in ("loss", "accuracy"))
    on_loss = max(middle[GTG_NAME, "loss"], middle[TMR, "loss"]) < middle[PAPER, "loss"]
    on_accuracy = middle[PAPER, "accuracy"] < min(middle[GTG_NAME, "accuracy"], middle[TMR, "accuracy"])
    said_of_both = f"medians, loss: {said('loss')}; accuracy: {said('accuracy')}"
    on_loss_claim = "On loss GTG-Shapley and TMR have lower MSE than FLContrib"
    return [
        Claim("ComFedSV has the highest MSE", "in both utilities", said_of_both, worst if comparable else None),
        Claim(on_loss_claim, "lower", said("loss"), on_loss if comparable else None),
        Claim(
            "On accuracy FLContrib has lower MSE than GTG-Shapley and TMR", "lower", said("accuracy"),
            on_accuracy if comparable else None,
        ),
    ]  # fmt: skip


def _median(rows: list[Row], column: str) -> float:
    return float(np.median([r[column] for r in rows if r.get(column) is not None] or [np.nan]))


def _ahead(rows: list[Row], utility: str) -> Claim:
    """On how many instances ours has no higher MSE than every peer, each at that peer's CPU time.

    Ours is a curve over CPU (k/T, auto or the surrogate alone). Which point of it is taken within a peer's time is
    decided without looking at errors: the most epochs, and of these the most CPU. Errors of rounding are equal.
    """
    column, behind, total = f"mse_{utility}", dict.fromkeys(PEERS, 0), 0
    keys = {(r["dataset"], r["clients"], r["epochs"], r["seed"]) for r in rows if r.get(column) is not None}
    lost = set()
    for key in keys:
        here = where(rows, **dict(zip(("dataset", "clients", "epochs", "seed"), key, strict=True)))
        ours = [r for r in here if r["method"] in OUR_ESTIMATORS]
        total += 1
        for other in (r for r in here if r["method"] in PEERS and r.get(column) is not None):
            fitting = [r for r in ours if r["seconds"] <= SLACK * other["seconds"]]
            taken = max(fitting, key=lambda r: (r["share"], r["seconds"]), default=None)
            if taken is None or taken[column] > max(other[column], LEAST):
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
