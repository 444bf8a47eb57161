"""Utilities: numbers that say how good a model is, read from its validation logits.

Utilities are names; ``UtilityReader`` turns the logits of many models into all of them in one pass:

=========================  ====================================================================================
``loss``                   mean cross-entropy (binary cross-entropy for a single logit), lower is better
``accuracy``               share of rows whose largest logit is the true class (the first one among equals)
``macro-f1``               mean F1 over the classes that occur in the validation labels (0 where undefined)
``worst-class-recall``     smallest recall over the classes that occur in the validation labels
``demographic-parity-gap`` largest difference between two groups in how often a class is predicted, over all
                           classes (for two classes the usual |P(ŷ=1 | a) − P(ŷ=1 | b)|); needs ``group``
=========================  ====================================================================================

and any linear combination of them, written as ``0.7*loss-0.3*accuracy``::

    combination := ["-"] term { ("+" | "-") term }          term := [number "*"] name

A combination is computed from the same pass. Values are float64; a model with a NaN or infinite logit has the
value NaN for *every* utility, so that a diverged model is never mistaken for a merely bad one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.runs.tasks import CLASSIFICATION, TARGETS
from flcontrib_core.vocabulary import LOWER_IS_BETTER, FloatArray, IntArray, LogitTensor, UtilityMatrix

if TYPE_CHECKING:
    import torch

    _PerRow = Callable[[], torch.Tensor]

KNOWN_UTILITIES = ("loss", "accuracy", "macro-f1", "worst-class-recall", "demographic-parity-gap")
DEFAULT_UTILITIES = ("loss", "accuracy")
"""What is measured where nobody asks for anything else; on another task they stand for that task's own metrics."""
_NEED_PREDICTIONS = frozenset(KNOWN_UTILITIES[2:])
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_CELLS_AT_ONCE = 1 << 20
"""Logits read per step (4 MiB of float32), so that temporaries stay in cache and memory stays bounded."""
_ROW_MULTIPLE = 32


def padded_rows(rows: int) -> int:
    """How many columns hold the logits of ``rows`` validation rows?

    A multiple of 32: vectorised exponentials treat the last few numbers of a tensor with another routine, whose
    last bit differs. With full vectors only, a model's bits do not depend on the models beside it.
    """
    return -(-rows // _ROW_MULTIPLE) * _ROW_MULTIPLE


@dataclass(frozen=True)
class Term:
    """One summand of a utility: coefficient · name."""

    coefficient: float
    name: str


@cache
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    # Longest first, so that no name hides behind a shorter one; names hold hyphens, hence the closed list.
    return re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))


def parse_utility(expression: str, names: tuple[str, ...] = KNOWN_UTILITIES) -> tuple[Term, ...]:
    """Which known utilities does this expression add up, with which coefficients?

    >>> parse_utility("0.7*loss - 0.3*accuracy")
    (Term(coefficient=0.7, name='loss'), Term(coefficient=-0.3, name='accuracy'))
    """
    text = expression.replace(" ", "")
    terms: list[Term] = []
    position = 0
    while position < len(text) or not terms:
        sign = 1.0
        if text[position : position + 1] in ("-", "+") and (terms or text[position] == "-"):
            sign = -1.0 if text[position] == "-" else 1.0
            position += 1
        elif terms:
            raise _unreadable(expression, text, position, "'+', '-' or the end")
        number = _NUMBER.match(text, position)
        if number:
            if text[number.end() : number.end() + 1] != "*":
                raise _unreadable(expression, text, number.end(), "'*' and a name after the number")
            sign *= float(number.group())
            position = number.end() + 1
        name = _any_of(names).match(text, position)
        if not name:
            raise _unreadable(expression, text, position, f"one of {', '.join(names)}")
        terms.append(Term(sign, name.group()))
        position = name.end()
    if not all(np.isfinite(t.coefficient) for t in terms):
        raise SettingsError(f"utility {expression!r}: a coefficient is too large for a number; write a smaller one")
    return tuple(terms)


def _unreadable(expression: str, text: str, position: int, expected: str) -> SettingsError:
    rest = text[position : position + 20] or "the end"
    return SettingsError(
        f"utility {expression!r}: found {rest!r} where {expected} should stand; write e.g. 0.7*loss-0.3*accuracy"
    )


def mixing(utilities: Sequence[Sequence[Term]]) -> tuple[tuple[str, ...], FloatArray]:
    """The names that utilities are made of, and the linear map (names, utilities) that makes them."""
    parts = tuple(dict.fromkeys(term.name for of_one in utilities for term in of_one))
    mix = np.zeros((len(parts), len(utilities)))
    for number, of_one in enumerate(utilities):
        for term in of_one:
            mix[parts.index(term.name), number] += term.coefficient
    return parts, mix


