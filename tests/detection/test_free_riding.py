"""Free riders and groups are told by their updates, and nobody is accused for having been copied or for privacy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from flcontrib_core.detection.alerts import read_verdicts
from flcontrib_core.detection.findings import Alert, VerdictKind
from flcontrib_core.detection.objections import SourceUnknown
from flcontrib_core.history import AssessSettings, ContributionHistory, assess_contributions
from flcontrib_core.laboratory.simulation import Attack, Change, SimulationSettings, simulate_in_memory
from flcontrib_core.laboratory.simulation.kinds import AttackKind, ChangeKind
from tests.detection.made_histories import made_history, with_participants

NOTHING, TOGETHER = VerdictKind.CONTRIBUTES_NOTHING, VerdictKind.ACTS_TOGETHER
Windows = tuple[tuple[int, int], ...]
WINDOW: Windows = ((8, 14),)
WHOLE: Windows = ()


@cache
def assessed(*plan: Attack | Change, seed: int = 5) -> tuple[ContributionHistory, frozenset[str]]:
    """A small federation with these attacks and changes, and who attacks."""
    settings = SimulationSettings(
        dataset="digits",
        clients=6,
        epochs=20,
        hidden=(16,),
        lr=0.1,
        batch=16,
        seed=seed,
        changes=tuple(p for p in plan if isinstance(p, Change)),
        more_attacks=tuple(p for p in plan if isinstance(p, Attack)),
    )
    run = simulate_in_memory(settings)
    assert run.truth is not None
    history = assess_contributions(run, AssessSettings(utilities=("loss",)))
    return history, frozenset(d.client for d in run.truth.dishonest)


def accusing(history: ContributionHistory) -> list[Alert]:
    return [a for a in read_verdicts(history, check_sensitivity=False).alerts if a.accuses]


@pytest.mark.parametrize("windows", [WINDOW, WHOLE], ids=["window", "whole"])
@pytest.mark.parametrize(
    ("kind", "strength"),
    [
        (AttackKind.COPY, 0.1),
        (AttackKind.SCALED_COPY, 0.5),
        (AttackKind.NEAR_ZERO, 0.01),
        (AttackKind.NEAR_ZERO, 0.1),
    ],
)
def test_a_free_rider_contributes_nothing(kind: AttackKind, strength: float, windows: Windows) -> None:
    history, guilty = assessed(Attack(kind, 1, windows=windows, strength=strength))
    alerts = accusing(history)
    assert {a.client for a in alerts} == guilty
    assert NOTHING in {a.verdict for a in alerts}
    named = next(a for a in alerts if a.verdict is NOTHING)
    first = None if named.window is None else named.window[0]
    assert first is None if windows == WHOLE else first in (7, 8, 9)
    assert named.probability is not None


@pytest.mark.parametrize("windows", [WINDOW, WHOLE], ids=["window", "whole"])
def test_noise_of_a_plausible_length_is_told_once_by_its_harm_or_by_its_emptiness(windows: Windows) -> None:
    history, guilty = assessed(Attack(AttackKind.RANDOM_STEP, 1, windows=windows, strength=0.7))
    alerts = accusing(history)
    assert {a.client for a in alerts} == guilty
    assert len(alerts) == 1


@pytest.mark.parametrize("windows", [WINDOW, WHOLE], ids=["window", "whole"])
@pytest.mark.parametrize("kind", [AttackKind.ALIE, AttackKind.MIN_MAX, AttackKind.MIN_SUM])
def test_crafted_updates_act_together(kind: AttackKind, windows: Windows) -> None:
    history, guilty = assessed(Attack(kind, 2, windows=windows))
    alerts = accusing(history)
    assert {a.client for a in alerts} == guilty
    assert {a.client for a in alerts if a.verdict is TOGETHER} == guilty


@pytest.mark.parametrize("windows", [WINDOW, WHOLE], ids=["window", "whole"])
@pytest.mark.parametrize("blur", [0.0, 0.05])
def test_who_was_copied_by_turns_is_not_accused(blur: float, windows: Windows) -> None:
    history, guilty = assessed(Attack(AttackKind.MIMIC, 1, windows=windows, strength=blur))
    assert {a.client for a in accusing(history)} <= guilty


def copied(history: ContributionHistory, copier: int, source: int, epochs: range) -> ContributionHistory:
    """The same run in which one client sends another's update times 1 + 10⁻⁶."""
    raw = history.channels
    assert raw is not None
    assert raw.twin_cosine is not None
    assert raw.twin_of is not None
    rows = list(epochs)
    twin, twin_of, own = raw.twin_cosine.copy(), raw.twin_of.copy(), raw.own_cosine.copy()
    twin[rows, copier] = twin[rows, source] = 1 - 1e-12
    twin_of[rows, copier], twin_of[rows, source] = source + 1, copier + 1
    own[rows, copier] = 0.1
    return replace(history, channels=replace(raw, twin_cosine=twin, twin_of=twin_of, own_cosine=own))


