"""Makes a declared architecture of a live torch module.

``trace_module`` records the module's operations with torch.fx and writes each as one of model.json's. The list of
operations is closed on both sides: what has no place in model.json is refused here, with the list of what has, and
nothing in the result is ever looked up by name when it is read. Before an architecture is given out it is run beside
the module: it gives the module's logits to the bit, for two numbers of rows, or it is refused.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, fx, nn

from flcontrib_core.errors import RunLogError, SettingsError
from flcontrib_core.runs.model_spec import check_model_spec, normalise_spec
from flcontrib_core.runs.operations.running import bind_fields, run_nodes
from flcontrib_core.runs.run_log import ParameterSpec
from flcontrib_core.runs.trace_calls import CALLS
from flcontrib_core.runs.trace_layers import LAYERS
from flcontrib_core.runs.trace_recording import record
from flcontrib_core.runs.trace_writer import REMEDY, TraceWriter
from flcontrib_core.vocabulary import Float32Array

_ROWS = 3
"""Rows sent through the module to learn its shapes: more than one, so that a folded batch dimension shows."""


def parameters_of(module: nn.Module) -> list[ParameterSpec]:
    """Names and shapes of the flat vector: every floating entry of the state dict, in its order.

    BatchNorm's running means and variances are among them (the server averages them like weights); its counter of
    batches is an integer and is not.
    """
    return [
        ParameterSpec(name, tuple(tensor.shape))
        for name, tensor in module.state_dict().items()
        if tensor.is_floating_point()
    ]


def flat_parameters(module: nn.Module) -> Float32Array:
    """(P,) the module's parameters as one float32 vector in the order of ``parameters_of``."""
    state = module.state_dict()
    parts = [state[spec.name].detach().cpu().float().reshape(-1) for spec in parameters_of(module)]
    return torch.cat(parts).numpy() if parts else torch.empty(0).numpy()


def trace_module(module: nn.Module, example_input: Tensor) -> dict[str, Any]:
    """model.json's graph form of this module, from one example batch (rows, …).

    Raises ``SettingsError`` naming the layer where the module does something that model.json has no operation for.

    >>> trace_module(nn.Sequential(nn.Linear(3, 2)), torch.zeros(1, 3))["nodes"]
    [{'name': 'n1', 'op': 'linear', 'inputs': ['input'], 'weight': '0.weight', 'bias': '0.bias'}]
    """
    root = _Root(copy.deepcopy(module)).eval()
    rows = example_input[:1].repeat(_ROWS, *([1] * (example_input.ndim - 1)))
    with torch.inference_mode():
        root(rows)  # what it says of rows that it cannot take is its own, and no fault of the trace
    try:
        graph, values = record(root, rows)
    except (fx.proxy.TraceError, TypeError, NotImplementedError, RuntimeError) as cause:
        raise SettingsError(
            f"the module cannot be traced ({cause}); its forward pass must not depend on the data. {REMEDY}"
        ) from None
    writer = TraceWriter(root, values, _ROWS, CALLS, LAYERS)
    for node in graph.nodes:
        writer.write(node)
    spec = {"input": list(example_input.shape[1:]), "nodes": writer.nodes, "output": writer.output}
    _compare(root.module, spec, rows)
    return spec


class _Root(nn.Module):
    """Holds the module, so that one which is a single layer is traced as a layer too."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Any:
        return self.module(x)


def _compare(module: nn.Module, spec: dict[str, Any], rows: Tensor) -> None:
    """Refuses an architecture that is not the module's: a number that depends on the batch, a layer that draws lots."""
    problems: str | None = None
    with torch.inference_mode():
        expected = module(rows[:2])
        state = module.state_dict()
        try:
            nodes = normalise_spec(spec)
            faults = check_model_spec(spec, parameters_of(module), None, None)
            if faults:
                raise RunLogError(tuple(faults))
            fields = [bind_fields(node, state.__getitem__, rows.device) for node in nodes]
            given = [run_nodes(torch, nodes, fields, some) for some in (rows, rows[:2])]
        except RunLogError as refused:
            problems = f"the traced operations do not fit together ({refused})"
        except (RuntimeError, TypeError) as fault:
            problems = f"the traced operations do not run ({fault})"
        else:
            same = torch.equal(given[1], expected) and torch.equal(given[0], module(rows))
            problems = None if same else "the traced operations give other numbers than the module"
    if problems is not None:
        raise SettingsError(f"{problems}; its forward pass may depend on the batch or on chance. {REMEDY}")
