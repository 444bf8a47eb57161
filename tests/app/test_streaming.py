"""Does the streaming route take large logs in flat memory, and turn away everybody else without leaving a trace?"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import psutil
import pytest
from flcontrib_dashboard.guard import MOST_UPLOADS_PER_ADDRESS, RequestGuard, cross_origin, fault_answer, other_host
from flcontrib_dashboard.pacing import MOST_MESSAGE_BYTES, PerAddress, SessionBytes, paced
from flcontrib_dashboard.uploads import ROUTE, TOKEN_HEADER, UploadTokens, too_long
from starlette.applications import Starlette
from starlette.routing import Route

from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.runs.recorder import RunRecorder
from flcontrib_core.workspace import Workspace
from tests.app.filled_workspace import wait_until
from tests.patience import PATIENCE_SECONDS
from tests.workspace.recorded import bundle_run, scratch_folder

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
LARGEST = 320 * MIB
MOST_CONNECTIONS = 40
EXTRA_BYTES = 192 * MIB
"""How much a server may grow while 300 MB pass through it: less than a copy of them, more than the reader's needs."""


@dataclass(frozen=True)
class Sent:
    status: int
    told: dict[str, Any]


@dataclass(frozen=True)
class Streaming:
    """A server of its own, the workspace behind it and two sessions' tokens."""

    port: int
    folder: Path
    process: subprocess.Popen[str]
    tokens: tuple[str, str]

    def put(self, body: bytes | Path, name: str = "run.flrun", token: str | None = None, **headers: str) -> Sent:
        given = {TOKEN_HEADER: self.tokens[0] if token is None else token}
        given |= {key.replace("_", "-"): value for key, value in headers.items()}
        connection = http.client.HTTPConnection("localhost", self.port, timeout=PATIENCE_SECONDS)
        try:
            if isinstance(body, Path):
                given["Content-Length"] = str(body.stat().st_size)
                with body.open("rb") as content:
                    connection.request("PUT", f"{ROUTE}/{name}", content, given)
            else:
                connection.request("PUT", f"{ROUTE}/{name}", body, given)
            reply = connection.getresponse()
            told = reply.read()
            return Sent(reply.status, json.loads(told) if reply.getheader("Content-Type") == "application/json" else {})
        finally:
            connection.close()

    def left_over(self) -> list[str]:
        return [p.name for p in (self.folder / "incoming").iterdir()] if (self.folder / "incoming").exists() else []

    def runs(self) -> list[str]:
        with Workspace(self.folder) as workspace:
            return [r.digest for r in workspace.runs()]


@pytest.fixture(scope="module")
def server() -> Iterator[Streaming]:
    with scratch_folder() as folder, (folder / "output.txt").open("w") as errors, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        settings = {
            "FLCONTRIB_WORKSPACE": str(folder / "workspace"),
            "FLCONTRIB_SAMPLES": "0",
            "FLCONTRIB_LARGEST_UPLOAD": str(LARGEST),
        }
        process = subprocess.Popen(
            python_command("-m", "tests.app.streaming_server", str(port), str(MOST_CONNECTIONS), "3"),
            env=child_environment(**settings),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            first, second = (process.stdout.readline().strip() for _ in range(2))
            wait_until(lambda: listens(port) or process.poll() is not None, "an answer of the server")
            assert process.poll() is None, (folder / "output.txt").read_text()
            yield Streaming(port, folder / "workspace", process, (first, second))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=PATIENCE_SECONDS)
            process.stdout.close()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return bundle_run(tmp_path_factory.mktemp("log") / "run").read_bytes()


def test_a_log_is_taken_in_and_its_sha256_answered(server: Streaming, log: bytes) -> None:
    sent = server.put(log)
    assert sent.status == 201
    assert sent.told["sha256"] == hashlib.sha256(log).hexdigest()
    assert sent.told["bytes"] == len(log)
    assert sent.told["run"] in server.runs()
    assert server.left_over() == []


