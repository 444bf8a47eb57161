"""What do all pages share? The workspace, the run in the URL, the report on screen, and who is reading how.

Nothing of a job lives here: jobs and results are the workspace's, so a refresh, a second browser or a restarted
server changes nothing. Caches are keyed by digests of what they hold and are bounded.
"""

from __future__ import annotations

import os
from typing import Any

import streamlit as st

from flcontrib_core import AuditReport, AuditSettings, Workspace, bundled, stored_report
from flcontrib_core.workspace import Job, ResultEntry, RunEntry

SAMPLES = (
    "two-poisoned.flrun",
    "late-window.flrun",
    "clean-iid.flrun",
    "heterogeneous-honest.flrun",
    "free-rider-and-scaled.flrun",
    "contributions-table.csv",
)
"""In the order in which a newcomer should see them."""


@st.cache_resource(max_entries=1)
def workspace() -> Workspace:
    """The one workspace of this server ($FLCONTRIB_WORKSPACE, else the platform's data folder)."""
    path = os.environ.get("FLCONTRIB_WORKSPACE")
    found = Workspace(path)
    if os.environ.get("FLCONTRIB_SAMPLES", "1") == "1":
        take_in_samples(found)
    return found


def take_in_samples(found: Workspace) -> None:
    """Brings the sample runs into a workspace that has no run yet, and has the first one audited."""
    if found.runs():
        return
    folder = bundled("sample_runs")
    for name in SAMPLES:
        if (folder / name).exists():
            entry = found.add_run(folder / name)
            found.jobs.submit(entry.digest, AuditSettings().record())


def theme() -> str:
    """'light' or 'dark', as the browser shows it."""
    return str(st.context.theme.type or "light")


def current_run() -> RunEntry | None:
    """The run named in the URL, else the first one."""
    runs = workspace().runs()
    wanted = st.query_params.get("run", "")
    for entry in runs:
        if wanted and entry.digest.startswith(wanted):
            return entry
    return runs[0] if runs else None


def latest_report(entry: RunEntry) -> tuple[AuditReport, ResultEntry] | None:
    """The newest stored report of a run, with its entry (which says whether it is stale)."""
    result = workspace().latest_result(entry.digest, "audit")
    return None if result is None else (_load(result.digest, result), result)


@st.cache_resource(max_entries=32, show_spinner=False)
def _load(digest: str, _entry: ResultEntry) -> AuditReport:
    return stored_report(workspace(), _entry)


def job_of(entry: RunEntry) -> Job | None:
    """The run's newest job."""
    jobs = [j for j in workspace().jobs.poll() if j.run_digest == entry.digest]
    return jobs[-1] if jobs else None


def remember(**choices: Any) -> None:
    """Writes choices into the URL, so that a copied link opens the same view."""
    for key, value in choices.items():
        if value is None or value == "":
            st.query_params.pop(key, None)
        elif st.query_params.get(key) != str(value):
            st.query_params[key] = str(value)
