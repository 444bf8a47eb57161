"""Does every honest change really do what it says, in its window, at the sites it names, and nowhere else?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation import AttackKind, Change, ChangeKind, changes_of, simulate_in_memory
from flcontrib_core.laboratory.simulation.behaviour import Memory
from flcontrib_core.laboratory.simulation.changes import CHANGES, parse_changes
from flcontrib_core.laboratory.simulation.training import SimulatedEpoch, prepare, train
from tests.laboratory.changed_runs import FIRST, PLAIN, SITE, changed


@pytest.fixture(scope="module")
def plain() -> list[SimulatedEpoch]:
    return list(train(prepare(PLAIN)))


def test_there_are_more_than_thirty_kinds_and_each_says_what_it_does() -> None:
    assert set(CHANGES) == set(ChangeKind)
    assert len(CHANGES) >= 50
    for kind, behaviour in CHANGES.items():
        said = type(behaviour).__doc__ or ""
        assert behaviour.kind is kind
        assert said.endswith((".", ".\n    "))
        assert ("[" in said) == (behaviour.default is not None), f"{kind} explains its strength"


ELSEWHERE = (ChangeKind.LEAVER, ChangeKind.COSINE_SCHEDULE, ChangeKind.STEP_SCHEDULE)
"""Absent, or unchanged in the window's first epoch: tests of their own."""
AT_ONE_SITE = [
    kind for kind, b in CHANGES.items() if not (b.at_server or b.whole_run or b.lasting or kind in ELSEWHERE)
]


@pytest.mark.parametrize("kind", AT_ONE_SITE)
def test_a_change_touches_its_site_in_its_window_and_nobody_else(kind: ChangeKind, plain: list[SimulatedEpoch]) -> None:
    strength = 0.05 if kind is ChangeKind.OPTIMIZER_SGD else None  # the run's own optimiser, at another rate
    epochs = changed(kind, 0.0 if kind is ChangeKind.INTERMITTENT else strength)
    for before in range(FIRST - 1):
        np.testing.assert_array_equal(epochs[before].updates, plain[before].updates)
    others = [c for c in range(5) if c != SITE]
    now = epochs[FIRST - 1]
    if kind is ChangeKind.INTERMITTENT:
        assert SITE not in now.participants
        return
    np.testing.assert_array_equal(now.updates[others], plain[FIRST - 1].updates[others])
    assert np.abs(now.updates[SITE] - plain[FIRST - 1].updates[SITE]).max() > 0
    assert now.explained


@pytest.mark.parametrize("kind", [k for k, b in CHANGES.items() if b.at_server])
def test_the_server_s_changes_store_its_model_and_leave_the_clients_alone(
    kind: ChangeKind, plain: list[SimulatedEpoch]
) -> None:
    run = simulate_in_memory(replace(PLAIN, changes=(Change(kind, windows=((FIRST, 4),)),)))
    stored = [record.has_global for record in run.epochs]
    assert stored == [False, False, True, kind is not ChangeKind.NEW_HEAD, False, False]
    np.testing.assert_array_equal(run.epoch_data(FIRST).updates, plain[FIRST - 1].updates)
    assert [c.client for c in changes_of(run)] == [None]


def test_several_sites_all_sites_and_several_windows() -> None:
    several = prepare(replace(PLAIN, changes=(Change(ChangeKind.TOP_K, changed=3),)))
    assert len(several.changes.members[0]) == 3
    everybody = prepare(replace(PLAIN, attack=AttackKind.ZERO, changes=(Change(ChangeKind.TOP_K, changed=None),)))
    assert everybody.changes.members[0] == (0, 1, 2, 3, 4)
    honest_only = prepare(
        replace(PLAIN, attack=AttackKind.ZERO, dishonest=2, changes=(Change(ChangeKind.TOP_K, changed=3),))
    )
    assert not set(honest_only.changes.members[0]) & honest_only.attackers.dishonest
    twice = prepare(replace(PLAIN, changes=(Change(ChangeKind.TOP_K, None, 1, (1,), ((2, 2), (5, 6))),)))
    active = [bool(twice.changes.behaviours(1, epoch, Memory())) for epoch in range(1, 7)]
    assert active == [False, True, False, False, True, True]


