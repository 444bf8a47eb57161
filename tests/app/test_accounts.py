"""Sign-in and roles: what each account reaches, tried from every side; a client's account above all."""

from __future__ import annotations

import hashlib
import json
from datetime import date
from pathlib import Path
from urllib.parse import unquote

import anyio
import pytest
from click.testing import CliRunner
from flcontrib_dashboard import accounts, api, extracts, state
from starlette.applications import Starlette
from starlette.types import Message
from streamlit.testing.v1 import AppTest

from flcontrib_core.commands.serving import serve
from flcontrib_core.errors import SettingsError
from flcontrib_core.workspace import RunEntry, Workspace
from flcontrib_core.workspace.decisions import AlertBook
from tests.app.filled_workspace import Filled
from tests.app.test_pages import ENTRY, PAGES, _own_caches, opened, title, words

assert _own_caches  # each case opens its own workspace
ADA, GRACE, WARD, STRANGER = "ada@example.org", "grace@example.org", "ward3@example.org", "eve@example.org"
CLIENT, OTHERS = "client-03", [f"client-{n:02d}" for n in (1, 2, 4, 5, 6)]


@pytest.fixture
def run(filled: Filled) -> RunEntry:
    return filled.runs["report"]


@pytest.fixture
def sign_in(tmp_path: Path, run: RunEntry, monkeypatch: pytest.MonkeyPatch) -> Path:
    def token(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    own = f'role = "client", client = "{CLIENT}", runs = ["{run.digest[:16]}"]'
    file = tmp_path / "sign-in.toml"
    file.write_text(
        f"""
[auth]
redirect_uri = "https://audits.example.org/oauth2callback"
[accounts]
"{ADA}" = "operator"
"{GRACE}" = "auditor"
"{WARD}" = {{ {own} }}
[tokens]
operator = {{ sha256 = "{token("all")}", role = "operator", expires = 2999-01-01 }}
ward = {{ sha256 = "{token("own")}", {own}, expires = 2999-01-01 }}
old = {{ sha256 = "{token("old")}", role = "operator", expires = 2001-01-01 }}
"""
    )
    monkeypatch.setenv(accounts.FILE, str(file))
    return file


def as_user(monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    monkeypatch.setattr(accounts, "signed_in", lambda: address)


def everything(shown: AppTest) -> str:
    """All that was sent to the browser, not only what is text."""
    return words(shown) + "".join(str(node.proto) for node in shown.main) + "".join(str(n.proto) for n in shown.sidebar)


@pytest.mark.usefixtures("sign_in")
@pytest.mark.parametrize("address", [None, STRANGER])
@pytest.mark.parametrize("view", ["overview", "alerts", "report", "runs"])
def test_a_stranger_gets_no_further(
    filled: Filled, run: RunEntry, monkeypatch: pytest.MonkeyPatch, view: str, address: str | None
) -> None:
    as_user(monkeypatch, address)
    shown = opened(filled.folder, view, run, client=CLIENT)
    assert title(shown) == ("Sign in" if address is None else "This account has no access")
    assert not [name for name in (CLIENT, *OTHERS, run.name) if name in everything(shown)]


@pytest.mark.usefixtures("sign_in")
@pytest.mark.parametrize("view", PAGES)
def test_a_client_reaches_only_its_extract_whatever_page_it_asks_for(
    filled: Filled, run: RunEntry, monkeypatch: pytest.MonkeyPatch, view: str
) -> None:
    as_user(monkeypatch, WARD)
    shown = opened(filled.folder, view, run, client="client-05", window="1-5", epoch="3")
    assert title(shown) == "client-03 sent empty updates in epochs 5–8"
    sent = everything(shown)
    assert "What speaks against it" in sent
    assert "the update is zero" in sent
    assert not [name for name in (*OTHERS, run.name) if name in sent]
    other = opened(filled.folder, view, filled.runs["table"], client="client-05")
    assert not [name for name in (*OTHERS, filled.runs["table"].name) if name in everything(other)]


@pytest.mark.usefixtures("sign_in")
def test_a_client_cannot_have_another_extract_nor_the_workspace(
    filled: Filled, run: RunEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, WARD)
    monkeypatch.setenv("FLCONTRIB_WORKSPACE", str(filled.folder))
    monkeypatch.setenv("FLCONTRIB_SAMPLES", "0")
    shown = state.shown_to_client(run)
    assert shown is not None
    with pytest.raises(accounts.NotAllowed):
        extracts.downloads(shown, "client-05")
    with pytest.raises(accounts.NotAllowed):
        state.workspace()
    with pytest.raises(accounts.NotAllowed):
        state.stored_runs()


@pytest.mark.usefixtures("sign_in")
def test_a_client_s_reply_is_chained_into_the_log(
    filled: Filled, run: RunEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, WARD)
    shown = opened(filled.folder, "overview", run)
    shown.text_area[0].set_value("our scanner was in repair")
    next(b for b in shown.button if b.label == "File the reply").click().run()
    assert "our scanner was in repair" in words(shown)
    with Workspace(filled.folder) as workspace:
        last = workspace.log.entries("reply", run.digest)[-1]
        assert (last.body["by"], last.body["text"]) == (WARD, "our scanner was in repair")
        assert workspace.verify_chain() is None


def test_whatever_an_auditor_can_call_about_alerts_reads_or_comments() -> None:
    """A method that joins the room is forbidden, or put here by somebody who thought of it."""
    everything = {name for name, thing in vars(AlertBook).items() if callable(thing) and not name.startswith("_")}
    left = everything - accounts.AUDITORS_MAY_NOT["alerts"]
    assert left == {"list", "reviews", "notes", "marks", "find", "comment"}


@pytest.mark.usefixtures("sign_in")
def test_an_auditor_reads_and_comments_and_does_nothing_else(
    filled: Filled, run: RunEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, GRACE)
    monkeypatch.setenv("FLCONTRIB_WORKSPACE", str(filled.folder))
    monkeypatch.setenv("FLCONTRIB_SAMPLES", "0")
    assert "client-03" in title(opened(filled.folder, "overview", run))
    workspace = state.workspace()
    alert = workspace.alerts.list(run.digest)[0]
    assert workspace.alerts.comment(alert.id, GRACE, "seen").history[-1].by == GRACE
    for forbidden in (
        lambda: workspace.alerts.decide(alert.id, "dismissed", GRACE, "x"),
        lambda: workspace.alerts.assign(alert.id, GRACE, GRACE),
        lambda: workspace.alerts.mark(run.digest, CLIENT, "honest", GRACE),
        lambda: workspace.jobs.submit(run.digest, {}),
        lambda: workspace.delete_run(run.digest),
        lambda: workspace.describe_run(run.digest, by=GRACE, note="x"),
        lambda: workspace.add_run(Path("/etc/passwd")),
    ):
        with pytest.raises(accounts.NotAllowed):
            forbidden()
    upload = opened(filled.folder, "upload", run)
    assert "Operators bring in runs" in words(upload)
    assert not upload.text_input
    for view, entry, label in (("overview", "failed", "Compute"), ("scheduler", "failed", "Compute all 3 epochs")):
        (button,) = [b for b in opened(filled.folder, view, filled.runs[entry]).button if b.label == label]
        assert button.disabled, "said before the click, not after it"
        assert button.help == accounts.FOR_OPERATORS
    evidence = opened(filled.folder, "alerts", run, client=CLIENT, window="5-8")
    assert {b.label: b.disabled for b in evidence.button if b.label.startswith(("Record the", "Declare"))} == {
        "Record the comment": False,
        "Declare for epochs 5–8": True,
    }


@pytest.mark.usefixtures("sign_in")
def test_nobody_who_signs_in_names_a_path_on_the_server(
    filled: Filled, run: RunEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, ADA)
    shown = opened(filled.folder, "upload", run)
    assert "A path on the server" not in [field.label for field in shown.text_input]


def test_without_sign_in_everybody_is_the_operator(filled: Filled, run: RunEntry) -> None:
    assert accounts.current() == accounts.ANYBODY
    shown = opened(filled.folder, "upload", run)
    assert "A path on the server" in [field.label for field in shown.text_input]
    assert "Sign out" not in [b.label for b in shown.button]
    assert ENTRY.exists()


def asked(filled: Filled, monkeypatch: pytest.MonkeyPatch, path: str, token: str = "") -> tuple[int, str]:
    """Status and text of a GET, as a server would hand it to the routes: the path decoded once."""
    monkeypatch.setenv("FLCONTRIB_WORKSPACE", str(filled.folder))
    monkeypatch.setenv("FLCONTRIB_SAMPLES", "0")
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    scope = {"type": "http", "method": "GET", "path": unquote(path), "headers": headers, "query_string": b""}
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    anyio.run(Starlette(routes=api.api_routes()), {**scope, "root_path": "", "http_version": "1.1"}, receive, send)
    body = b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body")
    return int(sent[0]["status"]), body.decode()


@pytest.mark.usefixtures("sign_in")
def test_the_api_answers_an_operator_with_the_command_line_s_json(
    filled: Filled, run: RunEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = asked(filled, monkeypatch, "/api/runs", "all")
    assert (status, run.digest in text) == (200, True)
    status, text = asked(filled, monkeypatch, f"/api/runs/{run.digest}/audit", "all")
    assert (status, json.loads(text)["alerts"][0]["client"]) == (200, CLIENT)
    assert "decisions" in json.loads(text)


@pytest.mark.usefixtures("sign_in")
def test_a_client_s_token_opens_its_own_extract_and_nothing_else(
    filled: Filled, run: RunEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = asked(filled, monkeypatch, f"/api/runs/{run.digest}/extract/{CLIENT}", "own")
    assert (status, json.loads(text)["client"]) == (200, CLIENT)
    assert not [name for name in (*OTHERS, run.name) if name in text]
    listed = json.loads(asked(filled, monkeypatch, "/api/runs", "own")[1])
    assert [set(entry) for entry in listed] == [{"digest", "added_at"}]
    table = filled.runs["table"].digest
    for path in (
        f"/api/runs/{run.digest}/audit",
        f"/api/runs/{run.digest}/extract/client-05",
        f"/api/runs/{run.digest}/extract/{CLIENT}/../client-05",
        f"/api/runs/{run.digest}/extract/..%2f..%2fclient-05",
        f"/api/runs/{table}/extract/{CLIENT}",
        f"/api/runs/{table}/audit",
        f"/api/runs/{run.digest[:16]}/audit",
        "/api/runs/..%2f..%2findex.sqlite/audit",
    ):
        status, text = asked(filled, monkeypatch, path, "own")
        assert status in (403, 404), path
        assert not [name for name in (*OTHERS, run.name) if name in text]


@pytest.mark.usefixtures("sign_in")
@pytest.mark.parametrize("token", ["", "wrong", "old"])
def test_no_token_a_wrong_one_and_an_ended_one_are_refused(
    filled: Filled, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    assert asked(filled, monkeypatch, "/api/runs", token)[0] == 401


def test_without_sign_in_there_is_no_api(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(filled, monkeypatch, "/api/runs", "all")[0] == 401


def test_a_token_ends_on_its_day(sign_in: Path) -> None:
    assert api.token_account("old", date(2001, 1, 1)) is not None
    assert api.token_account("old", date(2001, 1, 2)) is None


@pytest.mark.parametrize(
    "accounts_part",
    ['"a@b" = "king"', '"a@b" = { role = "client" }', '"a@b" = { role = "client", client = "x", runs = ["4"] }', ""],
)
def test_a_wrong_sign_in_file_is_refused_in_words(tmp_path: Path, accounts_part: str) -> None:
    file = tmp_path / "sign-in.toml"
    file.write_text(f"[auth]\nclient_id = 'x'\n[accounts]\n{accounts_part}\n")
    with pytest.raises(SettingsError):
        accounts.read_accounts(file)


def test_without_sign_in_the_server_stays_on_this_machine(tmp_path: Path) -> None:
    refused = CliRunner().invoke(serve, ["--host", "0.0.0.0", "--workspace", str(tmp_path)], standalone_mode=False)
    assert isinstance(refused.exception, SettingsError)
    assert "without --sign-in the server stays on this machine" in str(refused.exception)
    assert not any(tmp_path.iterdir()), "nothing was opened"


@pytest.mark.parametrize("content", ["", "[auth]\nclient_id = 'x'\n", "[accounts]\n'a@b' = 'operator'\n", "not toml ["])
def test_a_sign_in_file_that_lacks_a_part_is_refused_before_the_server_starts(tmp_path: Path, content: str) -> None:
    (tmp_path / "sign-in.toml").write_text(content)
    options = ["--sign-in", str(tmp_path / "sign-in.toml"), "--workspace", str(tmp_path / "workspace")]
    assert isinstance(CliRunner().invoke(serve, options, standalone_mode=False).exception, SettingsError)
