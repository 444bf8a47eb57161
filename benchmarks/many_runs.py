"""A workspace with a thousand runs and ten thousand results: how long do its first page and its list of runs take
beside those of one with five?

The pages are run without a browser, as Streamlit's own test harness does: what is measured is the server's part.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.measurement import Measurement
from flcontrib_core.auditing import AuditReport, AuditSettings
from flcontrib_core.history import AssessSettings
from flcontrib_core.workspace import Workspace, audit_in_workspace, stored_report

MANY, FEW, GOAL = 1000, 5, 1.3
RESULTS = 10
"""Stored results of each run"""
LOOKS = 7


def fill(folder: Path, runs: int) -> None:
    """So many small tables in a workspace, each with a result and its alerts."""
    with Workspace(folder / "workspace") as workspace:
        report: AuditReport | None = None
        for n in range(runs):
            table = folder / f"run-{n:04d}.csv"
            rows = [f"{t},{c},{_value(t, c) + n * 1e-6}" for t in range(1, 21) for c in range(6)]
            table.write_text("\n".join(["epoch,client,loss", *rows]) + "\n")
            entry = workspace.add_run(table)
            if report is None:
                audit_in_workspace(workspace, entry.digest, AuditSettings().record())
                kept = workspace.latest_result(entry.digest, "audit")
                assert kept is not None
                report = stored_report(workspace, kept)
            for seed in range(RESULTS):
                settings = AuditSettings(assess=AssessSettings(seed=seed)).record()
                result = workspace.store_result(entry.digest, settings, "audit", report)
            workspace.alerts.raise_alerts(entry.digest, report.detection.alerts, result.digest)


def _value(epoch: int, client: int) -> float:
    harm = 0.08 if client == 3 and 8 <= epoch <= 13 else -0.02
    return harm + 0.001 * ((7 * epoch + 3 * client) % 11)


def look(folder: Path, view: str) -> list[float]:
    """Seconds of each run of a page after the first."""
    import streamlit as st
    from streamlit.testing.v1 import AppTest

    os.environ |= {"FLCONTRIB_WORKSPACE": str(folder / "workspace"), "FLCONTRIB_SAMPLES": "0"}
    st.cache_resource.clear()
    st.cache_data.clear()
    entry = Path(__file__).parents[1] / "app" / "flcontrib_dashboard" / "streamlit_app.py"
    page = AppTest.from_file(str(entry), default_timeout=600)
    if view != "overview":
        page.switch_page(f"views/{view}.py")
    page.run()
    assert not page.exception, page.exception
    taken = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        page.run()
        taken.append(time.perf_counter() - began)
    return taken


def run(scale: str) -> list[Measurement]:
    """Median time of a page in a large workspace over that in a small one; ``full`` is a thousand runs."""
    found = []
    with tempfile.TemporaryDirectory() as place:
        folders = {runs: Path(place) / str(runs) for runs in (FEW, MANY if scale == "full" else MANY // 10)}
        for runs, folder in folders.items():
            folder.mkdir()
            fill(folder, runs)
        for view, goal in (("overview", GOAL), ("runs", None)):
            few, many = (statistics.median(look(folder, view)) for folder in folders.values())
            note = f"{few:.3f} s with {FEW} runs, {many:.3f} s with {max(folders)}"
            found.append(
                Measurement(f"{view} of a large workspace", many / few, goal, at_least=False, unit="×", note=note)
            )
    return found