def test_a_liar_that_must_compress_compresses_its_lie() -> None:
    settings = replace(
        PLAIN,
        attack=AttackKind.PURE_NOISE,
        windows=((2, 3),),
        changes=(Change(ChangeKind.SIGN_COMPRESSION, changed=None),),
    )
    (bad,) = prepare(settings).attackers.dishonest
    for epoch in list(train(prepare(settings)))[:3]:
        sizes = np.abs(epoch.updates[bad])
        assert np.ptp(sizes[sizes > 0]) < 1e-8


def test_the_manifest_tells_of_changes_under_a_key_of_their_own() -> None:
    windows = ((2, 3), (5, 5))
    settings = replace(
        PLAIN,
        attack=AttackKind.ZERO,
        changes=(Change(ChangeKind.LOCAL_EPOCHS, 2.0, windows=windows), Change(ChangeKind.FLOAT16, changed=2)),
    )
    run = simulate_in_memory(settings)
    assert run.truth is not None
    (liar,) = run.truth.dishonest
    told = changes_of(run)
    assert [(c.kind, c.windows, c.strength) for c in told] == [
        ("local-epochs", windows, 2.0),
        ("float16", ((1, 6),), None),
        ("float16", ((1, 6),), None),
    ]
    assert liar.client not in [c.client for c in told]
    assert run.manifest["version"] == 1
    assert "changes" not in simulate_in_memory(PLAIN).manifest["truth"]
    assert "changes" not in simulate_in_memory(PLAIN).manifest["source"]["settings"]


def test_changes_from_the_command_line() -> None:
    one, two = parse_changes(["local-epochs:3", "sign-compression"], ["2", "all"], ["from 12"], 30)
    assert (one.kind, one.strength, one.changed, one.windows) == (ChangeKind.LOCAL_EPOCHS, 3.0, 2, ((12, 30),))
    assert (two.changed, two.windows) == (None, ((12, 30),))
    (three,) = parse_changes(["top-k"], [], ["3:5,9:9"], 30)
    assert (three.strength, three.changed, three.windows) == (0.1, 1, ((3, 5), (9, 9)))
    (four,) = parse_changes(["rare-class"], [], ["whole"], 30)
    assert four.windows == ()
    for changes, counts, windows in (
        (["local-epoch"], [], []),
        (["local-epochs:much"], [], []),
        (["local-epochs"], ["some"], []),
        (["local-epochs"], ["0"], []),
        (["local-epochs"], [], ["12"]),
        (["top-k:1.5"], [], []),
        (["top-k", "float16"], ["1", "2", "3"], []),
    ):
        with pytest.raises(SettingsError):
            parse_changes(changes, counts, windows, 30)


@pytest.mark.parametrize(
    "change",
    [
        Change(ChangeKind.TOP_K, changed=6),
        Change(ChangeKind.TOP_K, clients=(5,)),
        Change(ChangeKind.TOP_K, windows=((4, 7),)),
        Change(ChangeKind.RARE_CLASS, windows=((2, 3),)),
    ],
)
def test_impossible_changes_are_refused(change: Change) -> None:
    with pytest.raises(SettingsError):
        replace(PLAIN, changes=(change,))


@pytest.mark.parametrize("kind", list(ChangeKind))
def test_changed_runs_are_the_seed_s(kind: ChangeKind) -> None:
    settings = replace(PLAIN, epochs=4, participation=0.8, changes=(Change(kind, changed=2),))
    first, again = simulate_in_memory(settings), simulate_in_memory(settings)
    assert first.digest == again.digest
    assert simulate_in_memory(replace(settings, seed=5)).digest != first.digest