def test_a_refused_log_answers_every_problem_and_leaves_only_a_record(server: Streaming) -> None:
    body = (ROOT / "sample_runs" / "broken.flrun").read_bytes()
    before = server.runs()
    sent = server.put(body, "broken.flrun")
    assert sent.status == 200
    assert {"E_CLIENT_SIZE", "E_NONFINITE", "E_SHAPE"} <= {p["code"] for p in sent.told["problems"]}
    assert (server.runs(), server.left_over()) == (before, [])
    with Workspace(server.folder) as workspace:
        assert hashlib.sha256(body).hexdigest() in [e.subject for e in workspace.log.entries("upload-refused")]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Origin": "http://outside.invalid"}, "E_ORIGIN"),
        ({"Origin": "null"}, "E_ORIGIN"),
        ({"Sec_Fetch_Site": "cross-site"}, "E_ORIGIN"),
        ({"Host": "outside.invalid"}, "E_HOST"),
    ],
)
def test_another_site_is_turned_away_even_with_the_token(
    server: Streaming, log: bytes, headers: dict[str, str], code: str
) -> None:
    sent = server.put(log, **headers)
    assert (sent.status, sent.told["code"]) == (403, code)


@pytest.mark.parametrize("wrong", ["", "x", ".", "0123456789abcdef.", "SECRET_OF_ANOTHER"])
def test_without_its_token_nobody_may_send(server: Streaming, log: bytes, wrong: str) -> None:
    mixed = server.tokens[0].split(".")[0] + "." + server.tokens[1].split(".")[1]
    sent = server.put(log, token=mixed if wrong == "SECRET_OF_ANOTHER" else wrong)
    assert (sent.status, sent.told["code"]) == (401, "E_UPLOAD_TOKEN")


def test_a_browser_of_another_site_gets_no_leave_to_try(server: Streaming) -> None:
    connection = http.client.HTTPConnection("localhost", server.port, timeout=PATIENCE_SECONDS)
    asks = {"Origin": "http://outside.invalid", "Access-Control-Request-Method": "PUT"}
    connection.request("OPTIONS", f"{ROUTE}/x", headers=asks)
    reply = connection.getresponse()
    reply.read()
    connection.close()
    assert reply.getheader("Access-Control-Allow-Origin") is None


def test_more_than_the_cap_is_not_read(server: Streaming) -> None:
    connection = http.client.HTTPConnection("localhost", server.port, timeout=PATIENCE_SECONDS)
    connection.putrequest("PUT", f"{ROUTE}/huge.flrun")
    connection.putheader(TOKEN_HEADER, server.tokens[0])
    connection.putheader("Content-Length", str(LARGEST + 1))
    connection.endheaders()
    reply = connection.getresponse()  # before a byte of the body was sent
    told = json.loads(reply.read())
    connection.close()
    assert (reply.status, told["code"]) == (413, "E_UPLOAD_SIZE")
    assert "command line" in told["error"]


