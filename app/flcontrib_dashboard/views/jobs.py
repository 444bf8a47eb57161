"""Jobs: what is waiting, running and done; it survives refresh, restart and kill."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.reports import REPRODUCTION
from flcontrib_core.words import budget, numbers
from flcontrib_core.workspace import FOLLOW, Job, JobState
from flcontrib_dashboard import accounts, controls, job_progress, live, state
from flcontrib_dashboard.addresses import page_file

MOST_OUTPUT = 20_000
"""Characters of a worker's output on the page; a trace is at its end."""
WHAT = {
    "measurement": "measuring the run for a plan",
    "proof": "proving a schedule",
    FOLLOW: "following a recording",
    REPRODUCTION: "the paper's evaluation, small scale",
}
"""What a job does that is no audit."""


@st.fragment(run_every=2.0)
def board() -> None:
    """Every job, newest first; looked at again while one is at work."""
    jobs = state.workspace().jobs.poll()
    names = {r.digest: r.name for r in state.all_runs()}
    for job in jobs:
        if job.kind == FOLLOW and (settled := state.workspace().settled_as(job.run_digest)) is not None:
            names[job.run_digest] = settled.name
    active = [j for j in jobs if j.active and j.kind not in state.BESIDE_AUDITS]
    st.title(f"{numbers.several(len(active), 'job')} at work" if active else "No job is running")
    st.caption(
        "Every finished epoch is kept at once. A refresh, a second browser or a restarted server changes nothing."
    )
    listed = [j for j in jobs if j.kind not in state.BESIDE_AUDITS or j.active]
    for job in listed[:50]:
        figure = f"Figure of the paper: {job.settings.get('figure')}" if job.kind == REPRODUCTION else ""
        card(job, figure or names.get(job.run_digest, job.run_digest[:12]))
    if not listed:
        st.markdown("No job has run here yet. One appears as soon as a run is computed on a page.")
        controls.next_steps(("upload", "Bring in a run and compute it"), ("overview", "Read a result that is here"))


def elsewhere() -> None:
    """Runs whose coalitions others evaluate: asked, answered and outstanding, by epoch."""
    for entry in state.all_runs():
        asked = state.asked(entry)
        if asked is None:
            continue
        open_ones = sum(e.asked - e.answered for e in asked.epochs)
        with st.container(border=True, gap="xsmall"):
            controls.card_title(controls.text_of(entry.name), "answers from elsewhere")
            said = (
                f"{numbers.several(open_ones, 'question')} outstanding" if open_ones else "Every question is answered"
            )
            left_out = [numbers.named(v.client) for v in asked.voters if v.left_out]
            apart = f" Disagrees with all others and is left out: {numbers.listing(left_out, 6)}." if left_out else ""
            st.caption(controls.text_of(f"{said}. `flcontrib tell` takes answers in.{apart}"))
            columns = {"Epoch": [e.epoch for e in asked.epochs], "Asked": [e.asked for e in asked.epochs]}
            columns["Answered"] = [e.answered for e in asked.epochs]
            columns["Outstanding"] = [e.asked - e.answered for e in asked.epochs]
            controls.table(columns, key=f"asked-{entry.digest[:16]}")


def card(job: Job, name: str) -> None:
    """One job: state, progress, cost and what can be done with it."""
    with st.container(border=True, gap="xsmall"):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            controls.card_title(controls.text_of(name), width="content")
            colour = {"done": "gray", "running": "blue", "queued": "gray", "failed": "red"}.get(
                job.state.value, "orange"
            )
            st.badge(job.state.value.replace("-", " ").capitalize(), color=colour)  # type: ignore[arg-type]
        estimator = str(job.settings.get("estimator", ""))
        how = {"auto": "estimator chosen by size", "": ""}.get(estimator, f"estimator {estimator}")
        stands = "" if job.state is JobState.FAILED else job_progress.job_words(job)  # its badge says so already
        if job.kind == FOLLOW and job.active:
            stands = live.stands(job)
        what = WHAT.get(job.kind)
        asked = [
            stands,
            *([what] if what else [budget(job.settings), how]),
            f"asked {numbers.moment(job.submitted_at)}",
        ]
        st.caption(controls.text_of(" · ".join(part for part in asked if part)))
        if job.progress is not None and job.active and job.kind != FOLLOW:
            st.progress(min(1.0, job.progress.done / max(1, job.progress.total)))
        if job.error:
            st.code(job.error, language=None, wrap_lines=True)
        if job.state in (JobState.FAILED, JobState.LOST) or job.kind == FOLLOW:  # whom it could not tell of an alert
            worker_output(job)
        with st.container(horizontal=True):
            if job.active and accounts.operator_button("Cancel", key=f"cancel-{job.id}"):
                state.workspace().jobs.cancel(job.id)
            again = "Try again" if job.state is JobState.FAILED else "Resume"
            if job.resumable and accounts.operator_button(again, key=f"resume-{job.id}"):
                state.workspace().jobs.resume(job.id)
            if job.state is JobState.DONE and job.kind == REPRODUCTION:
                st.page_link(
                    page_file("paper"), label="Open the figure", query_params={"figure": job.settings["figure"]}
                )
            elif job.state is JobState.DONE:
                st.page_link(page_file("overview"), label="Open the result", query_params={"run": job.run_digest[:16]})


def worker_output(job: Job) -> None:
    """What the worker printed before it ended, trace included; read when somebody asks for it."""
    if st.toggle("What its process printed", key=f"output-{job.id}"):
        printed = state.workspace().jobs.output(job.id)
        if len(printed) > MOST_OUTPUT:
            st.caption(f"The last {numbers.count(MOST_OUTPUT)} characters.")
        st.code(printed[-MOST_OUTPUT:] or "Nothing.", language=None, wrap_lines=True)


board()
elsewhere()
