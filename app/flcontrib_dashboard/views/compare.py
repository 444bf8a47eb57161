"""Compare: results of several runs, or of one run with several settings, over a pinned baseline."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import streamlit as st

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts import (
    AlignedFacts,
    Following,
    RankFacts,
    aligned_alt,
    aligned_facts,
    aligned_rows,
    draw_aligned,
    draw_ranks,
    fill_of,
    rank_alt,
    rank_facts,
    rank_rows,
)
from flcontrib_core.detection import VerdictKind
from flcontrib_core.words import (
    agreement_words,
    budget,
    filled_in,
    moved_words,
    numbers,
    result_label,
    verdict_name,
    without_values,
)
from flcontrib_core.workspace import ResultEntry
from flcontrib_dashboard import client_table, controls, selection, state

MOST_LOOKED_AT = 12
"""Results that are opened to find one worth comparing with."""
MOST_COMPARED = 3
SEVERAL_RUNS = (
    "Several runs: equal ids are taken for the same client, and places count only clients that are in all of them."
)
SHORT_NAME = 20
"""Letters of a run's name in a list: what tells results of one run apart must stay in sight."""


SETTING_WORDS = {
    "budget.budget": "Budget",
    "budget.epochs": "Epochs computed",
    "budget.gamma": "Weight of fairness (γ)",
    "budget.fairness": "Fairness",
    "estimator": "Estimator",
    "preset": "Preset",
    "run": "Run",
    "seed": "Seed",
    "version": "Version",
}


def label_of(result: ResultEntry, names: Mapping[str, str], longest: int = 200) -> str:
    """'Digits, 8 clients · all epochs': the settings that are not the usual ones follow; a long name is cut."""
    run = numbers.visible(names.get(result.run_digest, result.run_digest[:8]))
    run = run if len(run) <= longest else f"{run[: longest - 1].rstrip()}…"
    parts = [run, numbers.visible(result_label(result.settings, result.name))]
    parts += [f"version {result.version}"] if result.stale else []
    return " · ".join(parts)


def pick_results(results: list[ResultEntry], names: Mapping[str, str]) -> list[ResultEntry]:
    """The baseline and what is compared with it, from the URL or the run on screen; both stay in the URL."""
    by_key = {r.digest[:16]: r for r in results}
    entry = state.current_run()
    own = [k for k, r in by_key.items() if entry is not None and r.run_digest == entry.digest]
    ordered = [*own[::-1], *(k for k in by_key if k not in own)]  # the run on screen, its first result as the baseline
    for key in ("baseline", "compared"):
        wanted = [k for k in st.query_params.get(key, "").split(",") if k in by_key][:MOST_COMPARED]
        if key not in st.session_state:
            of_itself = ordered[:1] if key == "baseline" else partner([by_key[k] for k in ordered])
            st.session_state[key] = (wanted or of_itself)[0] if key == "baseline" else wanted or of_itself
    st.session_state["compared"] = [k for k in st.session_state["compared"] if k in by_key]
    with st.container(border=True):
        a, b = st.columns(2)
        base = a.selectbox(
            "Baseline", list(by_key), key="baseline", format_func=lambda k: label_of(by_key[k], names, SHORT_NAME)
        )
        others = b.multiselect(
            "Compared with",
            list(by_key),
            key="compared",
            max_selections=MOST_COMPARED,
            format_func=lambda k: label_of(by_key[k], names, SHORT_NAME),
        )
        kept = [k for k in others if k != base]
        full = [
            f"Baseline: {label_of(by_key[base], names)}",
            *(f"Compared: {label_of(by_key[k], names)}" for k in kept),
        ]
        st.caption("  \n".join(controls.text_of(line) for line in full))
    state.remember(baseline=base, compared=",".join(kept))
    return [by_key[base], *(by_key[k] for k in kept)]


def partner(results: list[ResultEntry]) -> list[str]:
    """What the first of these is compared with unless the reader says so: the next one that shares a client with it."""
    first, *others = results
    known = set(state.load_report(first.digest, first).history.client_ids)
    for other in others[:MOST_LOOKED_AT]:
        same = other.run_digest == first.run_digest
        if same or known & set(state.load_report(other.digest, other).history.client_ids):
            return [other.digest[:16]]
    return []


def flat(settings: Mapping[str, object], before: str = "") -> dict[str, str]:
    """Nested settings as 'budget.gamma': '0.3'."""
    found: dict[str, str] = {}
    for key, value in settings.items():
        found |= (
            flat(value, f"{before}{key}.")
            if isinstance(value, Mapping)
            else {f"{before}{key}": "not set" if value is None else str(value)}
        )
    return found


