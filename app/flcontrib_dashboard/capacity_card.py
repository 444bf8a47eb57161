"""What a federation of another size would take, from what was measured on the run on screen."""

from __future__ import annotations

from typing import Any

import streamlit as st

from flcontrib_core.errors import FLContribError
from flcontrib_core.history import FederationSize, Machine, RunMeasurement, capacity, standing_questions
from flcontrib_core.words import numbers
from flcontrib_dashboard import controls

ASSUMPTIONS = (
    "The time of an evaluation is the one measured on this run and this server, scaled by multiply-adds; evaluations "
    "are those of the automatic estimator; every epoch is computed; further workers keep 85 % of their time. Logs hold "
    "32-bit updates. Predictions: two that were tried were 1.1 and 1.7 times too high. More parameters are taken as "
    "this model made larger; flcontrib price takes the log of another model in their place."
)


def draw(measured: RunMeasurement | None) -> None:
    """Closed until somebody asks."""
    if measured is None or measured.pace is None:
        return
    place = st.expander("At another size: hours, machines, gigabytes", key="capacity", on_change="rerun")
    if not place.open:
        return
    with place:
        questions = standing_questions(measured)
        own, machine = next(iter(questions.values())), Machine.this()
        a, b, c, d, e = st.columns(5)
        clients = int(a.number_input("Clients", 1, 10_000_000, 10_000, key="capacity-clients"))
        present = int(b.number_input("In each epoch", 1, clients, min(100, clients), key="capacity-participants"))
        epochs = int(c.number_input("Epochs", 1, 1_000_000, 1000, key="capacity-epochs"))
        parameters = int(d.number_input("Parameters", 1, 10**12, own.parameters, key="capacity-parameters"))
        hours = float(e.number_input("Within hours", 0.1, 10_000.0, 24.0, key="capacity-hours"))
        asked = {**questions, "what stands above": FederationSize(clients, present, epochs, parameters)}
        controls.table([row(name, measured, wanted, hours) for name, wanted in asked.items()], key="capacity-table")
        st.caption(
            f"Machines like this server ({numbers.several(machine.cores, 'core')}, {numbers.size(machine.memory)}). "
            f"{ASSUMPTIONS}"
        )


def row(name: str, measured: RunMeasurement, wanted: FederationSize, hours: float) -> dict[str, Any]:
    """One federation and what it takes, or why it is refused."""
    try:
        found = capacity(measured, wanted, within_hours=hours)
    except FLContribError as refused:
        return {"Federation": name, "Core hours": str(refused)}
    return {
        "Federation": name,
        "Core hours": f"{found.core_hours:,.1f}".replace(",", "\u202f"),
        "Machines": numbers.count(found.nodes),
        "Hours on them": f"{found.hours:.1f}",
        "Log": numbers.size(found.log_bytes),
        "Memory of a worker": numbers.size(found.process_bytes),
        "Result": numbers.size(found.result_bytes),
    }
