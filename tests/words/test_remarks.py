"""Has every remark on how values were obtained a phrase, and does it survive JSON and grouping?"""

from __future__ import annotations

import pytest

from flcontrib_core.history import remarks as h
from flcontrib_core.history.remarks import REMARKS, EpochRemark, HistoryRemark, grouped, remark_from_json
from flcontrib_core.shapley import remarks as s
from flcontrib_core.tagged import Others
from flcontrib_core.words import remark_line
from flcontrib_core.words.remarks import remark_phrase

WHO = Others.named(["somebody"])
MADE: list[HistoryRemark] = [
    s.ExactIsCheap(6),
    s.ExactIsNotCheap(14),
    s.EvaluationsPayForAll(63, pay=True),
    s.LongUpdates(WHO, 3.0, s.Handling.FITTED_APART),
    s.SurrogateFellShort(("accuracy",), 200, 0.3, exact_instead=False),
    s.SubmodelsNotFinite(3, WHO),
    s.NoDifference(("loss",)),
    s.IntervalWide(("loss", "accuracy"), 160, 0.3),
    s.BordersDrawn(13, 21),
    s.EmptyCells(4, 90),
    s.Pilot(40, None),
    s.IncrementSmall(("loss",)),
    s.SweepEnded(s.Stop.CONVERGED, 60),
    s.Decayed(0.9, 7),
    s.Orders(12),
    s.OrdersCut(0.01),
    s.GroupTests(0),
    s.NeverObserved(50, 0.125),
    s.LibraryMessage("shapiq", "Sampling might be inefficient"),
    h.Diverged(WHO),
    h.StartDiverged(),
    s.FromGradients(2, ("accuracy",)),
    h.ValuesMissing(2),
    h.WithoutValues(h.NoValues.NOT_ASKED),
    h.ScheduleEmpty("two-sided-lb", 20),
    h.FromVotes(8, 400, 0.1, own_left_out=True),
    h.VotersApart(WHO),
    h.OwnWeights(),
    h.StartedEarlier(WHO),
    h.SentSeveral(WHO),
    h.NotedInLog(WHO, "new scanner.", "ada", "2026-11-16"),
]


def test_a_decay_is_told_with_what_it_comes_to() -> None:
    assert remark_phrase(s.Decayed(0.9, 7)) == "values multiplied by 0.9^7 = 0.478"


def test_the_examples_are_all_remarks_there_are() -> None:
    assert {type(remark) for remark in MADE} == set(REMARKS.values())


@pytest.mark.parametrize("remark", MADE, ids=lambda remark: remark.tag)
def test_every_remark_has_a_phrase_and_survives_json(remark: HistoryRemark) -> None:
    said = remark_phrase(remark)
    assert said
    assert not said.endswith(".")
    assert "somebody" not in remark_phrase(remark.without_others())
    placed = EpochRemark((1, 2, 5), remark)
    assert remark_from_json(placed.to_json()) == placed


def test_equal_remarks_of_several_epochs_are_one_line() -> None:
    (remark,) = grouped({s.ExactIsCheap(6): [1, 2, 3, 7]})
    assert remark_line(remark) == "epochs 1–3, 7: exact is cheap for 6 participants"
    (whole,) = grouped({s.Orders(1): ()})
    assert remark_line(whole) == "1 independent order"


@pytest.mark.parametrize("odd", [None, {}, {"epochs": [1]}, {"epochs": ["1"], "fact": "orders", "count": 1}])
def test_json_that_is_no_remark_is_refused(odd: object) -> None:
    with pytest.raises(ValueError):
        remark_from_json(odd)
