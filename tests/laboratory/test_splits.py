"""Does every client get its rows, and does α mean what it says?"""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation.settings import Sizes, Split
from flcontrib_core.laboratory.simulation.splits import share_out

LABELS = np.random.default_rng(0).integers(0, 10, 1500)


def mix_distance(labels: np.ndarray, rows: tuple[np.ndarray, ...]) -> float:
    """Mean total-variation distance of the clients' class mixes from the overall one."""
    overall = np.bincount(labels, minlength=10) / len(labels)
    mixes = [np.bincount(labels[r], minlength=10) / len(r) for r in rows]
    return float(np.mean([np.abs(mix - overall).sum() / 2 for mix in mixes]))


@pytest.mark.parametrize("split", list(Split))
@pytest.mark.parametrize("sizes", list(Sizes))
@pytest.mark.parametrize("alpha", [1e-3, 0.5, 50.0])
def test_every_row_has_one_owner(split: Split, sizes: Sizes, alpha: float) -> None:
    rows = share_out(LABELS, 7, split, alpha, sizes, np.random.default_rng(1))
    np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(len(LABELS)))
    counts = np.array([len(r) for r in rows])
    if sizes is Sizes.EQUAL:
        assert counts.max() - counts.min() <= 1
    else:
        assert counts.max() > 1.3 * counts.min()
        assert counts.max() < 4.2 * counts.min()


@pytest.mark.parametrize("split", [Split.DIRICHLET, Split.BETA])
def test_lower_alpha_is_more_heterogeneous(split: Split) -> None:
    def distance(alpha: float) -> float:
        drawn = [share_out(LABELS, 8, split, alpha, Sizes.EQUAL, np.random.default_rng(s)) for s in range(5)]
        return float(np.mean([mix_distance(LABELS, rows) for rows in drawn]))

    distances = [distance(alpha) for alpha in (0.1, 1.0, 10.0, 1000.0)]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] > 0.4
    assert distances[-1] < 0.05


def test_iid_clients_have_the_overall_mix() -> None:
    rows = share_out(LABELS, 8, Split.IID, 0.5, Sizes.UNEQUAL, np.random.default_rng(0))
    assert mix_distance(LABELS, rows) < 0.03


def test_too_many_clients_are_refused() -> None:
    with pytest.raises(SettingsError, match="fewer clients"):
        share_out(LABELS[:10], 6, Split.IID, 1.0, Sizes.EQUAL, np.random.default_rng(0))
