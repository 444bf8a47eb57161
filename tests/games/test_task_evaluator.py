"""Regression, multi-label, segmentation and language: metrics as scikit-learn has them, attackers found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn_metrics
from torch import Tensor, nn
from torch.nn import functional as F

import flcontrib_core as fl
from benchmarks.census_others import GPT, UNet
from flcontrib_core.errors import SettingsError
from flcontrib_core.games import TaskEvaluator
from flcontrib_core.games.task_metrics import TASKS
from flcontrib_core.runs.trace import flat_parameters
from tests.games.models import load_vector


def told(task: str, outputs: Tensor, targets: Tensor) -> dict[str, float]:
    return {name: metric(outputs, targets) for name, (metric, _) in TASKS[task].metrics.items()}


def test_regression_is_measured_as_scikit_learn_does() -> None:
    generator = torch.Generator().manual_seed(0)
    y, t = torch.randn(50, 3, generator=generator), torch.randn(50, 3, generator=generator)
    assert told("regression", y, t) == pytest.approx(
        {
            "mse": sklearn_metrics.mean_squared_error(t, y),
            "mae": sklearn_metrics.mean_absolute_error(t, y),
            "r2": sklearn_metrics.r2_score(t, y),
        }
    )


def test_labels_are_measured_as_scikit_learn_does() -> None:
    generator = torch.Generator().manual_seed(1)
    y = torch.randn(60, 4, generator=generator).round(decimals=1)  # with ties
    t = (torch.rand(60, 4, generator=generator) < 0.3).float()
    found = told("multi-label", y, t)
    assert found["macro-f1"] == pytest.approx(sklearn_metrics.f1_score(t, y > 0, average="macro"))
    assert found["mean-auroc"] == pytest.approx(sklearn_metrics.roc_auc_score(t, y))
    assert found["loss"] == pytest.approx(float(F.binary_cross_entropy_with_logits(y, t)))


def test_pixels_are_measured_as_scikit_learn_does() -> None:
    generator = torch.Generator().manual_seed(2)
    y = torch.randn(5, 3, 6, 7, generator=generator)
    t = torch.randint(0, 3, (5, 6, 7), generator=generator)
    found, predicted = told("segmentation", y, t), y.argmax(1).reshape(-1)
    truth = t.reshape(-1)
    assert found["dice"] == pytest.approx(sklearn_metrics.f1_score(truth, predicted, labels=[1, 2], average="macro"))
    assert found["iou"] == pytest.approx(
        sklearn_metrics.jaccard_score(truth, predicted, labels=[1, 2], average="macro")
    )


def test_tokens_that_do_not_count_are_left_out() -> None:
    generator = torch.Generator().manual_seed(3)
    y, t = torch.randn(4, 5, 9, generator=generator), torch.randint(0, 9, (4, 5), generator=generator)
    t[0, 3:] = -100
    found = told("language", y, t)
    assert found["token-loss"] == pytest.approx(float(F.cross_entropy(y.reshape(-1, 9), t.reshape(-1))), rel=1e-5)
    assert found["perplexity"] == pytest.approx(np.exp(found["token-loss"]))


def regression(rng: np.random.Generator, rows: int) -> tuple[Tensor, Tensor]:
    x = torch.from_numpy(rng.standard_normal((rows, 6), dtype=np.float32))
    return x, (x @ torch.arange(-2.0, 4.0))[:, None] + 0.3 * torch.from_numpy(
        rng.standard_normal((rows, 1), np.float32)
    )


def labels(rng: np.random.Generator, rows: int) -> tuple[Tensor, Tensor]:
    x = torch.from_numpy(rng.standard_normal((rows, 6), dtype=np.float32))
    return x, (x @ torch.eye(6)[:, :3] * 2 + x[:, 3:] > 0).float()


def discs(rng: np.random.Generator, rows: int) -> tuple[Tensor, Tensor]:
    """Bright discs on noise."""
    at = rng.integers(4, 12, (rows, 2, 1, 1))
    down, across = np.mgrid[0:16, 0:16]
    inside = (down - at[:, 0]) ** 2 + (across - at[:, 1]) ** 2 < 14
    image = inside + 0.5 * rng.standard_normal((rows, 16, 16))
    return torch.from_numpy(image[:, None].astype(np.float32)), torch.from_numpy(inside.astype(np.int64))


def train(module: nn.Module, x: Tensor, y: Tensor, loss: Callable[[Tensor, Tensor], Tensor], lr: float) -> None:
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr)
    for some in torch.randperm(len(x)).split(16):
        optimizer.zero_grad()
        loss(module(x[some]), y[some]).backward()
        optimizer.step()


CASES = {
    "regression": (
        lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1)),
        regression,
        F.mse_loss,
        0.02,
        48,
    ),
    "multi-label": (
        lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)),
        labels,
        F.binary_cross_entropy_with_logits,
        0.2,
        48,
    ),
    "segmentation": (UNet, discs, F.cross_entropy, 0.05, 16),
}


@pytest.mark.parametrize("task", ["regression", "multi-label", pytest.param("segmentation", marks=pytest.mark.slow)])
def test_an_attacker_is_found(tmp_path: Path, task: str) -> None:
    make, draw, loss, lr, rows = CASES[task]
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    module = make()
    sites = [draw(rng, rows) for _ in range(6)]
    recorder = fl.RunRecorder(
        tmp_path / "run", clients=[(f"site-{k}", rows) for k in range(6)], parameters=module.state_dict()
    )
    state = flat_parameters(module)
    for epoch in range(1, 25):
        updates = {}
        for k, (x, y) in enumerate(sites):
            spoilt = y if k != 2 or not 9 <= epoch <= 18 else (-y if task == "regression" else 1 - y)
            local = make()
            load_vector(local, state)
            train(local, x, spoilt, loss, lr)
            updates[f"site-{k}"] = flat_parameters(local) - state
        recorder.epoch(updates)
        state = state + np.mean(list(updates.values()), axis=0)
    recorder.close()
    evaluator = TaskEvaluator(module, draw(rng, 64), task)
    report = fl.audit(tmp_path / "run", evaluator=evaluator)
    assert report.history.utilities == tuple(TASKS[task].metrics)
    assert {alert.client for alert in report.detection.alerts if alert.accuses} == {"site-2"}
    channels = report.history.channels
    assert channels is not None
    seen = np.isfinite(channels.solo_worst_class[1:])
    assert seen.all() if TASKS[task].group_losses else not seen.any()


def test_a_language_model_keeps_its_tokens_whole() -> None:
    torch.manual_seed(0)
    module, tokens = GPT(), torch.randint(0, 30, (6, 10))
    evaluator = TaskEvaluator(module, (tokens, tokens.roll(-1, 1)), "language")
    (values,) = evaluator.evaluate(flat_parameters(module)[None])[0]
    assert values[1] == pytest.approx(np.exp(values[0]))


def test_own_metrics_stand_beside_the_tasks() -> None:
    module = nn.Linear(6, 1)
    data = regression(np.random.default_rng(0), 20)
    evaluator = TaskEvaluator(module, data, "regression", {"bias": (lambda y, t: float((y - t).mean()), "lower")})
    assert evaluator.utilities == ("mse", "mae", "r2", "bias")
    assert evaluator.lower_is_better == {"mse", "mae", "bias"}
    with pytest.raises(SettingsError, match="regression, multi-label"):
        TaskEvaluator(module, data, "survival")
