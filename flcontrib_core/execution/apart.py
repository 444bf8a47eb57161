"""Work on a stranger's data in a process of its own: what it takes, it takes from itself and not from the server.

``call_apart("package.module:function", argument, limits)`` starts a child, which lowers its own ceilings and calls the
function with the argument (plain JSON) and a way to report. Nothing but JSON comes back.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from flcontrib_core.errors import FLContribError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.execution.limits import CpuTimeUsedUp, ProcessLimits, apply_limits

Say = Callable[[Any], None]
"""Sends a JSON value to the parent while the work goes on."""
_WALL_PER_CPU = 8
"""A child that waits instead of working is ended too, after so many times its processor time."""


@dataclass
class CeilingReached(FLContribError):
    """The child needed more than it was allowed."""

    what: Literal["memory", "time"]

    def __str__(self) -> str:
        return f"the work was ended at its limit of {self.what}"


def call_apart(
    function: str, argument: Mapping[str, Any], limits: ProcessLimits, on_report: Say = lambda report: None
) -> Any:
    """What ``module:function`` returns in a child with these ceilings; its reports arrive as they are made.

    Raises CeilingReached, and FLContribError with the child's last words when it fails in another way.
    """
    with tempfile.TemporaryFile() as words:
        child = subprocess.Popen(
            python_command("-m", "flcontrib_core.execution.apart", function),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            env=child_environment(OMP_NUM_THREADS="1", MALLOC_ARENA_MAX="2"),
        )
        clock = threading.Timer(_WALL_PER_CPU * limits.cpu_seconds, child.kill)
        clock.start()
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            with child.stdin as order:
                order.write(json.dumps({"limits": asdict(limits), "argument": dict(argument)}).encode())
            for line in child.stdout:
                kind, value = json.loads(line)
                if kind == "result":
                    return value
                if kind == "ceiling":
                    raise CeilingReached(value)
                on_report(value)
            raise _ended(child, words)
        finally:
            clock.cancel()
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


def _ended(child: subprocess.Popen[bytes], words: Any) -> FLContribError:
    """Why a child went without a result. The kernel ends it at the hard limit of time, or at one it set itself."""
    code = child.wait()
    if code in (-signal.SIGKILL, -signal.SIGXCPU, -signal.SIGPROF):
        return CeilingReached("time")
    if code in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS):
        return CeilingReached("memory")
    words.seek(0)
    last = words.read()[-2000:].decode(errors="replace").strip().splitlines()
    return FLContribError(f"a process ended with code {code}: {last[-1] if last else 'it said nothing'}")


def _serve(function: str) -> None:
    """The child's side."""
    module, _, name = function.partition(":")
    order = json.load(sys.stdin)
    work = getattr(importlib.import_module(module), name)
    # What the work prints must not be taken for its answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(kind: str, value: Any) -> None:
        answers.write(json.dumps([kind, value]) + "\n")
        answers.flush()

    apply_limits(ProcessLimits(**order["limits"]))
    try:
        result = work(order["argument"], lambda report: send("report", report))
    except MemoryError:
        send("ceiling", "memory")
    except (
        RuntimeError,
        ImportError,
    ) as refused:  # torch and the loader of libraries have no class of their own for it
        if not any(words in str(refused) for words in ("can't allocate memory", "failed to map segment")):
            raise
        send("ceiling", "memory")
    except CpuTimeUsedUp:
        send("ceiling", "time")
    else:
        send("result", result)


if __name__ == "__main__":
    _serve(sys.argv[1])
