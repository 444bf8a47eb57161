"""Complementary contributions against Monte Carlo (appendix), and both against the field and us, at equal cost."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from flcontrib_core.charts.panels import Line, Panel, PanelFacts
from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.epoch_work import EpochAnswer
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.laboratory.reproduction.figure import Figure, Recipe, Row, mean_of, number, where
from flcontrib_core.laboratory.reproduction.grid import Instance, Stage, assess_within
from flcontrib_core.reports.paper_figure import Claim, PaperFigure
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.shapley.elsewhere import VARIABLE, MethodBudget, estimate_elsewhere
from flcontrib_core.shapley.exact import Exact
from flcontrib_core.shapley.registry import estimator_by_name
from flcontrib_core.vocabulary import FloatArray

CC, MC = "complementary", "monte-carlo"
OURS, OPAQUE, UNBIASED = "surrogate", "surrogate-blackbox", "surrogate-unbiased"
NEWEST = {
    f"shapiq:{name}": name for name in ("LeverageSHAP", "RegressionMSR", "OddSHAP", "ProxySPEX", "ShaplEIG")
}  # fmt: skip
"""From shapiq 1.8 on, which needs Python 3.12, most of them with gradient boosting, the last one with torch: run by
another interpreter on tables where this one has not got them."""
METHODS = {
    CC: "complementary contributions",
    MC: "Monte Carlo",
    "complementary-neyman": "complementary, Neyman",
    "shapiq:SVARM": "SVARM",
    "shapiq:KernelSHAP": "KernelSHAP",
    **NEWEST,
    OURS: "ours: surrogate",
    OPAQUE: "ours: surrogate without logits",
    UNBIASED: "ours: surrogate, unbiased",
}
MULTIPLES = (2, 4, 8, 16, 32)
"""Evaluations per epoch, in participants."""
DEAR = ("shapiq:ProxySPEX", "shapiq:ShaplEIG")
"""Run at the small scale with one seed and one budget: the former searches a grid of boosted trees for every estimate,
the latter refits a Gaussian process after every evaluation, ten seconds and more each."""
DEAR_MULTIPLE = 4
DEAR_PARTICIPANTS = 10


def instances(stage: Stage) -> list[Instance]:
    """Eight, ten and twelve participants per epoch: enough coalitions to sample, few enough to know them all."""
    epochs = 12 if stage.full else 3
    return [Instance(d, c, epochs, s) for c in stage.sizes(16, 20, 24) for d in stage.tables for s in stage.repeats]


def evaluations(stage: Stage, instance: Instance) -> float:
    """The exact table and every method at every budget."""
    n = instance.participants
    return instance.epochs * (2.0**n + len(METHODS) * n * sum(MULTIPLES))


def work(stage: Stage, instance: Instance) -> list[Row]:
    """A row per method and budget: CPU seconds, and the squared error over the variance of the true totals."""
    run = stage.train(instance)
    tables: dict[int, FloatArray] = {}

    def tabulate(answer: EpochAnswer) -> None:
        tables[answer.epoch] = np.zeros((2**instance.participants, len(answer.start)))
        for key, values in answer.fresh.items():
            tables[answer.epoch][int.from_bytes(key, "little")] = values

    truth = assess_contributions(run, AssessSettings(estimator=Exact(), observe=False), on_epoch=tabulate)
    rows: list[Row] = []
    missing: list[MethodBudget] = []
    for method in METHODS:
        for task in _tasks(stage, instance, method):
            estimator = estimator_by_name(method, evaluations=task.evaluations)
            try:
                assessed = assess_within(run, AssessSettings(estimator=estimator))
            except MissingPart:
                missing.append(task)  # shapiq is not installed, or too old
            except SettingsError:
                continue  # a budget below what the method can use: its point is missing
            else:
                rows.append(_row(task, instance, assessed.history, truth) | {"seconds": assessed.seconds})
    return rows + _rows_elsewhere(instance, run, truth, tables, missing)


def _tasks(stage: Stage, instance: Instance, method: str) -> list[MethodBudget]:
    """The budgets a method is run with."""
    n = instance.participants
    multiples: tuple[int, ...] = MULTIPLES
    if method in DEAR and not stage.full:
        multiples = () if instance.seed or n != DEAR_PARTICIPANTS else (DEAR_MULTIPLE,)
    return [MethodBudget(method, multiple * n) for multiple in multiples if multiple * n <= 2**n - 2]


def _row(task: MethodBudget, instance: Instance, estimate: ContributionHistory, truth: ContributionHistory) -> Row:
    multiple = task.evaluations // instance.participants
    row: Row = {"method": task.method, "evaluations": task.evaluations, "multiple": multiple}
    for u in truth.utilities:
        exact = truth.totals(u)
        row[f"nmse_{u}"] = float(np.mean((estimate.totals(u) - exact) ** 2) / max(exact.var(), 1e-300))
    return row


def _rows_elsewhere(
    instance: Instance,
    run: RunLog,
    truth: ContributionHistory,
    tables: dict[int, FloatArray],
    tasks: list[MethodBudget],
) -> list[Row]:
    """Of what another Python's packages can do, if one is named: without a time, for it looks coalitions up."""
    python = os.environ.get(VARIABLE)
    if not python or not tasks:
        return []
    answer = estimate_elsewhere(python, tables, tasks, AssessSettings().seed)
    rows: list[Row] = []
    for task in tasks:
        estimates = [estimate for estimate in answer.estimates if estimate.task == task]
        if len(estimates) < len(tables):
            continue
        values = truth.values.copy()
        for estimate in estimates:
            values[estimate.epoch, list(run.epochs[estimate.epoch - 1].participants)] = estimate.values
        rows.append(_row(task, instance, replace(truth, values=values), truth) | {"seconds": None})
    return rows


