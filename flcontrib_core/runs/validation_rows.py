"""Validation rows as people have them: a pair of arrays, a loader of batches, a dataset of rows."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from flcontrib_core.runs.problems import refusal, shown
from flcontrib_core.runs.run_log import Validation


def gathered(validation: Any) -> Any:
    """The validation set as ``(x, y)``, ``(x, y, group)`` or ``Validation``, whatever gives its rows.

    A loader of ``(x, y)`` batches is walked through once; a dataset is read row by row.
    """
    if validation is None or isinstance(validation, Validation | tuple | list):
        return validation
    if isinstance(validation, np.ndarray | Mapping) or hasattr(validation, "detach"):
        raise _refused(validation)
    if hasattr(validation, "__getitem__") and hasattr(validation, "__len__"):  # a dataset of torch's
        rows = [validation[place] for place in range(len(validation))]
        parts = _parts(rows, validation)
        return tuple(np.stack([_array(row) for row in part]) for part in parts)
    if isinstance(validation, Iterable):
        parts = _parts(list(validation), validation)
        return tuple(np.concatenate([_array(batch) for batch in part]) for part in parts)
    raise _refused(validation)


def _parts(batches: list[Any], given: Any) -> list[list[Any]]:
    if not batches or any(not isinstance(batch, tuple | list) or len(batch) != 2 for batch in batches):
        raise _refused(batches[0] if batches else given)
    return [[batch[part] for batch in batches] for part in (0, 1)]


def _refused(found: Any) -> Exception:
    what = f"a {type(found).__name__}" + (f" of {shown(sorted(map(str, found)))}" if isinstance(found, Mapping) else "")
    return refusal("E_MISSING:rows", "validation", what)


def _array(part: Any) -> np.ndarray:
    return np.asarray(part.detach().cpu().numpy() if hasattr(part, "detach") else part)


def first_row(x: Any, module: Any) -> Any:
    """One row as a tensor that the module can take: floating numbers in the module's own precision."""
    import torch

    row = torch.as_tensor(_array(x)[:1])
    if row.is_floating_point():
        floats = (tensor.dtype for tensor in module.state_dict().values() if tensor.is_floating_point())
        row = row.to(next(floats, torch.float32))
    return row


def sent_through(module: Any, row: Any) -> Any:
    """The module's answer to one row; refused in words where it takes none of this kind."""
    import torch

    try:
        with torch.no_grad():
            return copy.deepcopy(module).cpu().eval()(row)
    except Exception as fault:  # broad: any module may stand here, and it says in its own way what it cannot take
        where, found = "validation, 'x'", f"{row.dtype} {list(row.shape)}: {type(fault).__name__}: {fault}"[:300]
        raise refusal("E_MODEL_SHAPE:rows", where, found) from fault
