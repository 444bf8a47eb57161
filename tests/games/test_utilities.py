"""Utilities from logits: against scikit-learn, at ties, at divergence, and as combinations."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, log_loss, recall_score

from flcontrib_core.errors import SettingsError
from flcontrib_core.games.utilities import KNOWN_UTILITIES, UtilityReader, lower_is_better, parse_utility


def _logits(models: int, rows: int, classes: int, rng: np.random.Generator) -> np.ndarray:
    return (3 * rng.standard_normal((models, rows, classes))).astype(np.float32)


def _probabilities(z: np.ndarray) -> np.ndarray:
    z = z.astype(np.float64)
    if z.shape[1] == 1:
        z = np.hstack([np.zeros_like(z), z])
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("classes", [1, 2, 3, 10])
@pytest.mark.parametrize("rows", [7, 300])
def test_every_utility_equals_scikit_learn(classes: int, rows: int) -> None:
    rng = np.random.default_rng(classes * 1000 + rows)
    labels = max(classes, 2)
    y = rng.integers(0, labels, rows)
    group = rng.integers(0, 3, rows)
    z = _logits(5, rows, classes, rng)
    values = UtilityReader(KNOWN_UTILITIES, y, classes, group).read_rows(z)
    present = np.unique(y)
    for model, found in zip(z, values, strict=True):
        p = _probabilities(model)
        predicted = p.argmax(axis=1)
        rates = np.array([[np.mean(predicted[group == g] == k) for k in range(labels)] for g in np.unique(group)])
        expected = [
            log_loss(y, p, labels=range(labels)),
            accuracy_score(y, predicted),
            f1_score(y, predicted, labels=present, average="macro", zero_division=0),
            recall_score(y, predicted, labels=present, average=None).min(),
            (rates.max(axis=0) - rates.min(axis=0)).max(),
        ]
        assert found == pytest.approx(expected, rel=2e-6, abs=1e-12)


def test_confident_rows_keep_their_small_losses() -> None:
    """Two classes: log(1 + e^−30) is not rounded away by a softmax of 1."""
    z = np.array([[[30.0, 0.0], [0.0, 16.0]]], dtype=np.float32)
    value = UtilityReader(["loss"], np.array([0, 1]), 2).read_rows(z)[0, 0]
    assert value == pytest.approx((np.log1p(np.exp(-30.0)) + np.log1p(np.exp(-16.0))) / 2, rel=1e-5)


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_equal_logits_predict_the_first_class(classes: int) -> None:
    y = np.array([0, 1, 1, 0, 1])
    reader = UtilityReader(["accuracy", "worst-class-recall"], y, classes)
    flat = np.zeros((1, 5, classes), dtype=np.float32)
    assert reader.read_rows(flat)[0].tolist() == [0.4, 0.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_single_non_finite_logit_makes_every_utility_nan(bad: float) -> None:
    rng = np.random.default_rng(0)
    z = _logits(3, 20, 4, rng)
    z[1, 5, 2] = bad
    y = rng.integers(0, 2, 20)  # the broken class is never the true one
    values = UtilityReader(["loss", "accuracy", "macro-f1"], y, 4).read_rows(z)
    assert np.isnan(values[1]).all()
    assert np.isfinite(values[[0, 2]]).all()


def test_combinations_are_linear_in_their_parts() -> None:
    rng = np.random.default_rng(1)
    z, y = _logits(6, 50, 3, rng), rng.integers(0, 3, 50)
    expressions = ["loss", "accuracy", "0.7*loss+0.3*accuracy", "-macro-f1 + 1e-1*loss-accuracy", "macro-f1"]
    loss, accuracy, mixed, longer, f1 = UtilityReader(expressions, y, 3).read_rows(z).T
    np.testing.assert_allclose(mixed, 0.7 * loss + 0.3 * accuracy, rtol=1e-14)
    np.testing.assert_allclose(longer, -f1 + 0.1 * loss - accuracy, rtol=1e-13)


def test_names_with_hyphens_are_read_whole() -> None:
    terms = parse_utility("2*worst-class-recall-demographic-parity-gap")
    assert [(t.coefficient, t.name) for t in terms] == [(2.0, "worst-class-recall"), (-1.0, "demographic-parity-gap")]


@pytest.mark.parametrize(
    ("expression", "lower"),
    [
        ("loss", True),
        ("accuracy", False),
        ("demographic-parity-gap", True),
        ("0.7*loss+0.3*accuracy", True),
        ("0.3*accuracy+0.7*loss", True),
        ("0.3*loss+0.7*accuracy", False),
        ("loss-accuracy", True),
        ("accuracy-0.5*loss", False),
        ("-loss", False),
    ],
)
def test_orientation_follows_the_heavier_side(expression: str, lower: bool) -> None:
    assert lower_is_better(expression) is lower


@pytest.mark.parametrize(
    "bad", ["", "los", "loss+", "2loss", "loss accuracy", "+loss", "2*3*loss", "loss*2", "1e999*loss"]
)
def test_unreadable_expressions_say_what_was_found(bad: str) -> None:
    with pytest.raises(SettingsError, match="utility"):
        parse_utility(bad)


def test_parity_gap_without_groups_is_refused() -> None:
    with pytest.raises(SettingsError, match="group"):
        UtilityReader(["loss+demographic-parity-gap"], np.array([0, 1]), 2)


@pytest.mark.parametrize("y", [np.array([0, 3]), np.array([-1, 0]), np.array([], dtype=np.int64)])
def test_labels_outside_the_classes_are_refused(y: np.ndarray) -> None:
    with pytest.raises(SettingsError, match="labels"):
        UtilityReader(["loss"], y, 3)


def test_reading_many_models_in_steps_changes_nothing() -> None:
    rng = np.random.default_rng(2)
    z, y = _logits(2000, 300, 4, rng), rng.integers(0, 4, 300)
    reader = UtilityReader(["loss", "accuracy"], y, 4)
    together = reader.read_rows(z)
    alone = np.vstack([reader.read_rows(z[k : k + 1]) for k in (0, 873, 874, 1999)])
    assert np.array_equal(together[[0, 873, 874, 1999]], alone)
