"""A recording on the page: what is known so far, whether its training is at work, and how it comes to its end."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from flcontrib_core.errors import FLContribError
from flcontrib_core.words import numbers, wording
from flcontrib_core.workspace import FOLLOW, Job, JobState, RunEntry, follow_recording, recorder_at_work
from flcontrib_dashboard import accounts, state
from flcontrib_dashboard.addresses import go_to


def start(folder: str, name: str | None = None) -> str:
    """Follows a folder that a recorder writes and opens it; what is wrong with it, in words, else nothing."""
    try:
        entry, _ = follow_recording(state.workspace(), Path(folder), name=name)
    except FLContribError as refused:
        return str(refused)
    state.remember(run=entry.digest[:16], result=None, client=None, window=None)
    go_to("overview", {"run": entry.digest[:16]})


def job_of(entry: RunEntry) -> Job | None:
    """The job that follows a recording; one whose process was killed goes on as soon as somebody looks."""
    job = next((j for j in state.jobs_of(entry) if j.kind == FOLLOW), None)
    if job is not None and job.state is JobState.LOST and state.workspace().impaired is None and accounts.operates():
        return state.workspace().jobs.resume(job.id)
    return job


def stands(job: Job) -> str:
    """'14 epochs so far': how far the reader is, in a few words."""
    if job.state is JobState.QUEUED:
        return "Waiting to be followed"
    if job.progress is None:
        return "Waiting for its first epoch" if job.active else "Not followed at present"
    many = numbers.several(job.progress.total, "epoch")
    if job.progress.done < job.progress.total:
        return f"{numbers.count(job.progress.done)} of {many}"
    return f"{many} so far" if job.active else f"{many} read; not followed at present"


def recording(entry: RunEntry, trail: str, unfinished: bool) -> state.Shown | None:
    """What is known of a run that is still being recorded, above the page that shows it, or in its place (then None);
    ``unfinished``: the page has something to show before the end."""
    from flcontrib_dashboard import controls  # which asks here first

    job, shown = job_of(entry), state.shown_preview(entry)
    controls.head(entry, trail, *(controls.badges_of(shown) if shown is not None else [("Provisional", "orange")]))
    if job is not None:
        line(entry, job)
    if shown is not None and unfinished:
        st.caption(wording.GROWING)
        return shown
    st.title("This run is still being recorded" if shown is not None else "Nothing to show of this run yet")
    st.markdown(wording.AWAITED.get(trail, wording.AWAITED_FIRST))
    if shown is not None:
        controls.next_steps(("overview", "The verdict so far"), ("contributions", "Contributions so far"))
    return None


def line(entry: RunEntry, job: Job) -> None:
    """Where the recording stands, looked at every second; the page runs again when there is more to show."""
    seen = state.workspace().previews.stamp(job.id)

    @st.fragment(run_every=1.0)
    def look() -> None:
        workspace = state.workspace()
        workspace.jobs.poll()
        now = workspace.jobs.find(job.id)
        if now.state is not job.state or workspace.previews.stamp(job.id) != seen:
            st.rerun()
        ended = workspace.is_ended(entry.digest)
        at_work = recorder_at_work(Path(entry.source))
        said = wording.SETTLING if ended else wording.AT_WORK if at_work else wording.NOT_AT_WORK
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="recording"):
            st.markdown(f"**{stands(now)}.** {said}")
            if ended or not accounts.operates():
                return
            if not now.active:
                if st.button("Follow it again", type="primary"):
                    workspace.jobs.resume(job.id)
                    st.rerun()
                return
            if st.button("The training has ended", disabled=now.progress is None):
                workspace.say_ended(entry.digest, accounts.your_name())
                st.rerun()
            if st.button("Stop following", type="tertiary"):
                workspace.jobs.cancel(job.id)
                st.rerun()

    look()
    if job.state is JobState.FAILED and job.error:
        st.code(job.error, language=None, wrap_lines=True)
