"""Is an untouched report equal, and is one changed digit, byte or seed named?"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flcontrib_core.auditing import AuditSettings, audit
from flcontrib_core.commands.reporting import report as report_command
from flcontrib_core.commands.reporting import verify as verify_command
from flcontrib_core.detection import AlertReview, AlertState, Reviews, ReviewStep, StepKind
from flcontrib_core.detection.reasons import DirectionChanged
from flcontrib_core.errors import FLContribError, RunLogError, SettingsError
from flcontrib_core.history import AssessSettings
from flcontrib_core.reports.extract import extract_json, write_extract
from flcontrib_core.reports.extract_page import extract_page
from flcontrib_core.reports.record import Record
from flcontrib_core.reports.rendered import wrong_sentences
from flcontrib_core.reports.twin import report_json, sealed, write_json, write_report
from flcontrib_core.reports.verify import (
    ENVIRONMENT,
    Verification,
    compare_with,
    read_report,
    read_report_or_page,
    recorded_reading,
    verify_report,
)
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.scheduling.schedule import BudgetSettings
from flcontrib_core.shapley import MonteCarlo
from tests.words.made_facts import full_report

SAMPLES = Path(__file__).parents[2] / "sample_runs"
TABLE = SAMPLES / "contributions-table.csv"
RUN = SAMPLES / "clean-iid.flrun"
STEP = ReviewStep(StepKind.DECISION, 2, "cd" * 32, "2026-11-17T12:00:00+00:00", "ada", "seen", AlertState.CONFIRMED)
REVIEW = AlertReview("notes", "poisoning-window", (6, 9), "", "ef" * 16, (STEP,))
RECORD = Record("2026-11-17T12:00:01+00:00", "grace", "3:" + "ab" * 32, Reviews((REVIEW,)))


@pytest.fixture(scope="module")
def table_report() -> dict[str, Any]:
    return report_json(audit(read_run_log(TABLE)), RECORD)


@pytest.fixture(scope="module")
def sampled() -> AuditSettings:
    """Two epochs by a sampling estimator: every number hangs on the seed."""
    budget = BudgetSettings(epochs=(2, 3))
    return AuditSettings(AssessSettings(estimator=MonteCarlo(evaluations=24), budget=budget, seed=4))


@pytest.fixture(scope="module")
def run_report(sampled: AuditSettings) -> dict[str, Any]:
    return report_json(audit(read_run_log(RUN), sampled))


def places(found: Verification) -> list[str]:
    return [d.where for d in found.differences]


def test_an_untouched_table_report_is_equal(table_report: dict[str, Any]) -> None:
    found = verify_report(table_report, read_run_log(TABLE))
    assert found.equal
    assert found.bit_equal
    assert found.differences == ()


def test_an_untouched_sampled_report_is_equal(run_report: dict[str, Any]) -> None:
    found = verify_report(run_report, read_run_log(RUN))
    assert found.equal, found.differences
    assert found.epochs_replayed == (2, 3)


def test_a_table_is_read_again_as_the_report_says(tmp_path: Path) -> None:
    """A column of which smaller is better is recorded in the report and needs no option."""
    table = tmp_path / "cost.csv"
    rows = [f"{t},c{i},{(t * i) % 7 / 10}" for t in range(1, 9) for i in range(4)]
    table.write_text("\n".join(["epoch,client,cost", *rows]) + "\n")
    content = report_json(audit(read_run_log(table, lower_is_better=("cost",))))
    assert recorded_reading(content) == {"nonfinite": "refuse", "lower_is_better": ("cost",)}
    assert verify_report(content, read_run_log(table, **recorded_reading(content))).equal
    assert not verify_report(content, read_run_log(table)).equal


def test_one_changed_digit_is_named_with_both_numbers(table_report: dict[str, Any]) -> None:
    changed = copy.deepcopy(table_report)
    row = changed["utilities"]["loss"]["per_epoch"][7]
    i = next(n for n, v in enumerate(row) if v)
    was, row[i] = row[i], float(repr(row[i])[:-1] + ("1" if repr(row[i])[-1] != "1" else "2"))
    found = verify_report(changed, read_run_log(TABLE))
    assert not found.equal
    first = found.differences[0]
    assert first.where == f"utilities.loss.per_epoch[7].{changed['client_ids'][i]}"
    assert (first.report, first.recomputed) == (row[i], was)
    assert first.sentence() == f"{first.where}: report {row[i]}, recomputed {was}"
    assert places(found)[1:] == ["report_digest (the content is not the sealed one)"]


def test_a_forger_who_seals_again_is_still_named(table_report: dict[str, Any]) -> None:
    changed = copy.deepcopy(table_report)
    changed["clients"][0]["verdict"] = "poisoning-window"
    found = verify_report(sealed(changed), read_run_log(TABLE))
    assert places(found) == ["clients[0].verdict"]


def test_another_table_is_named_by_digest_and_place(table_report: dict[str, Any], tmp_path: Path) -> None:
    lines = TABLE.read_text().splitlines()
    cells = lines[9].split(",")
    cells[2] = cells[2][:-1] + ("1" if cells[2][-1] != "1" else "2")
    lines[9] = ",".join(cells)
    other = tmp_path / TABLE.name
    other.write_text("\n".join(lines) + "\n")
    found = verify_report(table_report, read_run_log(other))
    assert places(found)[0] == "digest"
    utility = lines[0].split(",")[2]
    assert f"utilities.{utility}.per_epoch[{cells[0]}].{cells[1]}" in places(found)


def test_one_changed_byte_of_an_archive_is_refused_by_name(run_report: dict[str, Any], tmp_path: Path) -> None:
    data = bytearray(RUN.read_bytes())
    data[data.index(b"epochs/00003.safetensors") + 2000] ^= 1
    broken = tmp_path / "broken.flrun"
    broken.write_bytes(bytes(data))
    with pytest.raises(RunLogError, match="epochs/00003"):
        read_run_log(broken)


def test_a_seed_changed_in_one_place_is_named(run_report: dict[str, Any]) -> None:
    changed = copy.deepcopy(run_report)
    changed["provenance"]["seed"] = 5
    assert "provenance.seed" in places(verify_report(changed, read_run_log(RUN)))


def test_a_seed_changed_everywhere_is_named_with_the_numbers_it_moves(run_report: dict[str, Any]) -> None:
    changed = copy.deepcopy(run_report)
    for settings in (changed["settings"], changed["provenance"]["settings"]):
        settings["seed"] = 5
    changed["provenance"]["seed"] = 5
    found = places(verify_report(changed, read_run_log(RUN)))
    assert any(p.startswith("utilities.loss.per_epoch[2].") for p in found)
    assert "settings.seed (changed after the report was sealed)" in found


def test_another_platform_is_compared_within_the_tolerance(table_report: dict[str, Any]) -> None:
    elsewhere = copy.deepcopy(table_report)
    elsewhere["provenance"]["platform"] = "Darwin arm64, Python 3.12.0"
    values = elsewhere["utilities"]["loss"]["per_epoch"]
    values[7] = [v * (1 + 1e-7) if v else v for v in values[7]]
    found = verify_report(sealed(elsewhere), read_run_log(TABLE))
    assert found.equal
    assert not found.bit_equal
    assert [d.where for d in found.environment] == ["provenance.platform"]
    values[8] = [v * 1.01 if v else v for v in values[8]]
    assert places(verify_report(sealed(elsewhere), read_run_log(TABLE)))[0].startswith("utilities.loss.per_epoch[8].")


def test_an_extract_can_be_verified_and_forged_ones_are_named(sampled: AuditSettings) -> None:
    run = read_run_log(RUN)
    content = extract_json(audit(run, sampled), run.client_ids[1], run)
    assert verify_report(content, run).equal
    content["updates"]["rows"][3]["sha256"] = "0" * 64
    assert "updates.rows[3].sha256" in places(verify_report(content, run))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": "flcontrib-report"}',
        '{"format": "flcontrib-report", "layout": 1}',
        '{"format": "flcontrib-report", "layout": 99}',
        '{"format": "flcontrib-report", "layout": 2, "seed": NaN}',
        '{"format": "flcontrib-report", "layout": 2, "a": 1, "a": 2}',
        '{"format": "flcontrib-report", "layout": 2, "settings": {"estimator": 7, "surprise": true}}',
        "[" * 5000,
    ],
)
def test_untrusted_json_gets_a_typed_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(FLContribError):
        verify_report(read_report(path), read_run_log(TABLE))


def test_a_missing_report_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nothing\.json"):
        read_report(tmp_path / "nothing.json")


def test_equal_computations_have_equal_result_digests(table_report: dict[str, Any]) -> None:
    again = report_json(audit(read_run_log(TABLE)))
    assert again["result_digest"] == table_report["result_digest"]
    assert again["report_digest"] != table_report["report_digest"]


def test_the_commands_answer_0_1_and_write_both_files(tmp_path: Path) -> None:
    shutil.copy(TABLE, tmp_path / "run.csv")
    out = tmp_path / "report.html"
    options = ["--workspace", str(tmp_path / "workspace"), "--json"]
    extra = ["--charts", str(tmp_path / "charts"), "--tables", str(tmp_path / "tables")]
    made = CliRunner().invoke(report_command, [str(tmp_path / "run.csv"), "-o", str(out), *extra, *options])
    assert made.exit_code == 0, made.output
    answer = json.loads(made.stdout)
    content = read_report(Path(answer["json"]))
    assert answer["digest"] == content["digest"] == read_run_log(TABLE).digest
    assert content["chain_head"] in Path(answer["html"]).read_text()
    assert (tmp_path / "charts" / "ranking.svg").exists()
    assert (tmp_path / "tables" / "contributions.csv").exists()
    same = CliRunner().invoke(verify_command, [answer["json"], str(TABLE), "--json"], standalone_mode=False)
    assert same.return_value == 0
    assert json.loads(same.stdout)["equal"] is True
    content["alerts"] = []
    content["clients"][0]["probability"] = 0.5
    write_json(content, Path(answer["json"]))
    differs = CliRunner().invoke(verify_command, [answer["json"], str(TABLE), "--json"], standalone_mode=False)
    assert differs.return_value == 1
    assert "clients[0].probability" in str(json.loads(differs.stdout)["differences"])


def test_the_twin_is_written_beside_the_page(tmp_path: Path) -> None:
    page, twin = write_report(audit(read_run_log(TABLE)), tmp_path / "deep" / "a.html")
    assert (page.name, twin.name) == ("a.html", "a.json")
    assert verify_report(twin, read_run_log(TABLE)).equal


def every_leaf(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every leaf of a tree."""
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from every_leaf(inner, (*place, key))
    else:
        yield place


