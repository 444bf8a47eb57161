"""Do the 95 % intervals hold the truth about as often as they say?

Coverage over random games and players. The bounds leave room for the number of cells (neighbouring players of one
run are dependent) and for the small samples: a wrong formula (a missing square root, a missing stratum) falls far out.
"""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.shapley.exact_values import evaluate_all, shapley_from_table
from flcontrib_core.shapley.registry import epoch_estimator
from tests.shapley.closed_form import Game, random_table, smooth_game, table_game, unanimity_sum


def games() -> list[Game]:
    return [
        *(table_game(random_table(seed, 9)) for seed in range(8)),
        *(smooth_game(seed, 9) for seed in range(8)),
        *(unanimity_sum(seed, 9).game for seed in range(8)),
    ]


@pytest.mark.parametrize(
    ("name", "options", "evaluations"),
    [
        ("monte-carlo", {}, 120),
        ("monte-carlo", {}, 300),
        ("monte-carlo", {"antithetic": True}, 200),
        ("complementary", {}, 120),
        ("complementary", {}, 300),
        ("complementary-neyman", {}, 120),
        ("complementary-neyman", {}, 300),
        ("fedsv", {}, 200),
        ("fedsv-group-testing", {}, 200),
    ],
)
def test_coverage(name: str, options: dict[str, bool], evaluations: int) -> None:
    inside, widths, errors = [], [], []
    for number, game in enumerate(games()):
        truth = shapley_from_table(evaluate_all(game.oracle()))
        for seed in range(4):
            rng = np.random.default_rng([number, seed])
            estimate = epoch_estimator(name, evaluations=evaluations, **options).estimate(game.oracle(), rng)
            assert not np.isnan(estimate.standard_errors).any()
            inside.append(np.abs(estimate.values - truth) <= estimate.half_widths)
            widths.append((estimate.half_widths**2).mean() / truth.var())
            errors.append(((estimate.values - truth) ** 2).mean() / truth.var())
    assert 0.90 <= np.mean(inside) <= 0.995
    assert 0.6 <= np.median(np.sqrt(np.array(widths) / np.array(errors))) / 1.96 <= 1.7


def test_exact_values_have_no_error_and_no_relative_width() -> None:
    estimate = epoch_estimator("exact").estimate(smooth_game(0, 4).oracle(), np.random.default_rng(0))
    assert estimate.relative_half_width().tolist() == [0.0]


def test_relative_half_width_of_equal_values_and_of_missing_errors() -> None:
    from flcontrib_core.shapley.estimate import ShapleyEstimate

    values = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 2.0, 2.0]])
    errors = np.array([[0.0, 0.1, 0.1, np.nan], [0.0, 0.1, 0.2, np.nan]])
    relative = ShapleyEstimate(values, errors, 1, False, "made up").relative_half_width()
    assert relative[:3].tolist() == [0.0, np.inf, pytest.approx(0.392)]
    assert np.isnan(relative[3])
