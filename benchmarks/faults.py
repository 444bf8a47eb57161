"""What do kills and full disks take? Everything that writes is killed (−9) or refused a write, again and again.

Each row is a kind of fault: how many of the tried were survived, that is, nothing acknowledged was lost, no file was
torn, every end had a name, and going on led to what an unbroken run has. ``--scale full`` kills 220 times and refuses
every single write; ``small`` tries each kind a few times.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from benchmarks.measurement import Measurement
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.workspace import Workspace
from tests.browser.conftest import free_port
from tests.workspace.killing import kill_again_and_again, kill_writers
from tests.workspace.recorded import bundle_run, scratch_folder

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "sample_runs" / "contributions-table.csv"
RECORDING = """
import sys
import numpy as np
from flcontrib_core.errors import FLContribError
from flcontrib_core.runs.recorder import RunRecorder
try:
    clients, shape = [("a", 1), ("b", 2)], (500,)
    with RunRecorder(sys.argv[1], clients=clients, parameters=[("w", shape)], initial=np.zeros(shape)) as to:
        while to.next_epoch <= int(sys.argv[2]):
            done = to.next_epoch
            to.epoch(np.full((2, 500), done, dtype=np.float32))
            print(done, flush=True)
except FLContribError as named:
    print(type(named).__name__, named, file=sys.stderr)
    sys.exit(3)
"""
REPORTING = (
    "import sys; from flcontrib_core.console import main; sys.argv = ['flcontrib', *sys.argv[1:]]; sys.exit(main())"
)


def run(scale: str) -> list[Measurement]:
    """Tried and survived, kind by kind."""
    full = scale == "full"
    rows = [
        _counted("kill −9 of workers", 60 if full else 3, lambda n: kill_again_and_again(n, 5 * n, seed=2)),
        _counted("kill −9 of a process that writes a workspace", 50 if full else 3, _writers),
        _counted("kill −9 of the dashboard's server during uploads", 10 if full else 1, _servers),
        _counted("kill −9 of `flcontrib report`", 40 if full else 2, _reports),
        _counted("kill −9 of a recorder", 60 if full else 4, _recorders),
    ]
    with _failing_calls() as shim:
        if shim is not None:
            rows += [
                _refused("write of a recording refused (no space)", shim, _one_recording, 1 if full else 7),
                _refused("write of a report refused (no space)", shim, _one_report, 1 if full else 7),
            ]
    return rows


def _counted(name: str, times: int, attempt: Callable[[int], None]) -> Measurement:
    try:
        attempt(times)
    except AssertionError as lost:
        return Measurement(name, 0, times, True, "of " + str(times), str(lost)[:200])
    return Measurement(name, times, times, True, "of " + str(times))


def _writers(kills: int) -> None:
    with scratch_folder() as folder:
        kill_writers(folder, kills, seed=12)


def _recorders(kills: int) -> None:
    """Killed at a random moment after some epochs; the next one goes on where the log ends."""
    rng = np.random.default_rng(3)
    with scratch_folder() as folder:
        last = 0
        for _ in range(kills):
            recorder = subprocess.Popen(
                python_command("-c", RECORDING, str(folder / "run"), "1000000"),
                stdout=subprocess.PIPE,
                text=True,
                env=child_environment(),
            )
            assert recorder.stdout is not None
            told = [recorder.stdout.readline() for _ in range(int(rng.integers(1, 12)))]
            time.sleep(float(rng.uniform(0, 0.01)))
            recorder.kill()
            told += recorder.stdout.read().splitlines()
            recorder.wait()
            recorder.stdout.close()
            whole = [int(line) for line in told if line.strip()]
            assert whole[0] in (last + 1, last + 2), "a recording goes on where it stopped"
            last = max(whole)
            last = _recorded(folder / "run", last)


def _recorded(path: Path, acknowledged: int) -> int:
    """The epochs of a recording, all that were acknowledged and each one whole."""
    run = read_run_log(path)
    assert isinstance(run, RunLog)
    assert run.epoch_count >= acknowledged, f"epoch {acknowledged} was acknowledged and is lost"
    for record in run.epochs[-3:]:
        assert (run.epoch_data(record.epoch).updates == record.epoch).all()
    run.close()
    return run.epoch_count


def _report_is_whole(folder: Path) -> bool:
    """Is there no report, or a whole one? Nothing torn may stand under its name."""
    page, twin = folder / "report.html", folder / "report.json"
    if page.exists():
        assert page.read_text().rstrip().endswith("</html>"), "a torn page"
    if twin.exists():
        json.loads(twin.read_text())
    return page.exists() and twin.exists()


def _reports(kills: int) -> None:
    """Killed anywhere from its start to its end; a second one then writes what an unbroken one writes."""
    rng = np.random.default_rng(4)
    with scratch_folder() as folder:
        begun = time.monotonic()
        assert _report(folder / "unbroken").wait() == 0
        lasts = time.monotonic() - begun
        expected = json.loads((folder / "unbroken" / "report.json").read_text())["result_digest"]
        for number in range(kills):
            out = folder / str(number)
            command = _report(out)
            time.sleep(float(rng.uniform(0.5, 1.05)) * lasts)  # most of its life is imports
            command.kill()
            command.wait()
            _report_is_whole(out)
        assert _report(out).wait() == 0
        assert json.loads((out / "report.json").read_text())["result_digest"] == expected


def _report(out: Path, **variables: str) -> subprocess.Popen[bytes]:
    out.mkdir(exist_ok=True)
    return subprocess.Popen(
        python_command("-c", REPORTING, "report", str(TABLE), "-o", str(out / "report.html")),
        env=child_environment(**variables),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def _servers(kills: int) -> None:
    """Killed while one log is half sent; every log whose keeping was answered is there, and the half one is not."""
    with scratch_folder() as folder:
        kept: set[str] = set()
        for number in range(kills):
            port = free_port()
            server, token = _server(folder, port)
            try:
                body = bundle_run(folder / f"run-{number}", seed=number).read_bytes()
                kept.add(_sent(port, token, body))
                half = http.client.HTTPConnection("localhost", port, timeout=60)
                half.putrequest("PUT", "/import/half.flrun")
                half.putheader("X-FLContrib-Token", token)
                half.putheader("Content-Length", str(1 << 26))
                half.endheaders()
                half.send(bytes(1 << 20))
            finally:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()
            half.close()
            with Workspace(folder / "workspace") as workspace:
                assert {run.digest for run in workspace.runs()} == kept, "what was answered is kept, and no more"
                assert workspace.verify_chain() is None
                assert list((workspace.path / "incoming").iterdir()) == []


def _server(folder: Path, port: int) -> tuple[subprocess.Popen[str], str]:
    settings = {"FLCONTRIB_WORKSPACE": str(folder / "workspace"), "FLCONTRIB_SAMPLES": "0"}
    server = subprocess.Popen(
        python_command("-m", "tests.app.streaming_server", str(port)),
        env=child_environment(**settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert server.stdout is not None
    token = server.stdout.readline().strip()
    while True:
        with suppress(OSError):
            connection = http.client.HTTPConnection("localhost", port, timeout=60)
            connection.request("GET", "/_stcore/health")
            connection.getresponse().read()
            connection.close()
            return server, token
        assert server.poll() is None, "the server ended"
        time.sleep(0.05)


def _sent(port: int, token: str, body: bytes) -> str:
    connection = http.client.HTTPConnection("localhost", port, timeout=600)
    connection.request("PUT", "/import/run.flrun", body, {"X-FLContrib-Token": token})
    reply = connection.getresponse()
    told = json.loads(reply.read())
    connection.close()
    assert reply.status == 201, told
    return str(told["run"])


@contextmanager
def _failing_calls() -> Iterator[Path | None]:
    """The system's own calls, failing on demand; None without a C compiler."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    with scratch_folder() as folder:
        if compiler is None:
            yield None
            return
        source, library = ROOT / "tests" / "workspace" / "failing_calls.c", folder / "failing_calls.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        yield library


