"""Every case of the corpus gets its code, inside the memory limit, and nothing of it is executed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flcontrib_core.execution.children import child_environment, python_command
from tests.corpus.__main__ import write_corpus
from tests.corpus.cases import Case, all_cases
from tests.corpus.limited import EXTRA_MB
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def answers(corpus_folder: Path) -> dict[str, dict[str, Any]]:
    write_corpus(corpus_folder)
    done = subprocess.run(
        python_command("-m", "tests.corpus.limited", str(corpus_folder)),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=Path(__file__).parents[2],
        check=False,
        env=child_environment(),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {answer["name"]: answer for answer in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: f"{case.row}-{case.name[:60]}")
def test_case(case: Case, answers: dict[str, dict[str, Any]]) -> None:
    answer = answers[case.name]
    assert (answer["codes"][:1] or [""])[0] == case.code, answer["first"]
    if not case.code:
        assert answer["warnings"] == sorted(case.warnings)
    assert case.names in (answer["first"] or answer["words"])
    assert answer["extra_mb"] <= EXTRA_MB
    assert answer["child_mb"] <= EXTRA_MB
    assert len(answer["codes"]) <= 50


def test_the_rows_about_files_and_content_are_all_there() -> None:
    rows = {case.row for case in all_cases()}
    assert rows >= set(range(1, 14)) | set(range(15, 42))


def test_nothing_was_unpickled(answers: dict[str, dict[str, Any]]) -> None:
    assert answers
    assert not (Path(__file__).parents[2] / "unpickled-by-the-reader").exists()


def test_no_error_carries_a_raw_control_character(answers: dict[str, dict[str, Any]]) -> None:
    for answer in answers.values():
        assert (answer["first"] + answer["words"]).isprintable()
