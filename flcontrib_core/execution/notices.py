"""Who is told when something happens: a command that reads JSON, or an address that takes it by POST.

Neither may stop what it tells of: a command that fails and an address that does not answer are reported, not raised.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from flcontrib_core.errors import SettingsError
from flcontrib_core.execution.children import child_environment

PATIENCE_SECONDS = 30.0


def command_words(command: str) -> list[str]:
    """The command as a program and its arguments; no shell reads it. Raises SettingsError where it is none."""
    try:
        words = shlex.split(command)
    except ValueError as odd:
        raise SettingsError(f"{command[:80]!r} cannot be read as a command: {odd}") from None
    if not words:
        raise SettingsError("the command is empty; name a program that reads JSON")
    return words


def checked_address(address: str) -> str:
    """The address, if something can be posted to it. Raises SettingsError otherwise."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"{address[:80]!r} is no address to post to; give http://… or https://…")
    return address


def tell_command(words: list[str], notice: Mapping[str, Any]) -> str | None:
    """Starts the program with the notice as JSON on its input; what went wrong, None where nothing did."""
    try:
        ended = subprocess.run(
            words,
            input=json.dumps(notice) + "\n",
            text=True,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            env=child_environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        return f"{words[0]} was not told: {fault}"
    return None if ended.returncode == 0 else f"{words[0]} ended with {ended.returncode}: {ended.stderr.strip()[:200]}"


def tell_address(address: str, notice: Mapping[str, Any]) -> str | None:
    """Posts the notice as JSON; what went wrong, None where nothing did. Redirections are not followed."""
    request = urllib.request.Request(
        address, json.dumps(notice).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=PATIENCE_SECONDS):
            return None
    except (urllib.error.URLError, OSError) as fault:
        return f"{urlsplit(address).hostname} was not told: {fault}"


class _Stay(urllib.request.HTTPRedirectHandler):
    """The notice goes where it was meant to go, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        """Never."""
        return