def settings_table(results: list[ResultEntry], titles: tuple[str, ...], names: Mapping[str, str]) -> None:
    """Which settings differ; most often that is the whole explanation."""
    each = [
        flat(r.settings)
        | {"version": r.version, "run": f"{names.get(r.run_digest, '')} ({r.run_digest[:8]})".strip()}
        | {"budget.budget": budget(r.settings)}
        for r in results
    ]
    keys = [k for k in dict.fromkeys(k for e in each for k in e) if len({e.get(k) for e in each}) > 1]
    controls.card_title("Settings that differ")
    if keys:
        controls.table(
            [
                {"Setting": SETTING_WORDS.get(k, k)} | {t: e.get(k, "–") for t, e in zip(titles, each, strict=True)}
                for k in keys
            ]
        )
    else:
        st.text("The results were made with the same settings.")


def totals_rows(
    reports: list[AuditReport], utility: str, titles: tuple[str, ...], only: bool
) -> list[dict[str, object]]:
    """Every client's total in each result, and how far it is from the baseline."""
    columns = [client_table.totals_columns(r, utility, fill_of(r.history)) for r in reports]
    totals = [dict(zip(c["Client"], c["Total"], strict=True)) for c in columns]
    base = totals[0]
    rows = []
    for client in dict.fromkeys(c for t in totals for c in t):
        values = [t.get(client) for t in totals]
        changes = [None if v is None or client not in base else v - base[client] for v in values[1:]]
        if only and all(c is not None and abs(c) < 1e-12 for c in changes):
            continue
        row: dict[str, object] = {"Client": client} | dict(zip(titles, values, strict=True))
        rows.append(row | {f"Δ {t}": c for t, c in zip(titles[1:], changes, strict=True)})
    return rows


def show_totals(rows: list[dict[str, object]]) -> None:
    if rows:
        missing = any(v is None for row in rows for v in row.values())
        if missing:
            st.caption(f"{numbers.NO_VALUE} the client is not in that run.")
        number = st.column_config.NumberColumn(format="%+.4f")
        height = "auto" if len(rows) <= client_table.ROWS_IN_SIGHT else client_table.TALLEST
        controls.table(rows, column_config={k: number for k in rows[0] if k != "Client"}, height=height)
    else:
        st.text("No difference.")


def alerts_table(reports: list[AuditReport], titles: tuple[str, ...], only: bool) -> None:
    """One row per client and kind of alert: in which results it stands, and with which window."""
    said = [
        {
            (a.client, a.verdict): "whole run" if a.window is None else numbers.window(*a.window)
            for a in r.detection.alerts
        }
        for r in reports
    ]
    rows = []
    for client, kind in dict.fromkeys(k for s in said for k in s):
        windows = [s.get((client, kind), "–") for s in said]
        if only and len(set(windows)) == 1:
            continue
        rows.append({"Client": client, "Observed": verdict_name(kind)} | dict(zip(titles, windows, strict=True)))
    if rows:
        controls.table(rows)
    else:
        st.text("The same alerts with the same windows." if any(said) else "No result raises an alert.")


def raised(reports: list[AuditReport]) -> list[set[tuple[str, VerdictKind]]]:
    """The alerts of each result, by client and verdict."""
    return [{(a.client, a.verdict) for a in r.detection.alerts} for r in reports]


def title_of(reports: list[AuditReport], moved: int) -> str:
    return f"{moved_words(moved)}; {agreement_words(raised(reports))}"


def alerts_alone(
    results: list[ResultEntry],
    reports: list[AuditReport],
    top: st.delta_generator.DeltaGenerator,
    titles: tuple[str, ...],
    names: Mapping[str, str],
) -> None:
    """What can be compared where a result has no values: the alerts and the settings."""
    words = agreement_words(raised(reports))
    top.title(words[0].upper() + words[1:])
    for title, report in zip(titles, reports, strict=True):
        if (lacking := without_values(report.history)) is not None:
            st.caption(f"{title}: {controls.text_of(lacking)}")
    with st.container(border=True, gap="xsmall"):
        controls.card_title("Alerts in each result", "epochs")
        alerts_table(reports, titles, st.toggle("Only differences", key="only-differences"))
    with st.container(border=True, gap="xsmall"):
        settings_table(results, titles, names)


@dataclass(frozen=True)
class Pictures:
    """The two charts of a comparison, and what they are cached under."""

    ranks: RankFacts
    curves: AlignedFacts
    key: tuple[Hashable, ...]


