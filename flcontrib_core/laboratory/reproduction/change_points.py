"""Change points (figure change_point_detection): cumulative curves, probabilities, and the mass inside the window.

The names of the paper's files (…_4_1_0.5_0.5_0_10) say 50 % participation and a window of 10; the text says neither.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.charts.panels import Line, Panel, PanelFacts
from flcontrib_core.detection.change_points import ChangePointSettings, ChangeSeries, mass_in_window, read_change_points
from flcontrib_core.laboratory.reproduction.figure import Figure, Recipe, Row, mean_of, number, where
from flcontrib_core.laboratory.reproduction.grid import Instance, Stage, assess_within
from flcontrib_core.reports.paper_figure import Claim, PaperFigure

CASES = ((4, 1), (4, 2), (8, 1), (8, 2))
FLIPS = (0.3, 0.5, 0.7, 1.0)
WINDOW, EPOCHS = (11, 20), 30
IN_PAPER = {(4, 1, 0.5): 0.91, (4, 1, 0.7): 0.97, (8, 2, 0.7): 0.82}
NEAR = 0.1
"""A mass this close to the paper's is called the same: it is one run's there, a mean over few here."""
SIGN_EVERY = 5
"""Epochs between two signs of a curve, which is as long as the run."""


def instances(stage: Stage) -> list[Instance]:
    """Every case, flip and participation."""
    cases = [case for case in CASES if stage.clients is None or case[0] in stage.clients]
    dataset = stage.tables[0]
    return [
        Instance(dataset, m, EPOCHS, s, participation, flip, dishonest, WINDOW)
        for m, dishonest in cases
        for participation in (0.5, 1.0)
        for flip in FLIPS
        for s in (stage.repeats if stage.full or (m, dishonest, flip) in IN_PAPER else stage.repeats[:1])
    ]


def evaluations(stage: Stage, instance: Instance) -> float:
    """The surrogate's, or exact values of every epoch, and the training."""
    n = instance.participants
    return instance.epochs * ((2.0**n if stage.full or n <= 4 else 4.0 * n) + 60)


def work(stage: Stage, instance: Instance) -> list[Row]:
    """A row per client with its mass; the first seed's curves too, which are drawn."""
    run = stage.train(instance)
    assert run.truth is not None
    assert instance.window is not None
    assert instance.flip is not None
    history = assess_within(run, stage.applied).history
    points = read_change_points(history, ChangePointSettings(ChangeSeries.CUMULATIVE))
    marked = {d.client for d in run.truth.dishonest}
    curves = history.cumulative("loss")
    rows: list[Row] = []
    for n, client in enumerate(run.client_ids):
        row: Row = {"client": client, "is_dishonest": client in marked}
        row["mass"] = mass_in_window(points, client, instance.window)
        if instance.seed == 0:
            row["curve"] = curves[:, n].round(4).tolist()
            row["probability"] = np.nan_to_num(points.probability[:, n]).round(4).tolist()
        rows.append(row)
    return rows


def read(stage: Stage, rows: list[Row]) -> Figure:
    """The paper's three cases as curves, the mass over flips for all cases, and every case's curves after that."""
    panels = [p for case in IN_PAPER for p in _curves(rows, case, 0.5)]
    for participation in (0.5, 1.0):
        here = where(rows, participation=participation)
        lines = [
            Line(f"{m}/{d}, {who}", FLIPS, tuple(_mass(here, m, d, flip, flag) for flip in FLIPS))
            for m, d in CASES
            if where(here, clients=m, dishonest=d)
            for who, flag in (("dishonest", True), ("honest", False))
        ]
        title = f"Mass in the window, {participation:.0%} take part"
        panels.append(Panel(title, "flip probability", tuple(lines), x_values=FLIPS, y_range=(0.0, 1.0)))
    title = "Poisoned windows: cumulative loss shares and change points"
    take_away = "Grey: the poisoned window, epochs 11 to 20. An asterisk marks dishonest clients; up is harm."
    facts = PanelFacts(title, take_away, tuple(panels), 2)
    data = f"Data: {rows[0]['dataset']}, equal splits, {EPOCHS} epochs; Fearnhead's recursion."
    note = f"{stage.describe()} {data}"
    appendix = tuple(case for case in (_every_case(rows, p) for p in (0.5, 1.0)) if case.panels)
    return Figure(PaperFigure("change-points", stage.scale, note, _claims(rows), facts, further=appendix), tuple(rows))


