"""Are the rows the real ones, preprocessed as usual, and split the same way every time?"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.laboratory.simulation.datasets import column_scale, load_dataset
from flcontrib_core.laboratory.simulation.settings import DatasetName

FOLDER = os.environ.get("FLCONTRIB_DATA")
needs_data = pytest.mark.skipif(
    not FOLDER or not Path(FOLDER).is_dir(), reason="set FLCONTRIB_DATA to the data folder to run this test"
)
BUNDLED = [(DatasetName.DIGITS, 1797, 64, 10), (DatasetName.BREAST_CANCER, 569, 30, 2), (DatasetName.WINE, 178, 13, 3)]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("name", "rows", "features", "classes"), BUNDLED)
def test_bundled_sets_are_complete_and_stratified(name: DatasetName, rows: int, features: int, classes: int) -> None:
    data = load_dataset(name, rng())
    assert len(data.x_train) + len(data.x_validation) == rows
    assert data.x_train.shape[1] == features
    assert data.classes == classes
    assert data.x_train.dtype == np.float32
    share = np.bincount(data.y_train) / len(data.y_train)
    np.testing.assert_allclose(np.bincount(data.y_validation) / len(data.y_validation), share, atol=0.03)


def test_no_row_is_both_learned_and_judged() -> None:
    data = load_dataset(DatasetName.BREAST_CANCER, rng())
    learned = {row.tobytes() for row in data.x_train}
    assert not any(row.tobytes() in learned for row in data.x_validation)


def test_the_split_is_the_seed_s() -> None:
    first, again, other = (load_dataset(DatasetName.WINE, rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.x_train, again.x_train)
    assert not np.array_equal(first.y_validation, other.y_validation) or not np.array_equal(
        first.x_validation, other.x_validation
    )


def test_digits_are_divided_by_their_range() -> None:
    data = load_dataset(DatasetName.DIGITS, rng())
    assert data.x_train.min() == 0
    assert data.x_train.max() == 1
    assert data.image == (1, 8, 8)
    np.testing.assert_array_equal(data.x_train * 16, np.round(data.x_train * 16))


def test_tables_are_scaled_by_their_training_rows() -> None:
    data = load_dataset(DatasetName.BREAST_CANCER, rng())
    np.testing.assert_allclose(data.x_train.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(data.x_train.std(axis=0), 1, atol=1e-4)


def test_a_column_that_hardly_varies_is_only_centred() -> None:
    column = np.full((50, 3), 7.0, dtype=np.float32)
    column[0, 1] = 7.0001
    column[:, 2] = np.arange(50)
    centre, scale = column_scale(column)
    np.testing.assert_array_equal(scale[:2], 1)
    assert scale[2] == pytest.approx(np.arange(50).std())
    unseen = (np.array([9.0, 9.0, 60.0]) - centre) / scale
    assert np.abs(unseen).max() < 4, "a row unlike the training rows must not explode"


def test_rows_can_be_limited_but_not_invented() -> None:
    data = load_dataset(DatasetName.DIGITS, rng(), train_rows=100, validation_rows=50)
    assert (len(data.y_train), len(data.y_validation)) == (100, 50)
    assert np.bincount(data.y_train).min() >= 9
    with pytest.raises(SettingsError, match="1697 to choose from"):
        load_dataset(DatasetName.DIGITS, rng(), train_rows=5000, validation_rows=100)


def test_a_missing_folder_or_file_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLCONTRIB_DATA", raising=False)
    with pytest.raises(MissingPart, match="name that data folder"):
        load_dataset(DatasetName.ADULT, rng())
    with pytest.raises(MissingPart, match="does not exist"):
        load_dataset(DatasetName.ADULT, rng(), tmp_path / "nowhere")
    with pytest.raises(MissingPart, match=r"cifar10-12k\.npz"):
        load_dataset(DatasetName.CIFAR10, rng(), tmp_path)
    monkeypatch.setenv("FLCONTRIB_DATA", str(tmp_path))
    with pytest.raises(MissingPart, match=r"adult\.csv\.gz"):
        load_dataset(DatasetName.ADULT, rng())


@needs_data
@pytest.mark.data
def test_adult_is_what_pandas_makes_of_it() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(f"{FOLDER}/adult.csv.gz")
    labels = table.pop("income_gt_50k").to_numpy()
    learned = (table.pop("split") == "train").to_numpy()
    numeric = ["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
    expected = pandas.get_dummies(table.drop(columns=["fnlwgt", "education"]), dtype="float32")
    assert list(expected.columns[:5]) == numeric
    mine = load_dataset(DatasetName.ADULT, rng(), validation_rows=16281)
    x = expected.to_numpy(dtype=np.float64)
    scaled = (x[:, :5] - x[learned, :5].mean(axis=0)) / x[learned, :5].std(axis=0)
    np.testing.assert_allclose(mine.x_train[:, :5], scaled[learned], atol=1e-4)
    np.testing.assert_array_equal(mine.x_train[:, 5:], x[learned, 5:])
    np.testing.assert_array_equal(mine.y_train, labels[learned])
    np.testing.assert_array_equal(mine.y_validation, labels[~learned])
    assert mine.group_validation is not None
    np.testing.assert_array_equal(mine.group_validation, (table["sex"] == "Male")[~learned])


@needs_data
@pytest.mark.data
def test_compas_keeps_propublica_s_rows() -> None:
    data = load_dataset(DatasetName.COMPAS, rng())
    labels = np.concatenate([data.y_train, data.y_validation])
    assert len(labels) == 6172
    assert labels.mean() == pytest.approx(0.4551, abs=1e-4)
    assert data.x_train.shape[1] == 15
    assert data.group_validation is not None
    assert 0.4 < data.group_validation.mean() < 0.6


@needs_data
@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "rows", "image", "low", "high"),
    [
        (DatasetName.CIFAR10, 10_000, (3, 32, 32), -2.0, 2.0),
        (DatasetName.FASHION_MNIST, 10_000, (1, 28, 28), 0.0, 1.0),
        (DatasetName.MNIST, 60_000, (1, 28, 28), 0.0, 1.0),
    ],
)
def test_images(name: DatasetName, rows: int, image: tuple[int, ...], low: float, high: float) -> None:
    data = load_dataset(name, rng())
    assert len(data.y_train) == rows
    assert data.image == image
    assert (data.x_train.min(), data.x_train.max()) == (low, high)
    assert len(data.y_validation) == 1000
    assert data.x_train.dtype == np.float32


def test_a_synthetic_table_is_the_seed_s_and_its_classes_overlap() -> None:
    first, again, other = (load_dataset(DatasetName.SYNTHETIC, rng(seed), None, 1600, 300) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.x_train, again.x_train)
    assert first.x_train.shape != other.x_train.shape or not np.allclose(first.x_train, other.x_train)
    assert (len(first.x_train), len(first.x_validation), first.classes) == (1600, 300, 2)
    assert 0.24 < first.y_train.mean() < 0.51
    assert first.group_validation is not None
    assert 0 < first.group_validation.mean() < 1


def test_a_synthetic_outcome_can_be_learned_but_not_without_error() -> None:
    from sklearn.linear_model import LogisticRegression

    right, guess = [], []
    for seed in range(6):
        data = load_dataset(DatasetName.SYNTHETIC, rng(seed))
        model = LogisticRegression(max_iter=1000).fit(data.x_train, data.y_train)
        right.append(model.score(data.x_validation, data.y_validation))
        guess.append(max(data.y_validation.mean(), 1 - data.y_validation.mean()))
    assert np.mean(right) > np.mean(guess) + 0.05
    assert max(right) < 0.92


@pytest.mark.parametrize(
    ("name", "columns", "positive", "right"),
    [(DatasetName.ADULT_LIKE, 91, 0.24, (0.8, 0.9)), (DatasetName.COMPAS_LIKE, 15, 0.455, (0.6, 0.72))],
)
def test_made_up_tables_are_as_wide_and_as_hard_as_the_known_ones(
    name: DatasetName, columns: int, positive: float, right: tuple[float, float]
) -> None:
    from sklearn.linear_model import LogisticRegression

    accuracies = []
    for seed in range(3):
        data = load_dataset(name, rng(seed), train_rows=3000, validation_rows=1000)
        assert data.x_train.shape[1] == columns
        assert data.y_train.mean() == pytest.approx(positive, abs=0.01)
        assert data.group_validation is not None
        fitted = LogisticRegression(max_iter=1000).fit(data.x_train, data.y_train)
        accuracies.append(fitted.score(data.x_validation, data.y_validation))
    assert right[0] < np.mean(accuracies) < right[1]
    first, other = (load_dataset(name, rng(seed), train_rows=100).x_train for seed in (0, 1))
    assert not np.array_equal(first, other), "every seed has people of its own"
