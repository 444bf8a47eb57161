"""Every choice that can be made before anything is computed, as controls that stand in the URL."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from flcontrib_core.auditing import AuditSettings
from flcontrib_core.errors import FLContribError
from flcontrib_core.history import AssessSettings
from flcontrib_core.scheduling import BudgetSettings, FairnessMode, Idle, SchedulingProblem, idle_knobs
from flcontrib_core.shapley import BUILT_IN, Estimator, RunEstimator, estimator_by_name
from flcontrib_core.vocabulary import FillPolicy, WeightMode
from flcontrib_core.words import idle_reason
from flcontrib_core.workspace import Execution
from flcontrib_dashboard import computing, controls, state

MODES = {
    FairnessMode.ONE_SIDED: "One-sided",
    FairnessMode.TWO_SIDED: "Two-sided",
    FairnessMode.TWO_SIDED_LB: "Two-sided LB",
    FairnessMode.AUDIT: "Audit",
    FairnessMode.TOP_UTILITY: "Top movement",
    FairnessMode.STRIDE: "Evenly spread",
    FairnessMode.RANDOM: "Random",
}
FAIRNESS = (
    "One-sided: the epochs that move the model most and hold many clients. Two-sided: also see all clients equally "
    "often. Two-sided LB: a bound on it that is solved faster. Audit: part of the budget is spread over the run, so "
    "that no stretch stays unseen. Top movement, evenly spread and random look at no client."
)
GAMMAS = [0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0]
VALUES_HELP = (
    "They say who contributed what. Detection does not need them: without them the audit costs about one evaluation "
    "per participation, and no budget has an effect."
)
UTILITIES = ("loss", "accuracy", "macro-f1", "worst-class-recall")
OWN = 0
"""Evaluations per epoch: the estimator's own number."""
SWITCHES = {
    "truncate": "Stop a permutation when the rest adds nothing",
    "antithetic": "Use each permutation with its reverse",
    "allow_unobserved": "Complete columns that were never observed",
}
"""Options of single estimators, shown where the chosen one has them."""
MOST_SEED = 2**31 - 1


@dataclass(frozen=True)
class Choice:
    """What the controls say: the whole question, and where it is to be computed."""

    settings: AuditSettings
    execution: Execution

    @property
    def budget(self) -> BudgetSettings:
        return self.settings.assess.budget

    @property
    def assess(self) -> AssessSettings:
        return self.settings.assess


def knobs(problem: SchedulingProblem, usual_k: int, table: bool, measured: Sequence[str] = UTILITIES) -> Choice:
    """The four knobs of the schedule, and below them everything else. ``table``: nothing is evaluated; ``measured``:
    the run's utilities."""
    with st.container(border=True):
        sliders = st.columns(2, gap="medium")
        choices = st.container(horizontal=True, gap="medium")
        how = st.expander("How it is computed", key="plan-more", on_change="rerun")
    assess, preset, execution = _how(
        how, table, UTILITIES if table or "accuracy" in measured or not measured else tuple(measured)
    )
    budget = _budget(sliders, choices, problem, usual_k, assess)
    return Choice(AuditSettings(replace(assess, budget=budget), preset), execution)


def _budget(
    sliders: Sequence[Any], choices: Any, problem: SchedulingProblem, usual_k: int, assess: AssessSettings
) -> BudgetSettings:
    """k, γ, the mode and exactly/at most; what changes nothing here is switched off, and its help says why."""
    epochs, whole = problem.epoch_count, isinstance(assess.estimator, RunEstimator) or not assess.values
    k_key, names = f"k-of-{epochs}", [m.value for m in MODES]
    _first_positions(k_key, epochs, usual_k, names)
    k = epochs if whole else st.session_state[k_key]
    mode = FairnessMode(st.session_state["mode"] or "two-sided")
    most = st.session_state["budget"] == "at most"
    idle = idle_knobs(problem, BudgetSettings(budget=k, fairness=mode, at_most=most))
    if epochs > 1:
        why = f"{assess.estimator.name} values the run as a whole: no budget can limit it." if whole else None
        if not assess.values:
            why = "No Shapley values are asked for: there are no epochs to choose."
        sliders[0].slider(
            "Epochs to compute (k)", 1, epochs, st.session_state[k_key], key=k_key, disabled=whole, help=why
        )
    sliders[1].select_slider(
        "Weight of fairness (γ)",
        GAMMAS,
        st.session_state["gamma"],
        key="gamma",
        disabled="gamma" in idle or whole,
        help=_why(idle, "gamma"),
    )
    choices.segmented_control(
        "Fairness",
        names,
        default=st.session_state["mode"],
        key="mode",
        format_func=lambda m: MODES[FairnessMode(m)],
        wrap=True,
        help=_why(idle, "fairness") or FAIRNESS,
        disabled="fairness" in idle or whole,
    )
    choices.segmented_control(
        "Budget",
        ["exactly", "at most"],
        default=st.session_state["budget"],
        key="budget",
        format_func=lambda m: f"{m.capitalize()} k",
        disabled="at_most" in idle or whole,
        help=_why(idle, "at_most"),
    )
    denominator, share = assess.budget.paper_denominator, assess.budget.audit_share
    state.remember(k=k, gamma=st.session_state["gamma"], mode=mode.value, budget="at most" if most else "exactly")
    if whole:
        return BudgetSettings(seed=assess.seed)
    return BudgetSettings(
        budget=int(k),
        gamma=float(st.session_state["gamma"]),
        fairness=mode,
        at_most=most,
        paper_denominator=denominator,
        audit_share=share,
        seed=assess.seed,
    )


