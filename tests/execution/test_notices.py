"""A notice reaches a program and an address, and neither can stop what it tells of."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from flcontrib_core.errors import SettingsError
from flcontrib_core.execution.children import python_command
from flcontrib_core.execution.notices import checked_address, command_words, tell_address, tell_command

NOTICE = {"event": "alert", "client": "'; touch owned; $(id) \u202e"}


class Receiver(BaseHTTPRequestHandler):
    """Keeps what is posted; sends /moved elsewhere."""

    received: list[tuple[str, object]] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.received.append((self.path, body))
        self.send_response(302 if self.path == "/moved" else 500 if self.path == "/broken" else 204)
        if self.path == "/moved":
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def receiver() -> Iterator[str]:
    Receiver.received.clear()
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_address_receives_the_notice(receiver: str) -> None:
    assert tell_address(f"{receiver}/alerts", NOTICE) is None
    assert Receiver.received == [("/alerts", NOTICE)]


def test_an_address_that_refuses_moves_or_is_not_there_is_reported(receiver: str) -> None:
    assert "500" in str(tell_address(f"{receiver}/broken", NOTICE))
    assert "302" in str(tell_address(f"{receiver}/moved", NOTICE))
    assert [path for path, _ in Receiver.received] == ["/broken", "/moved"], "never sent on"
    assert "was not told" in str(tell_address("http://127.0.0.1:9/", NOTICE))


def test_a_program_reads_the_notice_and_no_shell_does(tmp_path: Path) -> None:
    script = tmp_path / "told.py"
    script.write_text(f"import pathlib, sys\npathlib.Path({str(tmp_path / 'seen')!r}).write_text(sys.stdin.read())\n")
    assert tell_command(command_words(shlex.join(python_command(str(script)))), NOTICE) is None
    assert json.loads((tmp_path / "seen").read_text()) == NOTICE
    assert not (tmp_path / "owned").exists()


def test_a_program_that_fails_or_is_not_there_is_reported(tmp_path: Path) -> None:
    assert "ended with 3" in str(tell_command(python_command("-c", "raise SystemExit(3)"), NOTICE))
    assert "was not told" in str(tell_command([str(tmp_path / "no such program")], NOTICE))


@pytest.mark.parametrize("wrong", ["", "'unclosed"])
def test_what_is_no_command_is_said_at_once(wrong: str) -> None:
    with pytest.raises(SettingsError):
        command_words(wrong)


@pytest.mark.parametrize("wrong", ["", "file:///etc/passwd", "ftp://host/x", "http:///x", "javascript:alert(1)"])
def test_what_is_no_address_is_said_at_once(wrong: str) -> None:
    with pytest.raises(SettingsError):
        checked_address(wrong)
