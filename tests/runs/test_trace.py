"""Traced modules: the same bits as the module, and a clear no to what cannot be written."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.models import CENSUS, FURTHER, refusal_of
from flcontrib_core.errors import SettingsError
from flcontrib_core.games.architecture import Architecture
from flcontrib_core.runs.trace import flat_parameters, parameters_of, trace_module
from tests.games.models import jittered, load_vector
from tests.games.zoo import ZOO


def example_rows(shape: tuple[int, ...], tokens: bool, rows: int, rng: np.random.Generator) -> Tensor:
    if tokens:
        return torch.from_numpy(rng.integers(0, 30, (rows, *shape)))
    return torch.from_numpy(rng.standard_normal((rows, *shape), dtype=np.float32))


@pytest.mark.parametrize("name", ZOO)
def test_the_traced_architecture_has_the_modules_bits(name: str) -> None:
    make, shape, classes = ZOO[name]
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    module = make()
    x = example_rows(shape, name == "tokens", 21, rng)
    spec = json.loads(json.dumps(trace_module(module, x[:2])))
    architecture = Architecture.from_spec(spec, parameters_of(module), classes)
    with torch.inference_mode():
        for vector in jittered(module, 3, rng):
            expected = load_vector(module, vector)(x)
            assert torch.equal(architecture.forward(torch.from_numpy(vector), x), expected)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("name", [*CENSUS, *FURTHER])
def test_the_census_is_declared_to_the_bit(name: str) -> None:
    refused = refusal_of(name)
    if name == "mixture of experts":
        assert refused is not None
    else:
        assert refused is None


def test_tracing_leaves_the_module_as_it_was() -> None:
    module = ZOO["convolutions"][0]().train()
    before = {k: v.clone() for k, v in module.state_dict().items()}
    trace_module(module, torch.randn(2, 3, 14, 14))
    assert module.training
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())


def test_parameters_are_listed_with_their_running_statistics() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    names = [p.name for p in parameters_of(module)]
    assert names == ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"]
    vector = flat_parameters(module)
    assert vector.dtype == np.float32
    assert vector.tolist() == torch.cat([module.state_dict()[n].reshape(-1) for n in names]).tolist()


class _Calls(nn.Module):
    """A module whose forward is the given function."""

    def __init__(self, forward: object, layer: nn.Module | None = None) -> None:
        super().__init__()
        self._forward_function = forward
        self.layer = layer or nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_function(self.layer, x)  # type: ignore[operator]


REFUSED = {
    "time in front": (nn.Sequential(nn.LSTM(4, 2)), (3, 4), "batch_first"),
    "an adaptive softmax": (nn.Sequential(nn.Linear(4, 2), nn.Softmax2d()), (4, 2, 4), "'1' \\(Softmax2d\\)"),
    "a length of the data's choosing": (_Calls(lambda layer, x: layer(x)[:, : int(x.sum())]), (4,), "depends on the"),
    "a mean of rows in front": (_Calls(lambda layer, x: layer(x.transpose(0, 1).T).T.mean(0)), (4,), "in front"),
    "a sum over rows": (_Calls(lambda layer, x: torch.einsum("bi,bi->i", layer(x), x)), (4,), "not the first"),
    "rows walked through": (_Calls(lambda layer, x: torch.stack([layer(row) for row in x])), (4,), "over the batch"),
    "no statistics": (nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False)), (4,), "running statistics"),
    "a sum over the batch": (_Calls(lambda layer, x: layer(x) - x.mean(0)), (4,), "over the batch"),
    "one row of the batch": (_Calls(lambda layer, x: layer(x) + x[0]), (4,), "over the batch"),
    "a number of the data": (_Calls(lambda layer, x: layer(x) * x.sum().item()), (4,), "over everything"),
    "a size that is the batch's": (_Calls(lambda layer, x: layer(x) * len(x)), (4,), "other numbers"),
    "a slice as long as the batch": (_Calls(lambda layer, x: layer(x)[:, : x.size(0)]), (4,), "do not|other numbers"),
    "a factor that is the batch's": (_Calls(lambda layer, x: layer(x) * x.size(0)), (4,), "other numbers"),
    "chance": (_Calls(lambda layer, x: F.dropout(layer(x), 0.5, training=True)), (4,), "other numbers"),
    "another function": (_Calls(lambda layer, x: torch.fft.fft(layer(x)).real), (4,), "fft"),
    "the batch mixed into features": (_Calls(lambda layer, x: layer(x).reshape(-1, 2)), (4,), "for 3 rows"),
    "a choice by the data": (_Calls(lambda layer, x: layer(x) if x.sum() > 0 else x), (4,), "cannot be traced"),
    "two outputs": (_Calls(lambda layer, x: (layer(x), x)), (4,), "one tensor"),
    "nothing at all": (nn.Identity(), (4,), "logits"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_written_is_refused_with_the_known_operations(name: str) -> None:
    module, shape, message = REFUSED[name]
    with pytest.raises(SettingsError, match=message) as refusal:
        trace_module(module, torch.randn(2, *shape))
    assert "docs/run-log.md lists" in str(refusal.value)
