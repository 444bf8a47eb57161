"""Pieces that several pages build from: heads, cards with a chart, its table and its export, progress."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import streamlit as st

from flcontrib_core.auditing import AuditReport, settings_from_record
from flcontrib_core.charts import (
    ChangePointFacts,
    Following,
    Picture,
    change_point_alt,
    change_point_rows,
    draw_change_points,
)
from flcontrib_core.detection import Alert
from flcontrib_core.history import NoValues
from flcontrib_core.reports import csv_safe, file_name
from flcontrib_core.words import computed_badge, is_growing, numbers, without_values, wording
from flcontrib_core.workspace import RECORDING, RunEntry
from flcontrib_dashboard import accounts, job_progress, live, selection, state
from flcontrib_dashboard.addresses import page_file
from flcontrib_dashboard.canvas import EPOCH_TOOLS, Drawn, show_picture

PICTURE_SCALE = 2
_ADDRESS_START = re.compile(r"https?:(?=//)|www(?=\.)|@", re.IGNORECASE)
_RANGE = re.compile(r"(?<=\d)–(?=\d)")
_MARKDOWN = frozenset("\\`*_{}[]()#+-.!|<>~$:&^")


def text_of(value: str) -> str:
    """A name or sentence as literal text inside markdown: every character markdown could read is escaped.

    Addresses become links from the text alone, escaped or not; a word joiner, which has no width, keeps them text.
    """
    line = " ".join(value.splitlines()).replace("\t", " ")
    unlinked = _ADDRESS_START.sub(lambda found: found.group() + "\u2060", numbers.visible(line))
    return "".join("\\" + c if c in _MARKDOWN else c for c in unlinked)


def title_of(sentence: str) -> str:
    """A page's title as literal text, whose lines never end inside '29–37'."""
    return _RANGE.sub("–\u2060", text_of(sentence))


def card_title(text: str, aside: str = "", **options: Any) -> None:
    """A card's title: a heading below the page's own, so that a screen reader can walk from card to card."""
    st.header(f"{text} :gray[({aside})]" if aside else text, anchor=False, **options)


