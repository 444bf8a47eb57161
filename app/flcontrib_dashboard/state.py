"""What all pages share: the workspace, the run in the URL, the report on screen, and who is reading how.

Nothing of a job lives here: jobs and results are the workspace's, so a refresh, a second browser or a restarted
server changes nothing. Caches are keyed by digests of what they hold and are bounded.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, TypeVar, cast

import streamlit as st

from flcontrib_core.auditing import AuditReport
from flcontrib_core.detection import Reviews
from flcontrib_core.history import Asked, LogMeaning, NoValues, RunMeasurement, lacking_part
from flcontrib_core.scheduling import ScheduleExplorer, SchedulingProblem
from flcontrib_core.workspace import (
    RECORDING,
    Job,
    ResultEntry,
    RunEntry,
    Workspace,
    preview_of,
    sample_digests,
    stored_meaning,
    stored_measurement,
    stored_report,
    take_in_samples,
)
from flcontrib_dashboard import accounts

Derived = TypeVar("Derived")
CARRIED = ("run", "result", "client", "window", "utility", "epoch")
"""Choices that a click in the navigation, which empties the URL, must not lose."""
MOST_LISTED = 50
"""Runs in the list beside the page, the newest of them; the page of runs finds the others."""
MOST_CACHED = 512
BESIDE_AUDITS = ("measurement", "proof")
"""Kinds of jobs that are a page's own business and no result a reader waits for."""


def workspace() -> Workspace:
    """The workspace as whoever looks at this page may use it."""
    return accounts.limited(shared_workspace())


@st.cache_resource(max_entries=1, show_spinner=False)
def shared_workspace() -> Workspace:
    """The one workspace of this server ($FLCONTRIB_WORKSPACE, else the platform's data folder)."""
    found = Workspace(os.environ.get("FLCONTRIB_WORKSPACE"))
    if os.environ.get("FLCONTRIB_SAMPLES", "1") == "1":
        bring_samples(found)
    return found


def bring_samples(found: Workspace) -> None:
    """Puts the samples into a workspace without runs. They are computed when somebody asks for it."""
    take_in_samples(found)


def load_samples() -> None:
    """The samples on request, where the server started without them or the settings hide them."""
    bring_samples(workspace())
    preferences = workspace().preferences
    preferences.set_display(replace(preferences.display(), samples=True))


def theme() -> str:
    """'light' or 'dark', as the browser shows it."""
    return str(st.context.theme.type or "light")


@st.cache_data(max_entries=1, show_spinner=False)
def known_samples() -> frozenset[str]:
    """Digests of the sample runs."""
    return sample_digests()


def is_sample(entry: RunEntry) -> bool:
    """Is this one of the runs that come with the tool?"""
    return entry.digest in known_samples()


def all_runs() -> tuple[RunEntry, ...]:
    """All runs. The list follows from the log alone and is read again when that has grown."""
    here = workspace()
    return cached((str(here.head()), str(here.path), "runs"), here.runs)


def stored_runs() -> tuple[RunEntry, ...]:
    """The runs that pages list: all, or all but the samples where the settings hide them."""
    here = workspace()

    def listed() -> tuple[RunEntry, ...]:
        runs = all_runs()
        return runs if here.preferences.display().samples else tuple(r for r in runs if not is_sample(r))

    return cached((str(here.head()), str(here.path), "listed"), listed)


def listed_runs(current: RunEntry | None) -> tuple[RunEntry, ...]:
    """The runs to choose from beside every page: all of a few, else the one on screen and the newest."""
    runs = stored_runs()
    if len(runs) <= MOST_LISTED:
        return runs
    first = () if current is None else (current,)
    return tuple(dict.fromkeys((*first, *reversed(runs[-MOST_LISTED:]))))


def current_run() -> RunEntry | None:
    """The run named in the URL, or the first one where none is named; None where the one that is named is not here."""
    wanted = st.query_params.get("run", "")
    if wanted:
        found = next((entry for entry in all_runs() if entry.digest.startswith(wanted)), None)
        return found or workspace().settled_as(wanted)  # a recording that has ended is a run by now
    return next(iter(stored_runs()), None)


