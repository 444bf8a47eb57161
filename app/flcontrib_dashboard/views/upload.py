"""Upload: drop a log, see every fault at once, know the price, compute."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from flcontrib_core.auditing import AuditSettings
from flcontrib_core.runs import table_template
from flcontrib_core.words import accepted_with, numbers
from flcontrib_core.workspace import RunEntry, recorder_at_work
from flcontrib_dashboard import (
    accounts,
    controls,
    live,
    model_card,
    problem_cards,
    run_choice,
    state,
    table_columns,
    tensor_folders,
)
from flcontrib_dashboard.addresses import go_to, under_base
from flcontrib_dashboard.drop_zone import drop_zone
from flcontrib_dashboard.plan_answer import planned
from flcontrib_dashboard.plan_board import awaiting, board
from flcontrib_dashboard.uploads import ROUTE, TOKEN_HEADER, Delivery, UploadToken, upload_route

TABLE_OF_VALUES = "The table holds the values already; only reading them takes a moment."
UPDATES_ONLY = "The log has no model or no validation set: its updates are audited, and no values are computed."
STAGES = ("received", "archive safe", "manifest", "shapes", "values", "cross-checks", "ready")
PIECE_BYTES = 1 << 20
RECORD = """from flcontrib_core import RunRecorder

with RunRecorder(
    "run",
    clients=[("a", 120), ("b", 80)],
    model=net,
    validation=(x, y),
) as recorder:
    for epoch in range(epochs):
        # each parameter's change
        updates = {c: train(net, c)
                   for c in chosen}
        apply(net, updates)
        recorder.epoch(updates)
recorder.bundle("run.flrun")"""
FLOWER = """import flcontrib_core

strategy = flcontrib_core.record(strategy, "run", model=net, validation=(x, y))
"""


def ticks(reached: Collection[str], failed: bool = False) -> str:
    """A line per stage: passed, the one that stopped the log, or still to come."""
    lines, stopped = [], failed
    for stage in STAGES:
        if stage in reached:
            lines.append(f":green[✓]\u2002{stage.capitalize()}")
        else:
            lines.append(f":red[✕\u2002{stage.capitalize()}]" if stopped else f":gray[○\u2002{stage.capitalize()}]")
            stopped = False
    return "  \n".join(lines)


def import_run(
    source: Path | Iterable[bytes], filename: str, nonfinite: str, lower_is_better: tuple[str, ...] = ()
) -> Delivery:
    """Checks with ticks, then stores the run; a refused log leaves nothing but a record of its refusal."""
    delivery = Delivery(filename, nonfinite, lower_is_better)
    place = st.empty()

    def show(stage: str) -> None:
        place.markdown(ticks(delivery.stages))

    delivery.import_run(state.workspace(), source, on_stage=show)
    place.empty()
    st.session_state["delivery"] = delivery
    return delivery


def take_table(content: bytes, filename: str, lower_is_better: tuple[str, ...], note: str) -> None:
    """A table whose columns were named: it is read, and its run says how."""
    note_on(import_run([content], filename, how, lower_is_better), note)


def take_folder(bundle: Path, filename: str, note: str) -> None:
    """The log that was made of a folder of tensor files: it comes in as any other, and its run says what it was."""
    with bundle.open("rb") as content:
        delivery = import_run(iter(partial(content.read, PIECE_BYTES), b""), filename, how)
    note_on(delivery, note)


def note_on(delivery: Delivery, note: str) -> None:
    """How something was understood, as the run's note where it has none."""
    found = None if delivery.run is None else state.workspace().find_run(delivery.run)
    if found is not None and not found.note:
        state.workspace().describe_run(found.digest, by=accounts.your_name(), note=note)


