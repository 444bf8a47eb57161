"""Jobs: what is waiting, running and done; it survives refresh, restart and kill."""

from __future__ import annotations

import streamlit as st

from app import controls, state, wording
from flcontrib_core import Job


@st.fragment(run_every=2.0)
def board() -> None:
    jobs = state.workspace().jobs.poll()
    names = {r.digest: r.name for r in state.workspace().runs()}
    active = [j for j in jobs if j.active]
    st.title(f"{wording.several(len(active), 'job')} at work" if active else "No job is running")
    st.caption(
        "Every finished epoch is kept at once. A refresh, a second browser or a restarted server changes nothing."
    )
    for job in jobs[:50]:
        card(job, names.get(job.run_digest, job.run_digest[:12]))
    if not jobs:
        st.text("Nothing has been computed in this workspace yet.")


def card(job: Job, name: str) -> None:
    with st.container(border=True, gap="xsmall"):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.markdown(f"**{controls.text_of(name)}**", width="content")
            colour = {"done": "gray", "running": "blue", "queued": "gray"}.get(job.state.value, "orange")
            st.badge(job.state.value.replace("-", " "), color=colour)  # type: ignore[arg-type]
        assess = job.settings
        budget = assess.get("budget", {})
        epochs = budget.get("epochs")
        share = (
            "every epoch"
            if not budget.get("budget") and not epochs
            else f"budget {len(epochs) if epochs else budget['budget']}"
        )
        st.caption(controls.text_of(f"{assess.get('estimator', '')} · {share} · {controls.job_words(job)}"))
        if job.progress is not None and job.active:
            st.progress(min(1.0, job.progress.done / max(1, job.progress.total)))
        if job.error:
            st.code(job.error, language=None, wrap_lines=True)
        with st.container(horizontal=True):
            if job.active and st.button("Cancel", key=f"cancel-{job.id}"):
                state.workspace().jobs.cancel(job.id)
            if job.resumable and st.button("Resume", key=f"resume-{job.id}"):
                state.workspace().jobs.resume(job.id)
            if job.state.value == "done":
                st.page_link("views/overview.py", label="Open the result", query_params={"run": job.run_digest[:16]})


board()