def unknown_run() -> str | None:
    """The run that the URL names where this workspace does not have it."""
    wanted = st.query_params.get("run", "")
    return wanted if wanted and current_run() is None else None


@dataclass(frozen=True)
class Shown:
    """What is on screen: a run, its newest report, and what that is: a result, or what a job has found so far."""

    entry: RunEntry
    report: AuditReport
    result: ResultEntry
    job: Job | None = None
    """The job that is still computing this report; None for a result."""


def shown_report(entry: RunEntry) -> Shown | None:
    """The report on screen: the result named in the URL, else the run's default one."""
    result = named_result(entry) or workspace().default_result(entry.digest)
    return None if result is None else Shown(entry, load_report(result.digest, result), result)


def named_result_is_missing() -> bool:
    """Does the URL name a result that the run on screen does not have?"""
    entry = current_run()
    return bool(st.query_params.get("result")) and entry is not None and named_result(entry) is None


def forget_run() -> None:
    """Takes a run that is gone, and everything chosen in it, out of the URL and out of what is carried along."""
    st.session_state["carried"] = {}
    st.query_params.clear()


def named_result(entry: RunEntry) -> ResultEntry | None:
    """The result that the URL names, where the run has it."""
    wanted = st.query_params.get("result", "")
    results = workspace().results(entry.digest, "audit") if wanted else ()
    return next((r for r in results if r.available and r.digest.startswith(wanted)), None)


@st.cache_resource(max_entries=32, show_spinner=False)
def load_report(digest: str, _entry: ResultEntry) -> AuditReport:
    """A stored report, read once per process."""
    return stored_report(shared_workspace(), _entry)


def shown_to_client(entry: RunEntry) -> Shown | None:
    """The result that opens first, for whoever may see only a part of it: the one that the operator sees too."""
    first = shared_workspace().default_result(entry.digest)
    return None if first is None else Shown(entry, load_report(first.digest, first), first)


@st.cache_resource(max_entries=8, show_spinner=False)
def explorer(digest: str, weight_utility: str, _problem: SchedulingProblem) -> ScheduleExplorer:
    """Schedules of one run for any knob position; kept, so that a drag is answered from what is solved."""
    return ScheduleExplorer(_problem)


@st.cache_resource(max_entries=8, show_spinner=False)
def load_measurement(digest: str, _entry: ResultEntry) -> RunMeasurement:
    """A stored measurement, read once."""
    return stored_measurement(workspace(), _entry)


def measurement(entry: RunEntry) -> tuple[str, RunMeasurement] | None:
    """What is known of a run before its values are, and the digest of that; None until it was measured."""
    found = workspace().latest_result(entry.digest, "measurement")
    return None if found is None else (found.digest, load_measurement(found.digest, found))


def meaning(entry: RunEntry) -> tuple[str, LogMeaning] | None:
    """What the run's numbers mean, and the digest of that; None before anything walked through the log."""
    if entry.kind != "log":
        return None
    found = workspace().latest_result(entry.digest, "meaning")
    if found is None:
        return None
    return cached((found.digest, "meaning"), lambda: stored_meaning(workspace(), entry.digest))


def asked(entry: RunEntry) -> Asked | None:
    """How far the answers from elsewhere are; None where nobody was asked."""
    found = workspace().latest_result(entry.digest, "asked")
    return None if found is None else cached((found.digest, "asked"), lambda: workspace().load_result(found))


def measuring(entry: RunEntry) -> Job | None:
    """The job that measures a run, which is asked for here where it never was; None where there is nothing to ask."""
    if entry.kind == "contribution-table" or not entry.available or workspace().impaired is not None:
        return None
    if lacking(entry.digest) is not None:
        return None
    asked = [j for j in jobs_of(entry) if j.kind == "measurement"]
    if not asked and not accounts.operates():
        return None
    return asked[0] if asked else workspace().jobs.submit(entry.digest, {}, "measurement")


@st.cache_data(max_entries=64, show_spinner=False)
def lacking(digest: str) -> NoValues | None:
    """Why nothing of this run can be evaluated; None where it can, or where its values are there already."""
    return lacking_part(workspace().open_run(digest))


