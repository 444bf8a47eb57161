"""Checks that each tensor file holds the tensors that the manifest and the epoch lines promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from flcontrib_core.errors import Problem
from flcontrib_core.runs.limits import MAX_VALIDATION_BYTES, most_epoch_bytes
from flcontrib_core.runs.problems import problem, shown
from flcontrib_core.runs.run_log import Client, EpochRecord, ParameterSpec
from flcontrib_core.runs.tasks import CLASSIFICATION, IGNORED, targets_of
from flcontrib_core.runs.tensors import FLOAT_TYPES, Block, Tensor, TensorLayout, wrong_dtype

INITIAL = "initial.safetensors"
VALIDATION = "validation.safetensors"


def initial_faults(layout: TensorLayout, parameters: Sequence[ParameterSpec]) -> list[Problem]:
    """One row of expected against found per tensor that is missing, extra, of another shape or of another type."""
    expected = {spec.name: spec.shape for spec in parameters}
    found = {tensor.name: tensor for tensor in layout.tensors}
    problems = _float_faults(layout, INITIAL)
    for name in [*expected, *(name for name in found if name not in expected)]:
        actual = list(found[name].shape) if name in found else "no such tensor"
        wanted = list(expected[name]) if name in expected else "no such tensor"
        if actual != wanted:
            problems.append(_shape(f"{INITIAL}:{shown(name)[1:-1]}", f"shape {actual}", f"shape {wanted}"))
    return problems


def epoch_faults(
    layout: TensorLayout, record: EpochRecord, clients: Sequence[Client], parameters: int, kind: str | None = None
) -> list[Problem]:
    """Does an epoch's file hold one update per participant, and the server's model where it names one?

    ``kind``: the type in which the manifest says that updates are stored.
    """
    where = str(record.file)
    problems = _float_faults(layout, where)
    updates = layout.get("updates")
    if kind is not None and updates is not None and updates.dtype != kind and not problems:
        problems += wrong_dtype(f"{where}:updates", updates.dtype, (kind,)).problems
    rows = len(record.row_clients)
    wanted = {"updates": (rows, parameters), "global": (parameters,)}
    for tensor in layout.tensors:
        if tensor.name not in wanted:
            problems.append(
                _shape(f"{where}:{shown(tensor.name)[1:-1]}", "an unknown tensor", '"updates" and "global"')
            )
        elif tensor.shape != wanted[tensor.name]:
            problems.append(_misshapen(tensor, wanted[tensor.name], record, clients, where))
    if rows and layout.get("updates") is None:
        problems.append(_shape(where, 'no tensor "updates"', f"shape {list(wanted['updates'])}"))
    return problems + epoch_size_faults(layout.data_offset + sum(t.end - t.begin for t in layout.tensors), where)


def epoch_size_faults(size: int, where: str) -> list[Problem]:
    """Is an epoch's file of this many bytes too large?"""
    if size <= (most := most_epoch_bytes()):
        return []
    return [problem("E_FILE_SIZE:epoch", where, f"{size} bytes", f"at most {most} bytes per epoch")]


def _misshapen(
    tensor: Tensor, wanted: tuple[int, ...], record: EpochRecord, clients: Sequence[Client], where: str
) -> Problem:
    found, expected = f"shape {list(tensor.shape)}", f"shape {list(wanted)}"
    if tensor.name == "updates" and len(tensor.shape) == 2 and record.participants:
        first = shown(clients[record.participants[0]].id)
        if tensor.shape[1] != wanted[1]:
            found += f": the update of {first} has {tensor.shape[1]} numbers, the model has {wanted[1]}"
        else:
            found += f": {tensor.shape[0]} updates for {wanted[0]} participants"
    return _shape(f"{where}:{tensor.name} (epoch {record.epoch})", found, expected)


def _shape(where: str, found: str, expected: str) -> Problem:
    return problem("E_SHAPE", where, found, expected)


def _float_faults(layout: TensorLayout, where: str) -> list[Problem]:
    return [
        problem
        for tensor in layout.tensors
        if tensor.dtype not in FLOAT_TYPES
        for problem in wrong_dtype(f"{where}:{shown(tensor.name)[1:-1]}", tensor.dtype, FLOAT_TYPES).problems
    ]