def test_more_than_the_cap_without_announcing_it_is_cut_off(server: Streaming) -> None:
    """Chunked transfer says no length; the answer comes when the cap is passed."""
    connection = http.client.HTTPConnection("localhost", server.port, timeout=PATIENCE_SECONDS)
    piece = bytes(MIB)
    connection.putrequest("PUT", f"{ROUTE}/endless.flrun")
    connection.putheader(TOKEN_HEADER, server.tokens[0])
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    with suppress(BrokenPipeError, ConnectionResetError):  # the server may hang up while we still send
        for _ in range(LARGEST // MIB + 2):
            connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        connection.send(b"0\r\n\r\n")
        assert connection.getresponse().status == 413
    connection.close()
    wait_until(lambda: server.left_over() == [], "the cut-off upload to be gone")


def test_an_upload_that_breaks_off_leaves_nothing(server: Streaming) -> None:
    before = server.runs()
    connection = http.client.HTTPConnection("localhost", server.port, timeout=PATIENCE_SECONDS)
    connection.putrequest("PUT", f"{ROUTE}/half.flrun")
    connection.putheader(TOKEN_HEADER, server.tokens[1])
    connection.putheader("Content-Length", str(64 * MIB))
    connection.endheaders()
    for _ in range(8):
        connection.send(bytes(MIB))
    wait_until(lambda: server.left_over() != [], "a staged file")
    connection.close()
    wait_until(lambda: server.left_over() == [], "the staged file to be gone")
    assert server.runs() == before


@pytest.mark.parametrize(
    "name", ["..%2F..%2Fescaped.flrun", "%2Ftmp%2Fescaped.flrun", "a%5C..%5Cescaped.flrun", "", "%00"]
)
def test_a_name_is_never_a_place(server: Streaming, log: bytes, name: str) -> None:
    outside = sorted(p.name for p in server.folder.parent.iterdir())
    sent = server.put(log, name)
    assert sent.status in (201, 400), "taken in under its content's name, or turned away as a path"
    assert sorted(p.name for p in server.folder.parent.iterdir()) == outside
    assert not list(server.folder.rglob("*escaped*"))
    assert not Path("/tmp/escaped.flrun").exists()
    assert server.left_over() == []


def test_a_table_is_known_by_the_senders_name(server: Streaming) -> None:
    body = (ROOT / "sample_runs" / "contributions-table.csv").read_bytes()
    sent = server.put(body, "five%20rounds.csv")
    assert sent.status == 201
    with Workspace(server.folder) as workspace:
        entry = workspace.find_run(sent.told["run"])
        assert entry is not None
        assert (entry.name, entry.source, entry.kind) == ("five rounds", "five rounds.csv", "contribution-table")


def test_the_same_log_sent_twice_at_once_is_one_run(server: Streaming, tmp_path: Path) -> None:
    body = bundle_run(tmp_path / "twice", seed=99).read_bytes()
    answers: list[Sent] = []
    senders = [
        threading.Thread(target=lambda t=token: answers.append(server.put(body, token=t))) for token in server.tokens
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert [a.status for a in answers] == [201, 201]
    assert len({a.told["run"] for a in answers}) == 1
    assert server.runs().count(answers[0].told["run"]) == 1


def test_three_hundred_megabytes_pass_in_flat_memory(server: Streaming, tmp_path: Path) -> None:
    """A whole, valid log of that size, checked and kept; the server's memory is watched from outside."""
    numbers, clients, epochs = 1_320_000, 4, 15
    rng = np.random.default_rng(4)
    with RunRecorder(
        tmp_path / "large",
        clients=[(f"c{i}", 10) for i in range(clients)],
        parameters=[("w", (numbers,))],
        initial=np.zeros(numbers, dtype=np.float32),
        durable=False,
    ) as recorder:
        for _ in range(epochs):
            recorder.epoch(rng.standard_normal((clients, numbers), dtype=np.float32))
    bundle = tmp_path / "large.flrun"
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_STORED) as out:
        for part in sorted(p for p in (tmp_path / "large").rglob("*") if p.is_file()):
            out.write(part, part.relative_to(tmp_path / "large"))
    assert bundle.stat().st_size > 300 * MIB
    process = psutil.Process(server.process.pid)
    before, peak, done = process.memory_info().rss, 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        sent = server.put(bundle, "large.flrun")
    finally:
        done.set()
        watcher.join()
    assert sent.status == 201, sent.told
    assert peak - before < EXTRA_BYTES, f"grew by {(peak - before) / MIB:.0f} MB"


def test_tokens_are_bounded_and_expire() -> None:
    tokens = UploadTokens(most=3, seconds=1000.0)
    issued = [tokens.issue() for _ in range(5)]
    assert [tokens.find(t) is not None for t in issued] == [False, False, True, True, True]
    assert UploadTokens(seconds=-1.0).find(issued[-1]) is None
    old = UploadTokens(seconds=-1.0)
    assert old.find(old.issue()) is None


def test_a_program_without_origin_is_not_cross_origin() -> None:
    assert cross_origin({"host": "localhost:8501"}) is None
    assert cross_origin({"host": "localhost:8501", "origin": "http://localhost:8501"}) is None
    assert cross_origin({"host": "localhost:8501", "origin": "http://localhost:9999"}) is not None


@pytest.mark.parametrize(
    ("host", "known"), [("localhost:8501", True), ("[::1]:8501", True), ("", False), ("[::1", False)]
)
def test_the_host_is_one_of_the_allowed(host: str, known: bool) -> None:
    assert (other_host({"host": host}, ["localhost", "[::1]"]) is None) is known


@pytest.mark.parametrize(("length", "refused"), [("7", False), ("8", False), ("9", True), ("x", False), ("-1", False)])
def test_announced_length_against_the_cap(length: str, refused: bool) -> None:
    assert (too_long({"content-length": length}, 8) is not None) == refused


def asked(server: Streaming, path: str, **headers: str) -> tuple[int, dict[str, str]]:
    """The status and headers of a GET; header names are written with underscores."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
    try:
        connection.putrequest("GET", path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        reply = connection.getresponse()
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/", "/overview", "/_stcore/health", "/static/index.html", "/nothing-here", ROUTE])
def test_no_answer_can_be_framed_or_bring_foreign_scripts(server: Streaming, path: str) -> None:
    _, headers = asked(server, path)
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "unsafe-eval'" not in headers["content-security-policy"].replace("wasm-unsafe-eval'", "")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "localhost.evil.example", "", "[::2]", "[bad"])
def test_a_page_is_not_given_to_another_host_name(server: Streaming, host: str) -> None:
    status, headers = asked(server, "/", Host=host.format(port=server.port))
    assert status in (400, 403)
    assert status == 400 or headers["x-frame-options"] == "DENY"


SOCKET = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec_WebSocket_Version": "13",
}


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://127.0.0.1:{port}", True),
        ("http://127.0.0.1:1", False),
        ("http://localhost:3000", False),
        ("https://evil.example", False),
        ("null", False),
        ("http://[::1", False),
        ("http://127.0.0.1:{port}@evil.example", False),
    ],
)
def test_only_the_servers_own_pages_open_its_socket(server: Streaming, origin: str, allowed: bool) -> None:
    status, headers = asked(server, "/_stcore/stream", Origin=origin.format(port=server.port), **SOCKET)
    assert status == (101 if allowed else 403)
    assert allowed or headers["x-frame-options"] == "DENY"


def opened_socket(server: Streaming) -> socket.socket:
    """A WebSocket of a page, past its handshake."""
    one = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
    fields = {"Host": f"127.0.0.1:{server.port}", **SOCKET}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    one.sendall("\r\n".join(["GET /_stcore/stream HTTP/1.1", *lines, "", ""]).encode())
    assert one.recv(4096).startswith(b"HTTP/1.1 101")
    return one


def test_a_message_of_a_page_is_bounded(server: Streaming) -> None:
    """Its pieces are gathered in memory: sixty-four pages of 200 MB each would be more than a machine has."""
    with opened_socket(server) as page:
        length = (MOST_MESSAGE_BYTES + 1).to_bytes(8, "big")
        page.sendall(b"\x02\xff" + length + bytes(4))  # binary, not the last piece, masked with zeros
        told = b""
        while piece := page.recv(4096):
            told += piece
    assert (1009).to_bytes(2, "big") in told, "the code of a message that is too big"


@pytest.mark.parametrize(
    "request_text",
    [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        "\x16\x03\x01\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + "9" * 5000 + "\r\n\r\n",
        "GET /_stcore/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        "POST /_stcore/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        "GET /nothing HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    ],
    ids=["no host", "two hosts", "no request", "endless length", "no key", "a handshake by POST", "a socket elsewhere"],
)
def test_what_is_no_request_is_refused_with_the_same_headers(server: Streaming, request_text: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as one:
        one.sendall(request_text.encode())
        told = b""
        while piece := one.recv(4096):
            told += piece
    head = told.partition(b"\r\n\r\n")[0].lower()
    assert told.startswith(b"HTTP/1.1 4")
    assert b"x-frame-options: deny" in head
    assert b"content-security-policy: default-src 'self'" in head


def test_a_fault_of_ours_is_answered_with_the_same_headers() -> None:
    sent: list[Any] = []

    async def failing(request: Any) -> None:
        raise ZeroDivisionError

    async def send(message: Any) -> None:
        sent.append(message)

    app = Starlette(routes=[Route("/x", failing)], exception_handlers={Exception: fault_answer})
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/x",
        "headers": [],
        "query_string": b"",
        "client": ("1.2.3.4", 5),
    }
    with pytest.raises(ZeroDivisionError):  # for the server's own output
        anyio.run(app, scope, anyio.sleep_forever, send)
    headers = dict(sent[0]["headers"])
    assert sent[0]["status"] == 500
    assert headers[b"x-frame-options"] == b"DENY"
    assert b"ZeroDivisionError" not in sent[1]["body"]


def test_open_sockets_of_an_address_are_bounded() -> None:
    sockets = PerAddress(2)
    assert [sockets.enter("a"), sockets.enter("a"), sockets.enter("a"), sockets.enter("b")] == [True, True, False, True]
    sockets.leave("a")
    assert sockets.enter("a")


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "], ids=["silent", "half a head"])
def test_a_connection_without_a_whole_request_is_closed(server: Streaming, head: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as slow:
        slow.sendall(head)
        assert slow.recv(100) == b"", "closed by the server"


def test_the_rest_of_a_body_that_is_answered_is_not_waited_for(server: Streaming) -> None:
    """Each byte of it used to keep the connection for another while."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as slow:
        slow.sendall(b"GET /_stcore/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        assert slow.recv(4096).startswith(b"HTTP/1.1 200")
        with suppress(BrokenPipeError, ConnectionResetError):
            while True:  # until the server closes
                slow.sendall(b"x")
                if select.select([slow], [], [], 0.2)[0] and not slow.recv(4096):
                    break


def test_connections_of_an_address_are_bounded(server: Streaming) -> None:
    """The others go on: a page is answered as soon as one of the many is let go."""
    with ExitStack() as opened:
        many = [
            opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS))
            for _ in range(MOST_CONNECTIONS + 5)
        ]
        refused = 0
        for one in many[-5:]:
            with suppress(ConnectionResetError):
                one.sendall(b"GET /_stcore/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if one.recv(100):
                    continue
            refused += 1
        assert refused >= 4  # the fixture's own look may have taken the place of one

    def answered() -> bool:
        with suppress(ConnectionError, http.client.BadStatusLine):
            return asked(server, "/_stcore/health")[0] == 200
        return False

    wait_until(answered, "an answer, when the server has seen that the many are gone")


def test_what_is_refused_takes_nothing_off_what_a_page_holds() -> None:
    """A removal without its token, a new version of a file that does not come: the page holds what it held."""
    asked_for = [("PUT", "a", 204), ("DELETE", "a", 403), ("PUT", "b", 0), ("PUT", "a", 403), ("PUT", "b", 0)]
    asked_for += [("DELETE", "a", 204), ("PUT", "b", 204)]
    statuses: list[int] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def asking() -> None:
        async def answering(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": scope["answer"], "headers": []})

        guard = RequestGuard(answering)
        guard._page_files = SessionBytes()
        headers = [(b"host", b"localhost"), (b"content-length", str(400 << 20).encode())]
        for method, file, answer in asked_for:
            scope = {"type": "http", "method": method, "headers": headers, "client": ("1.2.3.4", 5), "answer": answer}
            await guard({**scope, "path": f"/_stcore/upload_file/s/{file}"}, anyio.sleep_forever, send)

    anyio.run(asking)
    assert statuses == [204, 403, 413, 403, 413, 204, 204]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Length": str(513 << 20)}, 413),
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"Content-Length": "9", "Transfer-Encoding": "chunked"}, 411),
        ({"Content-Length": "9"}, 400),
    ],
)
def test_the_upload_field_of_a_page_is_bounded(server: Streaming, headers: dict[str, str], status: int) -> None:
    """400 is Streamlit's own word for a session that it does not know."""
    connection = http.client.HTTPConnection("localhost", server.port, timeout=PATIENCE_SECONDS)
    connection.putrequest("PUT", "/_stcore/upload_file/session/file")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    if status == 400:
        connection.send(bytes(9))
    assert connection.getresponse().status in ((400, 403) if status == 400 else (status,))
    connection.close()


