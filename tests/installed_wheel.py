"""Is the wheel whole when it is installed alone? ``make wheel`` runs this file in an empty environment.

Uses nothing but the standard library and the package itself: no test tool, no clone.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

COMMAND = Path(sysconfig.get_path("scripts")) / ("flcontrib.exe" if sys.platform == "win32" else "flcontrib")
SAMPLE = "two-poisoned.flrun"
PORT = 8599


def flcontrib(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(COMMAND), *arguments], capture_output=True, text=True, check=False)


def check_base(folder: Path) -> None:
    """Only what records is installed: a run is recorded, and a command says what it lacks."""
    import numpy as np

    from flcontrib_core import RunRecorder

    with RunRecorder(
        folder / "run", clients=[("north", 120), ("south", 80)], parameters=[("w", (3,))], initial=np.zeros(3, "f4")
    ) as recorder:
        for epoch in range(3):
            recorder.epoch(np.full((2, 3), epoch, dtype="f4"))
        assert recorder.bundle().exists()
    told = flcontrib("check", str(folder / "run"))
    assert told.returncode == 2, told
    assert "pip install 'flcontrib[audit]'" in told.stderr, told.stderr
    assert "Traceback" not in told.stderr, told.stderr


def check_dashboard(folder: Path) -> None:
    """Commands read the bundled samples, and the dashboard answers."""
    from flcontrib_core.bundled_files import bundled

    sample = str(bundled("sample_runs") / SAMPLE)
    for arguments in (["check", sample], ["audit", sample, "--workspace", str(folder / "workspace")]):
        told = flcontrib(*arguments)
        assert told.returncode == 0, told.stderr
    command = [str(COMMAND), "serve", "--workspace", str(folder / "workspace"), "--port", str(PORT)]
    with subprocess.Popen(command) as server:
        try:
            while not answers():
                assert server.poll() is None, "the server ended by itself"
                time.sleep(0.2)
        finally:
            server.terminate()


def answers() -> bool:
    try:
        with urllib.request.urlopen(f"http://localhost:{PORT}/_stcore/health", timeout=10) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:  # a job of the server may still write
        {"base": check_base, "dashboard": check_dashboard}[sys.argv[1]](Path(place))
    print(f"the wheel is whole: {sys.argv[1]}")
