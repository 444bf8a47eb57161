"""Links to one run: made, listed and withdrawn by an operator where people sign in."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlsplit

import streamlit as st

from flcontrib_core.errors import FLContribError
from flcontrib_core.words import numbers
from flcontrib_core.workspace import Grant, GrantKind
from flcontrib_dashboard import accounts, controls, state
from flcontrib_dashboard.addresses import under_base

EVERYTHING = "The whole run"
MOST_LINKS = 20


def offered() -> bool:
    """Only where people sign in does a link open less than the server does anyway, and operators alone make one."""
    account = accounts.current()
    return accounts.sign_in_is_on() and account is not None and account.role is accounts.Role.OPERATOR


def address_of(grant: Grant) -> str:
    """The link as a browser opens it."""
    here = urlsplit(st.context.url or "")
    return f"{here.scheme}://{here.netloc}{under_base('/')}?share={state.workspace().grants.token(grant)}"


def card(shown: state.Shown) -> None:
    """A form for a new link, and the links to this run that still hold."""
    controls.card_title("Share a link")
    st.caption(
        "Whoever has the link reads this run, or one client's extract of it, and changes nothing. It ends by itself."
    )
    with st.form("share", border=False):
        clients = numbers.in_order(shown.report.history.client_ids)
        what = st.selectbox(
            "What it opens", [EVERYTHING, *clients], format_func=lambda c: numbers.visible(numbers.named(c))
        )
        name = st.text_input("For whom", max_chars=80)
        days = st.number_input("Days", 1, 366, 14)
        if st.form_submit_button("Make a link"):
            client = "" if what == EVERYTHING else str(what)
            role = "client" if client else "reader"
            try:
                state.workspace().grants.give(
                    GrantKind.LINK,
                    role=role,
                    days=int(days),
                    by=accounts.your_name(),
                    name=name,
                    runs=(shown.entry.digest,),
                    client=client,
                )
            except FLContribError as refused:
                st.error(controls.text_of(str(refused)))
    links = state.workspace().grants.list(GrantKind.LINK)
    holding = [g for g in links if g.holds(datetime.now(UTC)) and shown.entry.digest in g.runs]
    for grant in holding[:MOST_LINKS]:
        said = f"{numbers.named(grant.client) if grant.client else EVERYTHING}, until {numbers.moment(grant.expires)}"
        st.text(numbers.visible(f"{said}, for {grant.name}" if grant.name else said))
        with st.container(horizontal=True, vertical_alignment="center"):
            st.code(address_of(grant), language=None, wrap_lines=True)
            if st.button("Withdraw", key=f"withdraw-{grant.id}"):
                state.workspace().grants.withdraw(grant.id, accounts.your_name())
                st.rerun()
