"""Ceilings a process takes upon itself before it does somebody else's work: memory, CPU time, file size, priority."""

from __future__ import annotations

import os
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from flcontrib_core.errors import FLContribError

_GRACE_SECONDS = 60


class CpuTimeUsedUp(FLContribError):
    """The process reached its limit of CPU time."""


@dataclass(frozen=True)
class ProcessLimits:
    """Ceilings of one worker process (each process it starts gets the same)."""

    memory_bytes: int | None = None
    """None = three quarters of the machine's memory"""
    cpu_seconds: int = 48 * 3600
    file_bytes: int = 64 << 30
    niceness: int = 10


def apply_limits(limits: ProcessLimits) -> None:
    """Takes the ceilings upon this process (its children inherit them) and steps back behind interactive work."""
    memory = limits.memory_bytes or max(2 << 30, psutil.virtual_memory().total * 3 // 4)
    # RLIMIT_DATA counts memory that is really writable; address space alone is several GB for an idle torch.
    _lower(resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS, memory, memory)
    _lower(resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes)
    _end_at_cpu_limit(limits.cpu_seconds)
    _lower(resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + _GRACE_SECONDS)
    _step_back(limits.niceness)


def _step_back(niceness: int) -> None:
    """Behind interactive work, whatever its session: Linux may share the processor out between sessions first, and a
    job has one of its own, so that ``nice`` alone would leave it half of the machine."""
    os.nice(niceness)
    share = Path("/proc/self/autogroup")
    if niceness > 0 and share.exists():
        try:
            share.write_text(str(niceness))
        except OSError as fault:  # some systems forbid it: the job is as it would be without
            print(f"this job's session keeps its full share of the processor: {fault}", file=sys.stderr)


def _lower(what: int, soft: int, hard: int) -> None:
    allowed = resource.getrlimit(what)[1]
    if allowed != resource.RLIM_INFINITY:
        soft, hard = min(soft, allowed), min(hard, allowed)
    resource.setrlimit(what, (soft, hard))


def _end_at_cpu_limit(seconds: int) -> None:
    def used_up(signum: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)  # it comes every second from now on; once is enough
        raise CpuTimeUsedUp(f"the limit of {seconds} s CPU time is reached; finished epochs are kept, resume goes on")

    signal.signal(signal.SIGXCPU, used_up)