Attempt = Callable[[Path, dict[str, str]], None]


def _refused(name: str, shim: Path, attempt: Attempt, every: int) -> Measurement:
    """One call after the other is refused, once or for good; the attempt checks what is left."""
    with scratch_folder() as folder:
        counter = folder / "calls"
        count = {"LD_PRELOAD": str(shim), "FAIL_COUNTER": str(counter)}
        (folder / "counted").mkdir()
        attempt(folder / "counted", {**count, "FAIL_UNDER": str(folder / "counted"), "FAIL_HOW": "never"})
        calls = int(counter.read_text())
    tried, lost = 0, ""
    for call in range(1, calls + 1, every):
        how = ("no-space-for-good", "no-space-once", "input-output-once")[call % 3]
        with scratch_folder() as folder:
            under = folder / "kept"
            under.mkdir()
            variables = {**count, "FAIL_COUNTER": str(folder / "calls"), "FAIL_UNDER": str(under)}
            try:
                attempt(under, {**variables, "FAIL_AT": str(call), "FAIL_HOW": how})
            except AssertionError as fault:
                lost = f"call {call}, {how}: {fault}"[:200]
                continue
            tried += 1
    every_call = len(range(1, calls + 1, every))
    return Measurement(name, tried, every_call, True, f"of {every_call}", lost)


def _one_recording(folder: Path, variables: dict[str, str]) -> None:
    """Four epochs with one call refused: a typed end or none, and afterwards the recording goes on to its end."""
    command = python_command("-c", RECORDING, str(folder / "run"), "4")
    done = subprocess.run(command, env=child_environment(**variables), capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr[-300:]
    told = [int(line) for line in done.stdout.split()]
    if told:
        _recorded(folder / "run", max(told))
    again = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr[-300:]
    assert _recorded(folder / "run", 4) == 4


def _one_report(folder: Path, variables: dict[str, str]) -> None:
    """A report over an older one with one call refused: both files whole, exit 0 or 2, and no traceback."""
    for name, text in (("report.html", "<html>old</html>"), ("report.json", '{"old": true}')):
        (folder / name).write_text(text)
    command = _report(folder, **variables)
    assert command.stderr is not None
    told = command.stderr.read().decode()
    command.stderr.close()
    code = command.wait()
    assert code in (0, 2), told[-300:]
    assert "Traceback" not in told, told[-300:]
    assert _report_is_whole(folder)