def outcome(delivery: Delivery, given: UploadedFile | None) -> None:
    """What came of the newest log: how far it got, every problem at once, or what it will cost to compute."""
    with st.container(border=True, gap="xsmall"):
        controls.card_title(controls.text_of(delivery.filename))
        st.markdown(ticks(delivery.stages, failed=bool(delivery.problems or delivery.failure)))
        if delivery.sha256:
            name = controls.text_of(delivery.filename)
            st.caption(f"{name}: {numbers.size(delivery.received)}, sha256 {delivery.sha256}")
    entry = None if delivery.run is None else state.workspace().find_run(delivery.run)
    if delivery.problems:
        problems = numbers.several(len(delivery.problems), "problem")
        st.error(controls.text_of(f"{delivery.filename} was refused: {problems}. Nothing of it is kept."))
        if given is not None and table_columns.may_be_mapped(given.name, delivery.problems):
            st.button("Choose the columns", type="primary", on_click=table_columns.ask, args=(given,))
        problem_cards.show_all(delivery.problems, "faults")
    elif delivery.failure:
        st.error(controls.text_of(f"{delivery.filename}: {delivery.failure}"))
    if delivery.remarks:
        st.warning(accepted_with(len(delivery.remarks)))
        problem_cards.show_all(delivery.remarks, "remarks")
    if entry is not None:
        preflight(entry)


def large_logs(nonfinite: str) -> None:
    """The streaming route, in the browser and from a terminal; its end shows on this page either way."""
    token = st.session_state.setdefault("upload-token", upload_route.tokens.issue())
    issued = upload_route.tokens.find(token)
    if issued is None:
        del st.session_state["upload-token"]
        st.rerun()
    query = "?nonfinite=absent" if nonfinite == "absent" else ""
    if drop_zone(token, query):
        st.session_state["delivery"] = issued.delivery
    address = urlsplit(st.context.url or "")
    with st.popover("From a terminal", width="content"):
        st.code(
            f"curl -T run.flrun -H '{TOKEN_HEADER}: {token}' {address.scheme}://{address.netloc}{under_base(ROUTE)}/{query}",
            language="bash",
            wrap_lines=True,
        )
        st.caption("The token is this session's own and is valid for twelve hours.")
    watch_terminal(issued)


@st.fragment(run_every=2.0)
def watch_terminal(issued: UploadToken) -> None:
    """Shows a log that comes from a terminal, and its outcome when it is here."""
    delivery = issued.delivery
    if delivery is None or delivery is st.session_state.get("delivery"):
        return
    if delivery.status is None:
        st.caption(controls.text_of(f"Receiving {delivery.filename}: {delivery.received / (1 << 20):,.0f} MB"))
    else:
        st.session_state["delivery"] = delivery
        st.rerun()


def open_arrived(delivery: Delivery) -> None:
    """Puts what came in beside the page and into its link, once: whoever then chooses another run has that one."""
    arrived = None if delivery.run is None else state.workspace().find_run(delivery.run)
    if arrived is not None and st.session_state.get("arrived") is not delivery:
        st.session_state["arrived"] = delivery
        run_choice.open_run(arrived.digest)
        st.rerun()


def plannable(entry: RunEntry) -> bool:
    """Is there a choice to make? A table brings its values along, and updates alone have none."""
    return entry.kind != "contribution-table" and state.lacking(entry.digest) is None


def preflight(entry: RunEntry) -> None:
    """What came in; a table of values is read at once, everything else is planned before it is paid for."""
    with st.container(border=True, gap="small"):
        controls.card_title(f"Ready: {controls.text_of(entry.name)}")
        row = st.container(horizontal=True, gap="small")
        row.metric("Clients", numbers.count(entry.clients))
        row.metric("Epochs", numbers.count(entry.epochs))
        if plannable(entry):
            st.caption("Choose below what is computed. Nothing is computed before you say so.")
            return
        st.caption(UPDATES_ONLY if entry.kind == "log" else TABLE_OF_VALUES)
        if st.button("Compute", type="primary"):
            state.workspace().jobs.submit(entry.digest, AuditSettings().record())
            state.remember(run=entry.digest[:16], result=None)
            st.session_state.pop("delivery", None)
            go_to("overview", {"run": entry.digest[:16]})


