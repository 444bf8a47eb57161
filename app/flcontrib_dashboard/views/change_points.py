"""Change points: when each client changed, read from a series of the reader's choice, with a second opinion."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.auditing import AuditReport, settings_from_record
from flcontrib_core.charts import (
    ChangePointFacts,
    change_point_facts,
    change_words,
)
from flcontrib_core.detection import (
    ChangePoints,
    ChangePointSettings,
    ChangeSeries,
    LengthPrior,
    Mark,
    SegmentLikelihood,
    agreement,
    deviating_windows,
    masses_in_windows,
    read_change_points,
)
from flcontrib_core.errors import FLContribError
from flcontrib_core.words import (
    agreement_sentence,
    mass_words,
    model_words,
    numbers,
    others_mass_words,
    series_words,
    so_far,
    window_words,
)
from flcontrib_dashboard import controls, selection, state

SERIES = {
    ChangeSeries.RELATIVE: "Against the others",
    ChangeSeries.SOLO_MARGIN: "Solo margin",
    ChangeSeries.INCREMENTS: "Values",
    ChangeSeries.CUMULATIVE: "Cumulative (the paper's)",
}
VALUES_ONLY = (ChangeSeries.INCREMENTS, ChangeSeries.CUMULATIVE)
"""Series of the values themselves: a result without values cannot have them."""
SHOWN = {"start": "A change starts here", "inside": "The epoch deviates"}
COUNTING = (
    "Neighbouring epochs share one change: 20 with 0.49 and 21 with 0.48 count as one change of 0.97 in epochs 20–21. "
    "So a change can pass the threshold although no single epoch of it does."
)
MOST_WINDOWS = 12


def asked(report: AuditReport) -> ChangePointSettings:
    """How the reader wants the change points read: the result's own way, or what the URL and the knobs say."""
    own = settings_from_record(dict(report.provenance.settings)).change_points
    valued = report.history.without_values is None
    offered = [s.value for s in SERIES if valued or s not in VALUES_ONLY]
    series = state.from_url("series", offered, own.series.value if own.series.value in offered else offered[0])
    if st.session_state.get("series") not in offered:
        st.session_state["series"] = series
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        picked = st.segmented_control(
            "Series", offered, key="series", format_func=lambda s: SERIES[ChangeSeries(s)], wrap=True
        )
        utility = controls.pick_utility(report.history.utilities) if valued else report.history.utilities[0]
        with st.popover("Model of a segment", width="content"):
            likelihood = _choice("likelihood", [m.value for m in SegmentLikelihood], own.likelihood)
            prior = _choice("prior", [m.value for m in LengthPrior], own.prior)
    state.remember(series=picked or series)
    return ChangePointSettings(
        ChangeSeries(picked or series), utility, SegmentLikelihood(likelihood), LengthPrior(prior)
    )


def _choice(name: str, options: list[str], own: str | None) -> str:
    """One knob of the model, in the URL."""
    first = state.from_url(name, options, own or options[0])
    picked = st.radio(name.capitalize(), options, options.index(first), format_func=model_words, key=name)
    state.remember(**{name: picked})
    return str(picked)


def picture(shown: state.Shown, facts: ChangePointFacts, points: ChangePoints, key: tuple[object, ...]) -> None:
    """The heat map with its lines, and which series it is."""
    controls.card_title("Probability that the epoch deviates" if facts.inside else "Probability that a segment starts")
    st.caption(
        f"Exact Bayesian posterior (Fearnhead 2006) on each client's {series_words(points.series)}. "
        "A description, not an alert: honest series change too. Empty: no observation."
        + (" Dotted frame: the known window." if facts.known_windows else "")
    )
    if facts.above:
        more = f"; and {numbers.count(len(facts.above) - 8)} more in the table" if len(facts.above) > 8 else ""
        st.markdown(f":small[{controls.text_of(change_words(facts.above[:8]) + more)}]")
    if facts.left_out:
        st.caption(
            f"The {len(facts.clients)} clients with the highest probabilities; "
            f"{numbers.count(facts.left_out)} more in the report's JSON."
        )
    controls.change_chart(facts, following, key, shown.report)


