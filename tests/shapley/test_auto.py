"""Does ``auto`` follow its fixed rule, and does it say what it did?"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from flcontrib_core.shapley import auto
from flcontrib_core.shapley.auto import Auto, precision_reached
from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.shapley.exact_values import evaluate_all, shapley_from_table
from flcontrib_core.shapley.flagged import flagged_players
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.remarks import (
    ExactIsCheap,
    ExactIsNotCheap,
    Handling,
    LibraryMessage,
    LongUpdates,
    SurrogateFellShort,
)
from flcontrib_core.tagged import Others
from tests.shapley.closed_form import smooth_game
from tests.shapley.logit_game import LinearEpoch

STAND_IN = LibraryMessage("stand-in", "nothing to say")


@dataclass
class StandIn:
    """A surrogate that asks for 4n coalitions and claims a given relative half-width."""

    half_width: float = 0.1
    unreliable: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)
    name: str = "surrogate"
    evaluations: int | None = None

    def estimate(self, oracle: CoalitionOracle, rng: np.random.Generator) -> ShapleyEstimate:
        budget = self.evaluations or 4 * oracle.players
        draws = rng.random((50 * oracle.players, oracle.players)) < 0.5
        oracle.evaluate(np.unique(draws, axis=0)[1 : budget + 1])
        spread = np.linspace(-1, 1, oracle.players)[:, None] * np.ones(len(oracle.utilities))
        errors = np.full_like(spread, self.half_width * spread.std() / 1.96)
        return ShapleyEstimate(
            spread, errors, oracle.evaluations, False, self.name, (STAND_IN,), unreliable=self.unreliable
        )


@pytest.fixture
def surrogate(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()

    def build(evaluations: int | None, precision: float, outputs: str) -> StandIn:
        stand_in.name = "surrogate" if outputs == "logits" else "surrogate-blackbox"
        stand_in.evaluations = evaluations
        return stand_in

    monkeypatch.setattr(auto, "Surrogate", build)
    return stand_in


def run(game: object, estimator: Auto | None = None) -> ShapleyEstimate:
    return (estimator or Auto()).estimate(CoalitionOracle(game), np.random.default_rng(0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("players", "multiply_adds", "cheap"),
    [
        (5, 1e15, True),
        (6, 2.5e10 / 64, True),
        (6, 2.5e10 / 64 + 1, False),
        (12, 2.4e6, True),  # MLP(64, 32) on 360 rows
        (14, 2.4e6, False),
        (8, 6.5e7, True),  # the paper's MLP on 360 rows
        (9, 6.5e7, False),
        (12, None, True),
        (13, None, False),
    ],
)
def test_exact_is_cheap_by_a_fixed_cost_model(players: int, multiply_adds: float | None, cheap: bool) -> None:
    everything = 2**players - 1
    assert (Auto().cost(players, multiply_adds).likely == everything) is cheap


def test_cheap_epochs_are_exact_and_say_so(surrogate: StandIn) -> None:
    for game in (LinearEpoch(5), LinearEpoch(9, multiply_adds=1e3), smooth_game(0, 11)):
        estimate = run(game)
        assert (estimate.method, estimate.exact) == ("exact", True)
        assert estimate.remarks == (ExactIsCheap(game.players),)
    assert surrogate.asked == []


def test_expensive_epochs_go_to_the_surrogate(surrogate: StandIn) -> None:
    estimate = run(LinearEpoch(14))
    assert estimate.method == "surrogate"
    assert estimate.remarks == (ExactIsNotCheap(14), STAND_IN)


def test_opaque_games_go_to_the_black_box(surrogate: StandIn) -> None:
    assert run(smooth_game(0, 14)).method == "surrogate-blackbox"


def test_a_scaled_update_is_flagged_and_computed_exactly_up_to_twelve(surrogate: StandIn) -> None:
    game = LinearEpoch(7)
    assert flagged_players(game) == ()
    game.deltas[4] *= 10
    assert flagged_players(game) == (4,)
    estimate = run(game)
    assert estimate.exact
    assert estimate.remarks == (LongUpdates(Others.named(["4"]), 3.0, Handling.EXACT),)
    assert surrogate.asked == []


def test_a_flagged_epoch_beyond_twelve_goes_to_the_surrogate_with_the_reason(surrogate: StandIn) -> None:
    game = LinearEpoch(14)
    game.deltas[2] *= 10
    surrogate.unreliable = ("accuracy",)
    estimate = run(game)
    assert estimate.remarks[0] == LongUpdates(Others.named(["2"]), 3.0, Handling.ESTIMATED)
    assert estimate.unreliable == ("accuracy",)
    short = estimate.remarks[-1]
    assert isinstance(short, SurrogateFellShort)
    assert (short.untrusted, short.exact_instead) == (("accuracy",), False)


def test_two_updates_flag_nobody() -> None:
    game = LinearEpoch(2)
    game.deltas[0] *= 1000
    assert flagged_players(game) == ()
    assert flagged_players(smooth_game(0, 5)) == ()


def test_zero_updates_flag_only_those_that_are_not_zero() -> None:
    game = LinearEpoch(5)
    game.deltas[:4] = 0
    assert flagged_players(game) == (4,)


def test_precision_not_reached_ends_in_exact_where_affordable(surrogate: StandIn) -> None:
    surrogate.half_width = 0.5
    game = LinearEpoch(7, multiply_adds=2.5e11 / 2**7)
    estimate = run(game)
    assert estimate.exact
    assert estimate.evaluations == game.evaluated == 127
    short = estimate.remarks[-1]
    assert isinstance(short, SurrogateFellShort)
    assert (short.untrusted, short.precision, short.exact_instead) == ((), 0.3, True)
    oracle = CoalitionOracle(LinearEpoch(7))
    assert np.allclose(estimate.values, shapley_from_table(evaluate_all(oracle)), atol=1e-9)


def test_precision_not_reached_ends_in_an_honest_interval_where_exact_is_out_of_reach(surrogate: StandIn) -> None:
    surrogate.half_width = 0.5
    estimate = run(LinearEpoch(14))
    assert not estimate.exact
    assert estimate.relative_half_width() == pytest.approx([0.5, 0.5])
    short = estimate.remarks[-1]
    assert isinstance(short, SurrogateFellShort)
    assert not short.exact_instead
    assert run(LinearEpoch(14), Auto(precision=0.6)).remarks[-1] == STAND_IN


def test_the_evaluations_allowed_decide_over_the_rule(surrogate: StandIn) -> None:
    assert run(LinearEpoch(7), Auto(evaluations=127)).exact
    limited = run(LinearEpoch(5), Auto(evaluations=12))
    assert limited.method == "surrogate"
    assert limited.evaluations <= 12
    scaled = LinearEpoch(7)
    scaled.deltas[0] *= 100
    assert run(scaled, Auto(evaluations=30)).evaluations <= 30


def test_a_flat_utility_needs_no_resolution() -> None:
    values = np.array([[1e-5, 1.0], [-1e-5, -1.0]])
    flat = ShapleyEstimate(values, np.full((2, 2), 2e-5), 8, False, "surrogate")
    assert not precision_reached(flat, 0.3)
    assert precision_reached(flat, 0.3, resolution=1e-4)
    wide = ShapleyEstimate(values, np.array([[1.0, 1e-5], [1.0, 1e-5]]), 8, False, "surrogate")
    assert not precision_reached(wide, 0.3, resolution=1e-4)
    unknown = ShapleyEstimate(values, np.full((2, 2), np.nan), 8, False, "surrogate")
    assert not precision_reached(unknown, 0.3, resolution=1e-4)


def test_the_price_covers_what_the_rule_may_do() -> None:
    assert Auto().cost(5, 1e15)[:2] == (31, 31)
    assert Auto().cost(10, 1e15)[:2] == (40, 1023)  # it may be flagged
    assert Auto().cost(14, 1e15)[:2] == (56, 224)
    assert Auto().cost(14, 2.5e11 / 2**14)[:2] == (56, 2**14 - 1)  # it may be rescued
    assert Auto().cost(14, None)[:2] == (56, 224)
    assert Auto(evaluations=100).cost(14, 1e15)[:2] == (100, 100)
    assert Auto(evaluations=100).cost(5, 1e15)[:2] == (31, 31)


def test_the_whole_rule_with_the_real_surrogate() -> None:
    """No stand-in: on an epoch of 13 the answer is near the exact one or carries an interval that says otherwise."""
    pytest.importorskip("flcontrib_core.shapley.surrogate", reason="the logit surrogate is not there")
    estimate = run(LinearEpoch(13, seed=3))
    truth = shapley_from_table(evaluate_all(CoalitionOracle(LinearEpoch(13, seed=3))))
    assert estimate.method.startswith("surrogate")
    assert estimate.evaluations <= 16 * 13
    assert (np.abs(estimate.values - truth) <= 2 * estimate.half_widths + 1e-9).mean() > 0.9
