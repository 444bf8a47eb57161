"""Complementary contributions against Monte Carlo (appendix), and both against the field and us, at equal cost."""

from __future__ import annotations

import numpy as np

from flcontrib_core.charts.panels import Line, Panel, PanelFacts
from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.laboratory.reproduction.figure import Figure, Recipe, Row, mean_of, number, where
from flcontrib_core.laboratory.reproduction.grid import Instance, Stage, assess_within
from flcontrib_core.reports.paper_figure import Claim, PaperFigure
from flcontrib_core.shapley.registry import estimator_by_name

CC, MC, OURS, UNBIASED = "complementary", "monte-carlo", "surrogate", "surrogate-unbiased"
NEWEST = {
    f"shapiq:{name}": name for name in ("LeverageSHAP", "RegressionMSR", "OddSHAP", "ProxySPEX", "ShaplEIG")
}  # fmt: skip
"""From shapiq 1.8 on, which needs Python 3.12; the last three also need gradient boosting, gpytorch and botorch."""
METHODS = {
    CC: "complementary contributions",
    MC: "Monte Carlo",
    "complementary-neyman": "complementary, Neyman",
    "shapiq:SVARM": "SVARM",
    "shapiq:KernelSHAP": "KernelSHAP",
    **NEWEST,
    OURS: "ours: surrogate",
    UNBIASED: "ours: surrogate, unbiased",
}
MULTIPLES = (2, 4, 8, 16, 32)
"""Evaluations per epoch, in participants."""
DEAR = ("shapiq:ProxySPEX", "shapiq:ShaplEIG")
"""Run at the small scale with one seed and one budget: the former searches a grid of boosted trees for every estimate,
the latter refits a Gaussian process after every evaluation, ten seconds and more each."""
DEAR_MULTIPLE = 4


def instances(stage: Stage) -> list[Instance]:
    """Ten participants per epoch: enough coalitions to sample, few enough to know them all."""
    clients = stage.sizes(20)[-1]
    return [Instance(d, clients, 12 if stage.full else 3, s) for d in stage.tables for s in stage.repeats]


def evaluations(stage: Stage, instance: Instance) -> float:
    """The exact table and every method at every budget."""
    n = instance.participants
    return instance.epochs * (2.0**n + len(METHODS) * n * sum(MULTIPLES))


def work(stage: Stage, instance: Instance) -> list[Row]:
    """A row per method and budget: CPU seconds, and the squared error over the variance of the true totals."""
    run = stage.train(instance)
    truth = assess_within(run, AssessSettings(estimator="exact")).history  # type: ignore[arg-type]
    most = 2**instance.participants - 2
    rows: list[Row] = []
    for method in METHODS:
        for multiple in MULTIPLES:
            spent = multiple * instance.participants
            dear = method in DEAR and not stage.full
            if spent > most or (dear and (instance.seed or multiple != DEAR_MULTIPLE)):
                continue
            estimator = estimator_by_name(method, evaluations=spent)
            try:
                found = assess_within(run, AssessSettings(estimator=estimator))
            except MissingPart:
                break  # shapiq is not installed, or too old: rows are missing, and the claim says so
            except SettingsError:
                continue  # a budget below what the method can use: its point is missing
            row: Row = {"method": method, "evaluations": spent, "multiple": multiple, "seconds": found.seconds}
            for u in truth.utilities:
                exact = truth.totals(u)
                row[f"nmse_{u}"] = float(np.mean((found.history.totals(u) - exact) ** 2) / max(exact.var(), 1e-300))
            rows.append(row)
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
    lines = tuple(
        Line(words, tuple(float(m) for m in multiples), tuple(_seconds(rows, method, m) for m in multiples))
        for method, words in METHODS.items()
        if where(rows, method=method)
    )
    panels.append(Panel("CPU seconds of a run", "evaluations per participant", lines, x_values=tuple(multiples)))
    title = "Approximations at equal evaluations"
    facts = PanelFacts(title, "Means over runs; exact values of all coalitions are the truth.", tuple(panels), 3)
    missing = [words for method, words in METHODS.items() if not where(rows, method=method)]
    missing_names = ", ".join(missing)
    dear = f"ProxySPEX and ShaplEIG (which has the budget for each utility): {DEAR_MULTIPLE} per participant, one seed."
    note = f"{stage.describe()} {f'Not installed: {missing_names}.' if missing else dear}"
    return Figure(PaperFigure("approximations", stage.scale, note, _claims(rows, multiples), facts), tuple(rows))


def _error(rows: list[Row], method: str, multiple: int, utility: str) -> float:
    return mean_of(where(rows, method=method, multiple=multiple), f"nmse_{utility}")


def _seconds(rows: list[Row], method: str, multiple: int) -> float:
    return mean_of(where(rows, method=method, multiple=multiple), "seconds")


def _claims(rows: list[Row], multiples: list[int]) -> tuple[Claim, ...]:
    def below(a: str, others: list[str]) -> tuple[str, bool | None]:
        """How often a's error is below all the others' at the same budget, and below the best of them by how much."""
        pairs = []
        for m, u in ((m, u) for m in multiples for u in ("loss", "accuracy")):
            theirs = [e for e in (_error(rows, other, m, u) for other in others) if np.isfinite(e)]
            if theirs and np.isfinite(_error(rows, a, m, u)):
                pairs.append((_error(rows, a, m, u), min(theirs)))
        if not pairs:
            return "–", None
        wins = sum(x < y for x, y in pairs)
        ratio = float(np.exp(np.mean([np.log(y / x) for x, y in pairs if x > 0 and y > 0])))
        return f"{wins} of {len(pairs)} budgets and utilities, error {number(ratio)}× lower", wins > len(pairs) / 2

    quicker = [(_seconds(rows, CC, m), _seconds(rows, MC, m)) for m in multiples]
    said = ", ".join(f"{number(a)} / {number(b)}" for a, b in quicker)
    there = [m for m in METHODS if m not in (OURS, UNBIASED) and where(rows, method=m)]
    newest = [m for m in NEWEST if m in there]
    of_each = "; ".join(f"{NEWEST[m]}: {below(OURS, [m])[0]}" for m in newest) or "not installed"
    sampled = [CC, "complementary-neyman", MC, "shapiq:SVARM"]
    return (
        Claim("Complementary contributions have a lower error than Monte Carlo", "lower", *below(CC, [MC])),
        Claim(
            "Complementary contributions take less time than Monte Carlo", "less", f"{said} s at equal evaluations",
            bool(np.mean([a for a, _ in quicker]) < np.mean([b for _, b in quicker])),
        ),
        Claim("Ours: the surrogate's error is below the best other's at the same budget", "–", *below(OURS, there)),
        Claim(
            f"Ours: below each of shapiq's newest ({', '.join(NEWEST.values())})", "–", of_each,
            all(below(OURS, [m])[1] for m in newest) if len(newest) == len(NEWEST) else None,
        ),
        Claim(
            "Ours: unbiased, the corrected surrogate's error is below that of the best unbiased sampling method", "–",
            *below(UNBIASED, sampled),
        ),
    )  # fmt: skip


RECIPE = Recipe("approximations", instances, work, evaluations, read)
