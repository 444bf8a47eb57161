"""Epoch: who took part, what each was worth, what the model gained, and how that was computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from flcontrib_core.auditing import AuditReport
from flcontrib_core.reports import state_names
from flcontrib_core.words import EFFICIENCY, epoch_headline, numbers, remark_line, without_values
from flcontrib_dashboard import client_table, controls, selection, state


def pick_epoch(report: AuditReport) -> int:
    """The epoch of the URL, with steps to its neighbours; the first of the followed epochs, else the first."""
    last = report.history.epoch_count
    named = st.query_params.get("epoch", "")
    following = selection.of_url(report)
    start = int(named) if named.isdigit() else (following.epochs or (1, 1))[0]
    if "epoch-number" not in st.session_state:
        st.session_state["epoch-number"] = min(max(start, 1), last)
    chosen = int(st.number_input("Epoch", 1, last, key="epoch-number", width=180))
    state.remember(epoch=chosen)
    return chosen


def increments(report: AuditReport, epoch: int) -> None:
    """What the model gained, and whether the values add up to it."""
    history = report.history
    controls.card_title("What the model gained")
    if (lacking := without_values(history)) is not None:
        st.caption(controls.text_of(lacking))
        return
    columns: dict[str, list[Any]] = {"Per epoch": ["Gain"]}
    if history.computed[epoch]:
        columns["Per epoch"] += ["Sum of the values", "Gap", "Server's own share"]
    for utility in history.utilities:
        series, sign = history.of(utility), -history.harm_sign(utility)
        gain, share = float(series.increments[epoch]), float(series.server_share[epoch])
        known = history.participated[epoch] & series.computed[epoch]
        total = float(series.values[epoch, known].sum())
        share = share if history.server_moved(utility) else 0.0  # what rounding a stored model leaves is nobody's
        gap = abs(gain - total)
        name = numbers.capital(numbers.credited(utility, utility in history.lower_is_better))
        figures = [numbers.signed(sign * v, 4) for v in (gain, total)]
        rest = ["0" if gap < numbers.ROUNDING else f"{gap:.1e}", numbers.signed(sign * share, 4)]
        columns[name] = [*figures, *rest][: len(columns["Per epoch"])]
    controls.table(columns)
    st.caption(f"Help is up. {EFFICIENCY}" if history.computed[epoch] else "Help is up. Its values were not computed.")


def clients(shown: state.Shown, epoch: int) -> None:
    """Every client with its state, value and interval, best first; absent ones last."""
    report, history = shown.report, shown.report.history
    controls.card_title("Who took part, and what it was worth")
    present = history.participated[epoch]
    order = sorted(range(len(history.client_ids)), key=lambda i: (not present[i], _rank(report, epoch, i)))
    marked = {a.client for a in report.detection.alerts if a.window and a.window[0] <= epoch <= a.window[1]}
    columns: dict[str, list[Any]] = {
        "Client": [history.client_ids[i] for i in order],
        "State": state_names(history)[epoch, order].tolist(),
    }
    exact: list[str] = []
    for utility in history.utilities:
        series, sign = history.of(utility), -history.harm_sign(utility)
        known = [bool(history.participated[epoch, i] and series.computed[epoch, i]) for i in order]
        name = numbers.capital(numbers.credited(utility, utility in history.lower_is_better))
        values, errors = sign * series.values[epoch, order], series.standard_errors[epoch, order]
        columns[name] = [float(v) if k else None for v, k in zip(values, known, strict=True)]
        halves = [numbers.half_width(float(e), 4) if k else None for e, k in zip(errors, known, strict=True)]
        if set(halves) - {None, numbers.half_width(0.0)}:
            columns[f"{numbers.titled(utility)} ± 95%"] = halves
        else:
            exact.append(utility)
    if marked:
        columns["Alert"] = ["in window" if history.client_ids[i] in marked else "" for i in order]
    names = [str(name) for name in columns["Client"]]

    def take() -> None:
        chosen = st.session_state["epoch-clients"]["selection"]["rows"]
        if chosen and chosen[0] < len(names):
            state.remember(client=names[chosen[0]])
            state.open_page("client")

    formats = {n: st.column_config.NumberColumn(format="%+.4f") for n in columns if n.endswith(("reduction", "gain"))}
    controls.table(
        columns,
        key="epoch-clients",
        height="content" if len(names) <= client_table.ROWS_IN_SIGHT else client_table.TALLEST,
        on_select=take,
        selection_mode="single-row",
        column_config=formats,
    )
    sure = f" Values are exact ({', '.join(exact)})." if exact and history.computed[epoch] else ""
    st.caption(f"Help is up.{sure} Choose a row to open that client's page.")


def _rank(report: AuditReport, epoch: int, client: int) -> float:
    history = report.history
    value = history.harm_sign(history.utilities[0]) * float(history.of(history.utilities[0]).values[epoch, client])
    return value if np.isfinite(value) else np.inf


def how(report: AuditReport, epoch: int) -> None:
    """The method, its cost, the best group, and what was remarked."""
    history = report.history
    controls.card_title("How it was computed")
    st.text(f"Method: {history.estimator[epoch]}")
    st.text(numbers.several(int(history.evaluations[epoch]), "evaluation"))
    best = history.best_subset[epoch] if epoch < len(history.best_subset) else None
    if best is not None:
        names = numbers.listing([numbers.named(history.client_ids[i]) for i in best], 12)
        st.text(numbers.visible(f"Best group S* of those evaluated: {names or 'nobody'}"))
    for remark in history.remarks:
        if epoch in remark.epochs:
            said = remark_line(remark)
            st.text(numbers.visible(f"{said[0].upper()}{said[1:]}"))
    for check in report.axioms:
        if check.epoch == epoch:
            held = "holds" if check.holds else "misses"
            st.text(f"{check.utility}: {check.name} {held}, largest gap of the run here ({check.gap:.2g})")


shown = controls.need_report("Epoch", unfinished=True)
if shown is not None:
    top = st.container()
    epoch = pick_epoch(shown.report)
    top.title(controls.text_of(epoch_headline(shown.report.history, epoch)))
    wide, side = st.columns([1.75, 1], gap="small")
    with wide, st.container(border=True, height="stretch", gap="xsmall"):
        clients(shown, epoch)
    with side:
        with st.container(border=True, gap="xsmall"):
            increments(shown.report, epoch)
        with st.container(border=True, gap="xsmall"):
            how(shown.report, epoch)
    controls.words_here("Shapley value", "Null client", "Server's share")
    controls.next_steps(("client", "One client in detail"), ("contributions", "All clients and epochs"))
