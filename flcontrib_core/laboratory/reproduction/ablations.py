"""Ablations (figure ablation_study and its appendix): clients and k/T, for every way of choosing epochs.

Every epoch is computed once with the paper's estimator and once with ours; a schedule then takes the seconds and values
of the epochs it chose, since a value never depends on which other epochs were computed. Choosing them counts as time
too.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from flcontrib_core.charts.panels import Line, Panel, PanelFacts
from flcontrib_core.history.settings import PAPER_SETTINGS, AssessSettings
from flcontrib_core.history.trajectory import scheduling_problem
from flcontrib_core.laboratory.reproduction.figure import Figure, Recipe, Row, mean_of, number, rises, where
from flcontrib_core.laboratory.reproduction.grid import Instance, Stage, assess_within, limited_to, squared_errors
from flcontrib_core.reports.paper_figure import Claim, PaperFigure
from flcontrib_core.scheduling.choose import choose_epochs
from flcontrib_core.scheduling.schedule import FairnessMode
from flcontrib_core.vocabulary import FillPolicy

SHARES = (0.25, 0.5, 0.75, 1.0)
ONE, TWO, LB = "one-sided (paper)", "two-sided (paper)", "two-sided LB (paper)"
PAPER_MODES = {ONE: FairnessMode.ONE_SIDED, TWO: FairnessMode.TWO_SIDED, LB: FairnessMode.TWO_SIDED_LB}
OUR_MODES = {
    "ours: two-sided": FairnessMode.TWO_SIDED,
    "ours: audit": FairnessMode.AUDIT,
    "baseline: top utility": FairnessMode.TOP_UTILITY,
    "baseline: stride": FairnessMode.STRIDE,
}
UTILITIES = ("loss", "accuracy")
COLUMNS = {"seconds": "CPU seconds", "mse_loss": "MSE, loss", "mse_accuracy": "MSE, accuracy"}


def instances(stage: Stage) -> list[Instance]:
    """Adult and COMPAS over the clients whose exact values can be had."""
    sizes = stage.sizes(*((4, 8, 16, 32) if stage.full else (4, 8, 16)))
    return [Instance(d, m, 25 if stage.full else 12, s) for d in stage.tables for m in sizes for s in stage.repeats]


def evaluations(stage: Stage, instance: Instance) -> float:
    """Exact values three times over: truth, the paper's estimator, auto."""
    return instance.epochs * 3 * (2.0**instance.participants + 20)


def work(stage: Stage, instance: Instance) -> list[Row]:
    """A row per mode and k/T."""
    run = stage.train(instance)
    truth = assess_within(run, AssessSettings(estimator="exact")).history  # type: ignore[arg-type]
    problem = scheduling_problem(run)
    rows: list[Row] = []
    for modes, settings in ((PAPER_MODES, PAPER_SETTINGS), (OUR_MODES, AssessSettings())):
        values = assess_within(run, replace(settings, budget=replace(settings.budget, budget=None)))
        for name, fairness in modes.items():
            for share in SHARES:
                began = time.process_time()
                plan = choose_epochs(problem, replace(settings.budget, budget=share, fairness=fairness))
                planning = time.process_time() - began
                scheduled = limited_to(values.history, plan.chosen)
                row: Row = {"mode": name, "share": share, "chosen": len(plan.chosen)}
                row["seconds"] = float(values.of_epoch[list(plan.chosen)].sum()) + planning
                row["exposure_gap"] = plan.exposure_gap
                rows.append(row | squared_errors(scheduled, truth, settings.fill))
    return rows


