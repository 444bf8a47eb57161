"""A plan before anything is paid for: which epochs, who is seen, what it costs, and the button that computes it.

The same board stands under a fresh upload and on the Scheduler, for runs with and without values.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from flcontrib_core.charts import (
    NOTHING,
)
from flcontrib_core.errors import FLContribError
from flcontrib_core.scheduling import trade_of
from flcontrib_core.words import numbers, plan_title, price_notes, trade_sentence
from flcontrib_core.workspace import RunEntry
from flcontrib_dashboard import accounts, controls, selection, state
from flcontrib_dashboard.addresses import go_to
from flcontrib_dashboard.plan_answer import (
    Answer,
    Planned,
    answer_to,
    predicted_seconds,
    question,
    same_question,
)
from flcontrib_dashboard.plan_cards import blind, chosen_epochs, exposure_card, how_good, trade_off
from flcontrib_dashboard.plan_knobs import knobs

SENTENCE_WIDTH = 560
"""Pixels; where they are not there, the button goes below the sentence instead of narrowing it."""


@st.fragment
def board(run: Planned) -> None:
    """Everything that follows the knobs; a fragment, so that a move redraws this and nothing else."""
    if (asked := state.asked_page()) is not None:  # by a mark in here: the entry, which opens pages, does not run
        go_to(asked)
    top = st.container()
    following = NOTHING if run.shown is None else selection.follow_bar(run.shown.report)
    table = run.entry.kind == "utility-table"
    weigh = st.session_state.get("weigh") or "loss"
    try:
        choice = knobs(run.problem(weigh), run.usual_k, table, run.utilities)
        answer = answer_to(run, choice)
    except FLContribError as fault:  # a weight utility that this run does not have, for instance
        st.error(controls.text_of(str(fault)))
        return
    plan = answer.plan
    top.title(plan_title(plan))
    figures(answer)
    compute_row(answer)
    with st.container(border=True, gap="xsmall"):
        chosen_epochs(answer, following)
    left, middle, right = st.columns([1.15, 1.35, 1], gap="small")
    with left, st.container(border=True, height="stretch", gap="xsmall"):
        exposure_card(answer, following)
    with middle, st.container(border=True, height="stretch", gap="xsmall"):
        trade_off(answer)
    with right, st.container(border=True, height="stretch", gap="xsmall"):
        blind(plan)
        how_good(answer)
    controls.words_here("k/T", "Exposure", "γ (gamma)", "Two-sided fairness")


def figures(answer: Answer) -> None:
    """Six numbers of the plan, in one row."""
    plan, cost, priced = answer.plan, answer.evaluations, answer.price
    full = answer.frontier.full_evaluations
    saved = (
        None if cost is None or not full or cost == full else f"{numbers.MINUS}{numbers.share(1 - cost / full)} of full"
    )
    row = st.container(horizontal=True, gap="small")  # wraps on a narrow screen, two beside each other

    def figure(label: str, value: str, delta: str | None = None, help: str | None = None) -> None:
        look: dict[str, Any] = {"border": True, "height": "stretch"}
        row.metric(label, value, delta, delta_color="off", delta_arrow="off", help=help, **look)

    figure("Coverage", numbers.share(plan.coverage), help="Share of the model's movement in the computed epochs.")
    figure(
        "Lowest exposure",
        numbers.share(answer.lowest_exposure),
        f"highest {numbers.share(plan.highest_exposure or 0.0)}",
        help="The least seen client's share of computed epochs.",
    )
    figure("Exposure gap", f"{max(plan.exposure_gap, 0.0):.2f}", help="Mean difference between clients, 0 = all alike.")
    figure("Evaluations", "–" if cost is None else numbers.count(cost), saved)
    seconds = predicted_seconds(answer)
    workers = answer.choice.execution.processes
    figure(
        "Predicted time",
        "–" if seconds is None else numbers.seconds(seconds),
        f"on {numbers.several(workers, 'process', 'processes')}",
        help="Of the evaluations, at the speed measured on this log. To start a process and to read what was computed "
        "takes some seconds more.",
    )
    memory = None if priced is None else priced.memory_bytes
    figure("Memory", "–" if memory is None else numbers.size(memory), help="Of all processes together, about.")


def compute_row(answer: Answer) -> None:
    """The trade in words, whatever stands against it, and the one button."""
    plan = answer.plan
    if answer.refusal:
        st.error(controls.text_of(answer.refusal))
    if plan.unused_budget:
        st.info(f"{numbers.several(plan.unused_budget, 'epoch')} of the budget stay unused at this γ.")
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", gap="medium"):
        with st.container(width=SENTENCE_WIDTH, gap="xsmall"):
            if len(plan.chosen) < plan.epoch_count:
                st.markdown(controls.text_of(trade_sentence(trade_of(plan, answer.largest))))
            if answer.price is not None:
                estimator = answer.choice.assess.estimator.name
                notes = price_notes(answer.price, plan.epoch_count, estimator)
                st.caption(controls.text_of(" ".join(notes)))
        compute_button(answer)


def compute_button(answer: Answer) -> None:
    """Starts the job with exactly these settings and these epochs."""
    shown, plan = answer.run.shown, answer.plan
    missing = len(plan.chosen)
    if shown is not None and same_question(answer, shown):
        missing = sum(not shown.report.history.computed[t] for t in plan.chosen)
    every = len(plan.chosen) == plan.epoch_count
    words = f"Compute all {plan.epoch_count} epochs" if every else f"Compute these {len(plan.chosen)} epochs"
    if plan.epoch_count == 1 or len(plan.chosen) == 1:
        words = "Compute this epoch"
    if not answer.choice.assess.values:
        words = "Audit without values"
    elif not missing:
        words = "Show this budget's result"
    ready = bool(plan.chosen) and not answer.refusal
    again = "Epochs that were computed before are not computed again."
    if controls.computing_button(answer.run.entry, words, type="primary", disabled=not ready, help=again):
        submit(answer)


def submit(answer: Answer) -> None:
    """Asks for the computation and shows it where its result will stand."""
    entry = answer.run.entry
    state.workspace().jobs.submit(entry.digest, question(answer))
    state.remember(run=entry.digest[:16], result=None)
    st.session_state.pop("delivery", None)
    go_to("overview", {"run": entry.digest[:16]})


def watch_measurement(entry: RunEntry) -> None:
    """Lets the page run again when the measurement of a run that has values already is there."""
    job = state.measuring(entry)
    if job is None or not job.active:
        return

    @st.fragment(run_every=2.0)
    def poll() -> None:
        state.workspace().jobs.poll()
        if not state.workspace().jobs.find(job.id).active:
            st.rerun(scope="app")

    poll()


def awaiting(entry: RunEntry) -> None:
    """What stands where a run is still being measured, or cannot be."""
    job = state.measuring(entry)
    if job is None and not accounts.operates():
        st.markdown(f"This run was not measured yet, and a plan needs that. {accounts.FOR_OPERATORS}")
        return
    if job is None:
        st.error("This run cannot be measured here: its log is damaged, or nothing can be written.")
        return
    if not job.active and job.error:
        st.markdown("A plan needs the model and the validation set of the log. This is what its measurement said:")
        st.code(job.error, language=None, wrap_lines=True)
        if accounts.operator_button("Try again"):
            state.workspace().jobs.resume(job.id)
            st.rerun()
        return

    @st.fragment(run_every=0.5)
    def poll() -> None:
        state.workspace().jobs.poll()
        now = state.workspace().jobs.find(job.id)
        if not now.active:
            st.rerun(scope="app")
        done, total = (now.progress.done, now.progress.total) if now.progress else (0, 1)
        st.progress(min(1.0, done / max(total, 1)), text="Measuring how far each epoch moved the model")

    poll()