def head(entry: RunEntry, trail: str, *badges: tuple[str, str]) -> None:
    """The line above the title: where the reader is, and what must not be overlooked."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f":small[**{text_of(entry.name)}** / {text_of(trail)}]", width="content")
        for text, colour in badges:
            st.badge(text, color=colour)  # type: ignore[arg-type]


def badges_of(shown: state.Shown) -> list[tuple[str, str]]:
    """What follows a result everywhere: warnings of the log, skipped epochs, a moving server, an old version."""
    history = shown.report.history
    marks = [] if shown.job is None else [("Provisional", "orange")]
    warnings = len(shown.report.warnings)
    marks.append(
        (numbers.several(warnings, "remark") + " on the log", "orange") if warnings else ("Log consistent", "gray")
    )
    badge = computed_badge(history, is_growing(shown.report))
    marks.append((badge[0].upper() + badge[1:], "gray" if history.without_values is None else "orange"))
    if any(history.server_moved(u) for u in history.utilities):
        marks.append(("The server has a share of its own", "orange"))
    if shown.result.stale:
        marks.append((f"Computed by version {shown.result.version}: recompute to compare", "orange"))
    return marks


def chart(
    draw: Callable[[], Picture],
    alt: str,
    rows: Callable[[], Sequence[dict[str, object]]],
    key: str,
    *,
    name: str,
    cache_key: tuple[Hashable, ...],
    report: AuditReport | None = None,
    row_clients: Sequence[str] = (),
) -> None:
    """A chart with alt text, 'show as table', CSV, and PNG or SVG made in the reader's own browser.

    It is drawn once per ``cache_key``, which starts with the result's digest and names all that the picture depends on.
    With a ``report`` its marks can be clicked and its epochs boxed, and what was chosen is followed on every page;
    ``row_clients`` names the rows of a chart that has one per client, top row first.
    """
    picture = st.session_state.get(f"{key}-format") or "png"
    saved_as = chart_file(name, cache_key)
    if st.session_state.get(f"{key}-table", False):
        table(rows(), key=f"{key}-rows")
    else:
        options = {"format": picture, "filename": saved_as.removesuffix(".csv"), "scale": PICTURE_SCALE}
        drawn = state.cached((*cache_key, key), lambda: Drawn(draw()))
        tools = [*(EPOCH_TOOLS if drawn.zooms else ()), *(["select2d"] if report is not None else ()), "toImage"]
        show_picture(
            drawn,
            key,
            alt=alt,
            config={"modeBarButtons": [tools], "toImageButtonOptions": options},
            on_pick=None if report is None else selection.on_chart(report, row_clients),
        )
    with st.container(horizontal=True, horizontal_alignment="right", vertical_alignment="center", gap="small"):
        st.toggle("Show as table", key=f"{key}-table")
        export = st.popover("Export", width="content", key=f"{key}-export", on_change="rerun")
        if not export.open:  # what it holds is sent when it is opened, not with every move of a knob
            return
        with export:
            st.download_button(
                "CSV",
                lambda: as_csv(rows()),
                file_name=saved_as,
                mime="text/csv",
                key=f"{key}-csv",
                width="stretch",
                on_click="ignore",
            )
            st.segmented_control(
                "Picture", ["png", "svg"], default="png", key=f"{key}-format", format_func=lambda f: str(f).upper()
            )
            st.caption("The camera at the chart's corner saves it in this format.")


def chart_file(name: str, cache_key: tuple[Hashable, ...]) -> str:
    """The file name of a chart's numbers; what the chart depends on stands in it as a short digest, so that two charts
    of one kind never share a name."""
    depends_on = tuple(part for part in cache_key if part != state.theme())
    return named(f"{name}-{sha256(repr(depends_on).encode()).hexdigest()[:6]}", "csv")


def named(what: str, ending: str, shown: state.Shown | None = None) -> str:
    """The name of a download: the run on screen, the result where it is of one, and what it is."""
    entry = state.current_run() if shown is None else shown.entry
    if entry is None:
        return file_name("", "", what, ending)
    return file_name(entry.name, entry.digest, what if shown is None else f"{shown.result.digest[:6]}-{what}", ending)


def table(content: Sequence[Mapping[str, object]] | Mapping[str, Sequence[Any]], **options: Any) -> Any:
    """A table whose cells and headings show direction marks instead of obeying them."""
    columns = content if isinstance(content, Mapping) else columns_of(content)
    shown = {
        numbers.visible(name): [numbers.visible(v) if isinstance(v, str) else v for v in values]
        for name, values in columns.items()
    }
    settings: dict[str, Any] = {"hide_index": True, "width": "stretch", "placeholder": numbers.NO_VALUE} | options
    if any(len(str(v)) > 24 for v in columns.get("Client", ())):  # it would push the other columns out of sight
        widths = {"Client": st.column_config.Column(width=180)}
        settings["column_config"] = widths | dict(settings.get("column_config") or {})
    return st.dataframe(shown, **settings)


def change_chart(facts: ChangePointFacts, following: Following, key: tuple[Hashable, ...], report: AuditReport) -> None:
    """Who probably changed when; ``key`` names what the facts were made of."""
    mode = state.theme()
    chart(
        lambda: draw_change_points(facts, mode, following=following),
        change_point_alt(facts),
        lambda: change_point_rows(facts),
        "changes",
        name="change-points",
        cache_key=(*key, following, mode),
        report=report,
        row_clients=facts.clients,
    )


def columns_of(rows: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    """Rows as columns; a cell that a row lacks is None."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def as_csv(rows: Sequence[dict[str, object]]) -> bytes:
    """The rows as CSV; cells that a spreadsheet would run as a formula are made harmless."""
    out = io.StringIO()
    names = list(dict.fromkeys(k for row in rows for k in row))
    writer = csv.writer(out)
    writer.writerow([csv_safe(n) for n in names])
    for row in rows:
        writer.writerow([csv_safe(row.get(n)) for n in names])
    return out.getvalue().encode("utf-8-sig")


def verdict_badge(alert: Alert, text: str) -> None:
    """The alert's verdict as a badge: red where it accuses, orange where it asks."""
    st.badge(text, icon=":material/flag:", color="red" if alert.accuses else "orange")


def legend_of_states() -> None:
    """What the three signs of a cell mean."""
    st.markdown(":small[■ took part, computed\u2003▨ took part, not computed (budget)\u2003· absent]")


def pick(label: str, key: str, options: Mapping[str, str]) -> str:
    """One of a few choices, named by ``options``; stays in the URL where it is not the first."""
    first = next(iter(options))
    if st.session_state.get(key) not in options:
        st.session_state[key] = state.from_url(key, list(options), first)
    picked = st.segmented_control(
        label, list(options), key=key, format_func=options.__getitem__, label_visibility="collapsed"
    )
    state.remember(**{key: None if picked in (None, first) else picked})
    return str(picked or first)


def pick_utility(utilities: tuple[str, ...], key: str = "utility") -> str:
    """Which utility is shown; stays in the URL."""
    chosen = state.from_url("utility", list(utilities), utilities[0])
    if len(utilities) == 1:
        return chosen
    if st.session_state.get(key) not in utilities:
        st.session_state[key] = chosen  # no default below: one that follows the URL would make the control anew
    picked = st.segmented_control(
        "Utility", utilities, key=key, format_func=numbers.titled, label_visibility="collapsed"
    )
    state.remember(utility=picked or chosen)
    return str(picked or chosen)