def shown_preview(entry: RunEntry) -> Shown | None:
    """What the run's job at work has found so far, if anything; of a recording, also what was read of it last."""
    job = active_audit(entry) if entry.kind != RECORDING else next(iter(jobs_of(entry)), None)
    stamp = None if job is None else workspace().previews.stamp(job.id)
    if job is None or stamp is None:
        return None
    report = load_preview(job.id, stamp, job)
    if report is None:
        return None
    unkept = ResultEntry(
        sequence=0,
        run_digest=entry.digest,
        kind="preview",
        settings=dict(job.settings),
        settings_digest="",
        digest=f"preview-{job.id}-{stamp}",  # what pages keep by digest is kept for this moment of the job only
        version=job.version,
        size=0,
        stored_at="",
        remarks={},
        available=True,
    )
    return Shown(entry, report, unkept, job)


@st.cache_resource(max_entries=8, show_spinner=False)
def load_preview(job_id: str, stamp: str, _job: Job) -> AuditReport | None:
    """What a running job has found so far."""
    return preview_of(workspace(), _job)


def jobs_of(entry: RunEntry) -> tuple[Job, ...]:
    """The run's jobs, newest first."""
    return tuple(j for j in workspace().jobs.poll() if j.run_digest == entry.digest)


def active_audit(entry: RunEntry) -> Job | None:
    """The run's audit that waits or runs."""
    return next((j for j in jobs_of(entry) if j.active and j.kind not in BESIDE_AUDITS), None)


def reviews(entry: RunEntry) -> Reviews:
    """What people recorded about the run's alerts; read anew each time, for others decide too."""
    return workspace().alerts.reviews(entry.digest)


_cached: OrderedDict[tuple[Hashable, ...], Any] = OrderedDict()
_cached_lock = Lock()


def cached(key: tuple[Hashable, ...], make: Callable[[], Derived]) -> Derived:
    """What follows from a stored result, made once. The key starts with the result's digest and names the rest.

    Kept values are shared by all readers: nobody may change one. Streamlit's own cache takes longer to digest such a
    key than most of these values take to make.
    """
    with _cached_lock:
        if key in _cached:
            _cached.move_to_end(key)
            return cast(Derived, _cached[key])
    made = make()  # not under the lock: nobody waits for somebody else's chart
    with _cached_lock:
        _cached[key] = made
        while len(_cached) > MOST_CACHED:
            _cached.popitem(last=False)
    return made


def remember(**choices: Any) -> None:
    """Writes choices into the URL, so that a copied link opens the same view."""
    carried = st.session_state.setdefault("carried", {})
    for key, value in choices.items():
        if value is None or value == "":
            st.query_params.pop(key, None)
            carried.pop(key, None)
            continue
        if st.query_params.get(key) != str(value):
            st.query_params[key] = str(value)
        if key in CARRIED:
            carried[key] = str(value)


def open_page(view: str) -> None:
    """Asks for another page from a callback, which cannot switch itself; the entry does before anything is drawn."""
    st.session_state["open-page"] = view


def asked_page() -> str | None:
    """The page a callback asked for, once."""
    asked = st.session_state.pop("open-page", None)
    return None if asked is None else str(asked)


def restore_url() -> None:
    """Puts what the reader had chosen back into a URL that the navigation emptied; a URL that says more wins."""
    carried: dict[str, str] = st.session_state.setdefault("carried", {})
    run = st.query_params.get("run")
    if run and carried.get("run", run) != run:
        carried.clear()  # another run was opened: its clients and windows are others
    for key in CARRIED:
        if key in st.query_params:
            carried[key] = st.query_params[key]
        elif key in carried:
            st.query_params[key] = carried[key]
    if (token := accounts.link_token()) and "share" not in st.query_params:
        st.query_params["share"] = token  # a page that a link opened can be loaded again


def from_url(key: str, allowed: list[str], default: str) -> str:
    """A choice from the URL when it is one of the allowed ones."""
    found = st.query_params.get(key, default)
    return found if found in allowed else default