def lower_is_better(utility: str | Sequence[Term], lower: Container[str] = LOWER_IS_BETTER) -> bool:
    """Is the smaller value of this utility the better model?

    A combination is turned the way the larger sum of absolute coefficients pulls (ties: lower is better), whatever
    the order of its terms: ``0.7*loss+0.3*accuracy`` is lower-is-better, ``accuracy-0.1*loss`` is not.
    """
    pull = 0.0
    for term in parse_utility(utility) if isinstance(utility, str) else utility:
        pull += term.coefficient if term.name in lower else -term.coefficient
    return pull >= 0.0


def utilities_of(task: str, asked: Sequence[str]) -> tuple[str, ...]:
    """The utilities that are meant on a log of this task.

    What holds for classification by default stands for the task's own: all its metrics for the usual utilities, the
    first one for the loss alone. A task that nobody knows has what it is asked for.
    """
    if task == CLASSIFICATION or task not in TARGETS:
        return tuple(asked)
    names = tuple(TARGETS[task].metrics)
    if tuple(asked) == DEFAULT_UTILITIES:
        return names
    meant = tuple(names[0] if name == "loss" and name not in names else name for name in asked)
    for name in meant:
        parse_utility(name, names)
    return tuple(dict.fromkeys(meant))


def lower_of(task: str, utilities: Sequence[str]) -> frozenset[str]:
    """Those of a task's utilities whose smaller value is the better model."""
    if task == CLASSIFICATION or task not in TARGETS:
        return frozenset(name for name in utilities if lower_is_better(name))
    ways = TARGETS[task].metrics
    lower = {name for name, way in ways.items() if way == "lower"}
    return frozenset(u for u in utilities if lower_is_better(parse_utility(u, tuple(ways)), lower))


