"""The corpus half of a calibration: innocents set the thresholds, verdicts their probabilities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.detection.calibration import shipped_calibration
from flcontrib_core.detection.findings import VerdictKind
from flcontrib_core.detection.free_riding import LEAST_IDLE
from flcontrib_core.laboratory.corpus import AssessedRun
from flcontrib_core.laboratory.corpus_calibration import ACCUSED_RATE, refine
from flcontrib_core.laboratory.corpus_scoring import (
    Share,
    accused,
    mean_overlap,
    recall,
    score_corpus,
    stated_and_true,
    stated_error,
)
from flcontrib_core.runs.run_log import DishonestTruth, Truth
from tests.detection.made_histories import made_history


def made_run(number: int, family: str) -> AssessedRun:
    """In attacked runs client 3 is harmful; in changing ones an innocent looks just like that."""
    loud = [] if family == "plain" else [(3, 8, 13)]
    history = made_history(seed=number, epochs=18, poisoned=loud)
    guilty = (DishonestTruth("client-03", ((8, 13),), "label-flip", 1.0),) if family == "attacked" else ()
    return AssessedRun(f"tuning/{family}/made/{number:04d}", history, Truth(guilty), ())


@pytest.fixture(scope="module")
def runs() -> list[AssessedRun]:
    return [
        made_run(k, family) for family, count in (("plain", 6), ("changing", 2), ("attacked", 6)) for k in range(count)
    ]


def test_thresholds_rise_until_few_innocents_are_accused(runs: list[AssessedRun]) -> None:
    first = replace(shipped_calibration(), scorecard=None)  # a card's own limit answers for windows
    made = refine(first, runs, [])
    assert made.scorecard is None, "a handful of windows teaches nothing"
    loud = {name for name, limit in made.thresholds.items() if limit.level > first.thresholds[name].level + 1e-9}
    assert loud
    before, after = score_corpus(runs, first), score_corpus(runs, made)
    assert accused(before, "changing/*").hits == 2
    assert accused(after, "changing/*", "plain/*").hits <= ACCUSED_RATE * len(runs)
    quiet = [made_run(k, "attacked") for k in range(6)]
    assert refine(first, quiet, []).thresholds["harm"] == first.thresholds["harm"]
    assert made.thresholds["tiny"] == LEAST_IDLE[list(LEAST_IDLE)[-1]]


def test_rates_beside_an_alert_come_from_innocent_runs_of_the_other_part(runs: list[AssessedRun]) -> None:
    first = replace(shipped_calibration(), honest_runs=())
    made = refine(first, runs, runs)
    assert len(made.honest_runs) == 8
    assert {r.group for r in made.honest_runs} == {"plain", "changing"}
    assert made.provenance["corpus"]["runs"] == {"tuning": 14, "innocent runs of the other part": 8}


def test_counts_of_the_corpus(runs: list[AssessedRun]) -> None:
    scored = score_corpus(runs, shipped_calibration())
    assert recall(scored, "attacked/*") == Share(6, 6)
    assert accused(scored, "plain/*") == Share(0, 6)
    assert accused(scored, "*", without="changing/*").hits == 0
    assert mean_overlap(scored, "attacked/*") > 0.8
    assert 0 <= stated_error(scored) <= 1
    mean, true = stated_and_true(scored, VerdictKind.NOTHING_FOUND)
    assert 0 < mean < 1
    assert true.hits == 0


def test_the_interval_of_a_share_is_clopper_and_pearson_s() -> None:
    from scipy.stats import binomtest

    expected = binomtest(3, 40).proportion_ci(0.95, method="exact")
    assert np.allclose(Share(3, 40).interval, (expected.low, expected.high), atol=1e-9)
    assert Share(0, 0).interval == (0.0, 1.0)
