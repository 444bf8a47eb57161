"""What ``verify`` is handed may be anything: each ends in words and code 2 before it costs time or memory."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flcontrib_core.auditing import AuditReport, audit
from flcontrib_core.errors import FLContribError
from flcontrib_core.reports.twin import report_json
from flcontrib_core.reports.verify import (
    MAX_REPORT_VALUES,
    Verification,
    compare_with,
    read_report_or_page,
    recorded_reading,
    verify_report,
)
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.limits import MAX_JSON_BYTES
from flcontrib_core.runs.run_log import Run
from tests.in_process import flcontrib

TABLE = Path(__file__).parents[2] / "sample_runs" / "contributions-table.csv"
HEAD = '{"format": "flcontrib-report", "settings": '
TEXTS = {
    "nested too deeply": "[" * 100_000 + "]" * 100_000,
    "not a number": HEAD + "NaN}",
    "out of range": HEAD + "1e999}",
    "thousands of digits": HEAD + "9" * 5000 + "}",
    "a key twice": '{"format": 1, "format": 2}',
    "a giant text": '{"format": "' + "x" * (2 * MAX_JSON_BYTES) + '"}',
    "a text without end": '"' + "\\" * (2 * MAX_JSON_BYTES),
    "commas": "," * (2 * MAX_JSON_BYTES),
    "millions of objects": "[" + "{}," * 2_500_000 + "{}]",
    "many objects in few bytes": "[" + "{}," * 1_500_000 + "{}]",
    "half a surrogate": '["\\ud800"]',
    "binary": "\udcff\udc80\udcfe" * 1000,
    "empty": "",
    "a list": "[]",
    "a log": "PK\x03\x04" + "\0" * 100,
}
ODD: tuple[Any, ...] = (None, True, -1, 1e308, 2**62, "x", "", [], {}, [[]], [None], {"a": 1}, "y" * 100_000)


def refused(report: Path) -> str:
    told = flcontrib("verify", report, TABLE, "--json")
    assert told.returncode == 2, told
    assert json.loads(told.stdout)["ok"] is False
    return told.stderr


@pytest.mark.parametrize("name", list(TEXTS))
@pytest.mark.parametrize("ending", [".json", ".html"])
def test_a_file_that_is_no_report_is_refused(name: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"report{ending}"
    path.write_text(TEXTS[name], encoding="utf-8", errors="surrogateescape")
    assert refused(path)


@pytest.mark.parametrize("ending", [".json", ".html"])
def test_pipes_devices_folders_and_links_in_circles_are_refused(ending: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{kind}{ending}" for kind in ("pipe", "folder", "circle", "device", "missing")]
    os.mkfifo(paths[0])
    paths[1].mkdir()
    paths[2].symlink_to(paths[2])
    paths[3].symlink_to("/dev/zero")
    for path in paths:
        assert refused(path)


def test_only_a_large_run_has_a_large_report(tmp_path: Path) -> None:
    """The bound follows the run: more is read for it, and never for a small one."""
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"format": "flcontrib-report", "padding": "x" * MAX_JSON_BYTES}))
    asked: list[int] = []

    def cells(count: int) -> int:
        asked.append(count)
        return count

    with pytest.raises(FLContribError, match="has at most"):
        read_report_or_page(path, lambda: cells(0))
    with pytest.raises(FLContribError, match="layout"):
        read_report_or_page(path, lambda: cells(100_000))
    assert asked == [0, 100_000]
    assert MAX_REPORT_VALUES > 50 * 100_000


@pytest.fixture(scope="module")
def audited() -> tuple[Run, AuditReport, dict[str, Any]]:
    run = read_run_log(TABLE)
    report = audit(run)
    return run, report, json.loads(json.dumps(report_json(report)))


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """One place of every kind: of a list its first entry stands for all."""
    if path:
        yield path
    for key in value if isinstance(value, dict) else range(min(1, len(value))) if isinstance(value, list) else ():
        yield from places(value[key], (*path, key))


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_wrong_type_at_any_place_is_named_or_refused(
    every: bool, audited: tuple[Run, AuditReport, dict[str, Any]], tmp_path: Path
) -> None:
    """Each place gets each odd value in the slow tests, otherwise one after the other."""
    run, report, sound = audited
    path = tmp_path / "report.json"
    tried = 0
    for at, place in enumerate(places(sound)):
        for odd in ODD if every else (ODD[at % len(ODD)],):
            content = copy.deepcopy(sound)
            inner: Any = content
            for key in place[:-1]:
                inner = inner[key]
            same = json.dumps(inner[place[-1]]) == json.dumps(odd)
            inner[place[-1]] = odd
            path.write_text(json.dumps(content))
            tried += 1
            try:
                answer = _verified(path, run, report, recompute=place[0] == "settings")
            except FLContribError:
                continue
            assert not answer.equal or same or place[0] in answer.unverified, (place, odd)
            assert all(difference.sentence() for difference in answer.differences)
    assert tried > (1000 if every else 100)


def _verified(path: Path, run: Run, report: AuditReport, recompute: bool) -> Verification:
    """As the command does it; computed again only where the settings were changed."""
    content, page = read_report_or_page(path)
    recorded_reading(content)
    return verify_report(content, run) if recompute else compare_with(content, report, run, page)
