"""Does the command line simulate honest changes, list what there is, and find runs of the corpus?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flcontrib_core.commands.simulating import simulate
from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation import AttackKind, ChangeKind, changes_of
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog

SMALL = ("--clients", "4", "--epochs", "6", "--train-rows", "200", "--validation-rows", "50")


def called(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, list(arguments))


def test_changes_are_simulated_recorded_and_told(tmp_path: Path) -> None:
    out = str(tmp_path / "run.flrun")
    options = ("--change", "local-epochs:3", "--change", "float16", "--changed", "1", "--changed", "all")
    told = called(out, *SMALL, *options, "--change-window", "from 4", "--attack", "alie", "--json")
    assert told.exit_code == 0, told.output
    answer = json.loads(told.stdout)
    run = read_run_log(out)
    assert isinstance(run, RunLog)
    assert [c.to_json() for c in changes_of(run)] == answer["truth"]["changes"]
    assert {c.kind for c in changes_of(run)} == {"local-epochs", "float16"}
    assert all(c.windows == ((4, 6),) for c in changes_of(run))
    assert [d["attack"] for d in answer["truth"]["dishonest"]] == ["alie"]
    run.close()
    words = called(str(tmp_path / "again.flrun"), *SMALL, "--change", "server-rate:0.5")
    assert "all clients are honest" in words.stdout
    assert "server" in words.stdout


def test_every_kind_is_listed() -> None:
    listed = called("--kinds")
    assert listed.exit_code == 0
    for kind in (*AttackKind, *ChangeKind):
        assert f"  {kind}" in listed.stdout


def test_a_run_of_the_corpus_by_its_id(tmp_path: Path) -> None:
    told = called(str(tmp_path / "a.flrun"), "--corpus", "tuning/plain/short/0003", "--json")
    assert told.exit_code == 0, told.output
    run = read_run_log(tmp_path / "a.flrun")
    assert isinstance(run, RunLog)
    assert run.name == "tuning/plain/short/0003"
    run.close()


@pytest.mark.parametrize(
    "options",
    [
        ("--changed", "2"),
        ("--change", "local-epochs:fast"),
        ("--change", "sleeping"),
        ("--corpus", "tuning/plain/short"),
        ("--corpus", "tuning/plain/short/0003", "--epochs", "9"),
    ],
)
def test_what_cannot_be_simulated_says_why(tmp_path: Path, options: tuple[str, ...]) -> None:
    told = called(str(tmp_path / "x.flrun"), *options)
    assert isinstance(told.exception, SettingsError)
    assert not (tmp_path / "x.flrun").exists()
