"""Every case of the corpus of bad inputs through the command line: code 2 and its code, or 0 and its warnings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from flcontrib_core.execution.children import child_environment, python_command
from tests.corpus.__main__ import write_case, write_corpus
from tests.corpus.cases import Case, all_cases
from tests.in_process import flcontrib
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[1]


def compare(case: Case, code: int, out: str, err: str) -> None:
    assert "Traceback" not in err
    told = json.loads(out)
    assert code == (2 if case.code else 0)
    assert told["ok"] == (not case.code)
    assert ([e["code"] for e in told["errors"]][:1] or [""])[0] == case.code
    if not case.code:
        assert sorted({w["code"] for w in told["warnings"]}) == sorted(case.warnings)


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: f"{case.row}-{case.name[:60]}")
def test_case_through_check(case: Case, corpus_folder: Path) -> None:
    told = flcontrib("check", write_case(case, corpus_folder), "--json", "--no-model")
    compare(case, told.returncode, told.stdout, told.stderr)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_case_in_a_process_of_its_own(corpus_folder: Path) -> None:
    for case, path in write_corpus(corpus_folder):
        command = python_command("-m", "flcontrib_core.cli", "check", str(path), "--json", "--no-model")
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, env=child_environment(), check=False
        )
        compare(case, done.returncode, done.stdout, done.stderr)
