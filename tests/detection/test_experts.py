"""Same window, several channels: handing weight on, the harm gate, and the coarse grid of long runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.detection.channels import CHANNEL_NAMES, MARGIN, VALUE, Channels, standardise
from flcontrib_core.detection.experts import EXPERTS, HARM, SIZE_ALONE, VALUE_ONLY, Expert, score_experts
from flcontrib_core.detection.facts import Unavailable
from flcontrib_core.detection.windows import SeriesSums, WindowModel, window_grid
from tests.detection.made_histories import made_history

MODEL = WindowModel()


def noise(epochs: int, clients: int, seed: int, shift: float = 0.0) -> Channels:
    scores = np.random.default_rng(seed).normal(size=(len(CHANNEL_NAMES), epochs, clients))
    scores[:, epochs // 3 : epochs // 3 + epochs // 10, : clients // 2] += shift
    return Channels(
        client_ids=tuple(str(i) for i in range(clients)),
        epochs=np.arange(1, epochs + 1),
        scores=scores,
        extra_variance=np.zeros_like(scores),
        class_scores=np.zeros((0, epochs, clients)),
        levels=scores,
        harm=np.abs(scores[0]),
        participated=np.ones((epochs, clients), dtype=bool),
        unavailable={},
    )


def test_the_score_is_the_log_mean_over_all_windows() -> None:
    channels = noise(24, 5, 0)
    expert = Expert("two", {VALUE: 0.4, MARGIN: 0.6}, False, "")
    grid = window_grid(24, MODEL, 2)
    by_hand = sum(
        weight
        * SeriesSums.of(channels.of(name), channels.extra_variance[CHANNEL_NAMES.index(name)], MODEL).evidence(
            grid.starts, grid.ends, MODEL
        )
        for name, weight in expert.weights.items()
    )
    scored = score_experts(channels, (expert,), MODEL)[0]
    assert scored.score == pytest.approx(np.log(np.nanmean(np.exp(by_hand), axis=0)))
    best = np.nanargmax(by_hand, axis=0)
    assert (scored.starts == grid.starts[best]).all()
    assert (scored.ends == grid.ends[best]).all()


def test_a_missing_channel_hands_its_weight_on() -> None:
    channels = noise(24, 5, 1)
    without = replace(channels, unavailable={VALUE: Unavailable.NO_PEERS})
    margin_alone = Expert("margin", {MARGIN: 1.0}, False, "")
    expected = score_experts(channels, (margin_alone,), MODEL)[0].score
    harm_ungated = replace(HARM, weights={VALUE: 0.3, MARGIN: 0.7}, needs_harm=False)
    assert score_experts(without, (harm_ungated,), MODEL)[0].score == pytest.approx(expected)


def test_an_expert_without_most_of_its_weight_is_not_heard() -> None:
    without = replace(noise(24, 5, 2), unavailable={MARGIN: Unavailable.NO_PEERS})
    lost = Expert("mostly margin", {VALUE: 0.3, MARGIN: 0.7}, False, "")
    kept = Expert("mostly value", {VALUE: 0.7, MARGIN: 0.3}, False, "")
    mute, scored = score_experts(without, (lost, kept), MODEL)
    assert not mute.scored.any()
    assert np.isneginf(mute.score).all()
    assert scored.scored.all()


def test_the_harm_gate_shuts_out_windows_that_help() -> None:
    channels = standardise(made_history(poisoned=[(3, 12, 18)], shift=8))
    helping = replace(channels, harm=-np.abs(channels.harm))
    gated, open_to_all = VALUE_ONLY, replace(VALUE_ONLY, needs_harm=False)
    assert np.isneginf(score_experts(helping, (gated,), MODEL)[0].score).all()
    assert np.isfinite(score_experts(helping, (open_to_all,), MODEL)[0].score).all()
    harmful = score_experts(channels, (gated,), MODEL)[0]
    assert int(np.argmax(harmful.score)) == 3
    assert (int(harmful.starts[3]), int(harmful.ends[3])) == (11, 17)


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_the_coarse_grid_agrees_with_looking_at_every_window(shift: float) -> None:
    channels = noise(130, 12, 3, shift)
    coarse = score_experts(channels, EXPERTS, MODEL)
    every = score_experts(channels, EXPERTS, replace(MODEL, exhaustive_up_to=1000))
    for a, b in zip(coarse, every, strict=True):
        same = (a.starts == b.starts) & (a.ends == b.ends)
        assert same.mean() >= 0.9
        assert np.abs(a.score - b.score).max() < 1.3


def test_some_clients_alone_are_heard_as_among_all() -> None:
    channels = noise(30, 9, 4)
    everybody = score_experts(channels, EXPERTS, MODEL)
    few = score_experts(channels, EXPERTS, MODEL, clients=np.array([7, 2]))
    for a, b in zip(everybody, few, strict=True):
        assert b.score == pytest.approx(a.score[[7, 2]])


def test_masked_cells_are_not_seen() -> None:
    channels = standardise(made_history(poisoned=[(3, 12, 18)]))
    masked = np.zeros(channels.participated.shape, dtype=bool)
    masked[11:18, 3] = True
    before, after = (score_experts(channels, (HARM,), MODEL, m)[0].score[3] for m in (None, masked))
    assert after < before - 10


def test_a_run_too_short_for_a_window_is_not_heard() -> None:
    assert not score_experts(noise(3, 4, 5), EXPERTS, MODEL)[0].scored.any()


def test_a_jump_of_size_is_heard_and_a_slow_bend_of_the_same_height_less() -> None:
    """Sizes that jump by a factor of five stand out; sizes that rise and fall by a factor of two stay quiet."""
    history = made_history(epochs=30, seed=3)
    assert history.channels is not None
    raw = history.channels
    jumped, bent = raw.norm.copy(), raw.norm.copy()
    jumped[12:18, 2] *= 5
    bent[:, 2] *= 2 ** np.sin(np.pi * np.arange(31) / 30)

    def strongest(norm: np.ndarray) -> np.ndarray:
        channels = standardise(replace(history, channels=replace(raw, norm=norm)))
        return score_experts(channels, (SIZE_ALONE,), MODEL)[0].score

    honest = strongest(history.channels.norm).max()
    assert strongest(jumped)[2] > 10
    assert strongest(jumped).argmax() == 2
    assert strongest(bent)[2] < max(honest, 0) + 1


def test_one_participation_is_enough_only_for_experts_that_say_so() -> None:
    channels = noise(30, 4, 5)
    channels.scores[:, 15, 0] = 8.0
    channels.scores[:, [10, 11, 12, 13, 14, 16, 17, 18, 19, 20], 0] = np.nan  # absent around its one loud epoch
    weights = {VALUE: 0.5, MARGIN: 0.5}
    one, two = (Expert(f"{n}", weights, False, "", fewest=n) for n in (1, 2))
    lone, several = score_experts(channels, (one, two), MODEL)
    assert lone.starts[0] <= 15 <= lone.ends[0]
    inside = np.isfinite(channels.of(VALUE)[several.starts[0] : several.ends[0] + 1, 0])
    assert inside.sum() >= 2
    assert lone.score[0] > several.score[0] + 2
    np.testing.assert_allclose(lone.score[1:], several.score[1:])  # who is always there has two in every window
