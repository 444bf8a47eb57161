"""The page that says which test tries which hole: every test it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
FILES = sorted(set(re.findall(r"`(tests/[\w/.]+)`", PAGE)))


def functions(file: Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_is_there(file: str, name: str) -> None:
    assert name.startswith("test_")
    assert name in functions(ROOT / file)


@pytest.mark.parametrize("file", FILES)
def test_a_named_file_is_there(file: str) -> None:
    assert (ROOT / file).exists()


def test_every_row_of_the_table_of_holes_names_a_test() -> None:
    table = PAGE.partition("## Each hole and its test")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| hole")]
    assert len(rows) > 20
    assert [row for row in rows if "::test_" not in row] == []