def changed(content: dict[str, Any], place: tuple[Any, ...]) -> dict[str, Any]:
    """The content with one leaf changed, as a forger would, and sealed again."""
    forged = copy.deepcopy(content)
    parent = forged
    for key in place[:-1]:
        parent = parent[key]
    was = parent[place[-1]]
    if isinstance(was, bool) or was is None:
        now: Any = not was
    elif isinstance(was, float):
        now = was + 0.01 * abs(was) + 0.0001
    elif isinstance(was, int):
        now = was + 1
    else:
        now = was + " forged" if isinstance(was, str) else ["forged"]
    parent[place[-1]] = now
    return sealed(forged)


UNVERIFIED = {("seconds",), ("recalled",), ("chain_head",), ("run",), ("written_at",), ("written_by",)}
"""What no computation can confirm; the run of the test is a table, whose name is its file's."""


def is_unverified(place: tuple[Any, ...]) -> bool:
    recorded = place[0] == "decisions" and place[-1] not in ("state", "owner")  # these two follow from the steps
    return place in UNVERIFIED or recorded or (place[0] == "provenance" and place[1] in ENVIRONMENT)


@pytest.mark.parametrize("platform", [None, "Darwin arm64, Python 3.12.0"], ids=["here", "claiming another platform"])
def test_no_leaf_of_a_sealed_again_report_can_be_changed_unnoticed(platform: str | None, tmp_path: Path) -> None:
    """A small run with a client called ``notes``, an alert, and an empty cell: every leaf, one at a time."""
    table = tmp_path / "small.csv"
    rows = []
    for epoch in range(1, 13):
        for client in ("notes", "why", "3", "settings"):
            harm = 0.3 if client == "notes" and 6 <= epoch <= 9 else -0.02
            value = harm + 0.001 * ((7 * epoch + 3 * len(client)) % 11)
            rows.append(f"{epoch},{client},{'' if (epoch, client) == (4, '3') else value}")
    table.write_text("\n".join(["epoch,client,loss", *rows]) + "\n")
    run = read_run_log(table)
    again = audit(run)
    assert [a.client for a in again.detection.alerts] == ["notes"]
    content = report_json(again, RECORD)
    if platform is not None:
        content["provenance"]["platform"] = platform
        content = sealed(content)
    fresh = report_json(again)
    assert compare_with(content, again, run, fresh=fresh).equal
    seals = {"report_digest", "part_digests", "result_digest"}
    places = [p for p in every_leaf(content) if p[0] not in seals]
    assert len(places) > 400
    stated = [p for p in places if not is_unverified(p)]
    assert [p for p in stated if compare_with(changed(content, p), again, run, fresh=fresh).equal] == []
    said = compare_with(content, again, run).unverified
    for place in places:
        if is_unverified(place):
            assert any(".".join(map(str, place)).startswith(listed) for listed in said), place


