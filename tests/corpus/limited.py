"""Check a written corpus inside a memory limit: ``python -m tests.corpus.limited FOLDER``; one JSON line per case.

The address space is capped 256 MB above what the process has after its imports, so that a reader that takes more
fails with MemoryError; the resident peak of each case is measured as well (Linux).
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from pathlib import Path

from flcontrib_core.runs.bundle import check_run_log

EXTRA_MB = 256
CHILD_MB = 400
"""Address space of an interpreter that has imported Arrow, resident or not."""


def _status(field: str) -> float:
    """A line of /proc/self/status in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def _import_everything() -> None:
    """What the reader imports late counts before the limit is set."""
    import flcontrib_core.runs.tables

    assert flcontrib_core.runs.tables


def _children() -> tuple[float, float]:
    """Processor seconds of all children so far, and the resident peak of the largest in MB."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def check(folder: Path) -> None:
    _import_everything()
    # The process that decodes Parquet inherits the limit, and needs room for its own libraries first.
    limit = int((max(_status("VmSize"), CHILD_MB) + EXTRA_MB) * 1024 * 1024)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for case in json.loads((folder / "expected.json").read_text()):
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before = _status("VmRSS")
        begun, children = time.process_time(), _children()
        result = check_run_log(folder / case["path"])
        answer = {
            "name": case["name"],
            "codes": [problem.code for problem in result.errors],
            "first": result.errors[0].sentence() if result.errors else "",
            "warnings": sorted({problem.code for problem in result.warnings}),
            "words": " ".join(problem.sentence() for problem in result.warnings),
            "cpu_seconds": time.process_time() - begun + _children()[0] - children[0],
            "extra_mb": _status("VmHWM") - before,
            "child_mb": _children()[1],
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    check(Path(sys.argv[1]))