def read(stage: Stage, rows: list[Row]) -> Figure:
    """Error over evaluations and over CPU seconds."""
    multiples = [m for m in MULTIPLES if where(rows, multiple=m)]
    panels: list[Panel] = []
    for utility in ("loss", "accuracy"):
        lines = tuple(
            Line(words, tuple(float(m) for m in multiples), tuple(_error(rows, method, m, utility) for m in multiples))
            for method, words in METHODS.items()
            if where(rows, method=method)
        )
        title = f"NMSE of the totals, {utility}"
        panels.append(Panel(title, "evaluations per participant", lines, logarithmic=True, x_values=tuple(multiples)))
    timed = [row for row in rows if row["seconds"] is not None]
    lines = tuple(
        Line(words, tuple(float(m) for m in multiples), tuple(_seconds(timed, method, m) for m in multiples))
        for method, words in METHODS.items()
        if where(timed, method=method)
    )
    panels.append(Panel("CPU seconds of a run", "evaluations per participant", lines, x_values=tuple(multiples)))
    title = "Approximations at equal evaluations"
    facts = PanelFacts(title, "Means over runs; exact values of all coalitions are the truth.", tuple(panels), 3)
    note = f"{stage.describe()} 8, 10 and 12 participants per epoch. {_what_is_missing(rows, stage)}"
    return Figure(PaperFigure("approximations", stage.scale, note, _claims(rows, multiples), facts), tuple(rows))


def _what_is_missing(rows: list[Row], stage: Stage) -> str:
    """Methods without rows, with fewer rows, and without a time, by name."""
    there = {method: words for method, words in METHODS.items() if where(rows, method=method)}
    missing = ", ".join(words for method, words in METHODS.items() if method not in there)
    fewer = ", ".join(there[method] for method in DEAR if method in there and not stage.full)
    looked_up = ", ".join(words for m, words in there.items() if where(rows, method=m, seconds=None))
    said = (
        missing and f"Not run, for want of a package: {missing}.",
        fewer and f"{DEAR_PARTICIPANTS} participants, {DEAR_MULTIPLE} evaluations for each, one seed: {fewer}.",
        looked_up and f"From tables of all coalitions, so without a time: {looked_up}.",
    )
    return " ".join(sentence for sentence in said if sentence)


