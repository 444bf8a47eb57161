"""Who is accused of harm, and who is not: diluted values, a class of one's own, other people's shrinking updates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flcontrib_core.detection.alerts import read_verdicts
from flcontrib_core.detection.calibration import shipped_calibration
from flcontrib_core.detection.channels import OWN_DIRECTION, VALUE, standardise
from flcontrib_core.detection.class_mix import class_moves
from flcontrib_core.detection.evidence import window_numbers
from flcontrib_core.detection.exact_checks import find_exact
from flcontrib_core.detection.findings import Alert, VerdictKind
from flcontrib_core.detection.reasons import SpreadChanged
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.remarks import EpochRemark, NoValues, WithoutValues
from flcontrib_core.vocabulary import CellState
from tests.detection.made_histories import made_history

WINDOW = range(12, 20)


def alerts_of(history: ContributionHistory) -> tuple[Alert, ...]:
    return read_verdicts(history, check_sensitivity=False).alerts


def with_raw(history: ContributionHistory, **cells: np.ndarray) -> ContributionHistory:
    assert history.channels is not None
    return replace(history, channels=replace(history.channels, **cells))


def test_a_step_that_helps_alone_only_dilutes_the_others() -> None:
    history = made_history(poisoned=[(3, 12, 19)])
    assert {(a.client, a.verdict) for a in alerts_of(history)} == {("client-03", VerdictKind.POISONING_WINDOW)}
    assert history.channels is not None
    loss = history.channels.solo_loss.copy()
    loss[list(WINDOW), 3] = -0.4 + 0.01 * np.arange(len(WINDOW))
    margin = np.abs(history.channels.solo_margin)
    helping = with_raw(history, solo_loss=loss, solo_margin=margin)
    assert {(a.client, a.verdict) for a in alerts_of(helping)} == {("client-03", VerdictKind.BEHAVIOUR_CHANGED)}


def test_harm_that_is_next_to_nothing_beside_the_others_values_is_a_question() -> None:
    history = made_history(poisoned=[(3, 12, 19)])
    values = history.values.copy()
    values[1:, [0, 1, 2, 4, 5, 6, 7], 0] -= 1.0
    assert {a.verdict for a in alerts_of(replace(history, values=values))} == {VerdictKind.BEHAVIOUR_CHANGED}


def test_who_alone_helps_a_class_is_not_harmful_throughout() -> None:
    history = made_history(persistent=[2], shift=10.0)
    harmful = [a.client for a in alerts_of(history) if a.verdict is VerdictKind.PERSISTENTLY_HARMFUL]
    assert harmful == ["client-02"]
    assert history.channels is not None
    margins = history.channels.solo_class_margin.copy()
    margins[:, 2, 1] += 2.0
    kinds = {a.verdict for a in alerts_of(with_raw(history, solo_class_margin=margins))}
    assert VerdictKind.PERSISTENTLY_HARMFUL not in kinds


def test_most_of_the_clients_are_never_harmful_throughout() -> None:
    kinds = {a.verdict for a in alerts_of(made_history(persistent=[0, 1, 2, 3, 4], shift=10.0))}
    assert VerdictKind.PERSISTENTLY_HARMFUL not in kinds


def test_nobody_is_named_because_others_shrank() -> None:
    history = made_history()
    assert history.channels is not None
    norm = history.channels.norm.copy()
    norm[12:20, :5] *= 0.1
    named = {a.client for a in alerts_of(with_raw(history, norm=norm))}
    assert not named & {"client-05", "client-06", "client-07"}


def test_a_client_whose_own_updates_jump_is_asked() -> None:
    history = made_history()
    assert history.channels is not None
    norm = history.channels.norm.copy()
    norm[12:20, 6] *= 10
    alerts = alerts_of(with_raw(history, norm=norm))
    assert [(a.client, a.verdict) for a in alerts] == [("client-06", VerdictKind.BEHAVIOUR_CHANGED)]


def test_who_made_most_of_the_last_step_has_not_copied_it() -> None:
    history = made_history()
    assert history.channels is not None
    assert history.channels.closest_own_cosine is not None
    step, own = history.channels.last_step_cosine.copy(), history.channels.closest_own_cosine.copy()
    step[14, 4], own[14, 4] = 0.9990, 0.9995
    assert find_exact(with_raw(history, last_step_cosine=step, closest_own_cosine=own)) == ()
    own[14, 4] = 0.5
    assert len(find_exact(with_raw(history, last_step_cosine=step, closest_own_cosine=own))) == 1


def test_updates_that_fade_out_are_not_free_riding_and_those_that_come_back_are() -> None:
    history = made_history(epochs=30)
    assert history.channels is not None
    fading, pausing = history.channels.norm.copy(), history.channels.norm.copy()
    fading[20:, 2] *= 1e-3
    pausing[12:20, 2] *= 1e-3
    own, loss = history.channels.own_cosine, np.zeros_like(history.channels.solo_loss)
    assert not [a for a in alerts_of(with_raw(history, norm=fading, own_cosine=own, solo_loss=loss)) if a.accuses]
    named = [a for a in alerts_of(with_raw(history, norm=pausing, own_cosine=own, solo_loss=loss)) if a.accuses]
    assert [(a.client, a.verdict, a.window) for a in named] == [
        ("client-02", VerdictKind.CONTRIBUTES_NOTHING, (12, 19))
    ]


def test_participants_that_pull_two_ways_have_not_copied_the_last_step() -> None:
    history = made_history()
    assert history.channels is not None
    step = history.channels.last_step_cosine.copy()
    step[5:, :5], step[5:, 5:] = -0.9, 0.97
    assert not [a for a in alerts_of(with_raw(history, last_step_cosine=step)) if a.accuses]
    step[5:, 5:] = 0.3
    step[5:12, 6] = 0.995
    named = [a for a in alerts_of(with_raw(history, last_step_cosine=step)) if a.accuses]
    assert [(a.client, a.verdict) for a in named] == [("client-06", VerdictKind.CONTRIBUTES_NOTHING)]


def test_one_participation_is_harmful_where_value_loss_and_margin_agree() -> None:
    history = made_history(poisoned=[(3, 15, 15)])
    assert history.channels is not None

    def harmful(changed: ContributionHistory) -> bool:
        channels = standardise(changed)
        return window_numbers(changed, channels, 3, channels.epochs == 15, (15, 15)).harm_measured

    assert harmful(history)
    margin, loss = history.channels.solo_margin.copy(), history.channels.solo_loss.copy()
    margin[15, 3], loss[15, 3] = 0.1, -0.1
    assert not harmful(with_raw(history, solo_margin=margin))
    assert not harmful(with_raw(history, solo_loss=loss))
    values = history.values.copy()
    values[15, :3] = -1.0
    values[15, 4:] = -1.0
    assert not harmful(replace(history, values=values))


def test_who_harms_as_ever_inside_has_no_window_of_harm() -> None:
    """Its updates turn for some epochs; its steps are as bad before and after."""
    history = made_history(persistent=[3], shift=7.0)
    assert history.channels is not None
    own, peer = history.channels.own_cosine.copy(), history.channels.peer_cosine.copy()
    own[12:20, 3], peer[12:20, 3] = -0.6, -0.7
    windows = [a for a in alerts_of(with_raw(history, own_cosine=own, peer_cosine=peer)) if a.window == (12, 19)]
    assert windows
    assert VerdictKind.POISONING_WINDOW not in {a.verdict for a in windows}


def test_harm_by_few_parameters_is_found_and_said() -> None:
    """A backdoor's update is carried by fewer parameters, longer, and points away from the others."""
    history = made_history()
    raw = history.channels
    assert raw is not None
    spread, norm, peer = raw.spread.copy(), raw.norm.copy(), raw.peer_cosine.copy()
    margin, values = raw.solo_margin.copy(), history.values.copy()
    rows = list(WINDOW)
    spread[rows, 3] *= 0.3
    norm[rows, 3] *= 1.6
    peer[rows, 3] -= 0.25
    margin[rows, 3] -= 0.2
    values[rows, 3, 0] += 0.02
    cells = {"spread": spread, "norm": norm, "peer_cosine": peer, "solo_margin": margin, "solo_loss": -margin}
    unweighed = replace(shipped_calibration(), scorecard=None)
    moved = with_raw(replace(history, values=values), **cells)
    (alert,) = read_verdicts(moved, calibration=unweighed, check_sensitivity=False).alerts
    assert (alert.client, alert.verdict, alert.expert) == (
        "client-03",
        VerdictKind.POISONING_WINDOW,
        "concentrated harm",
    )
    fact = alert.reason(SpreadChanged)
    assert fact is not None
    assert fact.ratio < 0.5


