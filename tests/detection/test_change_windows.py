"""Windows, a second opinion and the paper's statistic, read from posteriors whose answer is known."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.auditing import AuditSettings, report_on, settings_from_record
from flcontrib_core.commands.options import audit_settings_from
from flcontrib_core.detection import (
    ChangePoints,
    ChangePointSettings,
    ChangeSeries,
    LengthPrior,
    SegmentLikelihood,
    agreement,
    deviating_windows,
    masses_in_windows,
    read_change_points,
)
from flcontrib_core.errors import SettingsError
from flcontrib_core.reports.as_json import detection_json
from flcontrib_core.words import agreement_sentence, others_mass_words, window_words
from tests.detection.made_histories import made_history


def points_of(inside: list[list[float]], changes: dict[str, tuple[tuple[int, int, float], ...]]) -> ChangePoints:
    """Posteriors written by hand: ``inside`` is one list per client, epoch 0 first."""
    cells = np.array(inside).T
    names = tuple(f"c{i}" for i in range(cells.shape[1]))
    start = np.where(np.isnan(cells), np.nan, 0.0)
    return ChangePoints(names, "loss", "solo-margin", start, cells, changes=changes)


def test_a_window_has_the_credible_intervals_of_its_two_ends() -> None:
    gap = float("nan")
    points = points_of([[gap, 0.1, 0.1, 0.8, gap, 0.9, 0.7, 0.1, 0.1]], {"c0": ((2, 3, 0.9), (6, 7, 0.8))})
    (found,) = deviating_windows(points)
    assert found.window == (3, 6)
    assert found.probability == pytest.approx(0.8)
    assert found.first_within == (2, 3)
    assert found.last_within == (5, 6)
    assert window_words(found) == "epochs 3–6 (0.80); starts in 2–3, ends in 5–6"
    alone = replace(found, window=(3, 3), first_within=None, last_within=None)
    assert window_words(alone) == "epoch 3 (0.80); open at its start, open at its end"


def test_a_window_at_the_edge_is_open_there() -> None:
    points = points_of([[np.nan, 0.9, 0.9, 0.2], [np.nan, 0.1, 0.2, 0.9]], {})
    first, last = deviating_windows(points)
    assert (first.window, first.first_within, first.last_within) == ((1, 2), None, (2, 2))
    assert (last.window, last.first_within, last.last_within) == ((3, 3), (3, 3), None)


def test_the_second_opinion_is_matched_change_by_change() -> None:
    points = ChangePoints(
        ("a", "b"),
        "loss",
        "solo-margin",
        np.zeros((30, 2)),
        np.zeros((30, 2)),
        changes={"a": ((12, 13, 0.9), (20, 21, 0.8), (27, 27, 0.2))},
        second_opinion={"a": (11,), "b": (5,)},
    )
    found = agreement(points, 0.5)
    assert found.both == (("a", (12, 13)),)
    assert found.posterior_only == (("a", (20, 21)),)
    assert found.ruptures_only == (("b", 5),)
    assert agreement_sentence(found) == (
        "ruptures, on the same series, finds 1 of these 2 changes and 1 change that the posterior does not."
    )


def test_the_planted_window_is_found_with_both_ends_and_by_both_methods() -> None:
    points = read_change_points(made_history(epochs=30, poisoned=[(1, 12, 20)], shift=10))
    found = [w for w in deviating_windows(points) if w.client == "client-01"]
    assert [w.window for w in found] == [(12, 20)]
    first, last = found[0].first_within, found[0].last_within
    assert first is not None
    assert last is not None
    assert first[0] <= 12 <= first[1]
    assert last[0] <= 20 <= last[1]
    assert "client-01" in {client for client, _ in agreement(points).both}


def test_the_papers_statistic_stands_beside_that_of_the_runs_own_honest_clients() -> None:
    points = read_change_points(
        made_history(epochs=30, poisoned=[(1, 12, 20)], shift=10), ChangePointSettings(ChangeSeries.CUMULATIVE)
    )
    (row,) = masses_in_windows(points, [("client-01", (12, 20))])
    column = np.nan_to_num(points.probability)
    by_hand = [column[12:21, i].sum() / column[:, i].sum() for i, c in enumerate(points.client_ids) if c != "client-01"]
    assert row.others == len(by_hand) == len(points.client_ids) - 1
    assert row.others_mean == pytest.approx(np.mean(by_hand))
    assert row.others_largest == pytest.approx(np.max(by_hand))
    assert "on average" in others_mass_words(row)


@pytest.mark.parametrize("likelihood", list(SegmentLikelihood))
@pytest.mark.parametrize("prior", list(LengthPrior))
def test_every_choice_is_taken_and_recorded(likelihood: SegmentLikelihood, prior: LengthPrior) -> None:
    history = made_history(epochs=24, poisoned=[(1, 8, 14)], shift=8)
    asked = ChangePointSettings(ChangeSeries.INCREMENTS, "loss", likelihood, prior)
    settings = AuditSettings(change_points=asked)
    assert settings_from_record(json.loads(json.dumps(settings.record()))) == settings
    points = read_change_points(history, asked)
    assert points.series == "increments"
    usual = read_change_points(history, ChangePointSettings(ChangeSeries.INCREMENTS))
    same = likelihood is SegmentLikelihood.STUDENT_T and prior is LengthPrior.CONSTANT
    assert np.array_equal(points.probability, usual.probability, equal_nan=True) == same


def test_the_command_lines_choice_reaches_the_json() -> None:
    settings = audit_settings_from({"change_series": "cumulative", "change_prior": "geometric"}, "default")
    assert settings.change_points.prior is LengthPrior.GEOMETRIC
    assert audit_settings_from({"paper": True}, "default").change_points.series is ChangeSeries.CUMULATIVE
    history = made_history(epochs=20, poisoned=[(1, 8, 14)], shift=8)

    class Table:
        warnings = ()

    told = detection_json(report_on(Table(), history, settings).detection, {})  # type: ignore[arg-type]
    assert told["change_point_series"] == "cumulative"
    assert set(told["second_opinion"]) == set(told["change_windows"]) == set(history.client_ids)
    assert {p for row in told["inside"].values() for p in row} == {None}


def test_a_choice_that_does_not_exist_is_refused() -> None:
    for wrong in ({"series": "sideways"}, {"likelihood": "cauchy"}, {"colour": "red"}):
        with pytest.raises(SettingsError):
            ChangePointSettings.from_record(wrong)
    with pytest.raises(SettingsError):
        settings_from_record({"change_points": "relative"})
