"""How a figure of the paper is made: from instances to rows, and from rows to what is drawn and claimed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flcontrib_core.reports.paper_figure import PaperFigure

if TYPE_CHECKING:
    from flcontrib_core.laboratory.reproduction.grid import Instance, Stage

Row = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """One figure with the rows it was read from."""

    shown: PaperFigure
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Recipe:
    """How a figure is made: its instances, the work on one of them, and what is read from all rows."""

    name: str
    instances: Callable[[Stage], Sequence[Instance]]
    work: Callable[[Stage, Instance], list[Row]]
    evaluations: Callable[[Stage, Instance], float]
    """About how many sub-models an instance evaluates, training counted in them: for the price"""
    read: Callable[[Stage, list[Row]], Figure]


def where(rows: Iterable[Row], **values: object) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in values.items())]


def mean_of(rows: Iterable[Row], name: str) -> float:
    """The mean of a column over the rows that have it; NaN without any."""
    values = [float(row[name]) for row in rows if row.get(name) is not None and np.isfinite(row[name])]
    return float(np.mean(values)) if values else float("nan")


def number(value: float) -> str:
    """Three digits, or a dash where there is none."""
    return "–" if not np.isfinite(value) else f"{value:.3g}"


def rises(values: Sequence[float], slack: float = 0.0) -> bool | None:
    """Does the last value stand above the first, and no step fall by more than ``slack``? None with a hole."""
    track = np.asarray(values, dtype=float)
    if len(track) < 2 or not np.isfinite(track).all():
        return None
    return bool(track[-1] > track[0] and (np.diff(track) >= -slack).all())
