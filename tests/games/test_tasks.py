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
from flcontrib_core.games import Architecture, Evaluator, ModuleEvaluator
from flcontrib_core.games.observations import observe_epoch
from flcontrib_core.games.submodels import epoch_game
from flcontrib_core.games.task_metrics import TASKS
from flcontrib_core.history import NoValues
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.runs.tasks import TARGETS
from flcontrib_core.runs.trace import flat_parameters, parameters_of, trace_module
from tests.games.models import load_vector


def told(task: str, outputs: Tensor, targets: Tensor) -> dict[str, float]:
    found = TASKS[task].measure(outputs, targets)
    assert list(found) == list(TARGETS[task].metrics)
    return found


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


def recorded(path: Path, task: str, *, epochs: int = 24, attack: tuple[int, int] = (9, 18)) -> nn.Module:
    """A federation of six sites; one turns its targets for a while."""
    make, draw, loss, lr, rows = CASES[task]
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    module = make()
    sites = [draw(rng, rows) for _ in range(6)]
    state = flat_parameters(module)
    clients = [(f"site-{k}", rows) for k in range(6)]
    with fl.RunRecorder(
        path, clients=clients, model=module, validation=draw(rng, 64), task=task, durable=False
    ) as recorder:
        for epoch in range(1, epochs + 1):
            updates = {}
            for k, (x, y) in enumerate(sites):
                spoilt = y if k != 2 or not attack[0] <= epoch <= attack[1] else (-y if task == "regression" else 1 - y)
                local = make()
                load_vector(local, state)
                train(local, x, spoilt, loss, lr)
                updates[f"site-{k}"] = flat_parameters(local) - state
            recorder.epoch(updates)
            state = state + np.mean(list(updates.values()), axis=0)
    return module


@pytest.mark.parametrize("task", ["regression", "multi-label", pytest.param("segmentation", marks=pytest.mark.slow)])
def test_an_attacker_is_found_from_the_log_alone(tmp_path: Path, task: str) -> None:
    recorded(tmp_path / "run", task)
    report = fl.audit(tmp_path / "run")
    assert report.history.utilities == tuple(TARGETS[task].metrics)
    assert report.history.lower_is_better == {u for u, way in TARGETS[task].metrics.items() if way == "lower"}
    assert {alert.client for alert in report.detection.alerts if alert.accuses} == {"site-2"}
    channels = report.history.channels
    assert channels is not None
    seen = np.isfinite(channels.solo_worst_class[1:])
    assert seen.all() if TASKS[task].group_losses else not seen.any()
    page, twin = report.write(tmp_path / "report.html")
    assert next(iter(TARGETS[task].metrics)) in page.read_text()
    assert fl.verify(twin, tmp_path / "run").equal


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Module]:
    path = tmp_path_factory.mktemp("runs") / "run"
    return path, recorded(path, "regression", epochs=3)


def test_a_log_says_version_two_and_measures_its_task(small: tuple[Path, nn.Module]) -> None:
    run = fl.read_run_log(small[0])
    assert isinstance(run, RunLog)
    assert run.task == "regression"
    assert run.manifest["version"] == 2
    assert "classes" not in run.manifest
    assert fl.assess(run, utilities=["mae"]).utilities == ("mae",)
    assert fl.assess(run, utilities=["mse - 0.1*r2"]).lower_is_better == {"mse - 0.1*r2"}
    with pytest.raises(SettingsError, match="one of mse, mae, r2"):
        fl.assess(run, utilities=["accuracy"])
    values = fl.assess(run, estimator="gradient", utilities=["mse"], weights="fixed")
    assert np.isfinite(values.values[1:]).all()


def test_the_surrogate_reads_a_tasks_outputs(small: tuple[Path, nn.Module]) -> None:
    exact = fl.assess(small[0], estimator="exact")
    close = fl.assess(small[0], estimator=fl.Surrogate(evaluations=40))
    assert np.corrcoef(exact.values[1:].ravel(), close.values[1:].ravel())[0, 1] > 0.999


def test_a_live_module_says_the_same_as_the_log(small: tuple[Path, nn.Module]) -> None:
    path, module = small
    run = fl.read_run_log(path)
    assert isinstance(run, RunLog)
    validation = run.validation()
    assert validation is not None
    declared = fl.assess(run, estimator="exact")
    live = fl.assess(
        run, estimator="exact", evaluator=ModuleEvaluator(module, (validation.x, validation.y), task="regression")
    )
    np.testing.assert_allclose(live.values, declared.values, rtol=1e-5, atol=1e-7)


def test_an_own_metric_reads_the_outputs_of_the_logs_own_model(small: tuple[Path, nn.Module]) -> None:
    history = fl.assess(small[0], metrics={"bias": (bias, "lower")}, estimator="exact")
    assert history.utilities == ("mse", "mae", "r2", "bias")
    assert history.lower_is_better == {"mse", "mae", "bias"}
    assert np.isfinite(history.values).all()
    with pytest.raises(SettingsError, match="which way is better"):
        fl.assess(small[0], metrics={"bias": (bias, "down")})


def bias(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs - targets).mean().abs())


def c_index(risk: Tensor, targets: Tensor) -> float:
    """Of all pairs whose order is known, the share that the risk has in this order; ``targets``: time and event."""
    time, event = targets[:, 0], targets[:, 1] > 0
    later = (time[:, None] < time[None, :]) & event[:, None]
    above = (risk[:, 0][:, None] > risk[:, 0][None, :])[later]
    return float(above.float().mean())


