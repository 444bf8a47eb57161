"""What the targets of each task look like in a validation set, and what a model must give for them.

A task that is not in the list is taken as it is: its targets are kept, and a metric of somebody's own reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

CLASSIFICATION = "classification"
IGNORED = -100
"""Whole-number targets of this value do not count (torch's own convention)."""


@dataclass(frozen=True)
class Targets:
    """The rule for ``y`` of one task."""

    metrics: Mapping[str, str] = field(default_factory=dict)
    """What is measured -> which way is better; the first one leads."""
    dtypes: tuple[str, ...] = ("I64",)
    ranks: tuple[int, ...] = ()
    """Dimensions ``y`` may have, rows included; none named: any."""
    needs_classes: bool = False
    """Whether the manifest must say how many classes there are."""
    ignores: bool = False
    """Whether ``IGNORED`` may stand for a target that does not count."""
    binary: bool = False
    """Whether every target is 0 or 1."""

    def labels(self, classes: int | None) -> int | None:
        """How many different labels there are; None where targets are no labels, or nobody says."""
        if self.binary:
            return 2
        # A single logit still tells two classes apart.
        return max(classes, 2) if self.needs_classes and classes is not None else None


TARGETS = {
    CLASSIFICATION: Targets({"loss": "lower", "accuracy": "higher"}, ranks=(1,), needs_classes=True),
    "regression": Targets({"mse": "lower", "mae": "lower", "r2": "higher"}, dtypes=("F32",)),
    "multi-label": Targets(
        {"loss": "lower", "macro-f1": "higher", "mean-auroc": "higher"}, ("I64", "F32"), (2,), binary=True
    ),
    "segmentation": Targets(
        {"loss": "lower", "dice": "higher", "iou": "higher"}, ranks=(2, 3, 4), needs_classes=True, ignores=True
    ),
    "language": Targets({"token-loss": "lower", "perplexity": "lower"}, ranks=(2,), needs_classes=True, ignores=True),
}
_ANYTHING = Targets(dtypes=("I64", "F32"))


def targets_of(task: str) -> Targets:
    """The rule of a task; anything goes where we do not know it."""
    return TARGETS.get(task, _ANYTHING)


def output_of_row(task: str, classes: int | None, y: Sequence[int]) -> tuple[int, ...] | None:
    """The shape a model must give for one row, from the whole shape of ``y``; None where it is open.

    >>> output_of_row("segmentation", 3, (100, 64, 64)), output_of_row("regression", None, (50,))
    ((3, 64, 64), (1,))
    """
    of_row = tuple(y[1:])
    if task == "regression":
        return of_row or (1,)
    if task == "multi-label":
        return of_row
    if classes is None or task not in TARGETS:
        return None
    return {"segmentation": (classes, *of_row), "language": (*of_row, classes)}.get(task, (classes,))
