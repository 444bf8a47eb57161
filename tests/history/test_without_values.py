"""An audit without Shapley values: linear cost, the same channels, nothing invented in any table, report or extract."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flcontrib_core import read_run_log
from flcontrib_core.auditing import AuditReport, AuditSettings, audit, settings_from_record
from flcontrib_core.bundled_files import bundled
from flcontrib_core.errors import SettingsError
from flcontrib_core.history import AssessSettings, NoValues, price_of
from flcontrib_core.reports.as_json import audit_json
from flcontrib_core.reports.comparison import compare_reports
from flcontrib_core.reports.extract import extract_json, write_extract
from flcontrib_core.reports.tables import write_history_tables
from flcontrib_core.reports.twin import write_report
from flcontrib_core.reports.verify import verify_report
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.scheduling import BudgetSettings

SETTINGS = AuditSettings(AssessSettings(values=False))


@pytest.fixture(scope="module")
def run() -> RunLog:
    log = read_run_log(bundled("sample_runs") / "two-poisoned.flrun")
    assert isinstance(log, RunLog)
    return log


@pytest.fixture(scope="module")
def report(run: RunLog) -> AuditReport:
    return audit(run, SETTINGS)


def test_the_attackers_are_found_and_harm_is_measured_by_their_own_steps(report: AuditReport) -> None:
    assert {(a.client, str(a.verdict)) for a in report.detection.alerts} == {
        ("client-02", "poisoning-window"),
        ("client-03", "poisoning-window"),
    }
    assert all(a.mean_inside is None for a in report.detection.alerts)


def test_no_coalition_beyond_single_clients_and_everybody_is_evaluated(run: RunLog, monkeypatch: Any) -> None:
    from flcontrib_core.games.evaluator import Evaluator

    models = 0
    before = Evaluator._run

    def counted(self: Evaluator, count: int, *rest: Any, **named: Any) -> Any:
        nonlocal models
        models += count
        return before(self, count, *rest, **named)

    monkeypatch.setattr(Evaluator, "_run", counted)
    audit(run, SETTINGS)
    participations = int(run.participated().sum())
    # each update alone, and a few models per epoch: before, after, and what the checks of the log look at
    assert models <= participations + 5 * (run.epoch_count + 1)


def test_nothing_is_filled_in(report: AuditReport) -> None:
    history = report.history
    assert history.without_values is NoValues.NOT_ASKED
    for utility in history.utilities:
        assert np.isnan(history.totals(utility)).all()
        assert np.isnan(history.total_standard_errors(utility)).all()
        assert np.isfinite(history.of(utility).increments).all()  # how far the model moved is known
    assert report.detection.separation is None
    assert report.axioms == ()


def test_tables_and_json_have_no_value(report: AuditReport, tmp_path: Path) -> None:
    write_history_tables(report.history, tmp_path)
    with (tmp_path / "totals.csv").open(encoding="utf-8-sig") as file:
        assert {row["loss reduction total (help is up)"] for row in csv.DictReader(file)} == {""}
    content = json.loads(json.dumps(audit_json(report), allow_nan=False))
    assert content["without_values"] == "not-asked"
    assert {total for c in content["clients"] for total in c["total"].values()} == {None}


def test_report_and_extract_say_it_and_verify(run: RunLog, report: AuditReport, tmp_path: Path) -> None:
    page, twin = write_report(report, tmp_path / "report.html")
    assert "Shapley values were not asked for" in page.read_text()
    assert verify_report(twin, run).equal
    own, own_twin = write_extract(report, "client-02", tmp_path / "extract.html", run)
    assert "Shapley values were not asked for" in own.read_text()
    assert verify_report(own_twin, run).equal
    series = extract_json(report, "client-02")["utilities"]["loss"]
    assert series["total_of_computed_epochs"] is None


def test_comparison_gives_no_rank(run: RunLog, report: AuditReport) -> None:
    valued = audit(run)
    rows = json.loads(json.dumps(compare_reports([report, valued]), allow_nan=False))
    cells = [entry for entries in rows["utilities"]["loss"].values() for entry in entries]
    assert cells[::2] == [None] * 8
    assert all(entry["change"] is None and entry["rank"] for entry in cells[1::2])


def test_settings_are_recorded_and_read_again() -> None:
    assert settings_from_record(SETTINGS.record()) == SETTINGS


def test_the_price_is_that_of_the_channels(run: RunLog) -> None:
    cheap, full = price_of(run, SETTINGS.assess), price_of(run, AssessSettings())
    assert (cheap.epochs, cheap.evaluations) == (0, 0)
    assert cheap.observations == full.observations == int(run.participated().sum()) + 2 * run.epoch_count
    assert full.evaluations


def refused() -> Iterator[Any]:
    yield lambda: AssessSettings(values=False, budget=BudgetSettings(budget=0.5))
    yield lambda: AssessSettings(values=False, estimator="one-round")  # type: ignore[arg-type]
    yield lambda: audit(read_run_log(bundled("sample_runs") / "contributions-table.csv"), SETTINGS)


@pytest.mark.parametrize("ask", list(refused()))
def test_what_makes_no_sense_without_values_is_refused(ask: Any) -> None:
    with pytest.raises(SettingsError):
        ask()


def test_a_history_with_values_has_no_such_remark(run: RunLog) -> None:
    some = audit(run, replace(AuditSettings(), assess=AssessSettings(budget=BudgetSettings(epochs=(12,)))))
    assert some.history.without_values is None