def curves_card(pictures: Pictures, following: Following, only: bool, report: AuditReport) -> None:
    """The clients' curves of all results on one axis, or their differences to the baseline."""
    mode, curves = state.theme(), pictures.curves
    controls.card_title("Difference to the baseline" if only else "Curves on one axis", curves.axis)
    st.caption("Wide grey: the baseline. Clients that differ most, and the one you follow.")
    controls.chart(
        lambda: draw_aligned(curves, mode, following=following),
        aligned_alt(curves),
        lambda: aligned_rows(curves),
        "aligned",
        name="compared-curves",
        cache_key=(*pictures.key, following, only, mode),
        report=report,
    )


def ranks_card(pictures: Pictures, following: Following, report: AuditReport) -> None:
    """The clients' ranks in each result."""
    mode, ranks = state.theme(), pictures.ranks
    controls.card_title("Ranks")
    left_out = f" {numbers.count(ranks.left_out)} that moved less are left out." if ranks.left_out else ""
    st.caption(f"In colour: moved by two places or more.{left_out}")
    controls.chart(
        lambda: draw_ranks(ranks, mode, following=following),
        rank_alt(ranks),
        lambda: rank_rows(ranks),
        "ranks",
        name="ranks",
        cache_key=(*pictures.key, following.client, mode),
        report=report,
    )


def board(
    results: list[ResultEntry],
    reports: list[AuditReport],
    top: st.delta_generator.DeltaGenerator,
    names: Mapping[str, str],
) -> None:
    """Everything that differs between the results: curves, ranks, alerts, totals and settings."""
    titles = ("Baseline", *(["Compared"] if len(results) == 2 else [f"Compared {i}" for i in range(1, len(results))]))
    shared = [u for u in reports[0].history.utilities if all(u in r.history.utilities for r in reports)]
    if not shared:
        top.title("These results share no utility")
        return
    if any(r.history.without_values is not None for r in reports):
        alerts_alone(results, reports, top, titles, names)
        return
    following = selection.follow_bar(reports[0])
    with st.container(horizontal=True, gap="medium", vertical_alignment="center"):
        utility = controls.pick_utility(tuple(shared))
        only = st.toggle("Only differences", key="only-differences")
    for title, report in zip(titles, reports, strict=True):
        if (filled := filled_in(report.history)) is not None:
            st.caption(controls.text_of(f"{title}: {filled}"))
    if len({r.run_digest for r in results}) > 1:
        st.caption(SEVERAL_RUNS)
    key = (tuple(r.digest for r in results), utility)
    who = following.client
    pictures = Pictures(
        state.cached((*key, who, "ranks"), lambda: rank_facts(reports, utility, titles, who)),
        state.cached((*key, who, only, "aligned"), lambda: aligned_facts(reports, utility, titles, who, only)),
        key,
    )
    if not pictures.ranks.rows:
        top.title("The two runs have no client in common" if len(reports) == 2 else "The runs have no client in common")
    else:
        top.title(title_of(reports, pictures.ranks.moved))
        left, right = st.columns([1.45, 1], gap="small")
        with left, st.container(border=True, height="stretch", gap="xsmall"):
            curves_card(pictures, following, only, reports[0])
        with right, st.container(border=True, height="stretch", gap="xsmall"):
            ranks_card(pictures, following, reports[0])
    with st.container(border=True, gap="xsmall"):
        controls.card_title("Alerts in each result", "epochs")
        alerts_table(reports, titles, only)
    with st.container(border=True, gap="xsmall"):
        controls.card_title("Totals", pictures.curves.axis)
        show_totals(state.cached((*key, only, "totals"), lambda: totals_rows(reports, utility, titles, only)))
    with st.container(border=True, gap="xsmall"):  # names of runs are long
        settings_table(results, titles, names)


workspace = state.workspace()
available = [r for r in workspace.results(kind="audit") if r.available]
if len(available) < 2:
    st.title("Two results are needed to compare")
    st.markdown("Compute a second run, or the same run with another budget: then this page shows what changes.")
    controls.next_steps(("scheduler", "Try another budget"), ("upload", "Bring in a second run"))
else:
    place = st.container()
    names = {r.digest: r.name for r in workspace.runs()}
    chosen = pick_results(available, names)
    if len(chosen) < 2:
        place.title("Choose a result to compare with the baseline")
        st.markdown("Choose one or more results under *Compared with*.")
    else:
        board(chosen, [state.load_report(r.digest, r) for r in chosen], place, names)
