"""Does the oracle pay once, count honestly and name what is not finite?"""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.errors import MissingPart, NonFiniteUtility
from flcontrib_core.shapley.coalitions import all_coalitions
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.oracle import CoalitionOracle, LogitMemory, coalition_keys
from tests.shapley.closed_form import Game, additive, random_table, table_game
from tests.shapley.logit_game import LinearEpoch


class DictMemory:
    def __init__(self) -> None:
        self.values: dict[bytes, np.ndarray] = {}

    def recall(self, keys: list[bytes]) -> dict[bytes, np.ndarray]:
        return {key: self.values[key] for key in reversed(keys) if key in self.values}

    def keep(self, values: dict[bytes, np.ndarray]) -> None:
        self.values.update(values)


class DictLogitMemory(DictMemory):
    def __init__(self) -> None:
        super().__init__()
        self.logits: dict[bytes, np.ndarray] = {}

    def recall_logits(self, keys: list[bytes]) -> dict[bytes, np.ndarray]:
        return {key: self.logits[key] for key in keys if key in self.logits}

    def keep_logits(self, logits: dict[bytes, np.ndarray]) -> None:
        self.logits.update(logits)


def everything(players: int) -> np.ndarray:
    return np.concatenate([members for _, members in all_coalitions(players)])


def test_a_coalition_is_evaluated_once_however_often_it_is_asked() -> None:
    table = random_table(0, 6, utilities=2)
    game = table_game(table)
    oracle = CoalitionOracle(game)
    rows = np.random.default_rng(1).integers(64, size=500)
    asked = everything(6)[rows]
    for start in range(0, 500, 37):
        assert np.array_equal(oracle.evaluate(asked[start : start + 37]), table[rows[start : start + 37]])
    distinct = len(set(rows.tolist()) - {0})
    assert game.evaluated == oracle.computed == oracle.evaluations == distinct


def test_the_empty_coalition_is_zero_and_free() -> None:
    game = Game(3, lambda s: np.full(len(s), 5.0))
    oracle = CoalitionOracle(game)
    assert oracle.evaluate(np.zeros((2, 3), dtype=bool)).tolist() == [[0.0], [0.0]]
    assert oracle.evaluations == game.evaluated == 0


def test_known_and_evaluated_coalitions_tell_what_was_evaluated() -> None:
    table = random_table(3, 5)
    oracle = table_game(table).oracle()
    masks = np.array([3, 17, 30])
    oracle.evaluate(everything(5)[masks])
    assert np.flatnonzero(oracle.evaluated(everything(5))).tolist() == [0, 3, 17, 30]
    members, values = oracle.evaluated_coalitions()
    assert np.array_equal(values, table[members @ (1 << np.arange(5))])


def test_more_than_sixty_two_players_have_their_own_keys() -> None:
    form = additive(0, 130)
    asked = np.random.default_rng(0).random((300, 130)) < 0.5
    assert np.allclose(form.game.oracle().evaluate(asked), asked @ form.values)
    assert len(set(coalition_keys(asked))) == 300


def test_memory_answers_instead_of_the_game_and_evaluations_do_not_notice() -> None:
    table = random_table(4, 6)
    memory = DictMemory()
    CoalitionOracle(table_game(table), memory).evaluate(everything(6)[10:40])
    game = table_game(table)
    second = CoalitionOracle(game, memory)
    assert np.array_equal(second.evaluate(everything(6)), table)
    assert second.evaluations == 63
    assert second.computed == game.evaluated == 33
    assert len(memory.values) == 63


def test_logits_are_memoised_beside_the_values() -> None:
    game = LinearEpoch(4)
    oracle = CoalitionOracle(game)
    asked = everything(4)[[3, 3, 5, 0]]
    values, logits = oracle.evaluate_with_logits(asked)
    assert np.array_equal(logits[0], logits[1])
    assert values[3].tolist() == [0.0, 0.0]
    assert (oracle.evaluations, game.evaluated) == (2, 3)  # ∅ has logits too, though its value is free
    oracle.evaluate_with_logits(asked)
    assert np.array_equal(oracle.evaluate(asked), values)
    assert game.evaluated == 3


def test_a_value_known_without_logits_is_counted_once_but_computed_again() -> None:
    game = LinearEpoch(4)
    oracle = CoalitionOracle(game)
    asked = everything(4)[[7]]
    oracle.evaluate(asked)
    oracle.evaluate_with_logits(asked)
    assert (oracle.evaluations, oracle.computed) == (1, 2)


def test_keep_logits_spares_the_second_evaluation() -> None:
    game = LinearEpoch(4)
    oracle = CoalitionOracle(game, keep_logits=True)
    oracle.evaluate(everything(4)[[7, 9]])
    oracle.evaluate_with_logits(everything(4)[[9, 7]])
    assert (oracle.evaluations, oracle.computed) == (2, 2)


def test_a_logit_memory_spares_the_next_process() -> None:
    memory = DictLogitMemory()
    assert isinstance(memory, LogitMemory)
    first, second = LinearEpoch(4), LinearEpoch(4)
    values, logits = CoalitionOracle(first, memory).evaluate_with_logits(everything(4)[5:9])
    again = CoalitionOracle(second, memory).evaluate_with_logits(everything(4)[5:9])
    assert second.evaluated == 0
    assert np.array_equal(values, again[0])
    assert np.array_equal(logits, again[1])


def test_a_game_without_logits_says_so() -> None:
    with pytest.raises(MissingPart, match="surrogate-blackbox"):
        additive(0, 3).game.oracle().evaluate_with_logits(np.ones((1, 3), dtype=bool))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_non_finite_utility_is_refused_with_its_coalition(bad: float) -> None:
    table = random_table(0, 4, utilities=2)
    table[0b0110, 1] = bad
    game = table_game(table, ("loss", "accuracy"))
    with pytest.raises(NonFiniteUtility, match=r"players \[1, 2\] .*accuracy"):
        CoalitionOracle(game).evaluate(everything(4))
    named = CoalitionOracle(game, epoch=7, player_names=["a", "b", "c", "d"])
    with pytest.raises(NonFiniteUtility, match=r"epoch 7: .*\['b', 'c'\]"):
        named.evaluate(everything(4))


def test_a_matrix_of_the_wrong_shape_or_kind_is_refused() -> None:
    oracle = additive(0, 3).game.oracle()
    for wrong in (np.ones((2, 4), dtype=bool), np.ones(3, dtype=bool), np.ones((2, 3))):
        with pytest.raises(ValueError, match="3 columns"):
            oracle.evaluate(wrong)


def test_a_game_that_answers_in_the_wrong_shape_is_refused() -> None:
    class Broken:
        players = 3
        utilities = ("u",)

        def evaluate(self, coalitions: np.ndarray) -> np.ndarray:
            return np.zeros((1, 1))

    with pytest.raises(ValueError, match="shape"):
        CoalitionOracle(Broken()).evaluate(np.eye(3, dtype=bool))


def test_the_ledger_counts_its_own_questions_whatever_the_oracle_knows() -> None:
    oracle = additive(0, 5).game.oracle()
    oracle.evaluate(everything(5))
    ledger = Ledger(oracle, 4)
    ledger.evaluate(everything(5)[[0, 3, 3, 9]])
    assert (ledger.spent, ledger.left) == (2, 2)
    assert not ledger.reserve(everything(5)[[10, 11, 12]])
    assert ledger.spent == 2
    assert ledger.reserve(everything(5)[[9, 10, 11]])
    with pytest.raises(AssertionError, match="4 evaluations"):
        ledger.evaluate(everything(5)[[30]])
