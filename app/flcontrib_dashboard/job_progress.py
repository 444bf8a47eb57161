"""How a job stands, in one sentence, and its live progress on a page."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.reports import REPRODUCTION
from flcontrib_core.vocabulary import Phase
from flcontrib_core.words import numbers
from flcontrib_core.workspace import Job, JobState
from flcontrib_dashboard import accounts, state


def job_words(job: Job) -> str:
    """One sentence on how a job stands."""
    parts = "instances" if job.kind == REPRODUCTION else "epochs"
    if job.state is JobState.QUEUED:
        return f"waiting, number {job.queue_position} in the queue" if job.queue_position else "waiting"
    if job.state is JobState.RUNNING:
        if job.progress is None:
            return "starting"
        left = job.progress.seconds_left
        rest = "" if left is None else f", about {numbers.seconds(max(left, 0.1))} left"
        phase = f"{job.progress.label}, " if _before_or_after(job) else ""
        return f"{phase}{job.progress.done} of {job.progress.total} {parts}{rest}"
    words = {
        JobState.DONE: f"done in {numbers.seconds(job.seconds)}",
        JobState.CANCELLED: f"cancelled; finished {parts} are kept",
        JobState.LOST: f"its process ended unexpectedly; finished {parts} are kept",
        JobState.PAUSED_NO_SPACE: f"paused: no space left; finished {parts} are kept",
        JobState.REFUSED_COST: "not started: too costly",
        JobState.FAILED: "failed",
    }
    return words[job.state]


def _before_or_after(job: Job) -> bool:
    """Is an audit at work on something else than its epochs' values? Before the first it says where it runs."""
    now = job.progress
    if job.kind != "audit" or now is None:
        return False
    return now.label in tuple(Phase) or (now.done == 0 and now.label != "")


def standing_words(job: Job, shown: int | None, beside: bool) -> str:
    """How a job stands, told beside a page that shows ``shown`` of its epochs, or another, finished result."""
    words = job_words(job)
    if beside:
        return f"A new result: {words}"
    computing = job.state is JobState.RUNNING and not _before_or_after(job)
    done = job.progress.done if computing and job.progress is not None else 0
    behind = shown is not None and shown < done
    return f"{words[0].upper()}{words[1:]}" + (f", {shown} of them shown here" if behind else "")


def follow(job: Job, *, previewed: bool, shown: int | None = None, beside: bool = False) -> None:
    """Live progress of a job; the page runs again when it ends and, if ``previewed``, when it has more to show.

    ``shown``: how many of its epochs are on the page; ``beside``: the page shows another result. Only this line is
    drawn every second. A run of the whole page replaces what changed and leaves the rest standing.
    """
    seen = state.workspace().previews.stamp(job.id)

    @st.fragment(run_every=1.0)
    def poll() -> None:
        state.workspace().jobs.poll()
        now = state.workspace().jobs.find(job.id)
        if not now.active or (previewed and state.workspace().previews.stamp(job.id) != seen):
            st.rerun()
        done, total = (now.progress.done, now.progress.total) if now.progress else (0, 1)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.progress(min(1.0, done / max(total, 1)), text=standing_words(now, shown, beside))
            if accounts.operator_button("Cancel", key=f"cancel-{job.id}"):
                state.workspace().jobs.cancel(job.id)
                st.rerun()

    poll()
