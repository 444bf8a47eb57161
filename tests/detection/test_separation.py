"""The clustering view: against hand-made groups, hand-computed Jaccard values and its own yardsticks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.detection.separation import GroupingSettings, jaccard, separate
from flcontrib_core.errors import SettingsError
from tests.detection.test_change_points import history_of


def two_groups(rows: int = 21, clients: int = 8) -> np.ndarray:
    rng = np.random.default_rng(4)
    values = rng.normal(-0.1, 0.005, (rows, clients))
    values[10:16, :2] += 0.4
    return values


def test_two_poisoned_clients_form_the_smaller_group():
    found = separate(history_of(two_groups()))
    assert found is not None
    assert found.k == 2
    assert [c for c, label in found.labels.items() if label == 1] == ["c0", "c1"]
    assert found.centres.shape == (2, 21)
    assert found.stability is not None
    assert found.stability > 0.9
    assert found.jaccard is None


def test_jaccard_beside_its_yardsticks():
    found = separate(history_of(two_groups()), dishonest=["c0", "c1"])
    assert found is not None
    assert found.jaccard is not None
    assert found.jaccard.raw == 1.0
    assert found.jaccard.single_cluster == 0.75
    assert found.jaccard.adjusted == pytest.approx(1.0)
    assert found.stability is None


def test_jaccard_by_hand():
    ids = ("a", "b", "c", "d")
    one = jaccard(np.zeros(4, np.int64), ids, frozenset("d"))
    assert (one.raw, one.single_cluster, one.adjusted) == (0.75, 0.75, 0.0)
    apart = jaccard(np.array([0, 0, 0, 1]), ids, frozenset("d"))
    # of the four places of the odd one out, one gives 1, three give 3/4
    assert apart.raw == 1.0
    assert apart.adjusted == pytest.approx(1.0)
    wrong = jaccard(np.array([1, 0, 0, 0]), ids, frozenset("d"))
    assert wrong.raw == 0.75
    assert wrong.adjusted == pytest.approx((0.75 - 0.8125) / (1 - 0.8125), abs=0.05)
    assert jaccard(np.zeros(2, np.int64), ("a", "b"), frozenset()).adjusted is None


def test_skipped_epochs_are_left_out_of_the_series():
    values = two_groups()
    values[5] = np.nan
    found = separate(history_of(values))
    assert found is not None
    assert found.centres.shape == (2, 20)
    assert (found.epochs_left_out, found.cells_held) == (1, 0)


def test_a_missing_value_holds_the_running_total_and_is_counted():
    values = two_groups()
    values[7, 3] = np.nan
    found = separate(history_of(values))
    assert found is not None
    assert found.centres.shape == (2, 21)
    assert np.isfinite(found.centres).all()
    assert (found.epochs_left_out, found.cells_held) == (0, 1)


def test_too_few_or_identical_clients_have_no_grouping():
    assert separate(history_of(two_groups(clients=3))) is None
    assert separate(history_of(np.ones((5, 6)))) is None


def test_settings_outside_their_range_are_named():
    history = history_of(two_groups())
    with pytest.raises(SettingsError, match="between 1 and 4"):
        separate(history, settings=GroupingSettings(5))
    with pytest.raises(SettingsError, match="dtw"):
        separate(history, settings=GroupingSettings(metric="cosine"))
    found = separate(history, settings=GroupingSettings(3))
    assert found is not None
    assert found.k == 3
    assert separate(replace(history, client_ids=tuple("hgfedcba")), settings=GroupingSettings(2)) is not None


def without_groups(seed: int, clients: int = 10) -> np.ndarray:
    """Honest clients that differ for good, by amounts from one bell curve: no group."""
    rng = np.random.default_rng(seed)
    return rng.normal(-0.1, 0.03, clients)[None, :] + rng.normal(0, 0.01, (25, clients))


def test_series_without_groups_are_one_group_in_most_runs():
    found = [separate(history_of(without_groups(seed))) for seed in range(20)]
    one = [f for f in found if f is not None and f.k == 1]
    assert len(one) >= 17
    assert set(one[0].labels.values()) == {0}
    assert one[0].chance_silhouette is not None
    assert max(one[0].silhouette.values()) <= one[0].chance_silhouette
    assert one[0].stability is None
    forced = separate(history_of(without_groups(0)), settings=GroupingSettings(calibrated=False))
    assert forced is not None
    assert forced.k > 1


def test_one_group_may_be_asked_for_and_scores_as_the_single_cluster():
    found = separate(history_of(two_groups()), settings=GroupingSettings(1), dishonest=["c0", "c1"])
    assert found is not None
    assert (found.k, found.asked) == (1, True)
    assert found.jaccard is not None
    assert found.jaccard.raw == found.jaccard.single_cluster
    assert found.centres.shape == (1, 21)


def test_the_batched_silhouette_is_scikit_learns():
    from sklearn.metrics import silhouette_score

    from flcontrib_core.detection import chance_groups

    points = np.random.default_rng(1).normal(size=(3, 12, 4))
    distances = chance_groups._distances(points, points)
    labels = chance_groups._grouped(points, distances, 3, 0)
    expected = [silhouette_score(x, y) for x, y in zip(points, labels, strict=True)]
    np.testing.assert_allclose(chance_groups._silhouettes(distances, labels, 3), expected)


def test_grouping_settings_survive_their_record():
    asked = GroupingSettings(3, "softdtw", calibrated=False)
    assert GroupingSettings.from_record(asked.record()) == asked
    for wrong in ({"k": "many"}, {"colour": 1}, {"metric": "cosine"}):
        with pytest.raises(SettingsError):
            GroupingSettings.from_record(wrong)
