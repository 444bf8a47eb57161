"""Is a budget measured against the totals that the full computation gives?"""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.errors import SettingsError
from flcontrib_core.history.budget_errors import _spearman, budget_error
from tests.detection.made_histories import made_history


def test_every_epoch_has_no_error() -> None:
    found = budget_error(made_history(epochs=12), range(1, 13), "loss")
    assert found.relative == 0.0
    assert found.rank_correlation == pytest.approx(1.0)


def test_skipped_epoch_costs_the_distance_to_its_equal_split() -> None:
    history = made_history(clients=5, epochs=6)
    step = history.of("loss").values[4]
    history.of("loss").increments[4] = step.sum()
    totals = history.totals("loss") - history.of("loss").values[0]
    expected = np.abs(step - step.mean()).sum() / np.abs(totals).sum()
    found = budget_error(history, (1, 2, 3, 5, 6), "loss")
    assert found.relative == pytest.approx(expected)


def test_more_epochs_are_never_needed_for_a_known_order() -> None:
    history = made_history(clients=6, epochs=10)
    history.of("loss").values[1:] -= np.arange(6) * 0.1
    history.of("loss").increments[1:] = history.of("loss").values[1:].sum(axis=1)
    assert budget_error(history, (2,), "loss").rank_correlation == pytest.approx(1.0)


def test_two_clients_have_no_rank_correlation() -> None:
    assert budget_error(made_history(clients=2), (1, 2), "loss").rank_correlation is None


def test_partial_history_cannot_be_measured_against() -> None:
    with pytest.raises(SettingsError, match="nothing to measure against"):
        budget_error(made_history(epochs=10, computed=(1, 2, 3)), (1, 2), "loss")


def test_equal_totals_share_their_rank_as_in_scipy() -> None:
    from scipy.stats import spearmanr

    full = np.array([0.4, 0.1, 0.1, -0.2, 0.3, 0.1])
    budgeted = np.array([0.2, 0.2, 0.0, 0.0, 0.2, -0.1])
    assert _spearman(full, budgeted) == pytest.approx(spearmanr(full, budgeted).statistic, abs=1e-12)