def test_all_files_of_a_session_count_together() -> None:
    held = SessionBytes(most=10)
    assert [held.add("s", "a", 6), held.add("s", "b", 5), held.add("s", "a", 9), held.add("t", "b", 5)] == [
        *(True, False, True, True)
    ]
    held.remove("s", "a")
    assert held.add("s", "b", 10)


def test_all_pages_of_an_address_count_together_while_they_are_open() -> None:
    """Sixty-four pages of one address would otherwise hold thirty-two gigabytes of the server's memory."""
    closed: set[str] = set()
    held = SessionBytes(most=10, most_of_address=15, is_open=lambda session: session not in closed)
    assert [held.add(s, "a", 8, "1.2.3.4") for s in ("s", "t")] == [True, False]
    assert held.add("u", "a", 8, "5.6.7.8"), "another address has its own"
    closed.add("s")
    assert held.add("t", "a", 8, "1.2.3.4"), "the first page has gone, and its files with it"
    assert not held.add("v", "a", 8, "1.2.3.4")
    held.remove("t", "a")
    assert held.add("v", "a", 8, "1.2.3.4")


def test_a_file_that_never_arrives_is_not_counted() -> None:
    statuses: list[int] = []

    async def refusing(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 400, "headers": []})

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    async def three_times() -> None:
        guard = RequestGuard(refusing)
        headers = [(b"host", b"localhost"), (b"content-length", str(400 << 20).encode())]
        for session in "abc":
            path = f"/_stcore/upload_file/{session}/file"
            scope = {"type": "http", "method": "PUT", "path": path, "headers": headers, "client": ("1.2.3.4", 5)}
            await guard(scope, anyio.sleep_forever, send)

    anyio.run(three_times)
    assert statuses == [400, 400, 400]


