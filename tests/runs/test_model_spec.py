"""The shape rules of model.json against torch itself: what torch runs is accepted with its output's shape, what torch
refuses is refused, and nothing absurd is ever allocated."""

from __future__ import annotations

import math
from typing import Any

import pytest

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs.model_nodes import MAX_NODES, SEQUENTIAL_OPS
from flcontrib_core.runs.model_spec import Node, check_model_spec, normalise_spec, output_name, reads_tokens
from flcontrib_core.runs.run_log import ParameterSpec

Shapes = dict[str, tuple[int, ...]]


def codes(
    spec: Any, shapes: Shapes, classes: int | None = None, validation: tuple[int, ...] | None = None
) -> list[str]:
    parameters = [ParameterSpec(name, shape) for name, shape in shapes.items()]
    return [problem.code for problem in check_model_spec(spec, parameters, classes, validation)]


def sequential(features: list[int], *layers: dict[str, Any]) -> dict[str, Any]:
    return {"input": features, "layers": list(layers)}


def test_sequence_becomes_a_chain_with_defaults() -> None:
    nodes = normalise_spec(
        sequential([1, 8, 8], {"op": "conv2d", "weight": "w"}, {"op": "max_pool2d", "kernel": [2, 3]})
    )
    assert nodes == [
        Node(
            "layer1",
            "conv2d",
            ("input",),
            {"weight": "w", "bias": None, "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1},
        ),
        Node(
            "layer2",
            "max_pool2d",
            ("layer1",),
            {"kernel": (2, 3), "stride": (2, 3), "padding": (0, 0), "ceil": False, "dilation": (1, 1)},
        ),
    ]


def test_graph_ends_at_its_output_and_drops_what_it_does_not_need() -> None:
    graph = {
        "input": [4],
        "nodes": [
            {"name": "a", "op": "relu", "inputs": ["input"]},
            {"name": "unused", "op": "tanh", "inputs": ["a"]},
            {"name": "sum", "op": "add", "inputs": ["a", "input"]},
            {"name": "later", "op": "tanh", "inputs": ["sum"]},
        ],
        "output": "sum",
    }
    assert [node.name for node in normalise_spec(graph)] == ["a", "sum"]
    assert output_name(graph) == "sum"
    assert not reads_tokens(normalise_spec(graph))


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ([], "E_MODEL"),
        ({}, "E_MODEL"),
        ({"input": [4], "layers": []}, "E_MODEL"),
        ({"input": [], "layers": [{"op": "relu"}]}, "E_MODEL"),
        ({"input": [True], "layers": [{"op": "relu"}]}, "E_MODEL"),
        ({"input": [4], "layers": [{"op": "relu"}], "nodes": []}, "E_MODEL"),
        ({"input": [4], "layers": [{"op": "relu"}], "device": "cuda"}, "E_MODEL"),
        (sequential([4], {"op": "os.system"}), "E_MODEL_OP"),
        (sequential([4], {"op": "add"}), "E_MODEL_OP"),
        (sequential([4], {"op": ["linear"]}), "E_MODEL_OP"),
        (sequential([4], {"op": "linear"}), "E_MODEL"),
        (sequential([4], {"op": "linear", "weight": 3}), "E_MODEL"),
        (sequential([4], {"op": "relu", "inplace": True}), "E_MODEL"),
        (sequential([4], {"op": "leaky_relu", "slope": "0.1"}), "E_MODEL"),
        (sequential([1, 4, 4], {"op": "max_pool2d", "kernel": 0}), "E_MODEL"),
        (sequential([1, 4, 4], {"op": "max_pool2d", "kernel": [2, 2, 2]}), "E_MODEL"),
        (sequential([4], *[{"op": "relu"}] * (MAX_NODES + 1)), "E_MODEL_SIZE"),
        ({"input": [4], "nodes": [{"name": "input", "op": "relu", "inputs": ["input"]}], "output": "input"}, "E_MODEL"),
        ({"input": [4], "nodes": [{"name": "a", "op": "relu", "inputs": ["b"]}], "output": "a"}, "E_MODEL"),
        ({"input": [4], "nodes": [{"name": "a", "op": "relu", "inputs": ["a"]}], "output": "a"}, "E_MODEL"),
        ({"input": [4], "nodes": [{"name": "a", "op": "maximum", "inputs": ["input"]}], "output": "a"}, "E_MODEL"),
        ({"input": [4], "nodes": [{"name": "a", "op": "relu", "inputs": ["input"]}]}, "E_MODEL"),
    ],
)
def test_grammar_faults_are_named(spec: Any, code: str) -> None:
    assert code in codes(spec, {})
    with pytest.raises(RunLogError):
        normalise_spec(spec)


