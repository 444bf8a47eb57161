"""Is an untouched report equal, and is one changed digit, byte or seed named?"""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flcontrib_core.auditing import AuditSettings, audit
from flcontrib_core.commands.reporting import report as report_command
from flcontrib_core.commands.reporting import verify as verify_command
from flcontrib_core.errors import FLContribError, RunLogError, SettingsError
from flcontrib_core.history import AssessSettings
from flcontrib_core.reports.extract import extract_json
from flcontrib_core.reports.twin import report_json, sealed, write_json, write_report
from flcontrib_core.reports.verify import Verification, read_report, recorded_reading, verify_report
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.scheduling.schedule import BudgetSettings
from flcontrib_core.shapley import MonteCarlo

SAMPLES = Path(__file__).parents[2] / "sample_runs"
TABLE = SAMPLES / "contributions-table.csv"
RUN = SAMPLES / "clean-iid.flrun"


@pytest.fixture(scope="module")
def table_report() -> dict[str, Any]:
    return report_json(audit(read_run_log(TABLE)), chain_head="3:" + "ab" * 32)


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
        '{"format": "flcontrib-report", "layout": 99}',
        '{"format": "flcontrib-report", "layout": 1, "seed": NaN}',
        '{"format": "flcontrib-report", "layout": 1, "a": 1, "a": 2}',
        '{"format": "flcontrib-report", "layout": 1, "settings": {"estimator": 7, "surprise": true}}',
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
    again = report_json(audit(read_run_log(TABLE)), chain_head=None)
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
