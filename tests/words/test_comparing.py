"""Do titles over several results say what the results hold, and what was filled in?"""

from __future__ import annotations

from dataclasses import replace

from flcontrib_core.detection import VerdictKind
from flcontrib_core.vocabulary import CellState
from flcontrib_core.words import agreement_words, contribution_title, filled_in
from tests.detection.made_histories import made_history

WINDOW, CHANGED = VerdictKind.POISONING_WINDOW, VerdictKind.BEHAVIOUR_CHANGED


def test_same_client_under_another_verdict_is_not_called_disagreement() -> None:
    assert agreement_words([{("a", WINDOW)}, {("a", CHANGED)}]) == "the same clients have alerts, with other verdicts"


def test_alerts_of_other_clients_are_counted() -> None:
    several = [{("a", WINDOW), ("b", WINDOW)}, {("a", WINDOW)}]
    assert agreement_words(several) == "1 of 2 alerts the same in every result"
    assert agreement_words([{("a", WINDOW)}, set()]) == "0 of 1 alert the same in every result"


def test_values_without_an_interval_are_called_clear_of_nobody() -> None:
    said = contribution_title(("Bonn", "Aachen"), (), intervals=False)
    assert said == "Bonn contributed most, Aachen least; the values come without an interval"


def test_equal_alerts_agree_and_none_is_none() -> None:
    assert agreement_words([{("a", WINDOW)}, {("a", WINDOW)}]) == "the alerts agree"
    assert agreement_words([set(), set()]) == "no result raises an alert"


def test_epochs_that_were_filled_in_are_said_where_results_are_compared() -> None:
    whole = made_history()
    assert filled_in(whole) is None
    state = whole.state.copy()
    state[5:9][state[5:9] == CellState.COMPUTED] = CellState.NOT_COMPUTED
    told = filled_in(replace(whole, state=state))
    assert told is not None
    assert told.startswith(f"{whole.epoch_count - 4} of {whole.epoch_count} epochs were computed")
