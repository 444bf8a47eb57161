"""Every operation's shape rule against torch: what it accepts runs and has the promised shape, whatever is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.models import CENSUS, rows_for
from flcontrib_core.errors import RunLogError
from flcontrib_core.games.architecture import Architecture
from flcontrib_core.runs.model_spec import Node, check_model_spec, follow_shapes, normalise_spec
from flcontrib_core.runs.operations import OPERATIONS
from flcontrib_core.runs.operations.record import MAX_CONSTANTS, Parameters, Site
from flcontrib_core.runs.run_log import ParameterSpec
from flcontrib_core.runs.trace import flat_parameters, parameters_of, trace_module

Rng = np.random.Generator
WORDS = {
    "mode": ("nearest", "bilinear", "constant", "reflect", "replicate", "circular", "mean", "sum", "area", "linear"),
    "output": ("sequence", "hidden", "cell"),
    "activation": ("relu", "gelu", "tanh"),
    "approximate": ("none", "tanh"),
    "kind": ("eq", "lt"),
    "mask": ("none", "causal"),
    "equation": ("ij->i", "i,i->i", "ij,jk->ik", "ij,kj->ki", "i,j->ij"),
}


def any_value(name: str, rank: int, rng: Rng) -> Any:
    """Something that could stand in this field, or not."""
    if name in WORDS:
        return str(rng.choice(WORDS[name]))
    if name in ("keep", "ceil", "count_padding", "reverse", "causal", "norm_first", "bidirectional", "align_corners"):
        return bool(rng.integers(2))
    if name in ("weight", "bias", "mean", "var", "out_weight", "out_bias"):
        return name if rng.random() < 0.7 else None
    if name in ("eps", "slope", "alpha", "beta", "value", "low", "high", "exponent", "p", "scale", "k", "threshold"):
        return float(rng.choice([0.5, 1.0, 2.0]))
    if name == "values":
        return [1.0] * int(rng.integers(1, 7))
    listed = ("shape", "dims", "shifts", "sizes", "index", "size", "kernel", "stride", "padding", "dilation")
    if name in listed and rng.random() < 0.7:
        length = rank - 1 if rank > 1 and rng.random() < 0.6 else int(rng.integers(1, rank + 2))
        return [int(v) for v in rng.integers(-1 if rng.random() < 0.3 else 1, 4, length)]
    return int(rng.integers(-1 if rng.random() < 0.3 else 1, 4))


def a_site(op: str, rng: Rng) -> tuple[Node, list[tuple[int, ...]], dict[str, tuple[int, ...]]] | None:
    """A node with random fields on random inputs; None where the grammar refuses it already."""
    record = OPERATIONS[op]
    fewest, most = record.inputs
    dimensions = int(op[-2]) if op[-1] == "d" and op[-2].isdigit() else None
    rank = dimensions + 1 if dimensions and rng.random() < 0.8 else int(rng.integers(1, 5))
    shape = tuple(int(v) for v in rng.integers(1, 7, rank))
    count = int(rng.integers(fewest, min(most, 4) + 1))
    entry: dict[str, Any] = {"name": "n", "op": op, "inputs": ["input"] * count}
    for name in record.fields:
        if rng.random() < 0.6 and name not in ("weights", "causal_hint", "with_scores"):
            entry[name] = any_value(name, rank, rng)
    if "weights" in record.fields:
        entry["weights"] = ["weight", "weight", "bias", "bias"]
    try:
        (node,) = normalise_spec({"input": list(shape), "nodes": [entry], "output": "n"})
    except RunLogError:
        return None
    parameters = {
        name: tuple(int(v) for v in rng.choice([*shape, 1, 2, 3], int(rng.integers(1, rank + 3))))
        for name in ("weight", "bias", "mean", "var", "out_weight", "out_bias")
    }
    if rng.random() < 0.7:  # often enough something that could fit
        width = int(shape[0])
        parameters |= dict.fromkeys(("bias", "mean", "var"), (width,))
        if op.startswith("conv"):
            node.fields["groups"] = 1
            parameters["weight"] = (width, width, *(int(v) for v in rng.integers(1, 4, int(op[-2]))))
        elif op in ("linear", "embedding", "embedding_bag"):
            parameters["weight"], parameters["bias"] = (4, shape[-1]), (4,)
        elif op == "parameter":
            parameters["weight"] = tuple(max(1, extent) for extent in node.fields["shape"])
    return node, [shape] * count, parameters


@pytest.mark.parametrize("op", OPERATIONS)
def test_what_the_rule_accepts_runs_with_that_shape(op: str) -> None:
    rng = np.random.default_rng(int.from_bytes(op.encode()[:6], "big"))
    accepted = 0
    for _ in range(200):
        drawn = a_site(op, rng)
        if drawn is None:
            continue
        node, arriving, parameters = drawn
        specs = [ParameterSpec(name, shape) for name, shape in parameters.items()]
        try:
            shape = OPERATIONS[op].shape(Site(node, arriving, Parameters(specs)))
        except ValueError:
            continue
        accepted += 1
        whole = op in ("embedding", "embedding_bag")
        inputs = [torch.zeros(2, *s, dtype=torch.int64) if whole else torch.rand(2, *s) for s in arriving]
        bound = dict(node.fields)
        for field in OPERATIONS[op].parameter_fields():
            names = bound[field]
            if isinstance(names, tuple):
                bound[field] = [torch.rand(parameters[name]) for name in names]
            elif names is not None:
                bound[field] = torch.rand(parameters[names])
        with torch.inference_mode():
            result = OPERATIONS[op].run(torch, inputs, bound)
        rows = 1 if op in ("parameter", "constant") else 2
        assert tuple(result.shape) == (rows, *shape), (node, arriving, parameters)
    assert accepted or op in ("lstm", "gru", "rnn", "multi_head_attention", "transformer_encoder_layer"), op


@pytest.mark.parametrize("name", [n for n in CENSUS if n != "mixture of experts"])
def test_shapes_are_followed_through_real_networks(name: str) -> None:
    make, features, tokens = CENSUS[name]
    module = make().eval()
    rows = rows_for(features, tokens, 3, np.random.default_rng(0))
    spec = trace_module(module, rows)
    architecture = Architecture.from_spec(spec, parameters_of(module), None)
    followed = follow_shapes(architecture.nodes, features, architecture.parameters, [])
    bound = torch.from_numpy(flat_parameters(module))
    for number, node in enumerate(architecture.nodes):
        until = replace(architecture, nodes=architecture.nodes[: number + 1])
        with torch.inference_mode():
            value = until.forward(bound, rows)
        expected = followed[node.name]
        assert tuple(value.shape) == (3 * expected.fold or 1, *expected.shape), node
    assert architecture.multiply_adds(1) > 0


HOSTILE: dict[str, dict[str, Any]] = {
    "a window unfolded into gigabytes": {"op": "conv2d", "weight": "w", "padding": 0},
    "an image blown up": {"op": "interpolate", "size": [2**20, 2**20]},
    "a scale beyond measure": {"op": "interpolate", "scale": [1e9, 1e9]},
    "padding without end": {"op": "pad", "sizes": [0, 2**31 - 1, 0, 2**31 - 1]},
    "a size that is the memory": {"op": "local_response_norm", "size": 2**31 - 1},
    "a stride that is the memory": {"op": "conv_transpose2d", "weight": "t", "stride": 2**31 - 1},
    "a pool of everything": {"op": "adaptive_avg_pool2d", "size": 2**31 - 1},
    "pixels out of nothing": {"op": "adaptive_max_pool2d", "size": [2**20, 2**20]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_would_take_memory_is_refused_before_it_does(name: str) -> None:
    parameters = [ParameterSpec("w", (2, 512, 64, 64)), ParameterSpec("t", (512, 4, 3, 3))]
    spec = {"input": [512, 128, 128], "layers": [HOSTILE[name]]}
    assert {p.code for p in check_model_spec(spec, parameters, None, None)} == {"E_MODEL_SIZE"}


def test_numbers_in_the_file_are_counted() -> None:
    node = {"name": "n", "op": "constant", "inputs": [], "values": [0.0] * (MAX_CONSTANTS + 1), "shape": [1]}
    (problem,) = check_model_spec({"input": [1], "nodes": [node], "output": "n"}, [], None, None)
    assert problem.code == "E_MODEL"


def test_a_constant_alone_is_no_model() -> None:
    node = {"name": "n", "op": "constant", "inputs": [], "values": [1.0, 2.0], "shape": [2]}
    (problem,) = check_model_spec({"input": [1], "nodes": [node], "output": "n"}, [], 2, None)
    assert problem.code == "E_MODEL_SHAPE"