def _mass(rows: list[Row], clients: int, dishonest: int, flip: float, marked: bool) -> float:
    return mean_of(where(rows, clients=clients, dishonest=dishonest, flip=flip, is_dishonest=marked), "mass")


def _every_case(rows: list[Row], participation: float) -> PanelFacts:
    """The appendix: the curves of every case and flip, two of them in a row."""
    panels = [p for m, d in CASES for flip in FLIPS for p in _curves(rows, (m, d, flip), participation, short=True)]
    title = f"Poisoned windows, {participation:.0%} take part: every case"
    take_away = (
        "Clients/dishonest ones and flip probability; left the cumulative share of the loss, right the change-point "
        "probability. Grey: the poisoned window; an asterisk marks dishonest clients."
    )
    drawn = dict.fromkeys(line.name for panel in panels for line in panel.lines)
    return PanelFacts(title, take_away, tuple(panels), 4, tuple(sorted(drawn, key=lambda n: ("*" not in n, n))))


def _curves(rows: list[Row], case: tuple[int, int, float], participation: float, *, short: bool = False) -> list[Panel]:
    """Running shares and change-point probability of one run."""
    clients, dishonest, flip = case
    here = where(rows, clients=clients, dishonest=dishonest, flip=flip, participation=participation, seed=0)
    epochs = tuple(float(t) for t in range(EPOCHS + 1))
    band = (WINDOW[0] - 0.5, WINDOW[1] + 0.5)
    columns = {"curve": "cumulative share of the loss", "probability": "change-point probability"}
    if short:
        columns = {"curve": "share", "probability": "change"}
    panels = []
    for column, words in columns.items() if here else ():
        lines = [
            Line(f"client {n + 1}{'*' if r['is_dishonest'] else ''}", epochs, tuple(r[column]))
            for n, r in enumerate(here)
        ]
        title = f"{clients}/{dishonest}, flip {flip:g}: {words}"
        panels.append(Panel(title, "epoch", tuple(lines), shaded=band, sign_every=SIGN_EVERY))
    return panels


def _claims(rows: list[Row]) -> tuple[Claim, ...]:
    claims = []
    for (m, d, flip), paper in IN_PAPER.items():
        half, whole, honest = (
            _mass(where(rows, participation=p), m, d, flip, k)
            for p, k in ((0.5, True), (1.0, True), (0.5, False))
        )  # fmt: skip
        said = f"{half:.2f} at 50 % participation ({whole:.2f} at 100 %; honest clients {honest:.2f})"
        claim = f"Mass in the window, {d} of {m} dishonest, flip {flip:g}"
        holds = abs(half - paper) <= NEAR if np.isfinite(half) else None
        claims.append(Claim(claim, f"{paper:.2f}", said if np.isfinite(half) else "–", holds))
    low, high = (_mass(where(rows, participation=0.5), 4, 1, flip, True) for flip in (0.5, 0.7))
    claims.append(
        Claim("The mass rises from flip 0.5 to 0.7", ".91 → .97", f"{number(low)} → {number(high)}",
              bool(high > low) if np.isfinite([low, high]).all() else None)
    )  # fmt: skip
    apart = [
        mean_of([r for r in where(rows, participation=0.5) if r["is_dishonest"] is flag], "mass")
        for flag in (True, False)
    ]
    claims.append(
        Claim("Ours: dishonest clients' mass exceeds honest clients' by 0.2 or more", "not stated",
              f"{number(apart[0])} against {number(apart[1])}", bool(apart[0] - apart[1] >= 0.2))
    )  # fmt: skip
    return tuple(claims)


RECIPE = Recipe("change-points", instances, work, evaluations, read)
