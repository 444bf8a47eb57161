"""Several windows of one client, reflections of another's, and where a window's ends are drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.detection.calibration import shipped_calibration
from flcontrib_core.detection.channels import standardise
from flcontrib_core.detection.experts import CONSENSUS, HARM, VALUE_ONLY
from flcontrib_core.detection.search import FoundWindow, drawn_window, experts_for, search_windows
from flcontrib_core.detection.windows import WindowModel
from flcontrib_core.history.contribution_history import ContributionHistory
from tests.detection.made_histories import made_history, with_participants, with_values

MODEL = WindowModel()


def _search(history, threshold=0.0, clients=None):  # type: ignore[no-untyped-def]
    channels = standardise(history)
    nothing = np.zeros(channels.participated.shape, dtype=bool)
    client_count = None if clients is None else len(history.client_ids)
    found = search_windows(
        channels, shipped_calibration(), threshold, MODEL, nothing, clients=clients, client_count=client_count
    )
    return channels, found


def test_every_client_has_its_strongest_window_and_few_are_found() -> None:
    _, search = _search(made_history(poisoned=[(2, 10, 15)]))
    assert len(search.strongest) == 8
    assert [w.client for w in search.windows] == [2]
    assert search.scored.all()
    assert search.explained[9:15, 2].all()
    assert search.explained.sum() == 6


def test_looking_at_one_client_alone_gives_its_score_among_all() -> None:
    history = made_history(poisoned=[(2, 10, 15)])
    _, everybody = _search(history)
    _, alone = _search(history, clients=np.array([2]))
    assert [(w.client, w.start, w.end, w.expert) for w in alone.windows] == [
        (w.client, w.start, w.end, w.expert) for w in everybody.windows
    ]
    assert [w.u for w in alone.windows] == pytest.approx([w.u for w in everybody.windows], rel=1e-4)


def test_windows_without_an_observation_between_them_are_one() -> None:
    history = made_history(poisoned=[(2, 8, 20)], seed=5, shift=7)
    _, search = _search(history)
    assert [(w.client, w.start, w.end) for w in search.windows] == [(2, 7, 19)]


def test_a_table_is_heard_by_one_expert() -> None:
    assert experts_for(standardise(made_history(with_channels=False))) == (VALUE_ONLY,)
    assert CONSENSUS in experts_for(standardise(made_history()))


def test_ends_are_drawn_to_the_middle_of_the_gap() -> None:
    history = made_history()
    took_part = history.participated.copy()
    took_part[:, 0] = False
    took_part[[1, 2, 4, 10, 12, 14, 20, 25], 0] = True
    channels = standardise(with_participants(history, took_part))
    inner = FoundWindow(0, 9, 13, 1.0, HARM, 1.0, 0.0)
    assert drawn_window(channels, inner) == (8, 16)
    last = FoundWindow(0, 19, 24, 1.0, HARM, 1.0, 0.0)
    assert drawn_window(channels, last) == (18, 25)
    first = FoundWindow(0, 2, 3, 1.0, HARM, 1.0, 0.0)
    assert drawn_window(channels, first) == (1, 6)


def test_the_rest_of_a_run_beside_a_louder_window_is_a_reflection() -> None:
    """A client that looks worse exactly where a stronger one is quiet is not reported, but kept for the notes."""
    history = made_history(epochs=30, poisoned=[(1, 14, 30), (5, 4, 13)], shift=5)
    loud = made_history(epochs=30, poisoned=[(1, 14, 30)], shift=14)
    values = np.where(np.arange(8)[:, None] == 1, loud.values, history.values)
    from dataclasses import replace

    assert history.channels is not None
    assert loud.channels is not None
    margin = np.where(np.arange(8) == 1, loud.channels.solo_margin, history.channels.solo_margin)
    own = np.where(np.arange(8) == 1, loud.channels.own_cosine, history.channels.own_cosine)
    mixed = replace(history, values=values, channels=replace(history.channels, solo_margin=margin, own_cosine=own))
    _, search = _search(mixed)
    assert [w.client for w in search.windows] == [1]
    assert [w.client for w in search.reflected] == [5]


def _suffering(turned: bool) -> ContributionHistory:
    """Client 1 poisons in 12–20; in the same epochs client 5's values fall too, and its updates turn where asked."""
    history = made_history(epochs=30, poisoned=[(1, 12, 20)], shift=14)
    assert history.channels is not None
    values = history.of("loss").values.copy()
    values[12:21, 5] += 0.5
    own, peer = history.channels.own_cosine.copy(), history.channels.peer_cosine.copy()
    if turned:
        own[12:21, 5] -= 0.6
        peer[12:21, 5] -= 0.6
    margin = history.channels.solo_margin.copy()
    margin[12:21, 5] += 0.02 - 0.3 * turned
    channels = replace(history.channels, own_cosine=own, peer_cosine=peer, solo_margin=margin)
    return replace(with_values(history, loss=values), channels=channels)


def test_who_suffers_during_a_louder_window_without_changing_is_a_reflection() -> None:
    _, search = _search(_suffering(turned=False))
    assert [w.client for w in search.windows] == [1]
    assert [w.client for w in search.reflected] == [5]
    _, search = _search(_suffering(turned=True))
    assert sorted(w.client for w in search.windows) == [1, 5]


def test_a_second_window_elsewhere_survives_without_the_louder_one_s_epochs() -> None:
    _, search = _search(made_history(epochs=40, poisoned=[(1, 8, 14), (5, 24, 30)], shift=6))
    assert sorted(w.client for w in search.windows) == [1, 5]
    assert not search.reflected