def test_a_copy_of_one_client_accuses_the_copier_alone() -> None:
    history, _ = assessed()
    alerts = accusing(copied(history, 2, 4, range(8, 15)))
    assert [(a.client, a.verdict, a.window) for a in alerts] == [(history.client_ids[2], NOTHING, (8, 14))]


def test_a_pair_that_cannot_be_told_apart_is_asked_and_not_accused() -> None:
    history, _ = assessed()
    raw = history.channels
    assert raw is not None
    pair = copied(history, 2, 4, range(8, 15))
    assert pair.channels is not None
    pair = replace(pair, channels=replace(pair.channels, own_cosine=raw.own_cosine))
    assert accusing(pair) == []
    asked = [a for a in read_verdicts(pair, check_sensitivity=False).alerts if a.verdict is TOGETHER]
    assert {a.client for a in asked} == {history.client_ids[2], history.client_ids[4]}
    assert all(SourceUnknown() in a.evidence_against for a in asked)


def test_of_two_alike_all_through_the_run_nobody_is_accused() -> None:
    """One of them may be honest and copied; which one, nothing tells."""
    history, _ = assessed()
    raw = history.channels
    assert raw is not None
    pair = copied(history, 2, 4, range(1, history.epoch_count + 1))
    assert pair.channels is not None
    same = {name: getattr(raw, name).copy() for name in ("solo_margin", "solo_loss", "own_cosine")}
    for cells in same.values():
        cells[:, 2] = cells[:, 4]
    pair = replace(pair, channels=replace(pair.channels, **same))
    assert accusing(pair) == []
    asked = {a.client for a in read_verdicts(pair, check_sensitivity=False).alerts if a.verdict is TOGETHER}
    assert asked == {history.client_ids[2], history.client_ids[4]}


def test_one_bit_equal_update_accuses_nobody() -> None:
    history, _ = assessed()
    raw = history.channels
    assert raw is not None
    copy_of = np.zeros_like(raw.copy_of)
    copy_of[9, 2], copy_of[9, 4] = 5, 3
    once = replace(history, channels=replace(raw, copy_of=copy_of))
    alerts = [a for a in read_verdicts(once, check_sensitivity=False).alerts if a.finding == "copy-of-client"]
    assert len(alerts) == 2
    assert not any(a.accuses for a in alerts)


def same_bytes(senders: tuple[int, ...]) -> ContributionHistory:
    """The honest run in which these clients send one update in epochs 8–14, and four of the six take part there."""
    history, _ = assessed()
    raw = history.channels
    assert raw is not None
    assert raw.twin_cosine is not None
    assert raw.twin_of is not None
    rows = list(range(8, 15))
    twin, twin_of, own, copy_of = (a.copy() for a in (raw.twin_cosine, raw.twin_of, raw.own_cosine, raw.copy_of))
    for client in senders:
        other = next(c for c in senders if c != client)
        twin[rows, client], own[rows, client] = 1.0, 0.1
        twin_of[rows, client] = copy_of[rows, client] = other + 1
    took_part = history.participated.copy()
    took_part[np.ix_(rows, [4, 5])] = False
    for cells in (twin, own):
        cells[~took_part] = np.nan
    raw = replace(raw, twin_cosine=twin, twin_of=twin_of, own_cosine=own, copy_of=np.where(took_part, copy_of, 0))
    return with_participants(replace(history, channels=raw), took_part)