def validation_faults(
    layout: TensorLayout, size: int, tokens: bool | None, task: str = CLASSIFICATION
) -> list[Problem]:
    """``tokens``: must ``x`` be integers (embedding first) or float32? None where the log has no architecture."""
    problems: list[Problem] = []
    x, y, group = (layout.get(name) for name in ("x", "y", "group"))
    if size > MAX_VALIDATION_BYTES:
        problems.append(problem("E_FILE_SIZE:tensors", VALIDATION, f"{size} bytes", f"at most {MAX_VALIDATION_BYTES}"))
    for tensor in layout.tensors:
        if tensor.name not in ("x", "y", "group"):
            problems.append(_shape(f"{VALIDATION}:{shown(tensor.name)[1:-1]}", "an unknown tensor", "x, y, group"))
    if x is None or y is None:
        problems.append(_shape(VALIDATION, f"no tensor {'x' if x is None else 'y'}", "x (V, …) and y (V,)"))
        return problems
    wanted = ("F32", "I64") if tokens is None else ("I64",) if tokens else ("F32",)
    if x.dtype not in wanted:
        problems += wrong_dtype(f"{VALIDATION}:x", x.dtype, wanted).problems
    rows = x.shape[0] if x.shape and 0 not in (*x.shape, *y.shape[1:]) else 0
    if rows == 0:
        problems.append(problem("E_VALID_EMPTY", f"{VALIDATION}:x", f"shape {list(x.shape)}"))
    elif len(x.shape) < 2:
        problems.append(_features("x", f"shape {list(x.shape)}", "rows and features"))
    for numbers in (y, group) if task == CLASSIFICATION else (group,):
        if numbers is not None and (numbers.dtype != "I64" or numbers.shape != (rows,)):
            problems.append(_label(numbers.name, f"{numbers.dtype} {list(numbers.shape)}", f"I64 [{rows}]"))
    return problems + (_target_faults(y, rows, task) if task != CLASSIFICATION else [])


def _target_faults(y: Tensor, rows: int, task: str) -> list[Problem]:
    rule = targets_of(task)
    if y.dtype in rule.dtypes and y.shape[:1] == (rows,) and len(y.shape) in (rule.ranks or (len(y.shape),)):
        return []
    dimensions = f" in {' or '.join(map(str, rule.ranks))} dimensions" if rule.ranks else ""
    expected = f"{' or '.join(rule.dtypes)} [{rows}, …]{dimensions} for {shown(task)[1:-1]}"
    return [problem("E_LABEL:targets", f"{VALIDATION}:y", f"{y.dtype} {list(y.shape)}", expected)]


class ValidationValues:
    """Looks for the first unusable label and the first unusable feature while the file streams by."""

    def __init__(self, classes: int | None, vocabulary: int | None, task: str = CLASSIFICATION) -> None:
        """``vocabulary``: rows of the smallest embedding that ``x`` indexes; None when ``x`` is not an index."""
        self._rule = targets_of(task)
        self._labels = self._rule.labels(classes)
        self._vocabulary = vocabulary
        self._first: dict[str, Problem] = {}

    def take(self, block: Block) -> None:
        """One block of the file."""
        name, values = block.tensor.name, block.values
        if name in self._first or name == "group":
            return
        if name == "y":
            if values.dtype == np.float32 and not np.isfinite(values).all():
                self._note(block, ~np.isfinite(values), lambda v: _label("y", v, "finite targets"))
            elif self._labels is not None:
                bad = (values < 0) | (values >= self._labels)
                if self._rule.ignores:
                    bad &= values != IGNORED
                if self._rule.binary:
                    bad |= values != np.trunc(values)
                self._note(block, bad, lambda v: _label("y", v, f"labels 0 … {(self._labels or 0) - 1}"))
        elif values.dtype == np.float32:
            self._note(block, ~np.isfinite(values), lambda v: _features("x", v, "finite features"))
        elif self._vocabulary is not None:
            bad = (values < 0) | (values >= self._vocabulary)
            self._note(block, bad, lambda v: _features("x", v, f"token numbers 0 … {(self._vocabulary or 0) - 1}"))

    def _note(self, block: Block, bad: np.ndarray, describe: Callable[[str], Problem]) -> None:
        if bad.any():
            at = np.unravel_index(int(np.argmax(bad)), bad.shape)
            row = int(at[1]) + block.column if len(block.tensor.shape) == 1 else int(at[0]) + block.row
            self._first[block.tensor.name] = describe(f"{block.values[at]} in row {row}")

    def problems(self) -> list[Problem]:
        """The first fault of each tensor."""
        return list(self._first.values())


def _label(name: str, found: str, expected: str) -> Problem:
    return problem("E_LABEL", f"{VALIDATION}:{name}", found, expected)


def _features(name: str, found: str, expected: str) -> Problem:
    return problem("E_FEATURES", f"{VALIDATION}:{name}", found, expected)