def test_slow_bodies_of_an_address_are_bounded_on_a_running_server(server: Streaming) -> None:
    """So many unfinished uploads are taken, the next is answered at once, and reading pages goes on beside them."""
    head = f"PUT {ROUTE}/slow.flrun HTTP/1.1\r\nHost: localhost\r\n{TOKEN_HEADER}: {server.tokens[0]}\r\n"
    head += "Content-Length: 1000000\r\n\r\n"

    def answer_of(one: socket.socket) -> bytes:
        return one.recv(100).split(b"\r\n")[0]

    with ExitStack() as opened:
        slow = []
        for _ in range(MOST_UPLOADS_PER_ADDRESS + 2):
            one = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
            slow.append(opened.enter_context(one))
            one.sendall(head.encode() + b"PK\3\4")
        readable: set[socket.socket] = set()
        while len(readable) < 4:  # four uploads have a slot; the others are told to come back
            readable |= set(select.select([one for one in slow if one not in readable], [], [], PATIENCE_SECONDS)[0])
        assert {answer_of(one) for one in readable} == {b"HTTP/1.1 503 Service Unavailable"}
        assert asked(server, "/_stcore/health")[0] == 200
    wait_until(lambda: server.left_over() == [], "nothing of the unfinished uploads stays")


def test_a_sender_that_drips_or_falls_silent_is_taken_for_gone() -> None:
    async def dripping() -> dict[str, Any]:
        await anyio.sleep(0.02)  # far below the silence allowed, also where this process waits for its turn
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def taken(receive: Any, **limits: Any) -> int:
        receiving, pieces = paced(receive, **limits), 0
        while (await receiving())["type"] == "http.request":
            pieces += 1
        return pieces

    assert anyio.run(partial(taken, dripping, silence=1.0, pace=1_000_000)) >= 1
    assert anyio.run(partial(taken, anyio.sleep_forever, silence=0.01)) == 0


def test_only_so_much_is_sent_from_one_address_at_once() -> None:
    answers: list[int] = []

    async def waiting(scope: Any, receive: Any, send: Any) -> None:
        while len(answers) == 0:
            await anyio.sleep(0.001)

    async def send(message: Any) -> None:
        if "status" in message:
            answers.append(message["status"])

    async def all_at_once() -> None:
        guard = RequestGuard(waiting)
        scope = {"type": "http", "method": "PUT", "path": "/import/x", "headers": [(b"host", b"localhost")]}
        async with anyio.create_task_group() as group:
            for _ in range(MOST_UPLOADS_PER_ADDRESS + 1):
                group.start_soon(guard, {**scope, "client": ("1.2.3.4", 5)}, anyio.sleep_forever, send)

    anyio.run(all_at_once)
    assert answers == [503]
