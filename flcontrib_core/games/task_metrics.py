"""What each task measures: metrics with their direction, the loss of every row, and losses of groups of rows.

A batch of outputs leaves a few numbers per row (``statistics``): the outputs themselves where they are few, sums over
pixels or tokens where they are many. All metrics are read from these, for many models at once. What a task does not
have is not made up: regression and language have no groups of their own, so the detector's channel of the worst group
stays empty there unless the rows come with a grouping.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from flcontrib_core.runs.tasks import IGNORED

Metric = Callable[[Tensor, Tensor], float]
"""(all outputs, all targets) of one model -> a number"""


@dataclass(frozen=True)
class Task:
    """One kind of target. Shapes: M models, V rows, R statistics of a row."""

    name: str
    statistics: Callable[[Tensor, Tensor], Tensor]
    """(rows, …) outputs and their targets -> (rows, R)."""
    metrics: Callable[[Tensor, Tensor], dict[str, Tensor]]
    """(M, V, R) double and (V, …) targets -> each metric, (M,)."""
    row_losses: Callable[[Tensor, Tensor], Tensor]
    """The same -> (M, V) the loss of each row."""
    group_losses: Callable[[Tensor, Tensor], Tensor] | None = None
    """The same -> (M, groups) the mean loss of each label or class; NaN for one that does not occur."""
    counts: Callable[[Tensor], Tensor] | None = None
    """How many pixels or tokens of each row count, where the mean is over these."""
    reduces: bool = False
    """Whether the statistics are less than the outputs."""

    def measure(self, outputs: Tensor, targets: Tensor) -> dict[str, float]:
        """Every metric of one model."""
        statistics = self.statistics(outputs, targets)[None].double()
        return {name: float(value[0]) for name, value in self.metrics(statistics, targets).items()}


def _flat(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.reshape(len(outputs), -1)


def _errors(y: Tensor, targets: Tensor) -> Tensor:
    return y - targets.reshape(len(targets), -1).double()


def _regression(y: Tensor, targets: Tensor) -> dict[str, Tensor]:
    errors, t = _errors(y, targets), targets.reshape(len(targets), -1).double()
    left, spread = errors.square().sum(1), (t - t.mean(0)).square().sum(0)
    explained = (1 - left / spread)[:, spread > 0]
    return {
        "mse": errors.square().mean((1, 2)),
        "mae": errors.abs().mean((1, 2)),
        "r2": explained.mean(1) if explained.shape[1] else explained.new_full((len(y),), math.nan),
    }


def _label_losses(y: Tensor, targets: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(y, targets.double().expand_as(y), reduction="none")  # (M, V, labels)


def _labels(y: Tensor, targets: Tensor) -> dict[str, Tensor]:
    predicted, true = y > 0, targets > 0.5
    hits = (predicted & true).sum(1).double()
    both = predicted.sum(1) + true.sum(0)
    return {
        "loss": _label_losses(y, targets).mean((1, 2)),
        "macro-f1": (2 * hits / both.clamp(min=1))[:, true.any(0)].mean(1),
        "mean-auroc": _mean_auroc(y, true),
    }


def _mean_auroc(y: Tensor, true: Tensor) -> Tensor:
    """(M,) the mean over labels that have both sides; ties count half."""
    areas = []
    for label in range(true.shape[1]):
        positive, negative = y[:, true[:, label], label], y[:, ~true[:, label], label]
        if positive.shape[1] and negative.shape[1]:
            ordered, asked = negative.sort(1).values, positive.contiguous()
            below = torch.searchsorted(ordered, asked) + torch.searchsorted(ordered, asked, right=True)
            areas.append(below.double().mean(1) / (2 * negative.shape[1]))
    return torch.stack(areas).mean(0) if areas else y.new_full((len(y),), math.nan)


def _pixel_sums(outputs: Tensor, targets: Tensor) -> Tensor:
    """(rows, 3·classes): pixels of each class that are right, that are predicted, and the loss of its pixels.

    A single channel is a logit of class 1.
    """
    if outputs.shape[1] == 1:
        predicted = (outputs[:, 0] > 0).long()
        losses = F.binary_cross_entropy_with_logits(
            outputs[:, 0].double(), targets.clamp(min=0).double(), reduction="none"
        )
    else:
        predicted = outputs.argmax(1)
        losses = F.cross_entropy(outputs.double(), targets.long(), reduction="none", ignore_index=IGNORED)
    counts = (targets != IGNORED).reshape(len(targets), -1)
    predicted, losses, truth = (part.reshape(len(outputs), -1) for part in (predicted, losses, targets))
    sums = []
    for k in range(max(outputs.shape[1], 2)):
        mine = truth == k
        right = ((predicted == k) & mine).sum(1)
        sums += [right, ((predicted == k) & counts).sum(1), (losses * mine).sum(1)]
    return torch.stack(sums, dim=1)


def _by_class(sums: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(M, V, classes) right, predicted and loss, and (V, classes) pixels that have the class."""
    right, predicted, losses = sums.reshape(*sums.shape[:2], -1, 3).unbind(-1)
    truth = targets.reshape(len(targets), -1)
    return right, predicted, losses, torch.stack([(truth == k).sum(1) for k in range(right.shape[2])], 1).double()