def test_a_task_nobody_knows_is_valued_by_an_own_metric(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = nn.Linear(4, 1), torch.randn(60, 4)
    targets = torch.stack([torch.exp(-x[:, 0]), torch.ones(60)], dim=1)
    path = tmp_path / "survival"
    with fl.RunRecorder(
        path, clients=[("a", 5), ("b", 5)], model=module, validation=(x, targets), task="survival", durable=False
    ) as recorder:
        good, bad = np.zeros(5, np.float32), np.zeros(5, np.float32)
        good[0], bad[0] = 1.0, -1.0
        for _ in range(3):
            recorder.epoch({"a": good, "b": bad})
    history = fl.assess(path, metrics={"c-index": (c_index, "higher")})
    assert history.utilities == ("c-index",)
    assert (history.values[1:, 0] > history.values[1:, 1]).all()
    assert fl.audit(path).history.without_values is NoValues.NO_METRIC


def test_a_language_model_keeps_its_tokens_whole(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, tokens = GPT(), torch.randint(0, 30, (6, 10))
    targets = tokens.roll(-1, 1)
    targets[:, -1] = -100
    evaluator = ModuleEvaluator(module, (tokens, targets), task="language")
    (values,), kept = evaluator.evaluate(flat_parameters(module)[None])
    assert values[1] == pytest.approx(np.exp(values[0]))
    assert kept.shape == (1, 6, 1)  # a loss per row, and not a number per word of the vocabulary
    with torch.no_grad():
        logits = module.eval()(tokens)
    assert values[0] == pytest.approx(float(F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))))


def test_pixels_leave_sums_and_a_gradient(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Conv2d(1, 2, 3, padding=1)
    x, y = discs(np.random.default_rng(0), 12)
    validation = ModuleEvaluator(module, (x, y), task="segmentation").validation
    architecture = Architecture.from_spec(trace_module(module, x), parameters_of(module), None)
    evaluator = Evaluator(architecture, validation, ["loss", "dice"], task="segmentation")
    vector = flat_parameters(module)
    (values,), kept = evaluator.evaluate(vector[None])
    assert kept.shape == (1, 12 * 6, 1)
    with torch.no_grad():
        assert values == pytest.approx([told("segmentation", module(x), y)[name] for name in ("loss", "dice")])
    step = np.zeros_like(vector)
    step[0] = 1e-2
    rise = (evaluator.evaluate(np.stack([vector + step, vector - step]))[0][:, 0] @ [1, -1]) / 2e-2
    assert evaluator.loss_gradient(vector)[0] == pytest.approx(rise, rel=1e-2)


def test_the_worst_group_is_the_one_somebody_named() -> None:
    """An update that harms the rows of one group alone shows there, and nowhere in the mean."""
    torch.manual_seed(0)
    x = torch.randn(40, 2)
    groups = (torch.arange(40) < 8).long()
    x[:8, 1], x[8:, 1] = 1.0, 0.0
    module = nn.Linear(2, 1)
    with torch.no_grad():
        targets = module(x)
    harm = np.zeros((1, 3), np.float32)
    harm[0, 1] = 3.0  # moves what only the rows of the group have
    for task, y in (("regression", targets), ("classification", torch.zeros(40).long())):
        shown = [
            observe_epoch(epoch_game(flat_parameters(module), harm, [1], evaluator), 1, None, 0).solo_worst_class[0]
            for evaluator in (
                ModuleEvaluator(module, (x, y), task=task),
                ModuleEvaluator(module, (x, y), task=task, groups=groups),
            )
        ]
        assert shown[1] > 1.0
        assert np.isnan(shown[0]) if task == "regression" else shown[0] < shown[1]
    with pytest.raises(SettingsError, match="one number a row"):
        ModuleEvaluator(module, (x, targets), task="regression", groups=groups[:5])


def test_own_metrics_stand_beside_the_tasks() -> None:
    module = nn.Linear(6, 1)
    data = regression(np.random.default_rng(0), 20)
    evaluator = ModuleEvaluator(module, data, {"bias": (bias, "lower")}, task="regression")
    assert evaluator.utilities == ("mse", "mae", "r2", "bias")
    assert evaluator.lower_is_better == {"mse", "mae", "bias"}
    assert not evaluator.has_logits
    classes = ModuleEvaluator(nn.Linear(6, 2), (data[0], torch.zeros(20)), {"flat": (lambda y, t: 0.0, "higher")})
    assert classes.utilities == ("loss", "accuracy", "flat")
    assert classes.evaluate(flat_parameters(nn.Linear(6, 2))[None])[0].shape == (1, 3)
    with pytest.raises(SettingsError, match="has no metrics of its own"):
        ModuleEvaluator(module, data, task="survival")


BAD_TARGETS = {
    "regression": (np.full((4, 1), np.nan, np.float32), "finite targets"),
    "multi-label": (np.full((4, 2), 2, np.int64), "labels 0 … 1"),
    "segmentation": (np.full((4, 3, 3), 7, np.int64), "labels 0 … 1"),
    "language": (np.full((4,), 1, np.int64), "2 dimensions"),
}


@pytest.mark.parametrize("task", BAD_TARGETS)
def test_targets_of_another_kind_are_refused_when_the_recording_opens(tmp_path: Path, task: str) -> None:
    y, words = BAD_TARGETS[task]
    classes = 2 if TARGETS[task].needs_classes else None
    with pytest.raises(fl.FLContribError, match=words) as refused:
        fl.RunRecorder(
            tmp_path / "run",
            clients=[("a", 1)],
            parameters=[("w", (2,))],
            initial=[0.0, 0.0],
            validation=(np.zeros((4, 3), np.float32), y),
            classes=classes,
            task=task,
        )
    assert "E_LABEL" in str(refused.value)
