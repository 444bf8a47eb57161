"""docs/run-log.md: its script writes a log that opens, and it names every op, limit and code of the reader."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.runs import limits, operations
from flcontrib_core.runs.bundle import check_run_log
from flcontrib_core.runs.model_nodes import KNOWN_OPS, MAX_NODES
from flcontrib_core.runs.problem_codes import PROBLEMS, documentation
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "run-log.md").read_text()


def with_the_tables(page: str) -> str:
    """The page with its tables of codes and operations as the code has them."""
    for head, table in (("| code | says |", documentation()), ("| op | fields", operations.documentation())):
        begin = page.index(head)
        end = page.find("\n\n", begin) + 1
        page = page[:begin] + table + (page[end:] if end else "")
    return page


def test_the_script_of_the_page_writes_a_sound_log(tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "write_log.py").write_text(script)
    subprocess.run(
        python_command("write_log.py"), cwd=tmp_path, check=True, timeout=PATIENCE_SECONDS, env=child_environment()
    )
    result = check_run_log(tmp_path / "my-run")
    assert result.ok, result.errors
    assert (result.clients, result.epochs, result.participants) == (("north", "south"), 3, (2, 2, 2))
    assert result.warnings == ()
    assert "flcontrib" not in script


def test_the_tables_of_the_page_are_the_codes() -> None:
    """Written by ``python -m tests.runs.test_run_log_page``."""
    assert with_the_tables(PAGE) == PAGE


def test_every_problem_has_words_and_is_made_somewhere() -> None:
    sources = [path for path in (ROOT / "flcontrib_core").rglob("*.py") if path.name != "problem_codes.py"]
    used = {key for path in sources for key in re.findall(r'"([EW]_[A-Z0-9_]+(?::[a-z]+)?)"', path.read_text())}
    assert used == set(PROBLEMS)
    for key, kind in PROBLEMS.items():
        assert kind.expected, key
        assert kind.fix.endswith((".", "?", "}")), key
        assert bool(kind.meaning) == (":" not in key), key


def test_no_problem_names_a_flag_of_the_command_line() -> None:
    for key, kind in PROBLEMS.items():
        assert "--" not in kind.expected + kind.fix + kind.meaning, key


def test_every_op_is_listed() -> None:
    for op in KNOWN_OPS:
        assert f"`{op}`" in PAGE


def test_limits_are_the_readers() -> None:
    assert f"{limits.MAX_ENTRIES:,}; an archive" in PAGE
    assert f"expand {limits.MAX_RATIO} times" in PAGE
    assert f"{limits.MAX_JSON_BYTES >> 20} MB, nesting of {limits.MAX_JSON_DEPTH}" in PAGE
    assert f"{limits.MAX_EPOCH_LINES_BYTES >> 20} MB, {limits.MAX_EPOCHS:,} epochs" in PAGE
    assert f"| clients | {limits.MAX_CLIENTS:,} |" in PAGE
    assert f"{MAX_NODES:,} operations" in PAGE
    assert f"at most {limits.MAX_COALITION_PLAYERS} participants" in PAGE
    assert f"{limits.MAX_EPOCH_LINES_VALUES:,} names and numbers" in PAGE
    assert f"{limits.MAX_TABLE_BYTES >> 20} MB, {limits.MAX_TABLE_ROWS:,} rows" in PAGE
    assert f"{limits.MAX_TABLE_CELLS:,} cells, {limits.MAX_TABLE_UTILITIES} utilities" in PAGE
    assert f"{limits.MAX_EXPANDED >> 20} MB in all" in PAGE
    assert f"{limits.MAX_EMPTY_EPOCHS} and {limits.MAX_EMPTY_EPOCHS_PER_EPOCH} for each" in PAGE


if __name__ == "__main__":
    (ROOT / "docs" / "run-log.md").write_text(with_the_tables(PAGE))