def plan(entry: RunEntry) -> None:
    """The plan of what has just come in, over the whole width of the page."""
    model_card.show_model(entry)
    run = planned(entry, None)
    if run is None:
        state.measuring(entry)
        awaiting(entry)
    else:
        board(run)


st.title("Bring in a run")
if not accounts.operates():
    st.caption("Operators bring in runs; this account reads and comments.")
    st.stop()
with st.container(horizontal=True, vertical_alignment="center", gap="small"):
    st.caption(
        "A run log (.flrun), a table of contributions or coalition utilities (CSV, Parquet), or a zip of a folder of "
        "models or updates, one file (.pt, .npz, .safetensors) per round and client.",
        width="content",
    )
    st.download_button(
        "Template",
        table_template,
        file_name="contributions-template.csv",
        mime="text/csv",
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
        help="A small table of contributions to fill in: no row = did not take part, empty = not computed.",
    )
left, right = st.columns([1.3, 1], gap="small")
with left:
    given = st.file_uploader("Run log or table", type=["flrun", "zip", "csv", "parquet"], max_upload_size=200)
    absent = st.toggle(
        "Count a client whose update is not finite as absent",
        help="Without it such a log is refused. With it the client sits out that epoch, and the report says so.",
    )
    how = "absent" if absent else "refuse"
    if given is not None and st.session_state.get("seen") != (given.file_id, how):
        st.session_state["seen"] = (given.file_id, how)
        if given.name.lower().endswith(".zip") and tensor_folders.is_one(
            dropped := tensor_folders.Folder.of(given), given
        ):
            st.session_state.pop("delivery", None)
            tensor_folders.ask(dropped)
            st.rerun()
        read = import_run(iter(partial(given.read, PIECE_BYTES), b""), given.name, how)
        if table_columns.may_be_mapped(given.name, read.problems) and table_columns.has_other_columns(given):
            table_columns.ask(given)
    with st.expander("Larger than 200 MB, or still growing"):
        if upload_route.open:
            large_logs(how)
        if not accounts.sign_in_is_on():  # who signs in from elsewhere names no path here
            folder = st.text_input(
                "A path on the server",
                placeholder="/data/run, /data/run.flrun or /data/checkpoints",
                help="A recording's folder, a file, or a folder of models or updates; nothing is sent.",
            )
            with st.container(horizontal=True):
                take, follow = st.button("Take it in"), st.button("Follow it while it grows")
            # A copy of a folder in which a recorder is at work would be old at once, and another run each time.
            if folder and (follow or (take and recorder_at_work(Path(folder)))):
                st.error(controls.text_of(live.start(folder)))
            elif take and folder and tensor_folders.is_one(named := tensor_folders.Folder.at(Path(folder)), None):
                tensor_folders.ask(named)
            elif take and folder:
                import_run(Path(folder), Path(folder).name, how)
    if given is not None and table_columns.asked(given):
        table_columns.choose_columns(given, take_table)
    folder_of_tensors = tensor_folders.asked(given)
    if folder_of_tensors is not None:
        tensor_folders.choose(folder_of_tensors, given, take_folder)
    newest = st.session_state.get("delivery")
    if newest is not None:
        open_arrived(newest)  # starts the page again, so before anything of the run is drawn: nothing is shown twice
        outcome(newest, given)
    else:
        with st.container(border=True, gap="xsmall"):
            controls.card_title("What happens to a file")
            st.markdown(ticks(()))
            st.caption("Every fault is named at once, with what to do about it. Nothing is computed before you say so.")
with right, st.container(border=True):
    controls.card_title("Record your own training")
    loop, flower = st.tabs(["PyTorch loop", "Flower"])
    loop.code(RECORD, language="python", wrap_lines=True)
    flower.code(FLOWER, language="python", wrap_lines=True)
    st.caption("No browser at hand? `flcontrib audit` does the same on the command line.")
if newest is not None and newest.run is not None:
    arrived = state.workspace().find_run(newest.run)
    if arrived is not None and plannable(arrived):
        plan(arrived)