def test_measured_harm_is_no_changed_mix_of_classes() -> None:
    history, honest = made_history(poisoned=[(5, 12, 19)]), made_history()
    assert history.channels is not None
    assert honest.channels is not None
    margins = history.channels.solo_class_margin.copy()
    margins[12:20, 5, 0] += 1.2
    steady = with_raw(history, solo_class_margin=margins, own_cosine=honest.channels.own_cosine)
    moves = class_moves(steady, standardise(steady), 5, np.isin(standardise(steady).epochs, WINDOW))
    assert moves is not None
    assert moves.mix_changed({VALUE: 0.5})
    assert not moves.mix_changed({VALUE: 0.5, OWN_DIRECTION: 9.0}), "an attack turns the direction, drift does not"
    (alert,) = alerts_of(with_raw(history, solo_class_margin=margins))
    assert alert.verdict is VerdictKind.POISONING_WINDOW


def without_values(history: ContributionHistory) -> ContributionHistory:
    """The same run, audited without Shapley values."""
    state = np.where(history.state == CellState.COMPUTED, CellState.NOT_COMPUTED, history.state).astype(np.int8)
    values = np.where(state == CellState.NOT_COMPUTED, np.nan, history.values)
    return replace(history, state=state, values=values, remarks=(EpochRemark((), WithoutValues(NoValues.NOT_ASKED)),))


def test_values_whose_interval_covers_zero_measure_no_harm_whatever_the_margin_says() -> None:
    history = made_history(poisoned=[(3, 12, 19)])
    values = history.values.copy()
    values[list(WINDOW), 3, 0] = 0.02 * (-1.0) ** np.arange(len(WINDOW))
    assert {a.verdict for a in alerts_of(replace(history, values=values))} == {VerdictKind.BEHAVIOUR_CHANGED}


def test_without_values_a_few_validation_rows_measure_no_harm() -> None:
    verdicts = [{a.verdict for a in alerts_of(without_values(made_history(poisoned=[(3, 12, 19)], rows=rows)))}
                for rows in (300, 40)]  # fmt: skip
    assert verdicts == [{VerdictKind.POISONING_WINDOW}, {VerdictKind.BEHAVIOUR_CHANGED}]


def test_without_values_a_harm_must_be_more_than_what_the_others_do() -> None:
    history = without_values(made_history(poisoned=[(3, 12, 19)]))
    assert history.channels is not None
    loss = history.channels.solo_loss + 2.0
    assert {a.verdict for a in alerts_of(with_raw(history, solo_loss=loss))} == {VerdictKind.BEHAVIOUR_CHANGED}
