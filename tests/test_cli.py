"""The command line as a newcomer uses it: exit codes, JSON, typed messages, no traceback.

Help and check run in processes of their own; assess, schedule and audit do in tests/execution/test_hostile_folders.py.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from flcontrib_core.execution.children import child_environment, python_command
from tests.in_process import flcontrib
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "sample_runs"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("workspace")


def in_a_child(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = python_command("-m", "flcontrib_core.cli", *map(str, arguments))
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, env=child_environment())


def test_help_names_every_command():
    from flcontrib_core.cli import COMMANDS

    told = in_a_child("--help")
    assert told.returncode == 0
    assert all(name in told.stdout for name in COMMANDS)


@pytest.mark.parametrize(
    "name", ["check", "simulate", "assess", "schedule", "audit", "report", "verify", "watch", "calibrate"]
)
def test_every_command_has_help_with_an_example(name):
    told = flcontrib(name, "--help")
    assert told.returncode == 0
    assert "Example: flcontrib" in told.stdout


def test_check_accepts_a_sample_and_names_all_faults_of_the_broken_one():
    good = in_a_child("check", SAMPLES / "two-poisoned.flrun", "--json")
    assert good.returncode == 0
    answer = json.loads(good.stdout)
    assert answer["ok"] is True
    assert (len(answer["clients"]), answer["epochs"], answer["participants"]) == (8, 30, [8] * 30)
    bad = in_a_child("check", SAMPLES / "broken.flrun", "--json")
    assert bad.returncode == 2
    refused = json.loads(bad.stdout)
    assert refused["ok"] is False
    assert refused["digest"] is None
    assert len({e["code"] for e in refused["errors"]}) == 6
    assert "Traceback" not in bad.stderr


@pytest.mark.parametrize("words", [("assess", "x.flrun", "--nonsense"), ("import", "missing"), ("no-such-command",)])
def test_a_call_that_is_not_understood_is_json_too_where_that_was_asked_for(words: tuple[str, ...]) -> None:
    told = flcontrib(*words, "--json")
    assert told.returncode == 2
    answer = json.loads(told.stdout)
    assert (answer["ok"], answer["digest"]) == (False, None)
    assert answer["error"] in ("NoSuchOption", "BadParameter", "UsageError", "NoSuchCommand")
    assert answer["message"] in told.stderr.replace("\n", " ") or answer["message"] in told.stderr


def test_a_refused_log_and_wrong_usage_end_with_code_two(workspace):
    for arguments in (
        ("audit", SAMPLES / "broken.flrun"),
        ("audit", "no-such-file.flrun"),
        ("assess", SAMPLES / "clean-iid.flrun", "--estimator", "nonsense"),
        ("assess", SAMPLES / "clean-iid.flrun", "--budget", "lots"),
        ("assess", SAMPLES / "clean-iid.flrun", "--budget", "999"),
        ("assess", SAMPLES / "clean-iid.flrun", "--no-such-option"),
        ("simulate", "x.flrun", "--window", "9-3", "--attack", "label-flip"),
        ("nonsense",),
    ):
        told = flcontrib(*arguments, *(("--workspace", workspace) if arguments[0] in ("audit", "assess") else ()))
        assert told.returncode == 2, arguments
        assert "Traceback" not in told.stderr
        assert told.stderr.strip()


def test_assess_prints_the_documented_json(workspace):
    told = flcontrib("assess", SAMPLES / "clean-iid.flrun", "--json", "--budget", "0.5", "--workspace", workspace)
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    rows, clients = 25, 6
    loss = answer["utilities"]["loss"]
    assert [len(answer["clients"]), len(answer["computed"]), len(loss["per_epoch"])] == [clients, rows, rows]
    assert sum(answer["computed"][1:]) == 12
    assert answer["participated"][0] == [False] * clients
    assert len(set(loss["per_epoch"][0])) == 1
    skipped = answer["computed"].index(False)
    assert loss["per_epoch"][skipped] == [None] * clients
    assert answer["estimator"][skipped] == "not computed"
    assert all(isinstance(v, float) for v in loss["total"])
    assert {"digest", "evaluations", "server_share", "seconds", "settings"} <= set(answer)


def test_schedule_prints_the_documented_json(tmp_path):
    picture = tmp_path / "plan.svg"
    told = flcontrib("schedule", SAMPLES / "late-window.flrun", "--budget", "10", "--json", "-o", picture)
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    assert len(answer["chosen"]) == 10
    assert answer["chosen"] == sorted(answer["chosen"])
    assert answer["gap"] == pytest.approx(answer["bound"] - answer["objective"])
    assert len(answer["epoch_weights"]) == 40
    assert set(answer["exposure"]) == {f"client-{i:02d}" for i in range(1, 13)}
    assert "<svg " in picture.read_text()[:100]


def test_audit_finds_what_happened_and_a_rerun_recomputes_nothing(workspace):
    first = flcontrib("audit", SAMPLES / "two-poisoned.flrun", "--json", "--workspace", workspace)
    assert first.returncode == 0, first.stderr
    answer = json.loads(first.stdout)
    found = {a["client"]: a for a in answer["alerts"]}
    assert set(found) == {"client-02", "client-03"}
    for alert in found.values():
        assert alert["verdict"] == "poisoning-window"
        assert abs(alert["window"][0] - 12) <= 1
        assert abs(alert["window"][1] - 20) <= 1
        assert alert["why"]
        assert alert["counter_evidence"]
    assert len(answer["change_points"]["client-02"]) == 31
    assert answer["separation"]["jaccard"]["raw"] == 1.0
    again = json.loads(flcontrib("audit", SAMPLES / "two-poisoned.flrun", "--json", "--workspace", workspace).stdout)
    assert again["alerts"] == answer["alerts"]


def test_simulate_check_and_watch_a_recording(tmp_path):
    made = flcontrib(
        "simulate", tmp_path / "run", "--epochs", "4", "--clients", "3", "--attack", "zero", "--window", "2:4", "--json"
    )
    assert made.returncode == 0, made.stderr
    answer = json.loads(made.stdout)
    assert answer["truth"]["dishonest"][0]["windows"] == [[2, 4]]
    checked = json.loads(flcontrib("check", tmp_path / "run", "--json").stdout)
    assert checked["digest"] == answer["digest"]
    watched = flcontrib("watch", tmp_path / "run", "--until", "4", "--no-memory")
    events = [json.loads(line) for line in watched.stdout.splitlines()]
    assert [e["epoch"] for e in events if e["event"] == "epoch"] == [1, 2, 3, 4]
    assert any(e["event"] == "alert" and e["verdict"] == "exact-finding" for e in events)
    assert events[-1] == {"event": "done", "epoch": 4}


def test_the_porch_keeps_every_promise_and_stays_light():
    code = (
        "import sys, flcontrib_core as fl; from flcontrib_core import RunRecorder;"
        "heavy = {'torch', 'sklearn', 'scipy', 'plotly', 'pandas', 'streamlit', 'pyarrow'} & set(sys.modules);"
        "assert not heavy, heavy; [getattr(fl, n) for n in fl.__all__]; assert callable(fl.audit)"
    )
    done = subprocess.run(python_command("-c", code), capture_output=True, text=True, cwd=ROOT, env=child_environment())
    assert done.returncode == 0, done.stderr


def test_values_written_by_assess_carry_the_logs_warnings(tmp_path: Path) -> None:
    log = SAMPLES / "free-rider-and-scaled.flrun"
    done = flcontrib("assess", log, "-o", tmp_path / "out", "--no-memory")
    assert done.returncode == 0, done.stderr
    expected = {w["code"] for w in json.loads(flcontrib("check", log, "--json").stdout)["warnings"]}
    assert expected
    rows = (tmp_path / "out" / "warnings.csv").read_text(encoding="utf-8-sig")
    assert all(code in rows for code in expected)


@pytest.mark.parametrize("command", [["check"], ["audit"], ["audit", "--json"], ["assess", "--json"]])
def test_no_escape_of_a_name_reaches_the_terminal(command: list[str], tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    names = ("\x1b[31mred", "\x1b]0;title\x07", "b", "c")
    rows = [f'{epoch},"{name}",{epoch / 10}\n' for epoch in range(1, 9) for name in names]
    table.write_text("epoch,client,loss\n" + "".join(rows))
    told = flcontrib(command[0], table, *command[1:])
    assert told.returncode == 0
    assert not {"\x1b", "\x07"} & set(told.stdout + told.stderr)
