"""How does a live torch module become a declared architecture?"""

from __future__ import annotations

import torch

from flcontrib_core.runs.run_log import ParameterSpec


def parameters_of(module: torch.nn.Module) -> list[ParameterSpec]:
    """Names and shapes of the flat vector: every floating entry of the state dict, in its order.

    BatchNorm's running means and variances are among them (the server averages them like weights); its counter of
    batches is an integer and is not.
    """
    return [
        ParameterSpec(name, tuple(tensor.shape))
        for name, tensor in module.state_dict().items()
        if tensor.is_floating_point()
    ]