def _first_positions(k_key: str, epochs: int, usual_k: int, modes: list[str]) -> None:
    """The URL gives a knob its first position and never its identity: a knob that were made anew at every step would
    lose the keyboard's focus after one arrow key. Each is also given its position as its default: a position that only
    the session knows is sent once, and a browser that misses it answers with the lowest one.
    """
    asked = int(_number(st.query_params.get("k", ""), usual_k) + 0.5)
    st.session_state.setdefault(k_key, max(1, min(asked, epochs)))
    near = min(GAMMAS, key=lambda g: abs(g - _number(st.query_params.get("gamma", ""), 0.3)))
    st.session_state.setdefault("gamma", near)
    st.session_state.setdefault("mode", state.from_url("mode", modes, "two-sided"))
    st.session_state.setdefault("budget", state.from_url("budget", ["exactly", "at most"], "exactly"))


def _why(idle: dict[str, Idle], knob: str) -> str | None:
    return idle_reason(idle[knob]) if knob in idle else None


def _how(place: Any, table: bool, names: tuple[str, ...]) -> tuple[AssessSettings, str, Execution]:
    """Estimator, precision, utilities, weights, fill, seed, preset and workers; each in the URL where it is not the
    usual one."""
    usual = AssessSettings()
    own = usual.utilities if names is UTILITIES else names
    if not {*st.session_state.get("utilities", ())} <= {*names}:  # left by a run of another task
        del st.session_state["utilities"]
    if st.session_state.get("weigh", names[0]) not in names:
        del st.session_state["weigh"]
    _first("estimator", "auto", list(BUILT_IN))
    _first("weights", usual.weights.value, [w.value for w in WeightMode])
    _first("weigh", usual.weight_utility if usual.weight_utility in names else names[0], list(names))
    _first("fill", usual.fill.value, [f.value for f in FillPolicy])
    _first("preset", "default", ["default", "strict"])
    named = [u for u in st.query_params.get("utilities", "").split(",") if u in names]
    st.session_state.setdefault("utilities", named or list(own))
    for key, default, most in (("precision", 0.3, 10.0), ("evaluations", OWN, 10**9), ("seed", 0, MOST_SEED)):
        given = _number(st.query_params.get(key, ""), default)
        st.session_state.setdefault(key, type(default)(min(max(given, 0), most)))
    st.session_state.setdefault("values", st.query_params.get("values") != "no")
    st.session_state.setdefault("denominator", st.query_params.get("denominator") == "paper")
    st.session_state.setdefault("audit-share", min(max(_number(st.query_params.get("spread", ""), 0.5), 0.0), 1.0))
    for switch in SWITCHES:
        st.session_state.setdefault(switch, st.query_params.get(switch) == "yes")
    if place.open:
        _draw_how(place, table, names)
    return _read_how(own)


def _draw_how(place: Any, table: bool, names: tuple[str, ...]) -> None:
    """The controls themselves; what the expander hides is not sent."""
    own = estimator_by_name(st.session_state["estimator"]).record()
    with place:
        st.button(
            "The paper's settings",
            on_click=_paper,
            help="Complementary contributions, at most k, |v(F⁰)| kept in the denominator, zero fill, γ = 1.",
        )
        st.toggle("Compute Shapley values", key="values", help=VALUES_HELP)
        a, b, c = st.columns(3, gap="medium")
        _draw_estimator(a, own, table)
        _draw_measures(b, table, names)
        _draw_reading(c)


def _draw_estimator(a: Any, own: Mapping[str, object], table: bool) -> None:
    """Which estimator, and how far it goes."""
    a.selectbox(
        "Estimator",
        list(BUILT_IN),
        key="estimator",
        disabled=table,
        help="auto: exact where that is cheap, else the surrogate.",
    )
    a.number_input(
        "Precision", min_value=0.01, max_value=10.0, step=0.05, key="precision", disabled="precision" not in own,
        help="Stop when the widest 95% interval is this share of the spread between clients. Only auto and the surrogates stop by it.",  # noqa: E501
    )  # fmt: skip
    a.number_input(
        "Evaluations per epoch",
        min_value=0,
        step=10,
        key="evaluations",
        disabled=table,
        help="0: as many as the estimator needs.",
    )
    for switch, label in SWITCHES.items():
        if switch in own:
            a.toggle(label, key=switch)


