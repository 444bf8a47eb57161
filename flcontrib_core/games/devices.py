"""Where models run: the device that a name stands for, and how much of its memory one batch may take.

On a CPU the sizes of batches are fixed, because results must have the same bits on every machine of a kind; on a GPU
they follow its free memory, and the recipe of a result carries them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flcontrib_core.errors import SettingsError

DEVICES = ("cpu", "cuda", "mps", "auto")


def resolve_device(name: str) -> str:
    """The device of this name; ``auto`` is the fastest one that is here. Refused where it is not."""
    here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return next(kind for kind, there in here.items() if there)
    kind = name.partition(":")[0]
    if kind not in here:
        raise SettingsError(f"device {name!r} cannot be used here: choose one of {', '.join(DEVICES)}")
    if not here[kind]:
        available = ", ".join(kind for kind, there in here.items() if there)
        raise SettingsError(f"device {name!r} cannot be used here: there is {available}; leave it out, or use auto")
    return name


def free_bytes(device: torch.device) -> int | None:
    """What is free on the device; None on a CPU, whose batches have a fixed size."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory())
    return None


def rows_that_fit(numbers_per_row: int, rows: int, usual: int, device: torch.device) -> int:
    """Validation rows of one batch, when a row becomes at most so many numbers inside the model."""
    free = free_bytes(device)
    if free is None:
        return min(rows, usual)
    # What is read, what is written and what the kernels need beside both stay within an eighth of the memory.
    fitting = free // 8 // (4 * 4 * max(1, numbers_per_row))
    return max(1, min(rows, fitting if fitting < 32 else fitting // 32 * 32))


def numbers_per_row(model: nn.Module, row: Tensor) -> int:
    """The most numbers that one row becomes in any layer of a live module."""
    most = row.numel()

    def look(module: nn.Module, given: object, outputs: object) -> None:
        nonlocal most
        if isinstance(outputs, Tensor):
            most = max(most, outputs.numel())

    hooks = [layer.register_forward_hook(look) for layer in model.modules()]
    try:
        with torch.inference_mode():
            model(row)
    finally:
        for hook in hooks:
            hook.remove()
    return most
