"""``flcontrib`` in this process: what it prints and how it ends, without the seconds that a child takes to start."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

import pytest

from flcontrib_core.cli import main


def flcontrib(*arguments: str | Path) -> CompletedProcess[str]:
    """As a child's outcome; a fault that the command does not tell in words fails the test itself."""
    command = ["flcontrib", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    told = redirect_stdout(out), redirect_stderr(err)
    with mock.patch.object(sys, "argv", command), told[0], told[1], pytest.raises(SystemExit) as ended:
        main()
    return CompletedProcess(command, int(ended.value.code or 0), out.getvalue(), err.getvalue())
