"""Overview: one sentence of verdict, the strongest alerts, the curves, the ranking."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts import (
    MANY_CLIENTS,
    CumulativeFacts,
    Following,
    RankingFacts,
    change_point_facts,
    cumulative_alt,
    cumulative_facts,
    cumulative_rows,
    draw_cumulative,
    draw_group_means,
    draw_ranking,
    draw_sparkline,
    fill_of,
    group_means_alt,
    group_means_facts,
    group_means_rows,
    ranking_alt,
    ranking_facts,
    ranking_rows,
    sparkline_alt,
)
from flcontrib_core.detection import Alert, AlertState, Reviews
from flcontrib_core.words import (
    NO_CHANGE,
    decision_sentence,
    headline,
    how_sure,
    numbers,
    quiet_badge,
    quiet_sentence,
    stands_on,
    undecided_sentence,
    verdict_badge,
    visible_shift,
    why,
)
from flcontrib_dashboard import accounts, client_table, controls, deciding, model_card, selection, state, tour
from flcontrib_dashboard.addresses import page_file
from flcontrib_dashboard.canvas import Drawn, show_picture

MOST_CARDS = 3
MOST_REMARKS = 5


def cards(shown: state.Shown) -> None:
    """The strongest alerts, and what can be said of everybody else."""
    report, mode = shown.report, state.theme()
    reviews = state.reviews(shown.entry)
    alerts = reviews.ordered(report.detection.alerts)
    marked = tuple(dict.fromkeys(a.client for a in alerts))
    first = report.history.utilities[0]
    small = None
    if report.history.without_values is None:
        small = state.cached(
            (shown.result.digest, "curves", first, marked),
            lambda: cumulative_facts(report, first, marked),
        )
    top = alerts[:MOST_CARDS]
    beside = len(top) < MOST_CARDS  # the others' card stands in the alerts' row, or below a full one
    places = st.columns(len(top) + beside, gap="small")
    for place, alert in zip(places, top, strict=False):
        with place, st.container(border=True, height="stretch", gap="xsmall"):
            alert_card(shown, alert, small, mode, reviews)
    with places[-1] if beside else st.container(), st.container(border=True, height="stretch", gap="xsmall"):
        quiet_card(report, set(marked))
    if len(alerts) > MOST_CARDS:
        st.page_link(page_file("alerts"), label=f"All {len(alerts)} alerts", icon=":material/flag:")


def alert_card(shown: state.Shown, alert: Alert, small: CumulativeFacts | None, mode: str, reviews: Reviews) -> None:
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        controls.card_title(controls.text_of(numbers.named(alert.client)), width="content")
        controls.verdict_badge(alert, verdict_badge(alert))
    if small is not None and alert.client in [c.client for c in small.focus]:
        show_picture(
            state.cached(
                (shown.result.digest, "spark", small.utility, alert.client, alert.window, mode),
                lambda: Drawn(draw_sparkline(small, alert.client, alert.window, mode)),
            ),
            f"spark-{alert.client}-{alert.window}",
            alt=sparkline_alt(small, alert.client, alert.window),
            config={"displayModeBar": False},
        )
    decided = reviews.state(alert)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**{how_sure(alert).capitalize()}**", width="content")
        if decided is not AlertState.NEW:
            deciding.state_badge(decided)
    if decided is not AlertState.NEW:
        st.text(numbers.visible(decision_sentence(reviews.of(alert))))
    st.text(numbers.visible(why(alert)[0]))
    st.page_link(
        page_file("alerts"),
        label="See the evidence",
        icon=":material/arrow_forward:",
        query_params={
            "run": shown.entry.digest[:16],
            "client": alert.client,
            "window": "" if alert.window is None else f"{alert.window[0]}-{alert.window[1]}",
        },
    )


def quiet_card(report: AuditReport, marked: set[str]) -> None:
    """The clients without an alert."""
    rest = [c for c in report.detection.clients if c.client not in marked]
    undecided = undecided_sentence(report)
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        several = numbers.several(len(rest), "other client" if marked else "client")
        controls.card_title(several if marked else f"All {several}", width="content")
        # Where the data cannot decide about somebody, nobody can say that nothing changed.
        badge = quiet_badge(report)
        st.badge(badge, icon=":material/check:" if badge == NO_CHANGE else None, color="gray")
    highest = max((c for c in rest if c.probability is not None), key=lambda c: c.probability or 0.0, default=None)
    if highest is not None:
        who = controls.text_of(numbers.named(highest.client))
        st.markdown(f"Highest probability **{numbers.probability(highest.probability)}** ({who}).")
    shift = visible_shift(report)
    if shift is not None:
        st.markdown(shift)
    if undecided is not None:
        st.markdown(f":gray[{controls.text_of(undecided)}]")


def curves(shown: state.Shown, following: Following) -> str:
    """The cumulative curves; the utility that is shown."""
    report, mode = shown.report, state.theme()
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        controls.card_title("Cumulative contribution", width="content")
        utility = controls.pick_utility(report.history.utilities)
    focus = selection.in_focus(report, following)
    key = (shown.result.digest, utility, focus)
    facts = state.cached((*key, "curves"), lambda: cumulative_facts(report, utility, focus))
    st.caption(f"{numbers.capital(facts.axis)} credited to each client. Band: middle 50% and 80% of the others.")
    controls.chart(
        lambda: draw_cumulative(facts, mode, following=following),
        cumulative_alt(facts),
        lambda: cumulative_rows(facts),
        "cumulative",
        name="cumulative",
        cache_key=(*key, following, mode),
        report=report,
    )
    if facts.strip:
        controls.legend_of_states()
    return utility


def changes(shown: state.Shown, following: Following) -> None:
    """What stands for the curves where there are no values: when each client changed."""
    report = shown.report
    controls.card_title("Probability of a change")
    controls.no_values(shown)
    focus = selection.in_focus(report, following)
    key = (shown.result.digest, 0.5, focus)
    facts = state.cached((*key, "changes"), lambda: change_point_facts(report, 0.5, focus))
    controls.change_chart(facts, following, key, report)


def ranking(shown: state.Shown, utility: str, following: Following) -> None:
    """Total contributions with their intervals."""
    report, mode = shown.report, state.theme()
    key = (shown.result.digest, utility, following.client)
    facts = state.cached(
        (*key, "ranking"), lambda: ranking_facts(report, utility, fill_of(report.history), also=following.client)
    )
    controls.card_title("Total contribution")
    left_out = f" {numbers.count(facts.left_out)} clients between them are left out." if facts.left_out else ""
    st.caption(f"{interval_words(facts)}{left_out}")
    controls.chart(
        lambda: draw_ranking(facts, mode, following=following),
        ranking_alt(facts),
        lambda: ranking_rows(facts),
        "ranking",
        name="ranking",
        cache_key=(*key, mode),
        report=report,
    )


def interval_words(facts: RankingFacts) -> str:
    """What a filled and an open dot mean here; a table without errors has no interval to exclude anything."""
    if not any(r.half_width == r.half_width for r in facts.rows):
        return "Open: these values come without an interval."
    if any(r.filled for r in facts.rows):
        return "Filled: the 95% interval excludes zero. Open: it does not, or a part of the total is not computed."
    return "Filled: the 95% interval excludes zero. Open: it does not."


def next_card(shown: state.Shown) -> None:
    """What a reader of the verdict does now."""
    report = shown.report
    controls.card_title("What to do next")
    links = [("contributions", "See every epoch's values")]
    if report.history.without_values is not None:
        links = [("change_points", "See when each client changed")]
    if report.detection.alerts:
        links = [
            ("alerts", "Read the evidence and decide"),
            ("report", "Give a client its extract"),
            *links,
        ]
    if report.history.without_values is None and (~report.history.computed[1:]).any() and shown.job is None:
        links.append(("scheduler", "Compute skipped epochs"))
    links.append(("upload", "Bring in your own run") if state.is_sample(shown.entry) else ("report", "Keep the report"))
    for view, label in (link for link in links if accounts.opens(link[0])):
        every = {"run": shown.entry.digest[:16], "k": str(report.history.epoch_count)} if view == "scheduler" else None
        st.page_link(page_file(view), label=label, icon=":material/arrow_forward:", query_params=every)


def remarks(report: AuditReport) -> None:
    """What the checks of the log itself found; it limits what the verdict can say."""
    controls.card_title("Remarks on the log")
    for remark in report.warnings[:MOST_REMARKS]:
        said = f"{remark.where}: found {remark.found}, expected {remark.expected}. {remark.fix}"
        st.markdown(f"- **{controls.text_of(remark.code)}** {controls.text_of(said)}")
    if len(report.warnings) > MOST_REMARKS:
        st.caption(f"{numbers.count(len(report.warnings) - MOST_REMARKS)} more are in the report and its tables.")
    if (standing := stands_on(report)) is not None:
        st.caption(controls.text_of(standing))


def group_means(shown: state.Shown, utility: str, following: Following) -> None:
    """Where there are too many clients for a row each: groups of them."""
    report, mode = shown.report, state.theme()
    key = (shown.result.digest, utility)
    facts = state.cached((*key, "group_means"), lambda: group_means_facts(report, utility))
    controls.card_title("Every client, in groups")
    st.caption(f"Mean {facts.axis} per epoch of equal groups by total: the first 5% contributed most.")
    controls.chart(
        lambda: draw_group_means(facts, mode, following=following),
        group_means_alt(facts),
        lambda: group_means_rows(facts),
        "group_means",
        name="groups-by-total",
        cache_key=(*key, following, mode),
        report=report,
    )


shown = controls.need_report("Overview", unfinished=True)
if shown is not None:
    report = shown.report
    st.title(controls.title_of(headline(report, reviews=state.reviews(shown.entry))))
    sample = "This is a sample run with known truth." if state.is_sample(shown.entry) else ""
    said = f"{quiet_sentence(report)} {sample}".strip()
    if said:
        st.caption(controls.text_of(said))
    following = selection.follow_bar(report)
    cards(shown)
    tour.show()  # the verdict and its first picture come first, for newcomers too
    valued = report.history.without_values is None
    many = valued and len(report.history.client_ids) > MANY_CLIENTS
    utility = report.history.utilities[0]
    wide, side = st.columns([1.75, 1], gap="small")
    with wide:
        with st.container(border=True, height="content" if many else "stretch", gap="xsmall"):
            if valued:
                utility = curves(shown, following)
            else:
                changes(shown, following)
        if many:
            with st.container(border=True, gap="xsmall"):
                group_means(shown, utility, following)
    with side:
        if valued:
            with st.container(border=True, gap="xsmall"):
                ranking(shown, utility, following)
        with st.container(border=True, height="stretch", gap="xsmall"):
            next_card(shown)
    model_card.show_model(shown.entry, following)
    controls.words_here("Cumulative contribution", "Window", "Smallest visible shift", "Preset")
    if many:
        with st.container(border=True, gap="xsmall"):
            controls.card_title("Clients")
            client_table.show_totals(shown, utility, following)
    if report.warnings or report.log_checks:
        with st.container(border=True, gap="xsmall"):
            remarks(report)