def _segmentation(sums: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Dice and IoU over the classes but the background (class 0)."""
    right, predicted, losses, held = _by_class(sums, targets)
    agree = right.sum(1)[:, 1:]
    total = (predicted.sum(1) + held.sum(0))[:, 1:]
    occurs = total > 0
    dice = (2 * agree / total.clamp(min=1)).masked_fill(~occurs, 0.0)
    iou = (agree / (total - agree).clamp(min=1)).masked_fill(~occurs, 0.0)
    return {
        "loss": losses.sum((1, 2)) / held.sum().clamp(min=1),
        "dice": dice.sum(1) / occurs.sum(1),
        "iou": iou.sum(1) / occurs.sum(1),
    }


def _rows_of_pixels(sums: Tensor, targets: Tensor) -> Tensor:
    _, _, losses, held = _by_class(sums, targets)
    return losses.sum(2) / held.sum(1).clamp(min=1)


def _classes_of_pixels(sums: Tensor, targets: Tensor) -> Tensor:
    _, _, losses, held = _by_class(sums, targets)
    return losses.sum(1) / held.sum(0)


def _token_sums(outputs: Tensor, targets: Tensor) -> Tensor:
    """(rows, 1): the loss of a row's tokens that count."""
    steps = outputs.double().transpose(1, 2)
    losses = F.cross_entropy(steps, targets.long(), reduction="none", ignore_index=IGNORED)
    return losses.sum(1, keepdim=True)


def _counted_tokens(targets: Tensor) -> Tensor:
    return (targets != IGNORED).sum(1).double()


def _language(sums: Tensor, targets: Tensor) -> dict[str, Tensor]:
    loss = sums.sum((1, 2)) / _counted_tokens(targets).sum().clamp(min=1)
    return {"token-loss": loss, "perplexity": loss.exp()}


TASKS: dict[str, Task] = {
    "regression": Task(
        "regression",
        _flat,
        _regression,
        lambda y, t: _errors(y, t).square().mean(2),
    ),
    "multi-label": Task(
        "multi-label",
        _flat,
        _labels,
        lambda y, t: _label_losses(y, t).mean(2),
        lambda y, t: _label_losses(y, t).mean(1),
    ),
    "segmentation": Task(
        "segmentation",
        _pixel_sums,
        _segmentation,
        _rows_of_pixels,
        _classes_of_pixels,
        counts=lambda t: (t != IGNORED).reshape(len(t), -1).sum(1).double(),
        reduces=True,
    ),
    "language": Task(
        "language",
        _token_sums,
        _language,
        lambda sums, t: sums[:, :, 0] / _counted_tokens(t).clamp(min=1),
        counts=_counted_tokens,
        reduces=True,
    ),
}