class UtilityReader:
    """Reads all requested utilities from the logits of many models at once.

    ``classes`` is the width of the logits; 1 means a single logit whose positive side is class 1.
    Raises ``SettingsError`` for an unknown utility, or one that needs a group the validation set does not carry.
    """

    def __init__(
        self,
        utilities: Sequence[str],
        y: IntArray,
        classes: int,
        group: IntArray | None = None,
        device: str = "cpu",
    ) -> None:
        import torch

        if not utilities:
            raise SettingsError("no utility was requested; name at least one, e.g. loss")
        self.utilities = tuple(utilities)
        self.classes = classes
        self._parts, self._mix = mixing([parse_utility(u) for u in self.utilities])
        if "demographic-parity-gap" in self._parts and group is None:
            raise SettingsError(
                "demographic-parity-gap needs the sensitive attribute of each validation row; "
                "record `group` in validation.safetensors or leave this utility out"
            )
        labels = max(classes, 2)
        if len(y) == 0 or y.min() < 0 or y.max() >= labels:
            raise SettingsError(f"validation labels must be 0…{labels - 1} and at least one; found {_range_of(y)}")
        self.rows = len(y)
        self._labels = labels
        self._y = torch.from_numpy(np.array(y, dtype=np.int64)).to(device)
        self._rows_per_class = torch.bincount(self._y, minlength=labels).double()  # (L,)
        columns = padded_rows(self.rows)
        truth = torch.zeros(columns, dtype=torch.int64, device=device)  # padding counts as class 0, and never counts
        truth[: self.rows] = self._y
        column = torch.arange(columns, device=device)
        self._true_cell = truth * columns + column  # (columns,) positions in a flattened (K, columns)
        self._sign = 1.0 - 2.0 * truth  # one or two logits only
        self._tie_is_right = truth == 0
        # −inf from the true class on: what is left are the classes that win a tie against it.
        after = torch.arange(classes, device=device)[:, None] >= truth[None, :]
        self._earlier_class = torch.zeros(classes, columns, device=device).masked_fill_(after, -torch.inf)
        self._groups: list[torch.Tensor] = []
        if group is not None and "demographic-parity-gap" in self._parts:
            self._groups = [torch.from_numpy(np.flatnonzero(group == g)).to(device) for g in np.unique(group)]

    @property
    def lower_is_better(self) -> frozenset[str]:
        """The utilities whose smaller value is the better model."""
        return lower_of(CLASSIFICATION, self.utilities)

    def read(self, logits: torch.Tensor) -> UtilityMatrix:
        """(models, classes, padded rows) float32, feature-major -> (models, utilities) float64."""
        import torch

        step = max(1, _CELLS_AT_ONCE // (logits.shape[1] * logits.shape[2]))
        with torch.inference_mode():
            parts = [self._read_parts(logits[start : start + step]) for start in range(0, len(logits), step)]
        if not parts:
            return np.empty((0, len(self.utilities)))
        return np.asarray(torch.cat(parts).cpu().numpy() @ self._mix)

    def read_rows(self, logits: LogitTensor) -> UtilityMatrix:
        """(models, rows, classes) as kept and predicted elsewhere -> (models, utilities) float64."""
        import torch

        if logits.ndim != 3 or logits.shape[1:] != (self.rows, self.classes):
            raise ValueError(f"logits of shape {logits.shape}; expected (models, {self.rows}, {self.classes})")
        columns = padded_rows(self.rows)
        step = max(1, _CELLS_AT_ONCE // (self.classes * columns))
        values = np.empty((len(logits), len(self.utilities)))
        for start in range(0, len(logits), step):
            some = logits[start : start + step]
            padded = np.empty((len(some), self.classes, columns), dtype=np.float32)
            padded[:, :, : self.rows] = some.transpose(0, 2, 1)
            padded[:, :, self.rows :] = 0.0
            values[start : start + step] = self.read(torch.from_numpy(padded).to(self._y.device))
        return values

    def _read_parts(self, z: torch.Tensor) -> torch.Tensor:
        """(C, K, columns) -> (C, parts) float64."""
        import torch

        z = z.contiguous()
        rows = self.rows
        highest = z.amax(1)  # (C, columns)
        finite = torch.isfinite(highest[:, :rows].amax(1)) & torch.isfinite(z.amin(1)[:, :rows].amin(1))
        parts: dict[str, torch.Tensor] = {}
        losses, correct = self._two_classes(z) if self.classes <= 2 else self._many_classes(z, highest)
        if "loss" in self._parts:
            parts["loss"] = losses()[:, :rows].sum(1) / rows
        if "accuracy" in self._parts:
            parts["accuracy"] = correct()[:, :rows].sum(1, dtype=torch.float64) / rows
        if _NEED_PREDICTIONS & set(self._parts):
            predicted = (z[:, 0] > 0).long() if self.classes == 1 else z.max(1).indices
            parts |= self._from_predictions(predicted[:, :rows])
        table = torch.stack([parts[name] for name in self._parts], dim=1)
        return table.masked_fill_(~finite[:, None], torch.nan)

    def _two_classes(self, z: torch.Tensor) -> tuple[_PerRow, _PerRow]:
        """(C, columns) cross-entropy (float64) and rightness of each row, from how far the wrong class is ahead."""
        from torch.nn.functional import softplus

        ahead = (z[:, 0].double() if self.classes == 1 else z[:, 1].double() - z[:, 0]) * self._sign
        # log(1 + e^ahead): no cancellation for rows that are confidently right
        return lambda: softplus(ahead, threshold=40), lambda: (ahead < 0) | ((ahead == 0) & self._tie_is_right)

    def _many_classes(self, z: torch.Tensor, highest: torch.Tensor) -> tuple[_PerRow, _PerRow]:
        """The same for three and more; right where the first of the largest logits is the true class."""
        import torch

        of_truth = z.reshape(len(z), -1).index_select(1, self._true_cell)

        def losses() -> torch.Tensor:
            # The logarithm in float64: in float32 its own rounding would be most of the error of a mean loss.
            total = (z - highest[:, None]).exp_().sum(1, dtype=torch.float64)
            return total.log_() - (of_truth.double() - highest)

        def correct() -> torch.Tensor:  # argmax, several times faster
            return (of_truth >= highest) & ((z + self._earlier_class).amax(1) < of_truth)

        return losses, correct

    def _from_predictions(self, predicted: torch.Tensor) -> dict[str, torch.Tensor]:
        """(C, V) predicted classes -> the utilities that need more than a count of right rows, each (C,)."""
        import torch

        models, labels = len(predicted), self._labels
        cell = (torch.arange(models, device=predicted.device)[:, None] * labels + self._y) * labels + predicted
        confusion = torch.bincount(cell.reshape(-1), minlength=models * labels**2)
        confusion = confusion.reshape(models, labels, labels).double()  # (C, true, predicted)
        occurs = self._rows_per_class > 0
        hits = confusion.diagonal(dim1=1, dim2=2)[:, occurs]  # (C, occurring)
        in_truth, in_prediction = self._rows_per_class[occurs], confusion.sum(1)[:, occurs]
        values = {
            "macro-f1": (2 * hits / (in_truth + in_prediction)).mean(1),
            "worst-class-recall": (hits / in_truth).amin(1),
        }
        if self._groups:
            values["demographic-parity-gap"] = self._parity_gap(predicted)
        return values

    def _parity_gap(self, predicted: torch.Tensor) -> torch.Tensor:
        import torch

        models, labels = len(predicted), self._labels
        offset = torch.arange(models, device=predicted.device)[:, None] * labels
        rates = []
        for members in self._groups:
            counts = torch.bincount((predicted[:, members] + offset).reshape(-1), minlength=models * labels)
            rates.append(counts.reshape(models, labels).double() / len(members))
        by_group = torch.stack(rates)  # (groups, C, labels)
        return (by_group.amax(0) - by_group.amin(0)).amax(1)


def _range_of(y: IntArray) -> str:
    return f"{len(y)} labels from {y.min()} to {y.max()}" if len(y) else "none"
