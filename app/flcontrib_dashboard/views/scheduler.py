"""Scheduler: move k, γ and the fairness mode and watch what is computed, who is seen and what it costs."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from flcontrib_core.auditing import settings_from_record
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
from flcontrib_core.history import ContributionHistory, budget_error
from flcontrib_core.scheduling import BudgetSettings, FairnessMode, Frontier, Schedule
from flcontrib_core.words import numbers
from flcontrib_dashboard import controls, selection, state

MODES = {
    FairnessMode.ONE_SIDED: "One-sided",
    FairnessMode.TWO_SIDED: "Two-sided",
    FairnessMode.TWO_SIDED_LB: "Two-sided LB",
    FairnessMode.AUDIT: "Audit",
}
FAIRNESS = (
    "One-sided: the epochs that move the model most and hold many clients. Two-sided: also see all clients equally "
    "often. Two-sided LB: a bound on it that is solved faster. Audit: part of the budget is spread over the run, so "
    "that no stretch stays unseen."
)
METHODS = {"anytime": "search", "enumeration": "trying every choice"}
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
        picked = choices.segmented_control(
            "Fairness", names, key="mode", format_func=lambda m: MODES[FairnessMode(m)], wrap=True, help=FAIRNESS
        )
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


@dataclass(frozen=True)
class Answer:
    """What the knobs ask for and what they get: everything the cards below them show."""

    shown: state.Shown
    settings: BudgetSettings
    plan: Schedule
    frontier: Frontier
    one_sided: Frontier
    mode: str

    @property
    def key(self) -> tuple[Hashable, ...]:
        return (self.shown.result.digest, self.settings, self.mode)

    @property
    def exposures(self) -> tuple[float, ...]:
        return tuple(e for e in self.plan.exposure.values() if e is not None)

    @property
    def lowest_exposure(self) -> float:
        return min(self.exposures, default=0.0)


def answer_to(shown: state.Shown, settings: BudgetSettings) -> Answer:
    plans = state.explorer(shown.result.digest, shown.report.history)
    return Answer(
        shown,
        settings,
        plans.answer(settings),
        plans.frontier(settings.fairness, settings.gamma, settings),
        plans.frontier(FairnessMode.ONE_SIDED, settings.gamma, settings),
        state.theme(),
    )


@st.fragment
def board(shown: state.Shown) -> None:
    """Everything that follows the knobs; a fragment, so that a move redraws this and nothing else."""
    top = st.container()
    following = selection.follow_bar(shown.report)
    answer = answer_to(shown, knobs(shown.report.history.epoch_count))
    plan = answer.plan
    top.title(
        f"Computing {len(plan.chosen)} of {plan.epoch_count} epochs covers {plan.coverage:.0%} of the movement; "
        f"every client is seen in at least {answer.lowest_exposure:.0%} of its epochs"
    )
    figures(answer)
    if plan.unused_budget:
        st.info(f"{numbers.several(plan.unused_budget, 'epoch')} of the budget stay unused at this γ.")
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
    compute_button(answer)


def figures(answer: Answer) -> None:
    """Five numbers of the plan, in one row."""
    plan, cost = answer.plan, answer.plan.predicted_evaluations
    report, full = answer.shown.report, answer.frontier.full_evaluations
    rate = float(report.history.evaluations.sum()) / report.seconds if report.seconds > 0 else 0.0
    saved = None if cost is None or not full else f"{numbers.MINUS}{1 - cost / full:.0%} of full"
    row = st.container(horizontal=True, gap="small")  # wraps on a narrow screen, two beside each other

    def figure(label: str, value: str, delta: str | None = None, help: str | None = None) -> None:
        look: dict[str, Any] = {"border": True, "height": "stretch"}
        row.metric(label, value, delta, delta_color="off", delta_arrow="off", help=help, **look)

    figure("Coverage", f"{plan.coverage:.0%}", help="Share of the model's movement in the computed epochs.")
    figure(
        "Lowest exposure",
        f"{answer.lowest_exposure:.0%}",
        f"highest {max(answer.exposures, default=0.0):.0%}",
        help="The least seen client's share of computed epochs.",
    )
    figure("Exposure gap", f"{max(plan.exposure_gap, 0.0):.2f}", help="Mean difference between clients, 0 = all alike.")
    figure("Evaluations", "–" if cost is None else numbers.count(cost), saved)
    figure(
        "Predicted time",
        "–" if cost is None or rate <= 0 else numbers.seconds(cost / rate),
        help="From the evaluations and the speed measured when this run was computed.",
    )


def chosen_epochs(answer: Answer, following: Following) -> None:
    facts = schedule_facts(answer.plan)
    controls.card_title("Chosen epochs over the model's movement")
    st.caption("Bar: share of all movement in the epoch. Filled: computed. Hatched: skipped.")
    controls.chart(
        lambda: draw_schedule(facts, answer.mode, following=following),
        schedule_alt(facts),
        lambda: schedule_rows(facts),
        "strip",
        name="schedule",
        cache_key=(*answer.key, following.epochs),
        report=answer.shown.report,
    )


def exposure_card(answer: Answer, following: Following) -> None:
    facts = exposure_facts(answer.plan, following.client)
    controls.card_title("Exposure per client")
    st.caption("Dotted: mean. Even bars: each client is seen equally often.")
    controls.chart(
        lambda: draw_exposure(facts, answer.mode, following=following),
        exposure_alt(facts),
        lambda: exposure_rows(facts),
        "exposure",
        name="exposure",
        cache_key=(*answer.key, following.client),
        report=answer.shown.report,
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
        cache_key=answer.key,
    )


def how_good(answer: Answer) -> None:
    """How the epochs were found, how far from the best they can be, and what leaving the others out costs."""
    plan = answer.plan
    proof = "proved optimal" if plan.proved_optimal else f"at most {plan.gap:.3f} below the best possible"
    st.caption(
        f"Found by {METHODS.get(plan.method, plan.method)}; {proof}. The two-sided program is not more accurate than "
        "taking the epochs of largest movement: it buys fairness."
    )
    st.caption(error_words(answer.shown, plan))


def compute_button(answer: Answer) -> None:
    shown, plan = answer.shown, answer.plan
    missing = [t for t in plan.chosen if not shown.report.history.computed[t]]
    words = f"Compute {numbers.several(len(missing), 'missing epoch')}" if missing else "Show this budget's result"
    if st.button(words, type="primary", help="Only epochs that were never computed are computed."):
        wanted = settings_from_record(dict(shown.report.provenance.settings))
        budget = replace(answer.settings, epochs=plan.chosen)
        record = replace(wanted, assess=replace(wanted.assess, budget=budget, values=True)).record()
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
    if plan.unseen_clients:
        names = ", ".join(plan.unseen_clients[:6])
        st.markdown(f"Never seen: **{controls.text_of(names)}**")
    else:
        st.text("No client is left without a computed epoch.")
    longest = ", ".join(
        f"**{controls.text_of(spot.client)}** in epochs {numbers.window(spot.first, spot.last)}"
        for spot in plan.blind_spots[:2]
    )
    if longest:
        st.markdown(f"Longest stretches without one: {longest}.")
    if plan.smallest_k_without_blind_clients is not None:
        st.markdown(f"**k = {plan.smallest_k_without_blind_clients}** is the smallest budget that sees every client.")
    if len(plan.chosen) < 0.75 * plan.epoch_count:
        st.warning(
            "Budgets below 75% weaken detection. The cheap channels still run in every epoch.",
            icon=":material/visibility_off:",
        )


shown = controls.need_report("Scheduler")
if shown is not None:
    if shown.entry.kind == "contribution-table":
        st.title("A contribution table is already computed: there is nothing to schedule")
        st.markdown(
            "A budget chooses which epochs of a run log are evaluated. A table brings its values along, so there is no "
            "cost to save here."
        )
        controls.next_steps(("contributions", "See the table's values"), ("upload", "Bring in a run log"))
    elif (lacking := shown.report.history.without_values) is not None and not lacking.measurable:
        st.title("There are no values to schedule")
        controls.no_values(shown)
    else:
        board(shown)
