"""Separation of honest clients (figure jaccard_similarity), beside what one single cluster would give."""

from __future__ import annotations

import numpy as np

from flcontrib_core.charts.panels import Line, Panel, PanelFacts
from flcontrib_core.detection.separation import GroupingSettings, separate
from flcontrib_core.laboratory.reproduction.figure import Figure, Recipe, Row, mean_of, number, rises, where
from flcontrib_core.laboratory.reproduction.grid import Instance, Stage, assess_within
from flcontrib_core.reports.paper_figure import Claim, PaperFigure

FLIPS = (0.1, 0.3, 0.5, 0.7, 1.0)
CLIENTS = (4, 8, 16)
DISHONEST = (1, 2, 3)
WINDOWS = {5: (8, 12), 10: (6, 15)}
EPOCHS = 20
MIDDLE = (8, 1, 0.5)
"""Clients, dishonest, flip: what stays where another is varied."""
MEASURES = {"jaccard": "Jaccard", "single_cluster": "one single cluster", "adjusted": "chance-adjusted"}


def cases(stage: Stage) -> list[tuple[int, int, float]]:
    """One knob at a time."""
    clients, dishonest, flip = MIDDLE
    varied = [(clients, dishonest, f) for f in FLIPS] + [(m, dishonest, flip) for m in CLIENTS]
    varied += [(clients, d, flip) for d in DISHONEST]
    return [c for c in dict.fromkeys(varied) if stage.clients is None or c[0] in stage.clients]


def instances(stage: Stage) -> list[Instance]:
    """Every case with both windows and both participations."""
    return [
        Instance(stage.tables[0], m, EPOCHS, s, participation, flip, d, window)
        for m, d, flip in cases(stage)
        for window in WINDOWS.values()
        for participation in (0.5, 1.0)
        for s in stage.repeats
    ]


def evaluations(stage: Stage, instance: Instance) -> float:
    """The surrogate's, or exact values up to 8 participants, and the training."""
    n = instance.participants
    return instance.epochs * ((2.0**n if n <= (8 if stage.full else 4) else 4.0 * n) + 60)


def work(stage: Stage, instance: Instance) -> list[Row]:
    """One row: the index, the value of one cluster for all, and the chance-adjusted one."""
    run = stage.train(instance)
    assert run.truth is not None
    assert instance.window is not None
    history = assess_within(run, stage.applied).history
    separation = separate(
        history, settings=GroupingSettings(calibrated=False), dishonest=[d.client for d in run.truth.dishonest]
    )
    score = None if separation is None else separation.jaccard
    return [
        {
            "length": instance.window[1] - instance.window[0] + 1,
            "single_cluster": (instance.clients - instance.dishonest) / instance.clients,
            "jaccard": None if score is None else score.raw,
            "adjusted": None if score is None else score.adjusted,
        }
    ]


def read(stage: Stage, rows: list[Row]) -> Figure:
    """Three knobs times two windows, both participations in one panel."""
    panels = []
    for length in WINDOWS:
        here = where(rows, length=length)
        for knob, places, words in (
            ("flip", FLIPS, "flip probability"),
            ("clients", CLIENTS, "clients"),
            ("dishonest", DISHONEST, "dishonest clients"),
        ):
            at = [v for v in places if _varied(here, knob, v)]
            lines = [
                Line(
                    name if measure == "single_cluster" else f"{name}, {p:.0%} take part",
                    tuple(map(float, at)),
                    tuple(_mean(here, knob, v, measure, p) for v in at),
                )
                for measure, name in MEASURES.items()
                for p in (0.5, 1.0)
                if measure != "single_cluster" or p == 0.5
            ]  # fmt: skip
            panels.append(Panel(f"Window of {length}", words, tuple(lines), x_values=tuple(map(float, at))))
    title = "Separating honest clients by K-means on cumulative values"
    take_away = "One cluster for everybody already gives (n − d)/n; the chance-adjusted index is 0 for it."
    data = f"Data: {rows[0]['dataset']}, equal splits, {EPOCHS} epochs"
    note = f"{stage.describe()} {data}; 8 clients, 1 dishonest, flip 0.5 where not varied."
    facts = PanelFacts(title, take_away, tuple(panels), 3)
    return Figure(PaperFigure("jaccard", stage.scale, note, _claims(rows), facts), tuple(rows))


def _varied(rows: list[Row], knob: str, value: float) -> list[Row]:
    """The rows in which one knob has this value and the others their middle one."""
    fixed = dict(zip(("clients", "dishonest", "flip"), MIDDLE, strict=True)) | {knob: value}
    return where(rows, **fixed)


def _mean(rows: list[Row], knob: str, value: float, measure: str, participation: float | None = None) -> float:
    some = _varied(rows, knob, value)
    return mean_of(some if participation is None else where(some, participation=participation), measure)


def _claims(rows: list[Row]) -> tuple[Claim, ...]:
    def over(knob: str, places: tuple[float, ...] | tuple[int, ...], measure: str) -> list[float]:
        return [_mean(rows, knob, v, measure) for v in places if _varied(rows, knob, v)]

    def said(raw: list[float], adjusted: list[float]) -> str:
        return f"{' → '.join(map(number, raw))} (adjusted {' → '.join(map(number, adjusted))})"

    flips, clients, dishonest = (
        (over(k, v, "jaccard"), over(k, v, "adjusted"))
        for k, v in (("flip", FLIPS), ("clients", CLIENTS), ("dishonest", DISHONEST))
    )
    gain = [mean_of(rows, "jaccard"), mean_of(rows, "single_cluster")]
    return (
        Claim("Similarity rises with the flip probability", "to 1", said(*flips), rises(flips[0], 0.05)),
        Claim("Similarity rises with the clients", "rises", said(*clients), rises(clients[0], 0.05)),
        Claim(
            "Similarity falls with more dishonest clients", "falls", said(*dishonest),
            rises([-v for v in dishonest[0]], 0.05),
        ),
        Claim(
            "Ours: the index exceeds what one single cluster gives by 0.05 or more", "not stated",
            f"{number(gain[0])} against {number(gain[1])}",
            bool(gain[0] - gain[1] >= 0.05) if np.isfinite(gain).all() else None,
        ),
    )  # fmt: skip


RECIPE = Recipe("jaccard", instances, work, evaluations, read)
