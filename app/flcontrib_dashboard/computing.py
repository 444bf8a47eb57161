"""Where jobs compute: one setting of the workspace, changed where a run is planned or on Settings."""

from __future__ import annotations

from typing import Any

import streamlit as st

from flcontrib_core.errors import FLContribError
from flcontrib_core.workspace import DEVICES, Execution
from flcontrib_dashboard import accounts, controls, state

_USUAL = {"local": "All cores but one", "ray": "All processors of the cluster"}


def draw(place: Any, name: str) -> None:
    """The controls; what they say holds for every job of this workspace from the next one on."""
    held, mine = state.workspace().preferences.execution(), accounts.operates()
    engine = place.segmented_control(
        "Engine", list(_USUAL), default=held.engine, key=f"{name}-engine", format_func=str.capitalize,
        disabled=not mine, help="Processes of this machine, or a Ray cluster. No result depends on it.",
    )  # fmt: skip
    engine = engine or held.engine
    own = place.toggle(_USUAL[engine], held.workers is None, key=f"{name}-usual-workers-{engine}", disabled=not mine)
    workers = place.number_input(
        "Worker processes", 1, 256, held.processes, key=f"{name}-workers", disabled=own or not mine,
        help="Of every job of this workspace. Small work is done in one process, whatever stands here."
    )  # fmt: skip
    address, gpus = None, 0.0
    if engine == "ray":
        address = place.text_input(
            "Ray address", value=held.address or "", placeholder="host:6379", key=f"{name}-address", disabled=not mine,
            help="Of a running cluster that this server is a node of; empty: Ray is started here for each job.",
        ).strip() or None  # fmt: skip
        gpus = place.number_input(
            "GPUs for each task", 0.0, 64.0, held.gpus, 0.25, key=f"{name}-gpus", disabled=not mine,
            help="Of the cluster; a share lets several tasks sit on one.",
        )  # fmt: skip
    device = place.selectbox(
        "Device", DEVICES, DEVICES.index(held.device), key=f"{name}-device", disabled=not mine,
        help="What models are evaluated on. A result says which it was; a job fails where the machine has it not.",
    )  # fmt: skip
    if not mine:
        return
    _ask_about_cluster(place, name)
    try:
        wanted = Execution(None if own else int(workers), engine, address, float(gpus), device)
    except FLContribError as refused:
        place.error(controls.text_of(str(refused)))
        return
    if wanted != held:
        state.workspace().preferences.set_execution(wanted)
        st.rerun()


def _ask_about_cluster(place: Any, name: str) -> None:
    """A workspace from elsewhere may name anybody's cluster: nothing goes there before somebody here says so."""
    preferences = state.workspace().preferences
    try:
        preferences.agreed_execution()
    except FLContribError:
        held = preferences.execution()
        place.warning(f"Jobs wait for your word: nobody has named the cluster at {held.address} on this machine.")
        if place.button("Compute there", key=f"{name}-agree"):
            preferences.agree_to_cluster()
            st.rerun()
