"""Scheduler: move k, γ and the fairness mode and watch what is computed, who is seen and what it costs."""

from __future__ import annotations

import math
from dataclasses import replace

import streamlit as st

from app import controls, selection, state, wording
from app.charts.schedule import (
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
from flcontrib_core import (
    BudgetSettings,
    ContributionHistory,
    FairnessMode,
    Schedule,
    budget_error,
    settings_from_record,
)

MODES = {
    FairnessMode.ONE_SIDED: "One-sided",
    FairnessMode.TWO_SIDED: "Two-sided",
    FairnessMode.TWO_SIDED_LB: "Two-sided LB",
    FairnessMode.AUDIT: "Audit",
}
GAMMAS = [0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0]


def knobs(epochs: int) -> BudgetSettings:
    """The four knobs, in the URL."""
    with st.container(border=True):
        a, b = st.columns(2, gap="medium")
        choices = st.container(horizontal=True, gap="medium")
        asked = int(_number(st.query_params.get("k", ""), 0.6 * epochs) + 0.5)
        near = min(GAMMAS, key=lambda g: abs(g - _number(st.query_params.get("gamma", ""), 0.3)))
        names = [m.value for m in MODES]
        # The URL gives a knob its first position and never its identity: a knob that were made anew at every step
        # would lose the keyboard's focus after one arrow key.
        k_key = f"k-of-{epochs}"
        st.session_state.setdefault(k_key, max(1, min(asked, epochs)))
        st.session_state.setdefault("gamma", near)
        st.session_state.setdefault("mode", state.from_url("mode", names, "two-sided"))
        st.session_state.setdefault("budget", state.from_url("budget", ["exactly", "at most"], "exactly"))
        k = a.slider("Epochs to compute (k)", 1, epochs, key=k_key) if epochs > 1 else 1
        gamma = b.select_slider("Weight of fairness (γ)", GAMMAS, key="gamma")
        picked = choices.segmented_control("Fairness", names, key="mode", format_func=lambda m: MODES[FairnessMode(m)])
        most = choices.segmented_control(
            "Budget", ["exactly", "at most"], key="budget", format_func=lambda m: f"{m.capitalize()} k"
        )
    mode = FairnessMode(picked or "two-sided")
    state.remember(k=k, gamma=gamma, mode=mode.value, budget=most)
    return BudgetSettings(budget=int(k), gamma=float(gamma), fairness=mode, at_most=most == "at most")


def _number(text: str, default: float) -> float:
    """A finite number from the URL, else the default: anybody can write a URL."""
    try:
        found = float(text)
    except ValueError:
        return default
    return found if math.isfinite(found) else default


@st.fragment
def board(shown: state.Shown) -> None:
    """Everything that follows the knobs; a fragment, so that a move redraws this and nothing else."""
    history, mode = shown.report.history, state.theme()
    top = st.container()
    following = selection.follow_bar(shown.report)
    settings = knobs(history.epoch_count)
    plans = state.explorer(shown.result.digest, history)
    plan = plans.answer(settings)
    seen = [e for e in plan.exposure.values() if e is not None]
    lowest = min(seen, default=0.0)
    top.title(
        f"Computing {len(plan.chosen)} of {plan.epoch_count} epochs covers {plan.coverage:.0%} of the movement; "
        f"every client is seen in at least {lowest:.0%} of its epochs"
    )
    frontier = plans.frontier(settings.fairness, settings.gamma, settings)
    full = frontier.full_evaluations
    rate = float(history.evaluations.sum()) / shown.report.seconds if shown.report.seconds > 0 else 0.0
    cells = st.columns(5, gap="small")
    cells[0].metric(
        "Coverage",
        f"{plan.coverage:.0%}",
        help="Share of the model's movement in the computed epochs.",
        border=True,
        height="stretch",
    )
    cells[1].metric(
        "Lowest exposure",
        f"{lowest:.0%}",
        help="The least seen client's share of computed epochs.",
        border=True,
        height="stretch",
    )
    cells[2].metric(
        "Exposure gap",
        f"{plan.exposure_gap:.2f}",
        help="Mean difference between clients, 0 = all alike.",
        border=True,
        height="stretch",
    )
    cost = plan.predicted_evaluations
    saved = None if cost is None or not full else f"{wording.MINUS}{1 - cost / full:.0%} of full"
    cells[3].metric(
        "Evaluations",
        "–" if cost is None else wording.count(cost),
        saved,
        delta_color="off",
        delta_arrow="off",
        border=True,
        height="stretch",
    )
    cells[4].metric(
        "Predicted time",
        "–" if cost is None or rate <= 0 else wording.seconds(cost / rate),
        border=True,
        height="stretch",
        help="From the evaluations and the speed measured when this run was computed.",
    )
    if plan.unused_budget:
        st.info(f"{wording.several(plan.unused_budget, 'epoch')} of the budget stay unused at this γ.")
    with st.container(border=True, gap="xsmall"):
        facts = schedule_facts(plan)
        st.markdown("**Chosen epochs over the model's movement**")
        st.caption("Bar: share of all movement in the epoch. Filled: computed. Hatched: skipped.")
        key = (shown.result.digest, settings, mode)
        controls.chart(
            lambda: draw_schedule(facts, mode, following=following),
            schedule_alt(facts),
            lambda: schedule_rows(facts),
            "strip",
            name="schedule",
            kept_as=(*key, following.epochs),
            report=shown.report,
        )
    left, middle, right = st.columns([1.15, 1.35, 1], gap="small")
    with left, st.container(border=True, height="stretch", gap="xsmall"):
        exposure = exposure_facts(plan, following.client)
        st.markdown("**Exposure per client**")
        st.caption("Dotted: mean. Even bars: each client is seen equally often.")
        controls.chart(
            lambda: draw_exposure(exposure, mode, following=following),
            exposure_alt(exposure),
            lambda: exposure_rows(exposure),
            "exposure",
            name="exposure",
            kept_as=(*key, following.client),
            report=shown.report,
        )
    with middle, st.container(border=True, height="stretch", gap="xsmall"):
        st.markdown("**Cost against fairness**")
        st.caption("Exposure gap for every k. Lower is fairer.")
        one_sided = plans.frontier(FairnessMode.ONE_SIDED, settings.gamma, settings)
        curve = frontier_facts(frontier, max(1, len(plan.chosen)), one_sided)
        controls.chart(
            lambda: draw_frontier(curve, mode),
            frontier_alt(curve),
            lambda: frontier_rows(curve),
            "frontier",
            name="frontier",
            kept_as=key,
        )
    with right, st.container(border=True, height="stretch", gap="xsmall"):
        blind(plan)
        proof = "proved optimal" if plan.proved_optimal else f"at most {plan.gap:.3f} below the best possible"
        st.caption(
            f"Found by {plan.method}; {proof}. The two-sided program is not more accurate than taking the epochs "
            "of largest movement: it buys fairness."
        )
        st.caption(error_words(shown, plan))
    missing = [t for t in plan.chosen if not history.computed[t]]
    words = f"Compute {wording.several(len(missing), 'missing epoch')}" if missing else "Show this budget's result"
    if st.button(words, type="primary", help="Only epochs that were never computed are computed."):
        wanted = settings_from_record(dict(shown.report.provenance.settings))
        budget = replace(settings, epochs=plan.chosen)
        record = replace(wanted, assess=replace(wanted.assess, budget=budget)).record()
        state.workspace().jobs.submit(shown.entry.digest, record)
        st.rerun(scope="app")


def full_result(shown: state.Shown) -> tuple[str, ContributionHistory] | None:
    """A result of this run and version that has every epoch: what a budget can be measured against."""
    for result in (shown.result, *state.workspace().results(shown.entry.digest, "audit")):
        if result.available and not result.stale:
            history = state.load_report(result.digest, result).history
            if history.computed.all():
                return result.digest, history
    return None


def error_words(shown: state.Shown, plan: Schedule) -> str:
    """The measured error of these epochs where the full computation exists, and that it is unknown where not."""
    found = full_result(shown)
    if found is None:
        return "Error against the full computation: unknown, it was not run."
    digest, history = found
    utility = history.utilities[0]
    error = state.kept(
        (digest, "budget error", plan.chosen, utility), lambda: budget_error(history, plan.chosen, utility)
    )
    order = "" if error.rank_correlation is None else f"; rank correlation {error.rank_correlation:.2f}"
    return (
        f"Measured against the full computation: the totals ({utility}) differ by {error.relative:.1%}, "
        f"skipped epochs split equally{order}."
    )


def blind(plan: Schedule) -> None:
    st.markdown("**Blind spots**")
    if plan.unseen_clients:
        names = ", ".join(plan.unseen_clients[:6])
        st.markdown(f"Never seen: **{controls.text_of(names)}**")
    else:
        st.text("No client is left without a computed epoch.")
    for spot in plan.blind_spots[:2]:
        st.markdown(
            f"Longest stretch without one: **{controls.text_of(spot.client)}**, "
            f"epochs {wording.window(spot.first, spot.last)}."
        )
    if plan.smallest_k_without_blind_clients is not None:
        st.markdown(f"**k = {plan.smallest_k_without_blind_clients}** is the smallest budget that sees every client.")
    if len(plan.chosen) < 0.75 * plan.epoch_count:
        st.warning(
            "Budgets below 75 % weaken detection. The cheap channels still run in every epoch.",
            icon=":material/visibility_off:",
        )


shown = controls.need_report("Scheduler")
if shown is not None:
    if shown.entry.kind == "contribution-table":
        st.title("A contribution table is already computed: there is nothing to schedule")
    else:
        board(shown)
