"""The cards under the knobs of a plan: chosen epochs, exposure, cost against fairness, blind spots, proof."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.charts import (
    Following,
    draw_exposure,
    draw_frontier,
    draw_schedule,
    exposure_alt,
    exposure_facts,
    exposure_rows,
    frontier_alt,
    frontier_facts,
    frontier_rows,
    schedule_alt,
    schedule_facts,
    schedule_rows,
)
from flcontrib_core.history import (
    ContributionHistory,
    budget_error,
)
from flcontrib_core.scheduling import Schedule
from flcontrib_core.words import (
    blind_spot_lines,
    enough_lines,
    method_words,
    numbers,
    proof_words,
    unseen_words,
)
from flcontrib_core.workspace import proof_question
from flcontrib_dashboard import accounts, controls, job_progress, state
from flcontrib_dashboard.plan_answer import Answer, Planned


def chosen_epochs(answer: Answer, following: Following) -> None:
    shown = answer.run.shown
    alerts = [] if shown is None else [(a.client, *a.window) for a in shown.report.detection.alerts if a.window]
    facts = schedule_facts(answer.plan, alerts)
    controls.card_title("Chosen epochs over the model's movement")
    more = f" {numbers.several(facts.undrawn, 'more alert')} without a line here." if facts.undrawn else ""
    st.caption(f"Bar: share of all movement in the epoch. Filled: computed. Hatched: skipped.{more}")
    controls.chart(
        lambda: draw_schedule(facts, answer.mode, following=following),
        schedule_alt(facts),
        lambda: schedule_rows(facts),
        "strip",
        name="schedule",
        cache_key=(*answer.key, following.epochs, tuple(alerts)),
        report=None if shown is None else shown.report,
    )


def exposure_card(answer: Answer, following: Following) -> None:
    facts = exposure_facts(answer.plan, following.client)
    controls.card_title("Exposure per client")
    left_out = f" {numbers.several(facts.left_out, 'client')} in between left out." if facts.left_out else ""
    st.caption(f"Dotted: mean. Even bars: each client is seen equally often.{left_out}")
    controls.chart(
        lambda: draw_exposure(facts, answer.mode, following=following),
        exposure_alt(facts),
        lambda: exposure_rows(facts),
        "exposure",
        name="exposure",
        cache_key=(*answer.key, following.client),
        report=None if answer.run.shown is None else answer.run.shown.report,
    )


def trade_off(answer: Answer) -> None:
    controls.card_title("Cost against fairness")
    st.caption("Exposure gap for every k. Lower is fairer.")
    curve = frontier_facts(answer.frontier, max(1, len(answer.plan.chosen)), answer.one_sided)
    controls.chart(
        lambda: draw_frontier(curve, answer.mode),
        frontier_alt(curve),
        lambda: frontier_rows(curve),
        "frontier",
        name="frontier",
        cache_key=(*answer.key, None if answer.costs is None else answer.costs.tobytes()),
    )


def how_good(answer: Answer) -> None:
    """How the epochs were found, how far from the best they can be, and what leaving the others out costs."""
    plan = answer.plan
    st.caption(
        f"Found by {method_words(plan)}; {proof_words(plan)}. The two-sided program is not more accurate than "
        "taking the epochs of largest movement: it buys fairness."
    )
    if not plan.proved_optimal and answer.run.measurement is not None:
        prove(answer)
    st.caption(error_words(answer.run, plan))


def prove(answer: Answer) -> None:
    """The exact program as a job of its own, which ends by itself; the page takes its answer over when it is there."""
    asked = proof_question(answer.choice.settings.record())
    jobs, entry = state.workspace().jobs, answer.run.entry
    known = next((j for j in state.jobs_of(entry) if j.kind == "proof" and j.settings == asked), None)
    if known is None or not known.active:
        if known is not None and known.error:
            st.caption(controls.text_of(f"The last proof {job_progress.job_words(known)}: {known.error}"))
        elif known is not None:
            st.caption("The solver ran out of time; the gap above is what it could prove.")
        limit = numbers.seconds(answer.choice.budget.proof_seconds)
        if accounts.operator_button(
            "Prove it", help=f"An integer program looks for a better choice, for at most {limit}."
        ):
            jobs.submit(entry.digest, asked, "proof")
            st.rerun(scope="fragment")
        return

    @st.fragment(run_every=1.0)
    def poll() -> None:
        jobs.poll()
        if not jobs.find(known.id).active:
            st.rerun(scope="app")
        st.caption("A proof is at work in the background.")

    poll()


def full_result(run: Planned) -> tuple[str, ContributionHistory] | None:
    """A result of this run and version that has every epoch: what a budget can be measured against."""
    first = () if run.shown is None else (run.shown.result,)
    for result in (*first, *state.workspace().results(run.entry.digest, "audit")):
        if result.available and not result.stale:
            history = state.load_report(result.digest, result).history
            if history.computed.all():
                return result.digest, history
    return None


def error_words(run: Planned, plan: Schedule) -> str:
    """The measured error of these epochs where the full computation exists, and that it is unknown where not."""
    full = full_result(run)
    if full is None:
        return "Error against the full computation: unknown, it was not run."
    digest, history = full
    utility = history.utilities[0]
    error = state.cached(
        (digest, "budget error", plan.chosen, utility), lambda: budget_error(history, plan.chosen, utility)
    )
    order = "" if error.rank_correlation is None else f"; rank correlation {error.rank_correlation:.2f}"
    return (
        f"Measured against the full computation: the totals ({utility}) differ by {error.relative:.1%}, "
        f"skipped epochs split equally{order}."
    )


def blind(plan: Schedule) -> None:
    controls.card_title("Blind spots")
    for line in (unseen_words(plan), *blind_spot_lines(plan, 2), *enough_lines(plan)):
        st.text(line)
    if len(plan.chosen) < 0.75 * plan.epoch_count:
        st.warning(
            "Budgets below 75% weaken detection. The cheap channels still run in every epoch.",
            icon=":material/visibility_off:",
        )