def test_an_addition_has_two_inputs_or_a_number() -> None:
    one = {"name": "a", "op": "add", "inputs": ["input"]}
    assert codes(graph([4], one), {}, 4) == ["E_MODEL"]
    assert codes(graph([4], {**one, "value": 2}), {}, 4) == []
    assert codes(graph([4], {**one, "inputs": ["input", "input"], "value": 2}), {}, 4) == ["E_MODEL"]


def test_unknown_op_is_refused_with_the_list_of_known_ones() -> None:
    (problem,) = check_model_spec(sequential([4], {"op": "fft"}), [], None, None)
    assert all(op in problem.expected for op in SEQUENTIAL_OPS)


def _torch_shape(op: dict[str, Any], features: tuple[int, ...], shapes: Shapes) -> tuple[int, ...] | None:
    """What torch makes of one operation on a batch of two rows; None where torch refuses."""
    import torch
    import torch.nn.functional as f

    torch.manual_seed(0)
    tensors = {name: torch.rand(shape) for name, shape in shapes.items()}
    fields = {k: tensors.get(v, v) if isinstance(v, str) else v for k, v in op.items() if k != "op"}
    weight, bias = fields.get("weight"), fields.get("bias")
    x = torch.randint(0, 2, (2, *features)) if op["op"] == "embedding" else torch.rand(2, *features)
    run = {
        "linear": lambda: f.linear(x, weight, bias),
        "conv2d": lambda: f.conv2d(
            x, weight, bias, **{k: fields[k] for k in ("stride", "padding", "dilation", "groups") if k in fields}
        ),
        "batch_norm": lambda: f.batch_norm(x, fields["mean"], fields["var"], weight, bias),
        "layer_norm": lambda: f.layer_norm(x, fields["shape"], weight, bias),
        "group_norm": lambda: f.group_norm(x, fields["groups"], weight, bias),
        "max_pool2d": lambda: f.max_pool2d(x, fields["kernel"], fields.get("stride"), fields.get("padding", 0)),
        "avg_pool2d": lambda: f.avg_pool2d(x, fields["kernel"], fields.get("stride"), fields.get("padding", 0)),
        "adaptive_avg_pool2d": lambda: f.adaptive_avg_pool2d(x, fields["size"]),
        "embedding": lambda: f.embedding(x, weight),
        "flatten": lambda: x.flatten(1),
    }[op["op"]]
    try:
        return tuple(run().shape[1:])
    except (RuntimeError, ValueError):
        return None