def test_a_group_that_sends_the_same_bytes_acts_together_though_it_is_most_of_the_participants() -> None:
    """Three of six clients, and three of the four that take part: what most send is not what is usual."""
    history = same_bytes((0, 1, 2))
    alerts = [a for a in accusing(history) if a.verdict is TOGETHER]
    assert {a.client for a in alerts} == set(history.client_ids[:3])


def test_where_more_than_half_of_the_clients_send_the_same_bytes_nobody_is_told_apart() -> None:
    assert accusing(same_bytes((0, 1, 2, 3))) == []


@pytest.mark.parametrize(
    ("kind", "strength"),
    [
        (ChangeKind.PRIVACY_NOISE, 2.0),
        (ChangeKind.LEARNING_RATE, 0.1),
        (ChangeKind.STRAGGLER, 0.1),
        (ChangeKind.SIGN_COMPRESSION, None),
        (ChangeKind.OVERLAP, 0.7),
        (ChangeKind.LOCAL_EPOCHS, 5.0),
    ],
)
def test_an_honest_site_that_changes_is_not_called_a_free_rider(kind: ChangeKind, strength: float | None) -> None:
    whole = WHOLE if kind is ChangeKind.OVERLAP else ((8, 20),)
    history, _ = assessed(Change(kind, strength, 2, windows=whole))
    assert not [a for a in accusing(history) if a.verdict in (NOTHING, TOGETHER)]


def test_a_federation_of_noise_tells_nobody_apart() -> None:
    history, _ = assessed(Change(ChangeKind.PRIVACY_NOISE, 2.0, None, windows=WHOLE))
    assert not [a for a in accusing(history) if a.verdict in (NOTHING, TOGETHER)]


def test_who_copies_for_most_of_the_run_is_named_and_the_copied_one_is_not() -> None:
    """Most of the copier's own updates are copies, so its direction looks steady; what its other steps did does not."""
    history, _ = assessed()
    rows = list(range(6, history.epoch_count - 1))
    raw = copied(history, 2, 4, range(rows[0], rows[-1] + 1)).channels
    assert raw is not None
    assert history.channels is not None
    own, margins = history.channels.own_cosine, raw.solo_class_margin.copy()
    margins[:, 2] += 5 * np.nanstd(margins)
    margins[rows, 2] = margins[rows, 4]
    alerts = accusing(replace(history, channels=replace(raw, own_cosine=own, solo_class_margin=margins)))
    assert [(a.client, a.verdict) for a in alerts] == [(history.client_ids[2], NOTHING)]


@pytest.mark.parametrize(("closest", "named"), [(0.02, True), (0.8, False)])
def test_updates_that_resemble_one_another_have_a_direction(closest: float, named: bool) -> None:
    """After a change of data an honest client's updates point away from its old ones."""
    history = made_history(epochs=20)
    raw = history.channels
    assert raw is not None
    assert raw.closest_own_cosine is not None
    rows = list(range(9, 21))
    own, like, loss = raw.own_cosine.copy(), raw.closest_own_cosine.copy(), raw.solo_loss.copy()
    own[rows, 3], like[rows, 3], loss[rows, 3] = 0.0, closest, 0.0
    peer = 0.01 * np.sign(np.nan_to_num(raw.peer_cosine))
    alone = replace(raw, own_cosine=own, closest_own_cosine=like, solo_loss=loss, peer_cosine=peer)
    alerts = [a for a in accusing(replace(history, channels=alone)) if a.verdict is NOTHING]
    assert bool(alerts) == named
