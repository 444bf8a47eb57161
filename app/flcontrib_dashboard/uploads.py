"""Uploads outside the page: who may send a log to this server, and what came of it.

The streaming route (``app/server.py``) stands beside Streamlit's own, whose checks of host, origin and token do not
reach it. This module is those checks, and the memory of what each session sent: a page shows what came through the
route under its own token, in the browser's drop zone or from a terminal.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flcontrib_core.errors import FLContribError, Problem, RunLogError, WorkspaceError
from flcontrib_core.workspace import NoSpaceLeft, TooLarge, Workspace

TOKEN_HEADER = "X-FLContrib-Token"
"""A header of its own: another site's page cannot send it without asking first, and is never given leave."""
ROUTE = "/import"
LARGEST_UPLOAD = 8 << 30
MOST_AT_ONCE = 4
MOST_TOKENS = 4096
TOKEN_SECONDS = 12 * 3600.0
MOST_SESSION_SIZES = 8
"""How many of the largest uploads one token may send in all."""


@dataclass(frozen=True)
class Refusal:
    """Why a request is turned away before a byte of it is read."""

    status: int
    code: str
    words: str


class BrokenOff(WorkspaceError):
    """The sender went away before the log was whole."""

    def __init__(self) -> None:
        super().__init__("The upload broke off; nothing of it is kept. Send it again.")


@dataclass
class Delivery:
    """One log on its way in: how much has come, how far the checks are, and how it ended."""

    filename: str
    nonfinite: str = "refuse"
    lower_is_better: tuple[str, ...] = ()
    received: int = 0
    sha256: str = ""
    stages: list[str] = field(default_factory=list)
    run: str | None = None
    """Digest of the run it became."""
    problems: tuple[Problem, ...] = ()
    remarks: tuple[Problem, ...] = ()
    failure: str = ""
    """Why it ended without being read: broken off, too large, no space."""
    status: int | None = None
    """How it ended, in HTTP's numbers: 201 kept, 200 received whole and refused; None while it comes."""

    def import_run(
        self,
        workspace: Workspace,
        source: Path | Iterable[bytes],
        *,
        largest: int | None = None,
        on_stage: Callable[[str], None] = lambda stage: None,
    ) -> None:
        """Stages, checks and keeps the log; says how it ended in its own fields and raises nothing of the log's."""

        def passed(stage: str) -> None:
            self.stages.append(stage)
            on_stage(stage)

        given = source if isinstance(source, Path) else self._metered(source)
        name = None if isinstance(source, Path) else self.filename
        try:
            entry = workspace.add_run(
                given,
                filename=name,
                nonfinite=self.nonfinite,
                lower_is_better=self.lower_is_better,
                largest=largest,
                apart=True,
                on_stage=passed,
                on_remarks=self._remark,
            )
        except RunLogError as refused:
            self.problems, self.status = refused.problems, 200
        except FLContribError as fault:
            self.failure, self.status = str(fault), _STATUS.get(type(fault), 500)
        else:
            self.run, self.status = entry.digest, 201

    def _remark(self, remarks: tuple[Problem, ...]) -> None:
        self.remarks = remarks

    def _metered(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks, counted and hashed as they pass."""
        digest = hashlib.sha256()
        for chunk in chunks:
            digest.update(chunk)
            self.received += len(chunk)
            yield chunk
        self.sha256 = digest.hexdigest()


_STATUS: dict[type[FLContribError], int] = {BrokenOff: 408, TooLarge: 413, NoSpaceLeft: 507}


@dataclass
class UploadToken:
    """Leave for one browser session to send logs; the newest delivery is what its page shows."""

    secret: str
    issued: float
    delivery: Delivery | None = None
    received: int = 0
    """Bytes that came under it, kept or not."""


class UploadTokens:
    """Issues and recognises tokens: 'number.secret', found by the number, compared in constant time."""

    def __init__(self, most: int = MOST_TOKENS, seconds: float = TOKEN_SECONDS) -> None:
        self._most, self._seconds = most, seconds
        self._issued: OrderedDict[str, UploadToken] = OrderedDict()
        self._lock = threading.Lock()

    def issue(self) -> str:
        """A new token; the oldest is forgotten where there are too many."""
        number, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        with self._lock:
            self._issued[number] = UploadToken(secret, time.monotonic())
            while len(self._issued) > self._most:
                self._issued.popitem(last=False)
        return f"{number}.{secret}"

    def find(self, token: str) -> UploadToken | None:
        """What was issued with this token, while it is valid."""
        number, _, secret = token.partition(".")
        with self._lock:
            issued = self._issued.get(number)
        known = issued.secret if issued is not None else secrets.token_urlsafe(32)
        right = hmac.compare_digest(known.encode(), secret.encode())
        if issued is None or not right or time.monotonic() - issued.issued > self._seconds:
            return None
        return issued


@dataclass
class UploadRoute:
    """The streaming route of this process, if it has one; ``open`` is set by the server that serves it."""

    open: bool = False
    largest: int = LARGEST_UPLOAD
    tokens: UploadTokens = field(default_factory=UploadTokens)
    _slots: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(MOST_AT_ONCE))

    def claim_slot(self) -> bool:
        """One of the few uploads at once; give it back with ``free_slot``."""
        return self._slots.acquire(blocking=False)

    def free_slot(self) -> None:
        """Gives the place of one upload back."""
        self._slots.release()


upload_route = UploadRoute()


def too_long(headers: Mapping[str, str], largest: int) -> Refusal | None:
    """Does the request announce more than is taken? One that announces nothing is cut off while it comes."""
    text = headers.get("content-length", "")
    length = int(text) if text.isascii() and text.isdigit() else 0
    return Refusal(413, "E_UPLOAD_SIZE", str(TooLarge(largest))) if length > largest else None
