"""The evidence of one alert: what was observed, why the client was marked, and what speaks against it."""

from __future__ import annotations

import numpy as np
import streamlit as st

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts import (
    Following,
    class_mix_alt,
    class_mix_facts,
    class_mix_rows,
    draw_class_mix,
    draw_evidence,
    evidence_alt,
    evidence_facts,
    evidence_rows,
)
from flcontrib_core.detection import Alert, peer_opinions, scores_of_run
from flcontrib_core.errors import FLContribError
from flcontrib_core.runs import RunLog
from flcontrib_core.words import (
    DECLARED,
    OBSERVED_ONLY,
    alert_title,
    channel_meaning,
    context,
    counter_evidence,
    engineer_line,
    how_sure,
    meaning_line,
    note_line,
    numbers,
    verdict_name,
    why,
    without_values,
    wording,
)
from flcontrib_dashboard import accounts, controls, deciding, selection, state


def what_if(report: AuditReport, alert: Alert) -> None:
    """One step per epoch, v(F_{N∖i}) − v(F_N): not a retraining, and shown also when it contradicts."""
    history = report.history
    controls.card_title(f"Without {controls.text_of(numbers.named(alert.client))}")
    i = history.client_ids.index(alert.client)
    first, last = alert.window or (1, history.epoch_count)
    columns = st.columns(max(1, min(2, len(history.utilities))))
    known = False
    for place, utility in zip(columns, history.utilities, strict=False):
        steps = history.of(utility).leave_one_out[first : last + 1, i]
        steps = steps[np.isfinite(steps)]
        if not len(steps):
            continue
        known = True
        better = float(steps.mean()) * -history.harm_sign(utility) > 0
        place.metric(
            f"{numbers.titled(utility)} per epoch",
            numbers.signed(float(steps.mean()), 4),
            "better without" if better else ("no change" if float(steps.mean()) == 0 else "worse without"),
            delta_color="off",
            delta_arrow="off",
        )
    if known:
        st.caption(
            f"Mean change of the model after epochs {numbers.window(first, last)}, had the client been left out "
            "of that one step. Later updates are kept as recorded: this is not a retraining."
        )
    else:
        st.caption(not_evaluated(report, i, first, last))


def not_evaluated(report: AuditReport, i: int, first: int, last: int) -> str:
    """Why there is no what-if: the epochs were skipped, or the estimator had no use for these coalitions."""
    history = report.history
    there = np.flatnonzero(history.participated[first : last + 1, i]) + first
    if not len(there):
        return "Not evaluated: the client took part in none of these epochs."
    if history.without_values is not None:
        return f"Not evaluated. {without_values(history)}"
    if not history.computed[there].any():
        return "Not evaluated: none of these epochs was computed. The scheduler page computes those that are missing."
    if not history.evaluations.any():
        return "Not evaluated: a table holds values, and no model that could be replayed without the client."
    return "Not evaluated: the estimator did not need these coalitions. Assess with the exact estimator to see it."


def reasons(alert: Alert) -> None:
    controls.card_title("Why it was marked", help=wording.GLOSSARY["Window"])
    for line in why(alert):
        st.markdown(f"- {controls.text_of(line)}")


def channels(alert: Alert) -> None:
    """How strongly every channel speaks for a change in the window, with what it measures."""
    controls.card_title("How every channel scores", help=wording.GLOSSARY["Channel"])
    scored = sorted((c for c in alert.channels if c.score is not None), key=lambda c: -(c.score or 0.0))
    st.table(  # its cells wrap: no meaning is cut on a phone
        {
            "Channel": [c.name for c in scored],
            "Score": [numbers.signed(c.score or 0.0, 1) for c in scored],
            "What it measures": [channel_meaning(c.name) for c in scored],
        },
        border="horizontal",
        hide_index=True,
    )
    silent = [c.name for c in alert.channels if c.score is None]
    missing = f" Not available in this log: {', '.join(silent)}." if silent else ""
    st.caption(f"Log Bayes factor of this window: above zero speaks for a change, below zero against one.{missing}")