def read(stage: Stage, rows: list[Row]) -> Figure:
    """For each data set, over clients at k/T = 0.5 and over k/T at the most clients."""
    sizes = sorted({int(r["clients"]) for r in rows})
    modes = (*PAPER_MODES, *OUR_MODES)
    panels: list[Panel] = []
    for dataset in dict.fromkeys(r["dataset"] for r in rows):
        here = where(rows, dataset=dataset)
        for column, words in COLUMNS.items():
            lines = tuple(_line(where(here, share=0.5), mode, "clients", column, sizes) for mode in modes)
            panels.append(
                Panel(f"{dataset}: {words}, k/T = 0.5", "clients", lines, logarithmic=True, x_values=tuple(sizes))
            )
        for column, words in COLUMNS.items():
            lines = tuple(_line(where(here, clients=sizes[-1]), mode, "share", column, SHARES) for mode in modes)
            title = f"{dataset}: {words}, {sizes[-1]} clients"
            panels.append(Panel(title, "k/T", lines, logarithmic=column != "seconds", x_values=SHARES))
    claims = (*_claims_on_clients(rows, sizes), *_claims_on_shares(rows), _budgets_used(rows))
    title = "Ablation: clients and k/T under every way of choosing epochs"
    facts = PanelFacts(title, "Time and squared error of the totals against exact values.", tuple(panels), 3, modes)
    fill = f"Paper modes: complementary contributions, at most k, γ = 1, each term over its own sum, {FillPolicy.ZERO}"
    note = f"{stage.describe()} {fill} fill. Ours: auto, exactly k, γ = 0.3, {FillPolicy.EQUAL} fill."
    return Figure(PaperFigure("ablations", stage.scale, note, claims, facts), tuple(rows))


def _line(rows: list[Row], mode: str, across: str, column: str, places: object) -> Line:
    at = [float(v) for v in places]  # type: ignore[attr-defined]
    heights = [mean_of(where(rows, mode=mode, **{across: v}), column) for v in places]  # type: ignore[attr-defined]
    return Line(mode, tuple(at), tuple(max(h, 1e-10) if np.isfinite(h) else h for h in heights))


def _claims_on_clients(rows: list[Row], sizes: list[int]) -> list[Claim]:
    here = [r for r in where(rows, share=0.5) if r["mode"] in PAPER_MODES]

    def over(column: str) -> list[float]:
        return [mean_of(where(here, clients=m), column) for m in sizes]

    seconds = over("seconds")
    claims = [Claim("Time rises with the clients, seconds", "rises", " → ".join(map(number, seconds)), rises(seconds))]
    for utility in UTILITIES:
        errors = over(f"mse_{utility}")
        fallen = rises([-e for e in errors])
        claim = f"MSE on {utility} falls with the number of clients"
        claims.append(Claim(claim, "falls", " → ".join(map(number, errors)), fallen))
    return claims


def _claims_on_shares(rows: list[Row]) -> list[Claim]:
    def over(column: str, mode: str) -> list[float]:
        return [mean_of(where(rows, mode=mode, share=s), column) for s in SHARES]

    def of_modes(column: str) -> str:
        return "; ".join(f"{m}: {' → '.join(map(number, over(column, m)))}" for m in PAPER_MODES)

    time_up = [rises(over("seconds", mode), slack=1e-3) for mode in PAPER_MODES]
    claims = [Claim("Time rises with k/T in every mode", "rises", of_modes("seconds"), all(time_up))]
    for utility in UTILITIES:
        column = f"mse_{utility}"
        fallen = [rises([-v for v in over(column, mode)], slack=1e-9) for mode in PAPER_MODES]
        claim = f"MSE on {utility} falls with k/T in every mode"
        claims.append(Claim(claim, "falls", of_modes(column), all(fallen)))
    at = {m: [mean_of(where(rows, mode=m), c) for c in COLUMNS] for m in PAPER_MODES}
    alike = all(0.5 <= a / b <= 2 for a, b in zip(at[ONE], at[TWO], strict=True) if b > 0)
    cheaper = at[LB][0] < min(at[ONE][0], at[TWO][0])
    coarser = all(at[LB][n] > max(at[ONE][n], at[TWO][n]) for n in (1, 2))
    said = "; ".join(
        f"{m} {number(at[m][0])} s, MSE {number(at[m][1])} (loss), {number(at[m][2])} (accuracy)" for m in PAPER_MODES
    )
    return [
        *claims,
        Claim("One-sided and two-sided perform alike (within a factor of 2)", "similar", said, alike),
        Claim("Two-sided LB takes less time and has a higher MSE", "less, higher", said, cheaper and coarser),
    ]


def _budgets_used(rows: list[Row]) -> Claim:
    used = [mean_of(where(rows, mode=LB, share=share), "chosen") for share in SHARES]
    said = f"{' → '.join(map(number, used))} epochs at k/T = {', '.join(f'{share:g}' for share in SHARES)}"
    measured = bool(np.isfinite(used).all())
    return Claim("The lower bound moves with k/T and is never empty", "moves", said, rises(used) if measured else None)


RECIPE = Recipe("ablations", instances, work, evaluations, read)