def windows(points: ChangePoints) -> None:
    """The stretches that probably deviate, each with the credible intervals of its ends."""
    controls.card_title("Stretches that probably deviate")
    found = deviating_windows(points)
    for window in found[:MOST_WINDOWS]:
        st.markdown(f"**{controls.text_of(numbers.named(window.client))}** {controls.text_of(window_words(window))}")
    if len(found) > MOST_WINDOWS:
        st.caption(f"{numbers.count(len(found) - MOST_WINDOWS)} more in the report's JSON.")
    if not found:
        usual = bool((points.inside == points.inside).any())
        st.text("No epoch." if usual else "This series has no usual level from which an epoch could deviate.")
    else:
        st.caption("Ends: the epochs among which each lies with 90% of its probability.")


def second_opinion(points: ChangePoints, threshold: float) -> None:
    """What ruptures finds in the same series."""
    controls.card_title("A second opinion")
    found = agreement(points, threshold)
    st.text(agreement_sentence(found))
    rows = [{"Client": c, "Epochs": numbers.window(*w), "Found by": "both"} for c, w in found.both]
    rows += [{"Client": c, "Epochs": numbers.window(*w), "Found by": "posterior"} for c, w in found.posterior_only]
    rows += [{"Client": c, "Epochs": str(t), "Found by": "ruptures"} for c, t in found.ruptures_only]
    if rows:
        controls.table(rows, height="auto" if len(rows) <= 8 else 300)
    st.caption("Optimal segmentation with squared error and a penalty fitted on tuning runs; another program.")


def known_windows(shown: state.Shown, points: ChangePoints) -> None:
    """The paper's statistic where truth is known or an operator marked a window, beside that of the other clients."""
    report = shown.report
    marks = [m for m in state.workspace().alerts.marks(shown.entry.digest) if m.mark is Mark.DISHONEST and m.epochs]
    truth = report.truth.dishonest if report.truth is not None else ()
    labelled = [(d.client, w) for d in truth for w in d.windows]
    labelled += [] if truth else [(m.client, m.epochs) for m in marks if m.epochs is not None]
    if not labelled:
        return
    with st.container(border=True, gap="xsmall"):
        which = "Where truth is known" if truth else "Windows marked by hand"
        controls.card_title(f"{which}: share of the probability mass inside the window")
        source = {d.client: d.attack for d in truth} or {m.client: f"marked by {m.by}" for m in marks}
        controls.table(
            [
                {
                    "Client": row.client,
                    "Source": source[row.client],
                    "Window": numbers.window(*row.window),
                    "Share of mass": mass_words(row.mass),
                    "Other clients of this run": others_mass_words(row),
                }
                for row in masses_in_windows(points, labelled)
            ]
        )
        st.caption(
            "Of the series named above; the return to normal begins one epoch after the window. The paper's 0.91, "
            "0.97 and 0.82 are of the cumulative series: compare with what honest clients reach there."
        )


shown = controls.need_report("Change points", unfinished=True)
if shown is not None:
    report = shown.report
    top = st.container()
    following = selection.follow_bar(report)
    settings = asked(report)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        threshold = st.slider(
            "Threshold: probability from which a change is counted", 0.05, 0.95, 0.5, 0.05, width=400, help=COUNTING
        )
        what = st.segmented_control("Shown", list(SHOWN), default="start", format_func=SHOWN.__getitem__, wrap=True)
    default = selection.in_focus(report, following, 5)
    focus = controls.pick_clients("Clients as lines", report.history.client_ids, default, "lines")
    try:
        points = state.cached(
            (shown.result.digest, "change points", settings), lambda: read_change_points(report.history, settings)
        )
    except FLContribError as lacking:
        st.error(controls.text_of(str(lacking)))
        points = report.detection.change_points
    key = (shown.result.digest, settings, threshold, focus, what)
    facts = state.cached(
        (*key, "changes"), lambda: change_point_facts(report, threshold, focus, points, what == "inside")
    )
    clients = len({c for c, *_ in facts.above})
    found = f"{numbers.several(len(facts.above), 'change')} at or above {threshold:.2f}"
    top.title(
        so_far(report)
        + (f"{found}, in {numbers.several(clients, 'client')}" if clients else f"No change at or above {threshold:.2f}")
    )
    with st.container(border=True, gap="xsmall"):
        picture(shown, facts, points, key)
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, height="stretch", gap="xsmall"):
        windows(points)
    with right, st.container(border=True, height="stretch", gap="xsmall"):
        second_opinion(points, threshold)
    known_windows(shown, points)
    controls.words_here("Change-point probability", "Window")
    controls.next_steps(("alerts", "What was alerted, with its evidence"), ("contributions", "Every epoch's value"))