def _draw_measures(b: Any, table: bool, names: tuple[str, ...]) -> None:
    """What a contribution is measured by, and what skipped epochs add."""
    b.multiselect("Utilities", names, key="utilities", disabled=table, help="What a contribution is measured by.")
    b.selectbox("Epoch weights from", names, key="weigh", help="Whose change weighs an epoch in the schedule.")
    b.selectbox(
        "Weights inside a coalition",
        [w.value for w in WeightMode],
        key="weights",
        disabled=table,
        help="adaptive: shared anew among its members; fixed: kept from the whole epoch.",
    )
    b.selectbox(
        "Skipped epochs add",
        [f.value for f in FillPolicy],
        key="fill",
        help="To totals: an equal share of the epoch's gain, nothing (the paper), or the leave-one-out difference.",
    )


def _draw_reading(c: Any) -> None:
    """How the result is read, and where it is computed."""
    c.toggle(
        "Keep |v(F⁰)| in the denominator",
        key="denominator",
        help="The paper's epoch weights do not sum to 1: fairness weighs about twice as much.",
    )
    audit = st.session_state["mode"] == FairnessMode.AUDIT.value if "mode" in st.session_state else False
    c.slider("Audit mode: share spread over the run", 0.0, 1.0, step=0.1, key="audit-share", disabled=not audit)
    c.number_input("Seed", min_value=0, max_value=MOST_SEED, key="seed")
    c.segmented_control("Alert threshold", ["default", "strict"], key="preset", format_func=str.capitalize)
    computing.draw(c, "plan")


def _read_how(own: tuple[str, ...]) -> tuple[AssessSettings, str, Execution]:
    """What the controls hold, written into the URL where it is not the usual choice.

    ``own``: the task's utilities, for which the usual ones stand.
    """
    held, usual = st.session_state, AssessSettings()
    utilities = usual.utilities if tuple(held["utilities"]) in ((), own) else tuple(held["utilities"])
    spread = float(held["audit-share"])
    state.remember(
        estimator=_unusual(held["estimator"], "auto"),
        precision=_unusual(held["precision"], 0.3),
        evaluations=_unusual(held["evaluations"], OWN),
        utilities=_unusual(",".join(utilities), ",".join(usual.utilities)),
        weigh=_unusual(held["weigh"], usual.weight_utility),
        weights=_unusual(held["weights"], usual.weights.value),
        fill=_unusual(held["fill"], usual.fill.value),
        denominator="paper" if held["denominator"] else None,
        spread=_unusual(spread, 0.5),
        seed=_unusual(held["seed"], 0),
        preset=_unusual(held["preset"] or "default", "default"),
        values=None if held["values"] else "no",
        **{switch: "yes" if held[switch] else None for switch in SWITCHES},
    )
    assess = AssessSettings(
        utilities=utilities,
        estimator=_estimator() if held["values"] else usual.estimator,  # those of the whole run give values alone
        budget=BudgetSettings(paper_denominator=bool(held["denominator"]), audit_share=spread),
        weights=WeightMode(held["weights"]),
        weight_utility=usual.weight_utility if held["weigh"] == own[0] else held["weigh"],
        fill=FillPolicy(held["fill"]),
        seed=int(held["seed"]),
        values=bool(held["values"]),
    )
    return assess, str(held["preset"] or "default"), state.workspace().preferences.execution()


def _estimator() -> Estimator:
    """The estimator with those of the options that are its own; its complaint stands beside the controls."""
    held = st.session_state
    own = estimator_by_name(held["estimator"]).record()
    options: dict[str, Any] = {switch: True for switch in SWITCHES if switch in own and held[switch]}
    if held["evaluations"] and "evaluations" in own:
        options["evaluations"] = int(held["evaluations"])
    if "precision" in own:
        options["precision"] = float(held["precision"])
    try:
        return estimator_by_name(held["estimator"], **options)
    except FLContribError as fault:
        st.error(controls.text_of(str(fault)))
        return estimator_by_name(held["estimator"])


def _paper() -> None:
    """The paper's reading, put into the controls."""
    st.session_state.update(
        {"estimator": "complementary", "budget": "at most", "denominator": True, "fill": "zero", "gamma": 1.0}
    )


def _first(key: str, default: str, allowed: list[str]) -> None:
    st.session_state.setdefault(key, state.from_url(key, allowed, default))


def _unusual(value: object, usual: object) -> object | None:
    return None if value == usual else value


def _number(text: str, default: float) -> float:
    """A finite number from the URL, else the default: anybody can write a URL."""
    try:
        given = float(text)
    except ValueError:
        return default
    return given if math.isfinite(given) else default