def _error(rows: list[Row], method: str, multiple: int, utility: str) -> float:
    return mean_of(where(rows, method=method, multiple=multiple), f"nmse_{utility}")


def _on_the_same(rows: list[Row], a: str, b: str, multiple: int, utility: str) -> tuple[float, float] | None:
    """Two methods' mean errors over the instances that have both."""

    def errors(method: str) -> dict[tuple[str, int, int], float]:
        repeats = where(rows, method=method, multiple=multiple)
        return {(row["dataset"], row["clients"], row["seed"]): row[f"nmse_{utility}"] for row in repeats}

    of_a, of_b = errors(a), errors(b)
    both = of_a.keys() & of_b.keys()
    if not both:
        return None
    return float(np.mean([of_a[i] for i in sorted(both)])), float(np.mean([of_b[i] for i in sorted(both)]))


def _seconds(rows: list[Row], method: str, multiple: int) -> float:
    return mean_of(where(rows, method=method, multiple=multiple), "seconds")


def _claims(rows: list[Row], multiples: list[int]) -> tuple[Claim, ...]:
    def below(a: str, others: list[str]) -> tuple[str, bool | None]:
        """How often a's error is below all the others' at the same budget, and below the best of them by how much."""
        ratios = []
        for m, u in ((m, u) for m in multiples for u in ("loss", "accuracy")):
            pairs = [pair for other in others if (pair := _on_the_same(rows, a, other, m, u)) is not None]
            if pairs:
                ratios.append(min(theirs / ours if ours else np.inf if theirs else 1.0 for ours, theirs in pairs))
        if not ratios:
            return "–", None
        wins = sum(ratio > 1 for ratio in ratios)
        ratio = float(np.exp(np.mean(np.log([ratio for ratio in ratios if 0 < ratio < np.inf] or [np.nan]))))
        return f"{wins} of {len(ratios)} budgets and utilities, error {number(ratio)}× lower", wins > len(ratios) / 2

    quicker = [(_seconds(rows, CC, m), _seconds(rows, MC, m)) for m in multiples]
    said = ", ".join(f"{number(a)} / {number(b)}" for a, b in quicker)
    there = [m for m in METHODS if m not in (OURS, OPAQUE, UNBIASED) and where(rows, method=m)]
    newest = [m for m in NEWEST if m in there]
    unable = ", ".join(words for m, words in NEWEST.items() if m not in newest)
    of_each = "; ".join(
        [*(f"{NEWEST[m]}: {below(OURS, [m])[0]}" for m in newest), *([f"not run: {unable}"] * bool(unable))]
    )
    sampled = [CC, "complementary-neyman", MC, "shapiq:SVARM"]
    return (
        Claim("Complementary contributions have a lower error than Monte Carlo", "lower", *below(CC, [MC])),
        Claim(
            "Complementary contributions take less time than Monte Carlo", "less", f"{said} s at equal evaluations",
            bool(np.mean([a for a, _ in quicker]) < np.mean([b for _, b in quicker])),
        ),
        Claim("Ours: the surrogate's error is below the best other's at the same budget", "–", *below(OURS, there)),
        Claim(
            f"Ours: below each of shapiq's newest ({', '.join(NEWEST[m] for m in newest or NEWEST)})", "–", of_each,
            all(below(OURS, [m])[1] for m in newest) if newest else None,
        ),
        Claim(
            "Ours without logits: the surrogate's error is below the best other's at the same budget", "–",
            *below(OPAQUE, there),
        ),
        Claim(
            "Ours: unbiased, the corrected surrogate's error is below that of the best unbiased sampling method", "–",
            *below(UNBIASED, sampled),
        ),
    )  # fmt: skip


RECIPE = Recipe("approximations", instances, work, evaluations, read)