def test_a_rewritten_accusation_is_found_whatever_the_platform_claims() -> None:
    run = read_run_log(TABLE)
    again = audit(run)
    content = report_json(again)
    content["provenance"]["platform"] = "elsewhere"
    alert = content["alerts"][0]
    alert["why"] = alert["why"].replace("contributed −", "contributed +")
    found = compare_with(sealed(content), again, run)
    assert places(found) == ["alerts[0].why"]
    assert not found.bit_equal
    content = report_json(again)
    content["alerts"][0]["evidence"]["against"] = []
    content["alerts"][0]["counter_evidence"] = []
    assert places(compare_with(sealed(content), again, run)) == ["alerts[0].evidence.against (length)"]


def test_facts_that_are_none_are_named_not_a_traceback() -> None:
    run = read_run_log(TABLE)
    again = audit(run)
    for odd in (None, 7, [None], [{"fact": "decayed"}], [{"fact": "zero", "epochs": "all"}]):
        content = report_json(again)
        content["alerts"][0]["evidence"]["for"] = odd
        assert not compare_with(sealed(content), again, run).equal
    content = report_json(again)
    content["alerts"] = "none"
    content["clients"] = [3]
    assert not compare_with(sealed(content), again, run).equal


def test_every_sentence_of_an_untouched_report_is_what_its_facts_say() -> None:
    """Also where a reason is not told beside the others, or a question says what is not counted with it."""
    report = full_report()
    first, *others = report.detection.alerts
    unseen = DirectionChanged("own direction", 0.641, 0.639, 3.0)
    alerts = (replace(first, evidence_for=(unseen, *first.evidence_for)), *others)
    content = json.loads(json.dumps(report_json(replace(report, detection=replace(report.detection, alerts=alerts)))))
    assert [alert["accuses"] for alert in content["alerts"]].count(False) > 1
    assert len(content["alerts"][0]["evidence"]["for"]) == 1 + len(first.evidence_for)
    assert list(wrong_sentences(content)) == []
    content["alerts"][0]["context"].append("Nobody else does this.")
    content["alerts"][1]["why"] += " It was meant."
    assert [d.where for d in wrong_sentences(content)] == ["alerts[0].context", "alerts[1].why"]