def objections(alert: Alert) -> None:
    controls.card_title("What speaks against it")
    for line in counter_evidence(alert):
        st.markdown(f"- {controls.text_of(line)}")
    rests = context(alert)
    if rests:
        st.caption(controls.text_of(" ".join(rests)))


def declared(shown: state.Shown, alert: Alert) -> None:
    """What the operator declared about these epochs, and a form to declare more. It hides nothing."""
    controls.card_title("Declared facts")
    notes = state.reviews(shown.entry).notes_on(alert.client, alert.window)
    for note in notes:
        st.text(numbers.visible(note_line(note)))
    st.caption(f"{DECLARED}.")
    first, last = alert.window or (1, shown.report.history.epoch_count)
    if accounts.reads_only():
        return
    with st.form(f"declare-{alert.client}-{first}-{len(notes)}", border=False):
        text = st.text_input("What happened at the client", max_chars=400, placeholder="new GPU, privacy filter on …")
        by = st.text_input("Declared by", max_chars=100, placeholder="your name")
        if accounts.operator_button(f"Declare for epochs {numbers.window(first, last)}", submits=True):
            try:
                state.workspace().alerts.note(shown.entry.digest, alert.client, (first, last), text, by)
            except FLContribError as refused:
                st.error(controls.text_of(str(refused)))
            else:
                st.rerun()


def others_say(shown: state.Shown, alert: Alert) -> None:
    """Where published and simple rules place the client among the others of the same epochs."""
    controls.card_title("What others would say")
    if shown.entry.kind != "log":
        st.caption("These rules read updates; a table has none.")
        return
    if not shown.entry.available:
        st.caption(wording.LOG_NOT_KEPT)
        return
    if not st.toggle("Ask them", help="Reads the log's updates once; a large log takes a while."):
        st.caption(
            "FLDetector, Multi-Krum, FoolsGold, FLAME, AlignIns, norm, cosine and leave-one-out on these epochs."
        )
        return
    with st.spinner("Reading the updates …"):
        scores = peer_scores_of(shown.entry.digest)
    found = peer_opinions(scores, shown.report.history, alert.client, alert.window)
    controls.table(
        {
            "Rule": [o.rule for o in found],
            "Place": [f"{o.place} of {o.of}" for o in found],
            "Suspicion": [o.suspicion for o in found],
        }
    )
    first = sum(o.place == 1 for o in found)
    st.caption(
        f"{first} of {numbers.several(len(found), 'rule')} would name this client first. Place 1 is the most "
        "suspicious of the clients seen in these epochs; somebody always is. Each suspicion is in its rule's own "
        "unit. No verdict rests on them."
    )


@st.cache_data(max_entries=8, show_spinner=False)
def peer_scores_of(digest: str) -> dict[str, np.ndarray]:
    """Every rule's suspicion of every participation of a run."""
    run = state.workspace().open_run(digest)
    return dict(scores_of_run(run)) if isinstance(run, RunLog) else {}


def class_mix(shown: state.Shown, alert: Alert) -> None:
    """Per class, where the log has margins: what tells a changed mix of classes from harm to all of them."""
    report, mode = shown.report, state.theme()
    key = (shown.result.digest, "class mix", alert.client, alert.window)
    facts = state.cached(key, lambda: class_mix_facts(report, alert.client, alert.window))
    if facts is None:
        return
    with st.container(border=True, gap="xsmall"):
        controls.card_title(f"Which classes moved in epochs {numbers.window(*facts.window)}")
        st.caption(
            "Margin of each class after the client's own step, inside minus outside the window, relative to the "
            f"others. {facts.share_up:.0%} of the movement is upward: about half speaks for a changed mix of classes, "
            "near none for harm to all of them."
        )
        controls.chart(
            lambda: draw_class_mix(facts, mode),
            class_mix_alt(facts),
            lambda: class_mix_rows(facts),
            "classes",
            name="classes",
            cache_key=(*key, mode),
        )


