"""Peers of the same epoch, one scale, and missing never zero."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.detection.channels import (
    CHANNEL_NAMES,
    CLIP,
    MARGIN,
    OWN_DIRECTION,
    PEER_DIRECTION,
    SIZE,
    VALUE,
    WORST_CLASS,
    others_quantile,
    standardise,
)
from flcontrib_core.detection.facts import Unavailable
from flcontrib_core.errors import SettingsError
from tests.detection.made_histories import made_history, with_participants, with_values


@pytest.mark.parametrize("quantile", [0.0, 0.25, 0.5, 1.0])
def test_others_quantile_equals_numpy_on_the_rest(quantile: float) -> None:
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(20, 7))
    cells[rng.random(cells.shape) < 0.4] = np.nan
    found = others_quantile(cells, quantile)
    for t in range(20):
        for i in range(7):
            rest = np.delete(cells[t], i)
            rest = rest[np.isfinite(rest)]
            if np.isnan(cells[t, i]) or not len(rest):
                assert np.isnan(found[t, i])
            else:
                assert found[t, i] == pytest.approx(np.quantile(rest, quantile))


def test_every_channel_is_about_unit_scale_and_centred() -> None:
    channels = standardise(made_history(epochs=60))
    for name in CHANNEL_NAMES:
        cells = channels.of(name)[2:]
        assert np.abs(np.median(cells, axis=0)).max() < 1e-9
        assert 0.5 < np.median(np.abs(cells)) / 0.6745 < 1.6, name


def test_absent_and_not_computed_cells_are_missing() -> None:
    history = made_history(participation=0.6, computed=range(1, 31, 2))
    channels = standardise(history)
    even = channels.epochs % 2 == 0
    assert np.isnan(channels.of(VALUE)[even]).all()
    assert np.isfinite(channels.of(MARGIN)[even][1:][history.participated[channels.epochs][even][1:]]).any()
    assert np.isnan(channels.scores[:, ~history.participated[channels.epochs]]).all()
    assert np.isnan(channels.harm[even]).all()


def test_the_first_two_epochs_with_participants_are_not_read() -> None:
    history = made_history()
    took_part = history.participated.copy()
    took_part[1] = False
    channels = standardise(with_participants(history, took_part))
    assert channels.epochs[0] == 2
    assert np.isnan(channels.scores[:, :2]).all()
    assert np.isfinite(channels.scores[:, 2]).all()


def test_a_client_is_judged_by_its_peers_of_the_epoch_only() -> None:
    history = made_history(poisoned=[(0, 12, 18)])
    honest = made_history()
    one, other = standardise(history), standardise(honest)
    away = np.abs(one.epochs - 15) > 3 + 4 + 1  # the local noise pools ±4 epochs of steps from one to the next
    raw_one, raw_other = one.levels[0] * one.value_deviation, other.levels[0] * other.value_deviation
    assert np.allclose(raw_one[away][2:, 1:], raw_other[away][2:, 1:])


def test_standard_errors_become_extra_variance() -> None:
    history = made_history()
    channels = standardise(replace(history, standard_errors=np.full(history.values.shape, 0.01)))
    exact = standardise(history)
    assert (exact.extra_variance == 0).all()
    assert (channels.extra_variance[0][2:] > 0).all()
    assert (channels.extra_variance[1:] == 0).all()
    # far from the peers arcsinh flattens, and with it the error
    far = np.argmax(channels.levels[0][2:]) // 8, np.argmax(channels.levels[0][2:]) % 8
    assert channels.extra_variance[0][2:][far] < np.median(channels.extra_variance[0][2:])


def test_a_table_has_the_value_channel_only_and_says_why() -> None:
    channels = standardise(made_history(with_channels=False))
    assert channels.available(VALUE)
    assert set(channels.unavailable) == set(CHANNEL_NAMES) - {VALUE}
    assert set(channels.unavailable.values()) == {Unavailable.NO_UPDATES}


def test_a_run_without_a_model_has_no_margin() -> None:
    history = made_history()
    assert history.channels is not None
    nothing = np.full_like(history.channels.solo_margin, np.nan)
    blind = replace(history.channels, solo_margin=nothing, solo_worst_class=nothing)
    assert standardise(replace(history, channels=blind)).unavailable[MARGIN] is Unavailable.NO_MODEL


def test_a_task_without_classes_or_groups_says_that_and_not_that_the_model_is_missing() -> None:
    history = made_history()
    assert history.channels is not None
    nothing = np.full_like(history.channels.solo_worst_class, np.nan)
    ungrouped = replace(history, channels=replace(history.channels, solo_worst_class=nothing))
    assert standardise(ungrouped).unavailable == {WORST_CLASS: Unavailable.NO_GROUPS}


def test_what_is_the_same_for_everybody_all_the_time_tells_nobody_apart() -> None:
    """Bagged trees: each update puts one tree in, so all have one length and no direction in common."""
    history = made_history()
    assert history.channels is not None
    ones = np.where(history.participated, 1.0, np.nan)
    channels = standardise(replace(history, channels=replace(history.channels, norm=ones, peer_cosine=0.0 * ones)))
    assert channels.unavailable == dict.fromkeys((PEER_DIRECTION, SIZE), Unavailable.CONSTANT)
    assert np.isnan(channels.of(SIZE)).all()


def test_accuracy_is_turned_so_that_harm_is_up() -> None:
    history = made_history(poisoned=[(2, 10, 18)])
    harm = standardise(history, "accuracy").harm
    assert harm[9:18, 2].mean() > harm[9:18, 3].mean()


def test_an_unknown_utility_is_refused() -> None:
    with pytest.raises(SettingsError, match="it has loss, accuracy"):
        standardise(made_history(), "f1")


def test_scores_are_clipped() -> None:
    channels = standardise(made_history(poisoned=[(0, 10, 12)], shift=1e6))
    for name in (VALUE, MARGIN, OWN_DIRECTION):
        assert np.nanmax(np.abs(channels.of(name))) <= CLIP


def test_sizes_are_bent_not_cut() -> None:
    history = made_history()
    assert history.channels is not None
    norm = history.channels.norm.copy()
    norm[10:13, 0] *= np.array([1e2, 1e3, 1e4])
    bent = standardise(replace(history, channels=replace(history.channels, norm=norm))).of(SIZE)[9:12, 0]
    assert CLIP < bent[0] < bent[1] < bent[2] < 30


def test_equal_clients_show_nothing() -> None:
    history = made_history()
    flat = np.where(history.participated, -0.01, 0.0)
    channels = standardise(replace(with_values(history, loss=flat), channels=None))
    assert np.nanmax(np.abs(channels.of(VALUE))) == 0.0


def test_a_run_without_any_participant_has_no_channel() -> None:
    history = made_history()
    empty = with_participants(history, np.zeros_like(history.participated))
    channels = standardise(empty)
    assert len(channels.epochs) == 0
    assert set(channels.unavailable) == set(CHANNEL_NAMES)
