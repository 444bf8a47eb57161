"""What the reader follows, from plot to plot, from page to page and in a copied link.

The URL is the one place where it stands; the session only carries it over a click in the navigation, which empties
the URL. A chart's event is turned into a choice before the page runs again, so a rerun by itself changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts import NOTHING, Following, read_pick
from flcontrib_core.words import numbers
from flcontrib_dashboard import state
from flcontrib_dashboard.addresses import page_file

MOST_IN_LIST = 500
"""Clients in a list to choose from; beyond, the reader types a part of the name."""
_WINDOW = re.compile(r"(\d{1,9})-(\d{1,9})")


def of_url(report: AuditReport) -> Following:
    """What the URL names, as far as this report has it: anybody can write a URL."""
    client = st.query_params.get("client", "")
    found = _WINDOW.fullmatch(st.query_params.get("window", ""))
    epochs = (int(found[1]), int(found[2])) if found else None
    if epochs is not None and not 1 <= epochs[0] <= epochs[1] <= report.history.epoch_count:
        epochs = None
    return Following(client if client in report.history.client_ids else None, epochs)


def follow(chosen: Following) -> None:
    """Writes what is followed into the URL; what the choice does not name stays as it is."""
    if chosen.client is not None:
        state.remember(client=chosen.client)
    if chosen.epochs is not None:
        state.remember(window=f"{chosen.epochs[0]}-{chosen.epochs[1]}")


def clear() -> None:
    """Follows nobody."""
    state.remember(client=None, window=None)


def on_chart(report: AuditReport, rows: Sequence[str] = ()) -> Callable[[Mapping[str, Any]], None]:
    """What happens when a mark or a box is chosen on a chart of this report: it is followed, and chosen again it opens
    the page of its client, or of its epoch."""

    def take(what: Mapping[str, Any]) -> None:
        now, chosen = of_url(report), read_pick(what, report.history.client_ids, report.history.epoch_count, rows)
        follow(chosen)
        if chosen.client is not None and chosen.client == now.client and chosen.epochs in (None, now.epochs):
            state.open_page("client")
        elif chosen.client is None and chosen.epochs == now.epochs and chosen.epochs is not None:
            state.remember(epoch=chosen.epochs[0])
            state.open_page("epoch")

    return take


def in_focus(report: AuditReport, following: Following, most: int = 8) -> tuple[str, ...]:
    """The clients that get a line of their own: the followed one, then those with an alert, strongest first."""
    first = () if following.client is None else (following.client,)
    return tuple(dict.fromkeys([*first, *(a.client for a in report.detection.alerts)]))[:most]


def windows_of(report: AuditReport, following: Following, most: int = 4) -> list[tuple[int, int]]:
    """The windows worth a chip: the followed client's alerts first, then the others', and the one followed now."""
    alerts = report.detection.alerts
    ordered = [a.window for a in alerts if a.client == following.client] + [a.window for a in alerts]
    known = [w for w in dict.fromkeys(ordered) if w is not None][:most]
    if following.epochs is not None and following.epochs not in known:
        known.append(following.epochs)
    return known


def follow_bar(report: AuditReport) -> Following:
    """What is followed on all pages, and the way to choose or clear it without a mouse."""
    now = of_url(report)
    names = numbers.in_order(report.history.client_ids)
    windows = windows_of(report, now)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="follow-bar"):
        if len(names) <= MOST_IN_LIST:
            st.session_state["follow-client"] = now.client
            st.selectbox(
                "Follow a client",
                names,
                index=None,
                key="follow-client",
                placeholder="Follow a client",
                format_func=lambda client: numbers.visible(numbers.named(client)),
                label_visibility="collapsed",
                width=220,
                on_change=_follow_named,
            )
        else:
            st.session_state["follow-search"] = now.client or ""
            st.text_input(
                "Follow a client",
                key="follow-search",
                placeholder="Follow: part of a name",
                label_visibility="collapsed",
                width=220,
                on_change=_follow_searched,
                args=(report,),
            )
        if windows:
            st.session_state["follow-window"] = now.epochs
            st.pills(
                "Follow epochs",
                windows,
                key="follow-window",
                format_func=lambda w: f"Epochs {numbers.window(*w)}",
                label_visibility="collapsed",
                on_change=_follow_window,
                width="content",
            )
        if now.client is not None:
            st.page_link(page_file("client"), label="All about this client", icon=":material/person:")
        if now != NOTHING:
            st.button("Clear", icon=":material/close:", type="tertiary", key="follow-clear", on_click=clear)
    return now


def _follow_named() -> None:
    state.remember(client=st.session_state["follow-client"])


def _follow_searched(report: AuditReport) -> None:
    """The client of this name, else the first one whose name holds the words."""
    words = str(st.session_state["follow-search"]).strip().lower()
    names = sorted(report.history.client_ids, key=lambda c: (c.lower() != words, numbers.place_of(c)))
    state.remember(client=next((c for c in names if words and words in c.lower()), None))


def _follow_window() -> None:
    chosen = st.session_state["follow-window"]
    state.remember(window=None if chosen is None else f"{chosen[0]}-{chosen[1]}")
