"""Upload: drop a log, see every fault at once, know the price, compute."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import streamlit as st

from app import controls, state, wording
from flcontrib_core import AssessSettings, AuditSettings, BudgetSettings, CheckResult, check_run_log
from flcontrib_core.errors import FLContribError
from flcontrib_core.workspace import RunEntry

STAGES = ("received", "archive safe", "manifest", "shapes", "values", "cross-checks", "ready")
RECORD = """from flcontrib_core import RunRecorder

with RunRecorder(
    "run",
    clients=[("a", 120), ("b", 80)],
    parameters=[(n, p.shape) for n, p
                in model.state_dict().items()],
    initial=model.state_dict(),
) as recorder:
    for epoch in range(epochs):
        updates = {c: train(model, data[c])
                   for c in chosen}
        apply(model, updates)
        recorder.epoch(updates)
    recorder.bundle("run.flrun")"""
FLOWER = """from flcontrib_core.runs.flower import record

strategy = record(FedAvg(), "run", clients={"a": 120, "b": 80},
                  model=model, validation=(x, y))"""


def problems_table(found: CheckResult) -> None:
    rows: list[dict[str, object]] = [
        {"Code": p.code, "Where": p.where, "Found": p.found, "Expected": p.expected, "What to do": p.fix}
        for p in (*found.errors, *found.warnings)
    ]
    if rows:
        st.dataframe(rows, hide_index=True, width="stretch")
        st.download_button(
            "Problems as CSV", controls.as_csv(rows), file_name="problems.csv", mime="text/csv", on_click="ignore"
        )


def take_in(path: Path, name: str) -> None:
    """Validates with ticks, then stores the run; a refused bundle leaves nothing but a record of its refusal."""
    reached: list[str] = []
    place = st.empty()

    def tick(stage: str) -> None:
        reached.append(stage)
        place.markdown("\u2003".join(f":green[✓] {s}" if s in reached else f":gray[· {s}]" for s in STAGES))

    tick("received")
    found = check_run_log(path, on_stage=tick)
    if not found.ok:
        problems = wording.several(len(found.errors), "problem")
        st.error(controls.text_of(f"{name} was refused: {problems}. Nothing of it is kept."))
        problems_table(found)
        return
    try:
        entry = state.workspace().add_run(path, name=None)
    except FLContribError as refused:
        st.error(controls.text_of(str(refused)))
        return
    place.markdown("\u2003".join(f":green[✓] {s}" for s in STAGES))
    st.session_state["uploaded"] = entry.digest
    if found.warnings:
        st.warning(f"Accepted with {wording.several(len(found.warnings), 'remark')}; they follow into every export.")
        problems_table(found)


def preflight(entry: RunEntry) -> None:
    """What will be computed, what it costs, and what cannot be."""
    with st.container(border=True, gap="small"):
        st.markdown(f"**Ready: {controls.text_of(entry.name)}**")
        cells = st.columns(4, gap="small")
        cells[0].metric("Clients", wording.count(entry.clients))
        cells[1].metric("Epochs", wording.count(entry.epochs))
        share = st.select_slider("Budget: share of the epochs to compute", [0.25, 0.5, 0.6, 0.75, 0.9, 1.0], 1.0)
        assess = AssessSettings(budget=BudgetSettings(budget=None if share == 1.0 else float(share)))
        settings = replace(AuditSettings(), assess=assess)
        try:
            price = state.price(entry.digest, settings)
        except FLContribError as lacking:
            st.error(controls.text_of(str(lacking)))
            return
        cells[2].metric("Evaluations", "–" if price.evaluations is None else wording.count(price.evaluations))
        cells[3].metric("About", "–" if price.seconds is None else wording.seconds(price.seconds))
        for line in price.notes:
            st.caption(controls.text_of(line))
        if st.button("Compute", type="primary"):
            job = state.workspace().jobs.submit(entry.digest, settings.record())
            state.remember(run=entry.digest[:16], result=None)
            st.session_state["followed"] = job.id
            st.session_state.pop("uploaded", None)
            st.switch_page("views/overview.py", query_params={"run": entry.digest[:16]})


st.title("Bring in a run")
st.caption("A run log (.flrun), or a table of contributions or coalition utilities (CSV, Parquet).")
left, right = st.columns([1.3, 1], gap="small")
with left:
    given = st.file_uploader("Run log or table", type=["flrun", "zip", "csv", "parquet"], max_upload_size=200)
    if given is not None and st.session_state.get("seen") != given.file_id:
        suffix = Path(given.name).suffix
        handle, temporary = tempfile.mkstemp(suffix=suffix)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(given.getbuffer())
            take_in(Path(temporary), given.name)
        finally:
            Path(temporary).unlink(missing_ok=True)
    folder = st.text_input(
        "Or a path on the server",
        placeholder="/data/run or /data/run.flrun",
        help="For large logs: nothing is sent through the browser.",
    )
    if st.button("Take it in") and folder:
        path = Path(folder)
        if path.exists():
            take_in(path, path.name)
        else:
            st.error(controls.text_of(f"There is no {folder} on the server."))
    uploaded = st.session_state.get("uploaded")
    entry = None if uploaded is None else state.workspace().find_run(uploaded)
    if entry is not None:
        preflight(entry)
with right, st.container(border=True):
    st.markdown("**Record your own training**")
    loop, flower = st.tabs(["PyTorch loop", "Flower"])
    loop.code(RECORD, language="python", wrap_lines=True)
    flower.code(FLOWER, language="python", wrap_lines=True)
    st.caption("Logs above 200 MB: give the path on the server, or use `flcontrib audit` on the command line.")
