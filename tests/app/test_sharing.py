"""Tokens and links: what each opens, and everything they must not, tried from every side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from flcontrib_dashboard import accounts, extracts, state

from flcontrib_core.commands.granting import share, token
from flcontrib_core.errors import FLContribError
from flcontrib_core.workspace import GrantKind, RunEntry, Workspace
from tests.app.filled_workspace import Filled
from tests.app.test_accounts import ADA, CLIENT, OTHERS, as_user, asked, everything, run, sign_in
from tests.app.test_pages import _own_caches, opened, title, words

assert _own_caches
assert run
assert sign_in
pytestmark = pytest.mark.usefixtures("sign_in")


@pytest.fixture
def workspace(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    as_user(monkeypatch, None)  # nobody is signed in: whoever comes, comes by a link
    with Workspace(filled.folder) as opened_workspace:
        yield opened_workspace


def link(workspace: Workspace, run: RunEntry, client: str = "") -> str:
    role = "client" if client else "reader"
    return workspace.grants.give(GrantKind.LINK, role=role, days=3, by=ADA, runs=(run.digest,), client=client)[1]


def test_two_that_make_the_key_at_once_hold_the_same_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Workspace(tmp_path / "one") as first, Workspace(tmp_path / "one") as second:
        monkeypatch.setattr(Path, "exists", lambda path: False)  # neither has seen the other's
        assert first.grants._key() == second.grants._key()
        monkeypatch.undo()
    (key,) = (tmp_path / "one").glob("*grants.key*")
    assert key.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("view", ["overview", "alerts", "clusters", "help", "report", "runs"])
def test_a_link_to_a_run_reads_that_run_and_no_other(
    filled: Filled, run: RunEntry, workspace: Workspace, view: str
) -> None:
    shared = link(workspace, run)
    shown = opened(filled.folder, view, run, share=shared, client=CLIENT, epoch="3")
    assert not shown.exception
    del shown.query_params["share"]  # as a click in the navigation does
    shown.run()
    assert shared in shown.query_params["share"], "the page can be loaded again"
    assert ("client-03" in words(shown)) or view == "help"
    doing = {"Delete the run", "Compute", "Record the decision", "Take it in", "Make a link", "Save", "Cancel"}
    assert not doing & {b.label for b in shown.button}
    other = filled.runs["table"]
    sent = everything(opened(filled.folder, view, other, share=shared))
    assert not [r.name for r in filled.runs.values() if r.digest != run.digest and r.name in sent]
    assert str(filled.folder) not in sent


@pytest.mark.parametrize("view", ["overview", "report", "runs"])
def test_a_link_to_an_extract_shows_that_client_alone_and_takes_no_reply(
    filled: Filled, run: RunEntry, workspace: Workspace, view: str
) -> None:
    shown = opened(filled.folder, view, run, share=link(workspace, run, CLIENT), client="client-05", window="1-5")
    assert title(shown) == "client-03 sent empty updates in epochs 5–8"
    assert not [name for name in (*OTHERS, run.name) if name in everything(shown)]
    assert not shown.text_area


def test_an_ended_a_withdrawn_and_a_forged_link_open_nothing(
    filled: Filled, run: RunEntry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = link(workspace, run)
    later = datetime.now(UTC) + timedelta(days=3)
    assert workspace.grants.find(shared, GrantKind.LINK, later - timedelta(minutes=1)) is not None
    assert workspace.grants.find(shared, GrantKind.LINK, later + timedelta(minutes=1)) is None
    own = link(workspace, run, CLIENT)
    identity, _, signature = shared.partition(".")
    forged = [f"{own.partition('.')[0]}.{signature}", f"{identity}.", f"{identity}.x", "x", signature]
    withdrawn = link(workspace, run)
    workspace.grants.withdraw(withdrawn.partition(".")[0], ADA)
    for bad in (*forged, withdrawn):
        shown = opened(filled.folder, "overview", run, share=bad)
        assert title(shown) == "This link opens nothing any more"
        assert "client-03" not in everything(shown)
    (filled.folder / "grants.key").rename(filled.folder / "away")
    assert workspace.grants.find(shared, GrantKind.LINK) is None, "without the key no link holds"
    (filled.folder / "away").rename(filled.folder / "grants.key")


def test_a_reader_cannot_change_anything_nor_name_another_run(
    filled: Filled, run: RunEntry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLCONTRIB_WORKSPACE", str(filled.folder))
    monkeypatch.setenv("FLCONTRIB_SAMPLES", "0")
    shared = link(workspace, run)
    monkeypatch.setattr(accounts, "link_token", lambda: shared)
    limited, other = state.workspace(), filled.runs["table"].digest
    assert [r.digest for r in limited.runs()] == [run.digest]
    alert = limited.alerts.list(run.digest)[0]
    foreign = workspace.latest_result(other, "audit")
    assert foreign is not None
    for forbidden in (
        lambda: limited.open_run(other),
        lambda: limited.results(other),
        lambda: limited.results(),
        lambda: limited.load_result(foreign),
        lambda: limited.objects.read(foreign.digest),
        lambda: limited.alerts.list(),
        lambda: limited.alerts.reviews(other),
        lambda: limited.alerts.comment(alert.id, "eve", "x"),
        lambda: limited.alerts.decide(alert.id, "dismissed", "eve", "x"),
        lambda: limited.jobs.submit(run.digest, {}),
        lambda: limited.delete_run(run.digest),
        lambda: limited.add_run(Path("/etc/passwd")),
        lambda: limited.grants.list(),
        lambda: limited.log.entries(),
    ):
        with pytest.raises(accounts.NotAllowed):
            forbidden()
    shown = state.shown_to_client(filled.runs["table"])
    assert shown is not None
    with pytest.raises(accounts.NotAllowed):
        extracts.downloads(shown, shown.report.history.client_ids[0])
    for path in ("/api/runs", f"/api/runs/{run.digest}/audit", f"/api/runs/{run.digest}/extract/{CLIENT}"):
        assert asked(filled, monkeypatch, path, shared)[0] == 401, "a link is no token"


def test_an_operator_makes_and_withdraws_a_link_on_the_page(
    filled: Filled, run: RunEntry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, ADA)
    before = {g.id for g in workspace.grants.list()}
    shown = opened(filled.folder, "report", run)
    next(b for b in shown.button if b.label == "Make a link").click().run()
    (made,) = [g for g in workspace.grants.list() if g.id not in before]
    assert (made.given_by, made.runs, made.role) == (ADA, (run.digest,), "reader")
    assert f"?share={workspace.grants.token(made)}" in words(shown)
    shown.button(key=f"withdraw-{made.id}").click().run()
    assert workspace.grants.find(workspace.grants.token(made), GrantKind.LINK) is None
    monkeypatch.delenv(accounts.FILE)
    assert "Make a link" not in [b.label for b in opened(filled.folder, "report", run).button]


def test_tokens_are_made_listed_and_revoked_in_a_terminal(
    filled: Filled, run: RunEntry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ["--workspace", str(filled.folder)]

    def said(*words: str) -> dict[str, str]:
        told = CliRunner().invoke(token, [*words, *place, "--json"], catch_exceptions=False)
        return dict(json.loads(told.stdout))

    whole = said("create", "--role", "auditor", "--by", ADA)
    own = said("create", "--role", "client", "--client", CLIENT, "--run", run.digest[:12])
    assert asked(filled, monkeypatch, "/api/runs", whole["token"])[0] == 200
    assert asked(filled, monkeypatch, f"/api/runs/{run.digest}/extract/{CLIENT}", own["token"])[0] == 200
    for path in (f"/api/runs/{run.digest}/audit", f"/api/runs/{run.digest}/extract/client-05"):
        assert asked(filled, monkeypatch, path, own["token"])[0] == 403
    listed = CliRunner().invoke(token, ["list", *place, "--json"]).stdout
    assert {whole["id"], own["id"]} <= {g["id"] for g in json.loads(listed)}
    assert whole["token"].partition(".")[2] not in listed
    assert CliRunner().invoke(token, ["revoke", whole["id"], *place]).exit_code == 0
    assert asked(filled, monkeypatch, "/api/runs", whole["token"])[0] == 401
    shown = opened(filled.folder, "overview", run, share=own["token"])
    assert title(shown) == "This link opens nothing any more", "a token is no link"
    made = CliRunner().invoke(share, ["create", run.digest[:12], "--client", CLIENT, *place, "--json"]).stdout
    assert json.loads(made)["role"] == "client"


@pytest.mark.parametrize(
    "wrong",
    [{"role": "king"}, {"role": "client"}, {"role": "reader"}, {"role": "reader", "runs": ("0" * 64,)}, {"days": 0}],
)
def test_a_grant_that_is_none_is_refused_in_words(
    workspace: Workspace, run: RunEntry, wrong: dict[str, object]
) -> None:
    asked_for = {"role": "reader", "days": 3, "by": ADA, "runs": () if "role" in wrong else (run.digest,), **wrong}
    with pytest.raises(FLContribError):
        workspace.grants.give(GrantKind.LINK, **asked_for)  # type: ignore[arg-type]