_CASES: list[tuple[dict[str, Any], tuple[int, ...], Shapes]] = [
    ({"op": "linear", "weight": "w", "bias": "b"}, (6,), {"w": (3, 6), "b": (3,)}),
    ({"op": "linear", "weight": "w"}, (5, 6), {"w": (3, 6)}),
    ({"op": "linear", "weight": "w"}, (5,), {"w": (3, 6)}),
    ({"op": "linear", "weight": "w", "bias": "b"}, (6,), {"w": (3, 6), "b": (4,)}),
    ({"op": "embedding", "weight": "w"}, (7,), {"w": (11, 4)}),
    ({"op": "flatten"}, (2, 3, 4), {}),
    ({"op": "batch_norm", "mean": "m", "var": "v", "weight": "w", "bias": "b"}, (4,), dict.fromkeys("mvwb", (4,))),
    ({"op": "batch_norm", "mean": "m", "var": "v"}, (4, 3, 3), dict.fromkeys("mv", (4,))),
    ({"op": "batch_norm", "mean": "m", "var": "v"}, (4, 3, 3), dict.fromkeys("mv", (3,))),
    ({"op": "layer_norm", "shape": [3, 5], "weight": "w"}, (2, 3, 5), {"w": (3, 5)}),
    ({"op": "layer_norm", "shape": [2]}, (2, 3), {}),
    ({"op": "group_norm", "groups": 2, "weight": "w", "bias": "b"}, (6, 4, 4), {"w": (6,), "b": (6,)}),
    ({"op": "group_norm", "groups": 4}, (6, 4, 4), {}),
    ({"op": "adaptive_avg_pool2d", "size": [1, 3]}, (2, 5, 7), {}),
    ({"op": "adaptive_avg_pool2d", "size": 9}, (2, 5, 7), {}),
    *[
        ({"op": op, "kernel": kernel, "padding": padding, **stride}, (2, 7, 9), {})
        for op in ("max_pool2d", "avg_pool2d")
        for kernel in (2, [3, 2])
        for padding in (0, 1, 2)
        for stride in ({}, {"stride": 1}, {"stride": [2, 3]})
    ],
    *[
        (
            {"op": "conv2d", "weight": "w", "bias": "b", "stride": s, "padding": p, "dilation": d, "groups": g},
            (4, 9, 8),
            {"w": (6, 4 // max(g, 1) if g != 3 else 1, 3, 2), "b": (6,)},
        )
        for s in (1, [2, 3])
        for p in (0, [1, 2])
        for d in (1, 5)
        for g in (1, 2, 3)
    ],
]


@pytest.mark.parametrize(("op", "features", "shapes"), _CASES)
def test_shapes_are_torchs(op: dict[str, Any], features: tuple[int, ...], shapes: Shapes) -> None:
    expected = _torch_shape(op, features, shapes)
    found = codes(sequential(list(features), op), shapes, classes=None)
    if expected is None:
        assert found == ["E_MODEL_SHAPE"]
        return
    # Ending in a flatten makes every output rank 1, so that its size can be asked for and refused by one.
    flat = sequential(list(features), op, {"op": "flatten"})
    assert codes(flat, shapes, classes=math.prod(expected)) == []
    assert codes(flat, shapes, classes=math.prod(expected) + 1) == ["E_MODEL_SHAPE"]


def graph(features: list[int], *nodes: dict[str, Any]) -> dict[str, Any]:
    return {"input": features, "nodes": list(nodes), "output": nodes[-1]["name"]}


@pytest.mark.parametrize(
    ("node", "second", "size"),
    [
        ({"op": "add"}, [4, 6], 24),
        ({"op": "mul"}, [4, 1], 24),
        ({"op": "add"}, [3, 6], None),
        ({"op": "add"}, [6], None),
        ({"op": "cat"}, [2, 6], 36),
        ({"op": "cat", "dim": 2}, [4, 2], 32),
        ({"op": "cat", "dim": -1}, [4, 2], 32),
        ({"op": "cat", "dim": 1}, [4, 2], None),
        ({"op": "cat", "dim": 0}, [4, 6], None),
        ({"op": "cat", "dim": 3}, [4, 6], None),
    ],
)
def test_joining_nodes(node: dict[str, Any], second: list[int], size: int | None) -> None:
    spec = graph(
        [24],
        {"name": "a", "op": "reshape", "inputs": ["input"], "shape": [4, -1]},
        {"name": "l", "op": "linear", "inputs": ["input"], "weight": "w"},
        {"name": "b", "op": "reshape", "inputs": ["l"], "shape": second},
        {"name": "j", "inputs": ["a", "b"], **node},
        {"name": "f", "op": "flatten", "inputs": ["j"]},
    )
    shapes: Shapes = {"w": (math.prod(second), 24)}
    if size is None:
        assert codes(spec, shapes) == ["E_MODEL_SHAPE"]
    else:
        assert codes(spec, shapes, classes=size) == []


@pytest.mark.parametrize(("shape", "fits"), [([24], True), ([2, -1], True), ([5, -1], False), ([5], False)])
def test_reshape_keeps_the_count(shape: list[int], fits: bool) -> None:
    spec = graph(
        [4, 6],
        {"name": "r", "op": "reshape", "inputs": ["input"], "shape": shape},
        {"name": "f", "op": "flatten", "inputs": ["r"]},
    )
    assert codes(spec, {}, classes=24) == ([] if fits else ["E_MODEL_SHAPE"])


def test_names_resolve_only_in_the_manifest() -> None:
    assert codes(sequential([3], {"op": "linear", "weight": "os.environ"}), {"w": (2, 3)}) == ["E_MODEL_NAME"]


def test_logits_and_features_must_fit_the_log() -> None:
    spec, shapes = sequential([3], {"op": "linear", "weight": "w"}), {"w": (2, 3)}
    assert codes(spec, shapes, 2, (50, 3)) == []
    assert codes(spec, shapes, 3, (50, 3)) == ["E_MODEL_SHAPE"]
    assert codes(spec, shapes, 2, (50, 4)) == ["E_FEATURES"]
    assert codes(sequential([3, 1], {"op": "relu"}), {}, 3) == ["E_MODEL_SHAPE"]


def test_tokens_reach_only_embeddings() -> None:
    shapes = {"e": (11, 4), "w": (2, 28)}
    good = [{"op": "embedding", "weight": "e"}, {"op": "flatten"}, {"op": "linear", "weight": "w"}]
    assert codes(sequential([7], *good), shapes, 2) == []
    assert reads_tokens(normalise_spec(sequential([7], *good)))
    assert codes(sequential([7], {"op": "relu"}, {"op": "embedding", "weight": "e"}), shapes) == ["E_MODEL"]
    both = graph(
        [7],
        {"name": "e", "op": "embedding", "inputs": ["input"], "weight": "e"},
        {"name": "r", "op": "relu", "inputs": ["input"]},
        {"name": "c", "op": "cat", "inputs": ["e", "r"]},
    )
    assert codes(both, shapes) == ["E_MODEL"]


@pytest.mark.parametrize(
    ("spec", "shapes"),
    [
        (sequential([2**31 - 1], {"op": "relu"}), {}),
        (sequential([2**31 - 1] * 8, {"op": "flatten"}), {}),
        (sequential([1, 4, 4], {"op": "adaptive_avg_pool2d", "size": 2**20}), {}),
        (
            sequential([1, 4, 4], {"op": "conv2d", "weight": "w", "padding": 2**30, "stride": 2**30}),
            {"w": (1, 1, 1, 1)},
        ),
        (sequential([4], {"op": "relu"}), {"w": (2**20, 2**20)}),
        (sequential([5000], {"op": "embedding", "weight": "w"}), {"w": (2, 2**24)}),
    ],
)
def test_absurd_sizes_are_refused_without_allocating(spec: Any, shapes: Shapes) -> None:
    import tracemalloc

    tracemalloc.start()
    try:
        assert codes(spec, shapes) == ["E_MODEL_SIZE"]
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_one_fault_does_not_hide_the_next_nor_repeat_itself() -> None:
    spec = sequential(
        [3],
        {"op": "linear", "weight": "a"},
        {"op": "linear", "weight": "b"},
        {"op": "relu"},
    )
    assert codes(spec, {"a": (2, 4), "b": (2, 2)}, 2) == ["E_MODEL_SHAPE"]
    two = graph(
        [3],
        {"name": "a", "op": "linear", "inputs": ["input"], "weight": "a"},
        {"name": "b", "op": "linear", "inputs": ["input"], "weight": "nowhere"},
        {"name": "c", "op": "add", "inputs": ["a", "b"]},
    )
    assert codes(two, {"a": (2, 4)}, 2) == ["E_MODEL_SHAPE", "E_MODEL_NAME"]
