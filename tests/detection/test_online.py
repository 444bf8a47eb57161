"""A growing run: report once, early enough, and never because of the future."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flcontrib_core.detection.findings import VerdictKind
from flcontrib_core.detection.objections import StillGrowing
from flcontrib_core.detection.online import FIRST_LOOK, OnlineReader, history_until
from tests.detection.made_histories import made_history


def test_a_window_is_reported_once_and_soon_after_it_begins() -> None:
    history = made_history(epochs=40, poisoned=[(3, 16, 26)])
    reader = OnlineReader()
    seen = {t: alerts for t in range(1, 41) if (alerts := reader.look(history_until(history, t)))}
    assert len(seen) == 1
    epoch, alerts = next(iter(seen.items()))
    assert 16 <= epoch <= 20
    assert [(a.client, a.verdict) for a in alerts] == [("client-03", VerdictKind.POISONING_WINDOW)]
    assert alerts[0].evidence_against[0] == StillGrowing(epoch)


def test_honest_growth_stays_quiet() -> None:
    for seed in range(5):
        history = made_history(seed=seed, epochs=30)
        reader = OnlineReader()
        assert not any(reader.look(history_until(history, t)) for t in range(1, 31))


def test_no_window_is_reported_before_the_first_look() -> None:
    history = made_history(poisoned=[(3, 4, 7)], shift=12)
    reader = OnlineReader()
    assert not any(reader.look(history_until(history, t)) for t in range(1, FIRST_LOOK))


def test_facts_are_reported_at_once() -> None:
    history = made_history()
    assert history.channels is not None
    repeat = np.zeros(history.participated.shape, dtype=np.int64)
    repeat[4, 2] = 3
    history = replace(history, channels=replace(history.channels, repeat_of=repeat))
    reader = OnlineReader()
    assert [len(reader.look(history_until(history, t))) for t in (3, 4, 5)] == [0, 1, 0]


def test_a_cut_history_knows_nothing_of_later_epochs() -> None:
    history = made_history(epochs=30)
    later = made_history(epochs=30, poisoned=[(1, 20, 30)])
    cut, other = history_until(history, 15), history_until(later, 15)
    assert cut.epoch_count == 15
    assert cut.channels is not None
    assert other.channels is not None
    assert np.array_equal(cut.of("loss").values, other.of("loss").values)
    assert len(cut.channels.norm) == 16
    replaced = history_until(history, 15, np.zeros((16, 8)))
    assert replaced.channels is not None
    assert (replaced.channels.own_cosine == 0).all()
