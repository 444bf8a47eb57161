"""A stranger's data is worked on in a process that can only hurt itself."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from flcontrib_core.errors import FLContribError
from flcontrib_core.execution.apart import CeilingReached, Say, call_apart
from flcontrib_core.execution.limits import ProcessLimits

LIMITS = ProcessLimits(memory_bytes=256 << 20, cpu_seconds=20, niceness=0)


def echo(argument: dict[str, Any], say: Say) -> dict[str, Any]:
    print("not an answer")
    say("first")
    say({"second": 2})
    return {"pid": os.getpid(), **argument}


def greedy(argument: dict[str, Any], say: Say) -> int:
    return len(bytes(1 << 30))


def busy(argument: dict[str, Any], say: Say) -> None:
    say("begun")
    while True:
        time.monotonic()


def broken(argument: dict[str, Any], say: Say) -> None:
    raise ValueError("a fault of our own")


def test_reports_and_result_come_back_from_another_process() -> None:
    heard: list[Any] = []
    answer = call_apart(f"{__name__}:echo", {"a": [1, None]}, LIMITS, heard.append)
    assert answer["a"] == [1, None]
    assert answer["pid"] != os.getpid()
    assert heard == ["first", {"second": 2}]


def test_memory_beyond_the_ceiling_is_named() -> None:
    with pytest.raises(CeilingReached) as reached:
        call_apart(f"{__name__}:greedy", {}, LIMITS)
    assert reached.value.what == "memory"


def test_time_beyond_the_ceiling_is_named() -> None:
    heard: list[Any] = []
    with pytest.raises(CeilingReached) as reached:
        call_apart(
            f"{__name__}:busy", {}, ProcessLimits(memory_bytes=256 << 20, cpu_seconds=1, niceness=0), heard.append
        )
    assert reached.value.what == "time"
    assert heard == ["begun"]


def test_a_fault_of_our_own_keeps_its_words() -> None:
    with pytest.raises(FLContribError, match="a fault of our own"):
        call_apart(f"{__name__}:broken", {}, LIMITS)
