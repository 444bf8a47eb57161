"""Zero, repeat and copy are facts; honest closeness is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flcontrib_core.detection.exact_checks import find_exact
from flcontrib_core.detection.reasons import CopiedClient, CopiedLastGlobalStep, RepeatedOwnUpdates, ZeroUpdates
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.tagged import Others
from tests.detection.made_histories import made_history


def _with(history: ContributionHistory, **changes: np.ndarray) -> ContributionHistory:
    assert history.channels is not None
    return replace(history, channels=replace(history.channels, **changes))


def test_honest_runs_have_no_finding() -> None:
    for seed in range(10):
        assert find_exact(made_history(seed=seed, participation=0.6)) == ()


def test_a_table_has_no_finding() -> None:
    assert find_exact(made_history(with_channels=False)) == ()


def test_zero_updates_are_one_stretch_over_the_clients_own_participations() -> None:
    history = made_history(participation=0.6, seed=1)
    assert history.channels is not None
    norm = history.channels.norm.copy()
    norm[10:20, 2] = np.where(np.isfinite(norm[10:20, 2]), 0.0, np.nan)
    found = find_exact(_with(history, norm=norm))
    expected = tuple(int(t) for t in range(10, 20) if history.participated[t, 2])
    assert [(f.client, f.fact) for f in found] == [(2, ZeroUpdates(expected))]


def test_an_epoch_of_tiny_updates_by_everybody_is_not_zero() -> None:
    history = made_history()
    assert history.channels is not None
    norm = history.channels.norm.copy()
    norm[15] *= 1e-9
    assert find_exact(_with(history, norm=norm)) == ()


def test_repeats_name_their_source() -> None:
    history = made_history()
    repeat = np.zeros(history.participated.shape, dtype=np.int64)
    repeat[7:9, 4] = 6
    repeat[20, 4] = 19
    found = find_exact(_with(history, repeat_of=repeat))
    assert [f.fact for f in found] == [RepeatedOwnUpdates((7, 8), (6,)), RepeatedOwnUpdates((20,), (19,))]


def test_a_copy_of_the_last_step_stands_out_from_its_peers() -> None:
    history = made_history()
    assert history.channels is not None
    cosine = history.channels.last_step_cosine.copy()
    cosine[9:12, 1] = 0.9999
    found = find_exact(_with(history, last_step_cosine=cosine))
    assert [(f.client, f.fact) for f in found] == [(1, CopiedLastGlobalStep((9, 10, 11), 0.9999))]


def test_clients_that_all_follow_the_last_step_are_not_copies() -> None:
    history = made_history()
    assert history.channels is not None
    rng = np.random.default_rng(0)
    cosine = np.where(history.participated, 1 - 0.002 * rng.uniform(0.5, 1.5, history.participated.shape), np.nan)
    assert find_exact(_with(history, last_step_cosine=cosine)) == ()


def test_a_lone_participant_cannot_be_a_copy() -> None:
    history = made_history(clients=1)
    assert find_exact(_with(history, last_step_cosine=np.ones(history.participated.shape))) == ()


def test_bit_equal_updates_name_the_other_client() -> None:
    history = made_history()
    same = np.zeros(history.participated.shape, dtype=np.int64)
    same[5, 3], same[5, 6] = 1 + 6, 1 + 3
    found = find_exact(_with(history, copy_of=same))
    assert [(f.client, f.fact) for f in found] == [
        (3, CopiedClient((5,), Others.named(["client-06"]))),
        (6, CopiedClient((5,), Others.named(["client-03"]))),
    ]


def test_chance_repeats_of_sign_like_updates_are_not_findings() -> None:
    history = made_history()
    repeat = np.zeros(history.participated.shape, dtype=np.int64)
    repeat[9, 4], repeat[20, 4], repeat[21, 4] = 3, 14, 15
    flat = np.full(history.participated.shape, 0.9)
    assert find_exact(_with(history, repeat_of=repeat, spread=flat)) == ()
    bit_equal = np.zeros(history.participated.shape, dtype=bool)
    bit_equal[9, 4] = True
    found = find_exact(_with(history, repeat_of=repeat, spread=flat, repeat_bit_equal=bit_equal))
    assert [f.epochs for f in found] == [(9,)]


def test_near_repeats_where_everybody_stands_still_are_not_findings() -> None:
    history = made_history()
    repeat = np.zeros(history.participated.shape, dtype=np.int64)
    repeat[9:12, 4] = 8
    still = np.where(history.participated, 0.99995, np.nan)
    assert find_exact(_with(history, repeat_of=repeat, closest_own_cosine=still)) == ()
    moving = np.where(history.participated, 0.9, np.nan)
    found = find_exact(_with(history, repeat_of=repeat, closest_own_cosine=moving))
    assert [f.epochs for f in found] == [(9, 10, 11)]


def test_one_sparse_update_along_the_last_step_is_chance_and_two_are_a_copy() -> None:
    history = made_history()
    assert history.channels is not None
    cosine = history.channels.last_step_cosine.copy()
    cosine[9, 1] = 0.9999
    sparse = np.full(history.participated.shape, 20 / history.channels.sketch_dimensions)
    assert find_exact(_with(history, last_step_cosine=cosine, spread=sparse)) == ()
    cosine[10, 1] = 0.9999
    assert [f.epochs for f in find_exact(_with(history, last_step_cosine=cosine, spread=sparse))] == [(9, 10)]


def test_tiny_updates_of_a_client_that_has_learned_its_rows_are_not_zero() -> None:
    history = made_history()
    assert history.channels is not None
    norm = history.channels.norm.copy()
    norm[20:25, 5] *= 1e-3
    assert find_exact(_with(history, norm=norm)) == ()
    norm[25:, 5] = 0.0
    assert find_exact(_with(history, norm=norm)) == ()
    norm[20:25, 5] *= 1e3
    assert [f.epochs for f in find_exact(_with(history, norm=norm))] == [tuple(range(25, 31))]


def test_an_epoch_in_which_most_repeat_themselves_tells_nobody_apart() -> None:
    """They were sent an old model: trained again from the same start, everybody's update is the old one."""
    history = made_history()
    clients = len(history.client_ids)
    repeat = np.zeros(history.participated.shape, dtype=np.int64)
    repeat[8, : clients // 2 + 1] = 6
    repeat[12, : clients // 2] = 7
    found = find_exact(_with(history, repeat_of=repeat))
    assert {(f.client, f.epochs) for f in found} == {(i, (12,)) for i in range(clients // 2)}


def test_near_repeats_of_a_client_whose_own_training_stands_still_are_not_findings() -> None:
    """The others' updates vary by their batches; a small site trains on all its rows, without chance."""
    history = made_history()
    assert history.channels is not None
    repeat = np.zeros(history.participated.shape, dtype=np.int64)
    repeat[20, [1, 4]] = 19
    closest = np.full(history.participated.shape, 0.9)
    closest[14:, 4] = 0.999998
    bits = np.zeros(history.participated.shape, dtype=bool)
    found = find_exact(_with(history, repeat_of=repeat, closest_own_cosine=closest, repeat_bit_equal=bits))
    assert [(f.client, f.fact) for f in found] == [(1, RepeatedOwnUpdates((20,), (19,)))]