def check_it(shown: state.Shown) -> None:
    report = shown.report
    controls.card_title("Check it yourself")
    st.code(f"flcontrib verify {controls.named('report', 'json', shown)} RUN.flrun", language="bash", wrap_lines=True)
    st.caption("The report's JSON is on the page Report & export; RUN.flrun is the log that was brought in.")
    made = report.provenance
    estimators = sorted(
        {m for m, c in zip(report.history.estimator, report.history.computed, strict=True) if c} - {"initial"}
    )
    st.caption(
        controls.text_of(
            f"Run {made.run_digest[:8]}… · {', '.join(estimators) or 'no values'} · "
            f"{len(made.epochs_computed)} of {report.history.epoch_count} epochs · "
            f"{numbers.count(int(report.history.evaluations.sum()))} evaluations · seed {made.seed} · "
            f"version {made.version} · {made.platform}"
        )
    )


def picture(shown: state.Shown, alert: Alert, following: Following) -> None:
    """The curve against the others, the probability of a change and every epoch's value, on one axis."""
    report, mode = shown.report, state.theme()
    valued = report.history.without_values is None
    utility = controls.pick_utility(report.history.utilities) if valued else report.history.utilities[0]
    key = (shown.result.digest, utility, alert.client, alert.window)
    facts = state.cached((*key, "evidence"), lambda: evidence_facts(report, alert.client, alert.window, utility))
    controls.chart(
        lambda: draw_evidence(facts, mode, following=following),
        evidence_alt(facts),
        lambda: evidence_rows(facts),
        "evidence",
        name="evidence",
        cache_key=(*key, following.epochs, mode),
        report=report,
    )
    if valued:
        st.markdown(":small[:blue[■] helped\u2003:red[■] harmed\u2003▨ took part, not computed\u2003· absent]")
    st.caption("A probability over several epochs is that of a change somewhere among them.")


def show(shown: state.Shown, alert: Alert) -> None:
    """The evidence page: picture and reasons side by side, objections as large as the reasons."""
    report = shown.report
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if st.button("All alerts", icon=":material/arrow_back:", type="tertiary"):
            state.remember(list=1)  # what is followed stays followed
            st.rerun()
        controls.verdict_badge(alert, verdict_name(alert.verdict))
        st.badge(how_sure(alert).capitalize(), color="gray")
        deciding.state_badge(state.reviews(shown.entry).state(alert))
    st.title(controls.title_of(alert_title(alert)))
    st.markdown(controls.text_of(meaning_line(alert)))
    st.caption(f"{controls.text_of(engineer_line(alert))} {OBSERVED_ONLY}")
    following = selection.follow_bar(report)
    wide, side = st.columns([1.75, 1], gap="small")  # two rows: a phone shows reasons and objections right below
    with wide:
        with st.container(border=True, gap="xsmall"):
            picture(shown, alert, following)
        if alert.channels:
            with st.container(border=True, height="stretch", gap="xsmall"):
                channels(alert)
    with side:
        with st.container(border=True, gap="xsmall"):
            reasons(alert)
        with st.container(border=True, height="stretch", gap="xsmall"):
            objections(alert)
    wide, side = st.columns([1.75, 1], gap="small")
    with wide:
        class_mix(shown, alert)
        with st.container(border=True, gap="xsmall"):
            what_if(report, alert)
        with st.container(border=True, gap="xsmall"):
            declared(shown, alert)
        with st.container(border=True, gap="xsmall"):
            others_say(shown, alert)
        with st.container(border=True, height="stretch", gap="xsmall"):
            check_it(shown)
    with side, st.container(border=True, height="stretch", gap="xsmall"):
        deciding.card(shown, alert)