def pick_clients(
    label: str, clients: tuple[str, ...], default: tuple[str, ...], key: str, most: int = 8
) -> tuple[str, ...]:
    """A handful of clients: pills while they fit, a searchable list beyond. Another default is taken at once."""
    names = numbers.in_order(clients)
    if st.session_state.get(f"{key}-default") != default or key not in st.session_state:
        st.session_state[f"{key}-default"] = default
        st.session_state[key] = [c for c in default if c in clients]
    if len(names) <= 24:
        chosen = st.pills(label, names, selection_mode="multi", key=key, format_func=text_of, wrap=True)
    else:
        chosen = st.multiselect(label, names, max_selections=most, key=key, format_func=numbers.visible)
    return tuple(chosen or ())[:most]


def computing_button(entry: RunEntry, label: str, **options: Any) -> bool:
    """A button that has something computed from the run's log: off where that is not kept, and then it says so."""
    if not entry.available:
        options |= {"disabled": True, "help": wording.LOG_NOT_KEPT}
    return accounts.operator_button(label, **options)


def no_report(entry: RunEntry, trail: str) -> None:
    """What stands where a report is missing: progress, a failure with its cause, or the button that starts it."""
    from flcontrib_core.auditing import AuditSettings

    jobs = tuple(j for j in state.jobs_of(entry) if j.kind not in state.BESIDE_AUDITS)
    head(entry, "no result yet")
    if jobs and jobs[0].active:
        st.title("Computing the contributions of this run")
        st.caption("Finished epochs are kept: closing this page or stopping the server loses nothing.")
        job_progress.follow(jobs[0], previewed=True)
        st.markdown(wording.AWAITED.get(trail, wording.AWAITED_FIRST))
        if trail in wording.AWAITED:
            next_steps(("overview", "The verdict so far"), ("contributions", "Contributions so far"))
        return
    if any(result.outdated for result in state.workspace().results(entry.digest, "audit")):
        st.title("The result of this run was computed by an older version")
        st.markdown(wording.OUTDATED)
    elif jobs:
        st.title("This run has no result yet")
        st.error(f"The last job {job_progress.job_words(jobs[0])}.")
        if jobs[0].error:
            st.code(jobs[0].error, language=None, wrap_lines=True)
    else:
        st.title("This run has not been computed yet")
    if computing_button(entry, "Compute", type="primary"):
        state.workspace().jobs.submit(entry.digest, AuditSettings().record(), recompute=True)
        st.rerun()


def no_values(shown: state.Shown) -> bool:
    """Where the result has no Shapley values: says why, and offers to compute them where that can be done."""
    lacking = shown.report.history.without_values
    if lacking is None:
        return False
    st.markdown(text_of(without_values(shown.report.history) or ""))
    if lacking is NoValues.NOT_ASKED and computing_button(shown.entry, "Compute the values", type="primary"):
        record = settings_from_record(dict(shown.report.provenance.settings))
        asked = replace(record, assess=replace(record.assess, values=True))
        state.workspace().jobs.submit(shown.entry.digest, asked.record())
        st.rerun()
    return True


def next_steps(*links: tuple[str, str]) -> None:
    """Where a reader of this page goes from here: (view, what is done there)."""
    with st.container(horizontal=True, vertical_alignment="center", gap="medium", key="next-steps"):
        st.markdown(":gray[Next]", width="content")
        for view, label in (link for link in links if accounts.opens(link[0])):
            st.page_link(page_file(view), label=label, icon=":material/arrow_forward:")


def words_here(*terms: str) -> None:
    """The words of the glossary that this page uses, each a link to what it means."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="words-here"):
        st.markdown(":gray[Words]", width="content")
        for term in terms:
            st.page_link(page_file("help"), label=term, help=wording.GLOSSARY[term], query_params={"term": term})


def need_report(trail: str, *, unfinished: bool = False) -> state.Shown | None:
    """The report on screen, or what stands in its place (then None); ``unfinished``: also one a job is computing."""
    entry = state.current_run()
    if entry is None:
        st.title("No run yet")
        st.markdown(wording.EMPTY)
        if accounts.operator_button("Load the sample runs", type="primary", help="Six small runs with known truth."):
            state.load_samples()
            st.rerun()
        next_steps(("upload", "Bring in a run"), ("help", "What this tool does"))
        return None
    if entry.kind == RECORDING:
        return live.recording(entry, trail, unfinished)
    shown = state.shown_report(entry)
    if shown is None and unfinished:
        shown = state.shown_preview(entry)
    if shown is None:
        no_report(entry, trail)
        return None
    head(entry, trail, *badges_of(shown))
    at_work = shown.job or state.active_audit(entry)
    if shown.job is not None:
        st.caption(wording.SO_FAR)
    elif (
        shown.result.stale
        and at_work is None
        and computing_button(entry, "Recompute with this version", help=wording.STALE)
    ):
        state.workspace().jobs.submit(entry.digest, shown.result.settings, recompute=True)
        st.rerun()
    if at_work is not None:
        history, preview = shown.report.history, shown.job is not None
        known = history.epoch_count - int(history.pending.sum()) if preview else None
        job_progress.follow(at_work, previewed=preview, shown=known, beside=not preview)
    return shown