def test_digests_contain_no_time(table_report: dict[str, Any]) -> None:
    later = {k: v for k, v in table_report.items() if k not in ("report_digest", "part_digests", "result_digest")}
    again = sealed({**later, "seconds": 99.0, "recalled": 7})
    assert again["report_digest"] == table_report["report_digest"]
    assert "seconds" not in again["part_digests"]


def test_a_page_is_verified_through_its_twin(tmp_path: Path) -> None:
    shutil.copy(TABLE, tmp_path / "another-name.csv")
    run = read_run_log(tmp_path / "another-name.csv")
    page, twin = write_report(audit(read_run_log(TABLE)), tmp_path / "report.html")
    found = verify_report(page, run)
    assert found.equal, found.differences
    assert "run" in found.unverified
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("lowered the model", "raised the model", 1), encoding="utf-8")
    assert places(verify_report(page, run)) == ["page"]
    page.write_text(text.replace(read_report(twin)["report_digest"], "0" * 64, 1), encoding="utf-8")
    assert places(verify_report(page, run))[0] == "page: the report digest it names"


def test_an_extract_s_page_is_verified_on_any_platform(tmp_path: Path, sampled: AuditSettings) -> None:
    run = read_run_log(RUN)
    page, twin = write_extract(audit(run, sampled), run.client_ids[1], tmp_path / "extract.html", run)
    assert verify_report(page, run).equal
    content = read_report(twin)
    content["provenance"]["platform"] = "elsewhere"
    content = sealed(content)
    write_json(content, twin)
    page.write_text(extract_page(content, twin.name), encoding="utf-8")
    found = verify_report(page, run)
    assert found.equal, found.differences
    assert "page" not in found.unverified
    page.write_text(extract_page(content, twin.name).replace("nothing found", "all is well"), encoding="utf-8")
    assert places(verify_report(page, run)) == ["page"]


@pytest.mark.parametrize(
    "head",
    [
        "",
        '<meta name="flcontrib-twin" content="report.json">',
        '<meta name="flcontrib-twin" content="../report.json"><meta name="flcontrib-report-digest" content="00">',
        '<meta name="flcontrib-twin" content="/etc/passwd"><meta name="flcontrib-report-digest" content="00">',
        '<meta name="flcontrib-twin" content="gone.json"><meta name="flcontrib-report-digest" content="00">',
    ],
)
def test_a_page_without_a_twin_beside_it_is_refused(head: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(f"<!doctype html><html><head>{head}</head><body></body></html>")
    with pytest.raises(SettingsError):
        read_report_or_page(page)
