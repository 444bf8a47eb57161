"""Every kind of architecture through the fast evaluators, against the loaded module."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
import torch

from flcontrib_core.errors import RunLogError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.games.architecture import Architecture
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.games.feature_major import is_flat
from flcontrib_core.games.module_evaluator import ModuleEvaluator
from flcontrib_core.games.submodels import EpochGame, coalition_weights
from flcontrib_core.runs.run_log import ParameterSpec, Validation
from flcontrib_core.runs.trace import flat_parameters, parameters_of, trace_module
from tests.games.models import jittered, load_vector
from tests.games.zoo import ZOO
from tests.runs.test_trace import example_rows

FLAT = {
    "logistic regression",
    "single logit",
    "mlp",
    "mlp of images",
    "mlp of sigmoids",
    "mlp of silu",
    "residual mlp",
    "batch norm first",
}


def _setting(name: str, rows: int, seed: int) -> tuple[torch.nn.Module, Architecture, Validation]:
    make, shape, classes = ZOO[name]
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    module = make()
    x = example_rows(shape, name == "tokens", rows, rng)
    architecture = Architecture.from_spec(trace_module(module, x[:1]), parameters_of(module), classes)
    return module, architecture, Validation(x.numpy(), rng.integers(0, max(classes, 2), rows), None)


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("live", [False, True], ids=["declared", "live"])
def test_logits_equal_the_loaded_module(name: str, live: bool) -> None:
    module, architecture, validation = _setting(name, 119, 1)
    assert is_flat(architecture) is (name in FLAT)
    vectors = jittered(module, 10, np.random.default_rng(2))
    evaluator = ModuleEvaluator(module, validation, ["loss"]) if live else Evaluator(architecture, validation, ["loss"])
    _, logits = evaluator.evaluate(vectors)
    with torch.inference_mode():
        x = torch.from_numpy(validation.x)
        expected = np.stack([load_vector(module, v)(x).numpy() for v in vectors])
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", ZOO)
def test_bits_do_not_depend_on_position_or_request(name: str) -> None:
    module, architecture, validation = _setting(name, 67, 3)
    evaluator = Evaluator(architecture, validation, ["loss", "accuracy"])
    rng = np.random.default_rng(4)
    models = jittered(module, 3, rng)
    base, updates = models[0], np.array(models[1:] - models[0])
    game = EpochGame(base, updates, [3, 5], evaluator)
    weights = coalition_weights(np.array([[True, True]]), [3, 5])
    value, logits = evaluator.evaluate_mixture(game.mixture, weights, keep_logits=True)
    assert logits is not None
    chunk = evaluator.recipe()["chunk"]
    request = rng.random((chunk + 5, 2))
    for position in (0, 1, 3, 7, chunk - 1, chunk, chunk + 4):
        moved = request.copy()
        moved[position] = weights[0]
        there, logits_there = evaluator.evaluate_mixture(game.mixture, moved, keep_logits=True)
        assert logits_there is not None
        assert np.array_equal(there[position], value[0])
        assert np.array_equal(logits_there[position], logits[0])


def test_a_module_that_looks_at_memory_keeps_its_layout() -> None:
    module, _, validation = _setting("convolutions", 20, 5)  # its forward calls view
    assert ModuleEvaluator(module, validation, ["loss"]).recipe()["layout"] == "contiguous"
    module, _, validation = _setting("sequential convolutions", 20, 5)
    assert ModuleEvaluator(module, validation, ["loss"]).recipe()["layout"] == "channels-last"


def test_a_live_module_may_share_weights() -> None:
    torch.manual_seed(6)
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    module[2].weight = module[0].weight
    rng = np.random.default_rng(6)
    validation = Validation(rng.standard_normal((9, 4), dtype=np.float32), rng.integers(0, 4, 9), None)
    _, logits = ModuleEvaluator(module, validation, ["loss"]).evaluate(flat_parameters(module)[None])
    with torch.no_grad():
        np.testing.assert_allclose(logits[0], module(torch.from_numpy(validation.x)).numpy(), rtol=1e-5, atol=1e-6)


def test_sequential_and_graph_form_are_one_model() -> None:
    parameters = [ParameterSpec("w", (4, 6)), ParameterSpec("b", (4,)), ParameterSpec("v", (3, 4))]
    first, second = {"op": "linear", "weight": "w", "bias": "b"}, {"op": "linear", "weight": "v"}
    sequence = {"input": [6], "layers": [first, {"op": "relu"}, second]}
    graph = {
        "input": [6],
        "nodes": [
            {"name": "a", "inputs": ["input"], **first},
            {"name": "unused", "inputs": ["a"], "op": "tanh"},
            {"name": "r", "inputs": ["a"], "op": "relu"},
            {"name": "out", "inputs": ["r"], **second},
        ],
        "output": "out",
    }
    vector = torch.randn(40, generator=torch.Generator().manual_seed(0))
    x = torch.randn(9, 6, generator=torch.Generator().manual_seed(1))
    one, two = (Architecture.from_spec(spec, parameters, 3) for spec in (sequence, graph))
    assert torch.equal(one.forward(vector, x), two.forward(vector, x))
    assert one.multiply_adds(10) == two.multiply_adds(10) == 10 * (24 + 4 + 12)


def test_cost_of_a_convolution_counts_its_windows() -> None:
    parameters = [ParameterSpec("w", (4, 1, 3, 3)), ParameterSpec("v", (2, 4 * 36))]
    layers = [
        {"op": "conv2d", "weight": "w", "padding": 0, "groups": 2},
        {"op": "flatten"},
        {"op": "linear", "weight": "v"},
    ]
    architecture = Architecture.from_spec({"input": [2, 8, 8], "layers": layers}, parameters, 2)
    assert architecture.multiply_adds(1) == 4 * 36 * 9 + 2 * 144


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([{"op": "linear", "weight": "nothing"}], "nothing"),
        ([{"op": "linear", "weight": "w"}, {"op": "exec"}], "exec"),
        ([{"op": "linear", "weight": "w"}, {"op": "linear", "weight": "w"}], "E_MODEL"),
    ],
)
def test_specifications_that_do_not_fit_are_refused(layers: list[dict[str, str]], message: str) -> None:
    with pytest.raises(RunLogError, match=message):
        Architecture.from_spec({"input": [6], "layers": layers}, [ParameterSpec("w", (4, 6))], 4)


_LARGE_MODEL = """
import resource, numpy as np
from flcontrib_core.games.architecture import Architecture
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.games.submodels import EpochGame
from flcontrib_core.runs.run_log import ParameterSpec, Validation
rng = np.random.default_rng(0)
sizes = [1000, 2500, 2500, 500, 10]
parameters, layers = [], []
for k, (i, o) in enumerate(zip(sizes, sizes[1:])):
    parameters += [ParameterSpec(f"w{k}", (o, i)), ParameterSpec(f"b{k}", (o,))]
    layers += [{"op": "linear", "weight": f"w{k}", "bias": f"b{k}"}, {"op": "relu"}]
architecture = Architecture.from_spec({"input": [1000], "layers": layers[:-1]}, parameters, 10)
P = architecture.parameter_count
assert P > 9_900_000
base = rng.standard_normal(P, dtype=np.float32) * np.float32(0.02)
updates = rng.standard_normal((5, P), dtype=np.float32) * np.float32(0.001)
validation = Validation(rng.standard_normal((20, 1000), dtype=np.float32), rng.integers(0, 10, 20), None)
coalitions = (np.arange(1, 32)[:, None] >> np.arange(5) & 1).astype(bool)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
game = EpochGame(base, updates, [1, 2, 3, 4, 5], Evaluator(architecture, validation, ["loss"]))
assert np.isfinite(game.evaluate(coalitions)).all()
game.gram()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_large_model_never_exists_for_all_coalitions() -> None:
    """10⁷ parameters, 5 players, 31 coalitions: all sub-models together would take 1.3 GB; a worker stays far below."""
    told = subprocess.run(
        python_command("-c", _LARGE_MODEL), capture_output=True, text=True, check=True, env=child_environment()
    )
    assert int(told.stdout) < 200, "MiB beyond the updates themselves"
