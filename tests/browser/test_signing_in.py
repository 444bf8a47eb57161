"""Signing in for real: a browser, Streamlit's OpenID Connect, and a provider that vouches for one account at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.app.filled_workspace import TINY_NAME
from tests.browser.conftest import Served, free_port, serving
from tests.browser.openid_provider import CLIENT_ID, CLIENT_SECRET, Provider, providing
from tests.browser.steps import own_window, still
from tests.browser.test_reading import serious_findings
from tests.browser.test_taking_away import saved
from tests.patience import PAGE_MILLISECONDS

pytestmark = pytest.mark.browser
ADA, GRACE, WARD, EVE = "ada@example.org", "grace@example.org", "ward3@example.org", "eve@example.org"


@dataclass(frozen=True)
class Guarded:
    """A dashboard that asks who is there, and the provider it asks."""

    address: str
    provider: Provider
    run: str


@pytest.fixture(scope="module")
def guarded(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder, port = tmp_path_factory.mktemp("sign-in"), free_port()
    run = served.filled.runs["report"].digest
    with providing() as provider:
        file = folder / "sign-in.toml"
        file.write_text(_sign_in(provider, port, run))
        with serving(served.filled.folder, port, folder / "server.txt", more=("--sign-in", str(file))):
            yield Guarded(f"http://localhost:{port}", provider, run)
            assert provider.faults == []


def _sign_in(provider: Provider, port: int, run: str) -> str:
    return f"""
[auth]
redirect_uri = "http://localhost:{port}/oauth2callback"
cookie_secret = "{"0123456789abcdef" * 4}"
client_id = "{CLIENT_ID}"
client_secret = "{CLIENT_SECRET}"
server_metadata_url = "{provider.address}/.well-known/openid-configuration"
[accounts]
"{ADA}" = "operator"
"{GRACE}" = "auditor"
"{WARD}" = {{ role = "client", client = "client-03", runs = ["{run[:16]}"] }}
"""


def sign_in(page: Page, guarded: Guarded, account: str) -> None:
    """This account goes through the provider and comes back."""
    guarded.provider.account = account
    page.goto(guarded.address)
    expect(page.get_by_role("heading", level=1).last).to_have_text("Sign in")
    expect(page.get_by_text("client-03")).to_have_count(0)
    still(page)
    page.get_by_role("button", name="Sign in").last.click()
    expect(page.get_by_role("button", name="Sign out").last).to_be_visible()


def listened_to(page: Page) -> list[bytes]:
    """What the server sends to this page from now on, message by message."""
    sent: list[bytes] = []

    def keep(message: str | bytes) -> None:
        sent.append(
            (message.encode() if isinstance(message, str) else message).replace(b"\\", b"")
        )  # escapes of markdown

    page.on("websocket", lambda socket: socket.on("framereceived", keep))
    return sent


def client_asks_for_more(page: Page, guarded: Guarded) -> None:
    """With its own cookies, by every route of ours: runs, results, another extract, a log brought in, a path named."""
    ask = page.context.request
    for route in ("runs", f"runs/{guarded.run}/audit", f"runs/{guarded.run}/extract/client-05"):
        answer = ask.get(f"{guarded.address}/api/{route}", timeout=PAGE_MILLISECONDS)
        assert answer.status == 401, route
        assert "client-05" not in answer.text()
    assert ask.put(f"{guarded.address}/import/", data=b"x", timeout=PAGE_MILLISECONDS).status in (401, 403)
    for place in ("upload", "settings", "report", "jobs"):
        page.goto(f"{guarded.address}/{place}?run={guarded.run[:16]}&client=client-05")
        expect(page.get_by_role("heading", level=1).last).to_contain_text("client-03")
        expect(page.locator("input[type=file]")).to_have_count(0)
        expect(page.get_by_label("A path on the server")).to_have_count(0)


def test_each_account_sees_what_it_may_after_a_real_sign_in(browser: Browser, guarded: Guarded) -> None:
    title = "heading"
    with own_window(browser) as operator, own_window(browser) as auditor, own_window(browser) as client:
        sign_in(operator, guarded, ADA)
        expect(operator.get_by_role(title, level=1).last).to_contain_text("1 of 6 clients stands out")
        operator.goto(f"{guarded.address}/upload?run={guarded.run[:16]}")
        expect(operator.get_by_text("What happens to a file").last).to_be_visible()
        expect(operator.get_by_test_id("stSidebar").get_by_text(", operator").last).to_be_visible()

        operator.goto(f"{guarded.address}/report?run={guarded.run[:16]}")
        assert b"client-03" in saved(operator, "totals.csv"), "a file is fetched beside the page that knows who asks"
        assert b"client-03" in saved(operator, "Report (JSON)")

        sign_in(auditor, guarded, GRACE)
        expect(auditor.get_by_role(title, level=1).last).to_contain_text("1 of 6 clients stands out")
        auditor.goto(f"{guarded.address}/upload")
        expect(auditor.get_by_text("Operators bring in runs").last).to_be_visible()

        sign_in(client, guarded, WARD)
        client_sees_itself_alone(client, guarded)
        assert serious_findings(client) == []
        client_asks_for_more(client, guarded)

        still(operator)
        operator.get_by_role("button", name="Sign out").last.click()
        expect(operator.get_by_role(title, level=1).last).to_have_text("Sign in")


def client_sees_itself_alone(client: Page, guarded: Guarded) -> None:
    sent = listened_to(client)
    for place in ("", "runs", "alerts?client=client-05"):
        client.goto(f"{guarded.address}/{place}")
        expect(client.get_by_role("heading", level=1).last).to_have_text(
            "client-03 sent empty updates in epochs 5–\u20608"
        )
        still(client)
        assert "client-05" not in client.content()
    assert any(b"client-03" in message for message in sent)
    others = [name.encode() for name in (TINY_NAME, *(f"client-0{i}" for i in (0, 1, 2, 4, 5)))]
    assert [name for name in others if any(name in message for message in sent)] == [], "no message names anybody else"


def test_account_that_nobody_named_has_no_access(browser: Browser, guarded: Guarded) -> None:
    with own_window(browser) as stranger:
        sign_in(stranger, guarded, EVE)
        expect(stranger.get_by_role("heading", level=1).last).to_have_text("This account has no access")
