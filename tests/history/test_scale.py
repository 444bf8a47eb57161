"""Many participants, many clients, many epochs, large models; the full sizes are slow, smaller ones always run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.scale import CASES, Case, in_child, record
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.runs.bundle import read_run_log

MANY_PARTICIPANTS, MANY_CLIENTS, MANY_EPOCHS = (
    CASES[key] for key in ("many participants", "many clients", "many epochs")
)


def assessed(case: Case, folder: Path) -> ContributionHistory:
    record(case, folder)
    return assess_contributions(read_run_log(folder / "run"))


def shape_and_sums_are_right(history: ContributionHistory, case: Case) -> None:
    assert history.computed.all()
    for utility in history.utilities:
        values = history.of(utility).values
        assert values.shape == (case.epochs + 1, case.clients)
        assert (history.participated[1:].sum(axis=1) == case.participants).all()
        assert (values[1:][~history.participated[1:]] == 0).all()
        np.testing.assert_allclose(values.sum(axis=1), history.of(utility).increments, atol=1e-9)


@pytest.mark.parametrize("case", [
    replace(MANY_PARTICIPANTS, clients=40, participants=40, epochs=1, widths=(20, 16, 3), rows=100),
    pytest.param(
        replace(MANY_PARTICIPANTS, clients=290, participants=290, epochs=1, widths=(8, 6, 3), rows=40),
        marks=pytest.mark.slow,
    ),
    pytest.param(MANY_PARTICIPANTS, marks=pytest.mark.slow),
], ids=["40", "290", "100"])  # fmt: skip
def test_many_participants_are_valued_from_few_evaluations(case: Case, tmp_path: Path) -> None:
    history = assessed(case, tmp_path)
    shape_and_sums_are_right(history, case)
    assert set(history.estimator[1:]) == {"surrogate"}
    assert (history.evaluations[1:] <= 16 * case.participants).all()
    assert all(np.isfinite(history.of(u).standard_errors).all() for u in history.utilities)


@pytest.mark.parametrize("case", [
    replace(MANY_CLIENTS, clients=1000, participants=4, epochs=5),
    pytest.param(MANY_CLIENTS, marks=pytest.mark.slow),
], ids=["1000", "10000"])  # fmt: skip
def test_clients_that_never_took_part_cost_nothing(case: Case, tmp_path: Path) -> None:
    history = assessed(case, tmp_path)
    shape_and_sums_are_right(history, case)
    assert history.evaluations[1:].tolist() == [2**case.participants - 1] * case.epochs


@pytest.mark.parametrize("case", [
    replace(MANY_EPOCHS, epochs=60, participants=3),
    pytest.param(MANY_EPOCHS, marks=pytest.mark.slow),
], ids=["60", "1000"])  # fmt: skip
def test_long_runs_keep_adding_up(case: Case, tmp_path: Path) -> None:
    history = assessed(case, tmp_path)
    shape_and_sums_are_right(history, case)
    for utility in history.utilities:
        assert history.totals(utility).sum() == pytest.approx(history.of(utility).increments.sum(), abs=1e-8)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_epochs(tmp_path: Path) -> None:
    peaks = []
    for key in ("large model", "large model, longer"):
        folder = tmp_path / key
        folder.mkdir()
        in_child("record", key, str(folder))
        peaks.append(in_child("assess", key, str(folder))["peak"])
    assert peaks[1] - peaks[0] <= 0.5 * CASES["large model"].epoch_bytes
