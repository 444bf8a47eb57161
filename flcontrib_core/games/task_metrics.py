"""What each task measures: metrics with their direction, the loss of every row, and losses of groups of rows.

Outputs and targets are whole validation sets as tensors. What a task does not have is not made up: regression and
language have no groups, so the detector's channel of the worst group stays empty there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

Metric = Callable[[Tensor, Tensor], float]
IGNORED = -100
"""Targets of this value are left out (torch's own convention)."""


@dataclass(frozen=True)
class Task:
    """One kind of target."""

    metrics: Mapping[str, tuple[Metric, str]]
    """name -> (function of outputs and targets, which way is better); the first one leads."""
    row_losses: Callable[[Tensor, Tensor], Tensor]
    """(V,) the loss of each row."""
    group_losses: Callable[[Tensor, Tensor], Tensor] | None = None
    """(groups,) the mean loss of each label or class; NaN for one that does not occur."""


def _flat(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return outputs.reshape(len(outputs), -1).double(), targets.reshape(len(targets), -1).double()


def _squared_errors(outputs: Tensor, targets: Tensor) -> Tensor:
    y, t = _flat(outputs, targets)
    return (y - t).square().mean(1)


def _mae(outputs: Tensor, targets: Tensor) -> float:
    y, t = _flat(outputs, targets)
    return float((y - t).abs().mean())


def _r2(outputs: Tensor, targets: Tensor) -> float:
    y, t = _flat(outputs, targets)
    left, spread = (y - t).square().sum(0), (t - t.mean(0)).square().sum(0)
    return float((1 - left / spread)[spread > 0].mean())


def _label_losses(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(outputs.double(), targets.double(), reduction="none")  # (V, labels)


def _macro_f1(outputs: Tensor, targets: Tensor) -> float:
    predicted, true = outputs > 0, targets > 0.5
    hits = (predicted & true).sum(0).double()
    both = predicted.sum(0) + true.sum(0)
    return float((2 * hits / both.clamp(min=1))[true.any(0)].mean())


def _mean_auroc(outputs: Tensor, targets: Tensor) -> float:
    """The mean over labels that have both sides; ties count half."""
    areas = []
    for scores, true in zip(outputs.double().T, (targets > 0.5).T, strict=True):
        positive, negative = scores[true], scores[~true]
        if len(positive) and len(negative):
            ordered = negative.sort().values
            below = torch.searchsorted(ordered, positive) + torch.searchsorted(ordered, positive, right=True)
            areas.append(float(below.double().mean()) / (2 * len(negative)))
    return float(torch.tensor(areas).mean()) if areas else float("nan")


def _pixel_losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """(V, pixels) cross-entropy; a single channel is a logit of class 1."""
    if outputs.shape[1] == 1:
        loss = F.binary_cross_entropy_with_logits(outputs[:, 0].double(), targets.double(), reduction="none")
    else:
        loss = F.cross_entropy(outputs.double(), targets.long(), reduction="none", ignore_index=IGNORED)
    return loss.reshape(len(outputs), -1)


def _overlaps(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """(classes,) pixels that agree, and pixels in either times two, without the background (class 0)."""
    predicted = (outputs[:, 0] > 0).long() if outputs.shape[1] == 1 else outputs.argmax(1)
    classes = range(1, max(outputs.shape[1], 2))
    agree = torch.stack([((predicted == k) & (targets == k)).sum() for k in classes]).double()
    total = torch.stack([(predicted == k).sum() + (targets == k).sum() for k in classes]).double()
    return agree, total


def _dice(outputs: Tensor, targets: Tensor) -> float:
    agree, total = _overlaps(outputs, targets)
    return float((2 * agree / total)[total > 0].mean())


def _iou(outputs: Tensor, targets: Tensor) -> float:
    agree, total = _overlaps(outputs, targets)
    return float((agree / (total - agree))[total > 0].mean())


def _losses_of_classes(outputs: Tensor, targets: Tensor) -> Tensor:
    losses, classes = _pixel_losses(outputs, targets), targets.reshape(len(targets), -1)
    return torch.stack([losses[classes == k].mean() for k in range(max(outputs.shape[1], 2))])


def _token_losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """(V,) mean over the tokens of each row that count."""
    losses = F.cross_entropy(outputs.double().transpose(1, 2), targets.long(), reduction="none", ignore_index=IGNORED)
    return losses.sum(1) / (targets != IGNORED).sum(1).clamp(min=1)


def _token_loss(outputs: Tensor, targets: Tensor) -> float:
    flat = outputs.double().reshape(-1, outputs.shape[-1])
    return float(F.cross_entropy(flat, targets.long().reshape(-1), ignore_index=IGNORED))


TASKS: dict[str, Task] = {
    "regression": Task(
        {
            "mse": (lambda y, t: float(_squared_errors(y, t).mean()), "lower"),
            "mae": (_mae, "lower"),
            "r2": (_r2, "higher"),
        },
        _squared_errors,
    ),
    "multi-label": Task(
        {
            "loss": (lambda y, t: float(_label_losses(y, t).mean()), "lower"),
            "macro-f1": (_macro_f1, "higher"),
            "mean-auroc": (_mean_auroc, "higher"),
        },
        lambda y, t: _label_losses(y, t).mean(1),
        lambda y, t: _label_losses(y, t).mean(0),
    ),
    "segmentation": Task(
        {
            "loss": (lambda y, t: float(_pixel_losses(y, t).mean()), "lower"),
            "dice": (_dice, "higher"),
            "iou": (_iou, "higher"),
        },
        lambda y, t: _pixel_losses(y, t).mean(1),
        _losses_of_classes,
    ),
    "language": Task(
        {
            "token-loss": (_token_loss, "lower"),
            "perplexity": (lambda y, t: float(torch.tensor(_token_loss(y, t)).exp()), "lower"),
        },
        _token_losses,
    ),
}
