"""shapiq's approximators through our oracle: same game, same budget in distinct evaluations, clear refusals."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import numpy as np
import pytest
import shapiq.approximator

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.shapley.exact_values import shapley_from_table
from flcontrib_core.shapley.remarks import LibraryMessage
from flcontrib_core.shapley.shapiq_adapter import APPROXIMATORS, NEWER, Shapiq
from tests.shapley.closed_form import random_table, smooth_game, table_game

WORKING = tuple(name for name in APPROXIMATORS if "SPEX" not in name and name not in NEWER)
NEWEST_THERE = hasattr(shapiq.approximator, NEWER[0])


def test_the_names_are_those_of_the_library() -> None:
    from shapiq.approximator import SV_APPROXIMATORS

    kinds: list[Any] = list(SV_APPROXIMATORS)
    assert set(APPROXIMATORS) - (set() if NEWEST_THERE else set(NEWER)) == {kind.__name__ for kind in kinds}


@pytest.mark.parametrize("name", WORKING)
def test_each_spends_its_budget_and_comes_near(name: str) -> None:
    table = random_table(0, 8) * 0.2 + np.bitwise_count(np.arange(256))[:, None] * np.array([[0.3]])
    table[0] = 0
    game = table_game(table)
    estimate = Shapiq(name=name, evaluations=180).estimate(game.oracle(), np.random.default_rng(0))
    assert estimate.evaluations == game.evaluated <= 180
    assert estimate.evaluations >= 165  # also those that count calls instead of coalitions
    assert np.abs(estimate.values - shapley_from_table(table)).max() < 0.25
    assert estimate.method == f"shapiq:{name}"
    assert np.isnan(estimate.standard_errors).all()


@pytest.mark.skipif(not NEWEST_THERE, reason="shapiq 1.8 needs Python 3.12")
@pytest.mark.parametrize(
    ("name", "players", "evaluations"),
    [("LeverageSHAP", 8, 180), ("RegressionMSR", 8, 180), ("OddSHAP", 8, 180), ("ShaplEIG", 6, 36)],
)
def test_the_newest_spend_their_budget_and_come_near(name: str, players: int, evaluations: int) -> None:
    size = 1 << players
    table = random_table(0, players) * 0.1 + np.bitwise_count(np.arange(size))[:, None] * np.array([[0.3]])
    table[0] = 0
    estimator = Shapiq(name=name, evaluations=evaluations)
    estimate = estimator.estimate(table_game(table).oracle(), np.random.default_rng(0))
    assert evaluations - 2 <= estimate.evaluations <= evaluations
    assert np.abs(estimate.values - shapley_from_table(table)).max() < 0.25


@pytest.mark.skipif(NEWEST_THERE, reason="this shapiq has them")
def test_what_an_older_library_lacks_is_named() -> None:
    with pytest.raises(MissingPart, match="shapiq:OddSHAP came with shapiq"):
        Shapiq(name="OddSHAP", evaluations=20).estimate(smooth_game(0, 6).oracle(), np.random.default_rng(0))


def test_what_the_library_holds_the_place_of_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its optional packages ShaplEIG is a class that nobody can make."""
    from shapiq.approximator.base import Approximator

    monkeypatch.setattr(shapiq.approximator, "ShaplEIG", Approximator, raising=False)
    with pytest.raises(MissingPart, match="shapiq:ShaplEIG needs packages"):
        Shapiq(name="ShaplEIG", evaluations=20).estimate(smooth_game(0, 6).oracle(), np.random.default_rng(0))


def test_one_that_chooses_by_values_counts_what_all_utilities_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """ShaplEIG's way: for every utility other coalitions, each within the budget."""

    class Choosy:
        def __init__(self, n: int, **_: object) -> None:
            self.n = n

        def approximate(self, budget: int, game: Any) -> dict[tuple[int], float]:
            first = game(np.eye(self.n, dtype=bool)[:1])[0]
            game(np.roll(np.eye(self.n, dtype=bool), 1 if first > 0 else 3, axis=1)[: budget - 2])
            return {(i,): 0.0 for i in range(self.n)}

    monkeypatch.setattr(shapiq.approximator, "ShaplEIG", Choosy, raising=False)
    table = np.zeros((64, 2))
    table[1] = 1.0, -1.0
    estimate = Shapiq(name="ShaplEIG", evaluations=3).estimate(table_game(table).oracle(), np.random.default_rng(0))
    assert estimate.evaluations == 5  # the first player, and two more for each utility


def test_equals_the_library_called_directly() -> None:
    from shapiq.approximator import KernelSHAP

    table = random_table(1, 7)
    seed = int(np.random.default_rng(9).integers(2**31 - 1))
    peer = KernelSHAP(n=7, pairing_trick=True, random_state=seed)
    direct = peer.approximate(budget=61, game=lambda s: table[s.astype(int) @ (1 << np.arange(7)), 0])
    estimate = Shapiq(name="KernelSHAP", evaluations=60).estimate(table_game(table).oracle(), np.random.default_rng(9))
    assert estimate.values[:, 0].tolist() == [direct[(i,)] for i in range(7)]


def test_names_are_read_in_any_case_and_unknown_ones_refused() -> None:
    assert Shapiq(name="svarm").name == "shapiq:SVARM"
    with pytest.raises(SettingsError, match="choose from KernelSHAP"):
        Shapiq(name="magic")


@pytest.mark.slow  # building the library's decoder takes half a minute
def test_a_budget_the_library_cannot_use_is_refused_in_our_words() -> None:
    with pytest.raises(SettingsError, match="shapiq:SPEX with 40 evaluations: Insufficient budget"):
        Shapiq(name="SPEX", evaluations=40).estimate(smooth_game(0, 8).oracle(), np.random.default_rng(0))


def test_what_the_library_warns_about_becomes_a_remark() -> None:
    estimate = Shapiq(name="KernelSHAP", evaluations=30).estimate(smooth_game(0, 5).oracle(), np.random.default_rng(0))
    messages = [r for r in estimate.remarks if isinstance(r, LibraryMessage)]
    assert any(m.library == "shapiq" and "Sampling might be inefficient" in m.text for m in messages)


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_shapiq(name: str, *args: object, **kwargs: object) -> object:
        if name.startswith("shapiq"):
            raise ImportError("No module named 'shapiq'")
        return real(name, *args, **kwargs)  # type: ignore[arg-type]

    for module in [m for m in sys.modules if m.startswith("shapiq")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", without_shapiq)
    with pytest.raises(MissingPart, match="pip install shapiq"):
        Shapiq(name="SVARM").estimate(smooth_game(0, 5).oracle(), np.random.default_rng(0))
