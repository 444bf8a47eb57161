"""Own functions as evaluators: any framework and metric, and the same values as the engine's own evaluation."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

import flcontrib_core as fl
from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.history.trajectory import evaluator_for
from flcontrib_core.runs import RunLog
from flcontrib_core.shapley.gradient import Gradient

State = dict[str, np.ndarray]
CLIENTS, FLIPPER, WINDOW = 8, 5, range(11, 21)


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Callable[[State], dict[str, float]]]:
    """scikit-learn's logistic regression over eight sites, one of which flips labels in epochs 11–20."""
    x, y = load_digits(return_X_y=True)
    x = x / 16
    rng = np.random.default_rng(3)
    order = rng.permutation(len(y))
    held, rest = order[:400], order[400:]
    sites = np.array_split(rest, CLIENTS)
    state: State = {"coef": np.zeros((10, 64), np.float32), "intercept": np.zeros(10, np.float32)}
    path = tmp_path_factory.mktemp("sklearn") / "run"
    recorder = fl.RunRecorder(
        path, clients=[(f"site-{k}", len(site)) for k, site in enumerate(sites)], parameters=state, name="scikit-learn"
    )
    for epoch in range(1, 31):
        updates = {}
        for k, site in enumerate(sites):
            some = rng.choice(site, 100, replace=False)
            labels = np.where((k == FLIPPER) & (epoch in WINDOW), 9 - y[some], y[some])
            model = SGDClassifier("log_loss", penalty=None, learning_rate="constant", eta0=0.02, random_state=epoch)
            model.partial_fit(x[some], labels, classes=range(10))
            model.coef_, model.intercept_ = state["coef"].astype(float), state["intercept"].astype(float)
            model.partial_fit(x[some], labels)
            updates[f"site-{k}"] = {
                "coef": (model.coef_ - state["coef"]).astype(np.float32),
                "intercept": (model.intercept_ - state["intercept"]).astype(np.float32),
            }
        recorder.epoch(updates)
        state = {name: state[name] + np.mean([u[name] for u in updates.values()], axis=0) for name in state}
    recorder.close()

    def evaluate(given: State) -> dict[str, float]:
        scores = x[held] @ given["coef"].T + given["intercept"]
        scores -= scores.max(axis=1, keepdims=True)
        losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(held)), y[held]]
        return {"accuracy": float((scores.argmax(axis=1) == y[held]).mean()), "log-loss": float(losses.mean())}

    return path, evaluate


def test_a_federation_of_scikit_learn_is_audited(
    federation: tuple[Path, Callable[[State], dict[str, float]]],
) -> None:
    path, evaluate = federation
    evaluator = fl.FunctionEvaluator(evaluate, {"log-loss": "lower", "accuracy": "higher"}, validation_rows=400)
    report = fl.audit(path, evaluator=evaluator)
    assert report.history.utilities == ("log-loss", "accuracy")
    assert report.history.lower_is_better == {"log-loss"}
    assert all(check.holds for check in report.axioms)
    accused = {alert.client for alert in report.detection.alerts if alert.accuses}
    assert accused == {f"site-{FLIPPER}"}
    assert "log-loss" in report._repr_html_()


def test_the_values_are_those_of_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "run.flrun"
    fl.simulate(fl.SimulationSettings(clients=5, epochs=3, hidden=(6,), seed=4), path)
    run = fl.read_run_log(path)
    assert isinstance(run, RunLog)
    inner = evaluator_for(run, ("loss", "accuracy"))

    def evaluate(state: State) -> dict[str, float]:
        vector = np.concatenate([state[spec.name].reshape(-1) for spec in run.parameters])
        loss, accuracy = inner.evaluate(vector[None])[0][0]
        return {"loss": loss, "accuracy": accuracy}

    direct = fl.assess(run, estimator="exact")
    own = fl.assess(
        run, evaluator=fl.FunctionEvaluator(evaluate, {"loss": "lower", "accuracy": "higher"}), estimator="exact"
    )
    np.testing.assert_allclose(own.values, direct.values, atol=1e-6)
    assert own.lower_is_better == direct.lower_is_better


def test_the_gradient_estimator_is_refused_in_words(
    federation: tuple[Path, Callable[[State], dict[str, float]]],
) -> None:
    path, evaluate = federation
    evaluator = fl.FunctionEvaluator(lambda state: {"loss": 1.0 - evaluate(state)["accuracy"]}, {"loss": "lower"})
    with pytest.raises(MissingPart, match="gradient"):
        fl.assess(path, estimator=Gradient(), evaluator=evaluator, utilities=("loss",))


def test_a_metric_says_which_way_it_is_better() -> None:
    for metrics in ({}, {"dice": "up"}):
        with pytest.raises(SettingsError, match="which way is better"):
            fl.FunctionEvaluator(lambda state: {"dice": 1.0}, metrics)


def test_an_answer_without_a_metric_is_refused(
    federation: tuple[Path, Callable[[State], dict[str, float]]],
) -> None:
    with pytest.raises(SettingsError, match="not dice"):
        fl.assess(federation[0], evaluator=fl.FunctionEvaluator(federation[1], {"dice": "higher"}), epochs=[1])


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        (lambda state: 0.9, "gave 0.9; give the metrics by name"),
        (lambda state: {"dice": "x"}, "metric 'dice' gave 'x'; one number is needed"),
        (lambda state: {"dice": float("nan")}, "dice is no finite number for any of the first 8 models"),
    ],
)
def test_an_answer_that_is_no_number_is_refused_in_words(tmp_path: Path, evaluate: Any, message: str) -> None:
    with fl.RunRecorder(
        tmp_path / "run", clients=[("a", 1), ("b", 2), ("c", 3)], parameters={"w": np.zeros(2, "f4")}
    ) as rec:
        for number in range(3):
            rec.epoch({c: {"w": np.array([k, number], np.float32)} for k, c in enumerate("abc")})
    with pytest.raises(SettingsError, match=re.escape(message)):
        fl.assess(tmp_path / "run", evaluator=fl.FunctionEvaluator(evaluate, {"dice": "higher"}))
