"""Where models run: names of devices, batches by free memory, and the device in every recipe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import flcontrib_core as fl
from flcontrib_core.cli import flcontrib
from flcontrib_core.errors import SettingsError
from flcontrib_core.games import devices, feature_major, one_by_one
from flcontrib_core.games.devices import numbers_per_row, resolve_device, rows_that_fit
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.history.epoch_work import Workbench
from flcontrib_core.shapley import Exact
from flcontrib_core.vocabulary import WeightMode
from tests.games.models import architecture_of, flat_vector, mlp, mlp_spec, random_validation

SAMPLE = Path("sample_runs/two-poisoned.flrun")


def test_auto_is_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("cuda", "mps"):
        here = torch.cuda if kind == "cuda" else torch.backends.mps
        monkeypatch.setattr(here, "is_available", lambda: False)
    assert resolve_device("auto") == resolve_device("cpu") == "cpu"
    with pytest.raises(SettingsError, match="'cuda' cannot be used here"):
        resolve_device("cuda")
    with pytest.raises(SettingsError, match="choose one of cpu, cuda"):
        resolve_device("warp")


def test_a_device_that_is_not_there_is_said_before_anything_runs() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(SettingsError, match="cannot be used here"):
        fl.assess(SAMPLE, device="cuda")
    told = CliRunner().invoke(flcontrib, ["assess", str(SAMPLE), "--no-memory", "--workers", "1", "--device", "cuda"])
    assert told.exit_code != 0
    assert "cannot be used here" in str(told.exception)


def test_the_recipe_carries_the_device() -> None:
    report = fl.audit(SAMPLE, device="auto", epochs=[1])
    assert report.provenance.recipe["device"] == resolve_device("auto")


def test_a_task_on_a_gpu_asks_a_cluster_for_its_share() -> None:
    architecture = architecture_of(mlp(6, 8, 3), mlp_spec(6, 8, 3), 3)
    evaluator = Evaluator(architecture, random_validation((6,), 3, 20, np.random.default_rng(0)), ["loss"])
    bench = Workbench(evaluator, Exact(), WeightMode.ADAPTIVE, 1.0, 0, 0)
    assert bench.gpu_share == 0.0
    evaluator._device = "cuda:0"
    assert bench.gpu_share == 0.25


def test_batches_follow_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU's free memory decides, decided here by a made-up one: other sizes, the same values."""
    torch.manual_seed(0)
    module = mlp(6, 8, 3)
    validation = random_validation((6,), 3, 200, np.random.default_rng(0))
    architecture = architecture_of(module, mlp_spec(6, 8, 3), 3)
    vectors = np.stack([flat_vector(module).numpy() * factor for factor in (1.0, 0.5, 2.0)])
    usual = Evaluator(architecture, validation, ["loss"])
    for free in (1 << 16, 1 << 30):
        monkeypatch.setattr(feature_major, "free_bytes", lambda device, free=free: free)
        monkeypatch.setattr(one_by_one, "free_bytes", lambda device, free=free: free)
        sized = Evaluator(architecture, validation, ["loss"])
        assert (sized.recipe() != usual.recipe()) == (free < 1 << 20)
        np.testing.assert_allclose(sized.evaluate(vectors)[0], usual.evaluate(vectors)[0], rtol=1e-6)


def test_rows_of_a_batch_follow_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    assert rows_that_fit(10**9, 500, 256, cpu) == 256
    monkeypatch.setattr(devices, "free_bytes", lambda device: 1 << 30)
    assert rows_that_fit(1000, 10**6, 256, cpu) == (1 << 27) // 16000 // 32 * 32
    assert rows_that_fit(10**9, 500, 256, cpu) == 1
    assert numbers_per_row(nn.Sequential(nn.Linear(4, 900), nn.ReLU(), nn.Linear(900, 2)), torch.zeros(1, 4)) == 900


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_a_gpu_gives_the_same_values() -> None:
    on_cpu, on_gpu = (fl.assess(SAMPLE, device=device, estimator="exact") for device in ("cpu", "cuda"))
    np.testing.assert_allclose(on_gpu.values, on_cpu.values, rtol=1e-4, atol=1e-5)
