"""The same work on Ray: same answers, same errors; and a clear word where Ray is not installed."""

from __future__ import annotations

import json
import operator
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flcontrib_core.bundled_files import bundled
from flcontrib_core.errors import MissingPart
from flcontrib_core.execution import ray_cluster
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.execution.engine import Execution, open_engine
from flcontrib_core.execution.ray_cluster import ClusterFull, ClusterUnfit, ClusterUnreachable, RayEngine
from tests.patience import PATIENCE_SECONDS


def test_without_ray_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPart, match=r"pip install 'flcontrib\[ray\]', or choose the engine 'local'"):
        open_engine(Execution(2, "ray"), 1)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere", "host:port", "no-such-host.invalid:6379"]
)
def test_an_address_that_does_not_answer_is_named(address: str) -> None:
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'flcontrib[ray]'")
    with pytest.raises(ClusterUnreachable, match=re.escape(address)):
        open_engine(Execution(2, "ray", address), 1)


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["nothing", "something else"])
def test_what_answers_and_is_no_ray_is_named(says: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'flcontrib[ray]'")
    monkeypatch.setattr(ray_cluster, "_ANSWER_SECONDS", 0.2)
    before = sys.stdout
    with socket.create_server(("127.0.0.1", 0)) as mute:

        def answer() -> None:
            there, _ = mute.accept()
            with there:
                there.sendall(says)
                there.recv(100)

        speaker = threading.Thread(target=answer)
        speaker.start()
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(ClusterUnreachable, match=re.escape(address)):
            open_engine(Execution(2, "ray", address), 1)
        speaker.join(PATIENCE_SECONDS)
    assert sys.stdout is before


def test_a_cluster_that_refuses_is_told_with_the_likely_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="Ray is an extra: pip install 'flcontrib[ray]'")

    def refuse(**asked: object) -> None:
        raise ConnectionError("Failed to connect")

    monkeypatch.setattr(ray_cluster, "_must_answer", lambda address: None)
    monkeypatch.setattr(ray, "init", refuse)
    before = sys.stdout
    with pytest.raises(ClusterUnreachable, match=r"host:6379: Failed to connect\. .* RAY_AUTH_MODE=token"):
        open_engine(Execution(2, "ray", "host:6379"), 1)
    assert sys.stdout is before


def test_a_command_at_a_wrong_address_ends_with_2_and_json_alone_on_stdout() -> None:
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'flcontrib[ray]'")
    run = str(bundled("sample_runs") / "late-window.flrun")
    asked = ["assess", run, "--json", "--engine", "ray", "--address", "127.0.0.1:1", "--no-memory"]
    done = subprocess.run(
        python_command("-c", "from flcontrib_core.console import main; main()", *asked),
        capture_output=True,
        text=True,
        env=child_environment(),
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, json.loads(done.stdout)["error"]) == (2, "ClusterUnreachable")
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("inside", [False, True])
def test_a_full_object_store_is_named_and_a_lost_object_is_tried_again(inside: bool) -> None:
    ray = pytest.importorskip("ray", reason="Ray is an extra: pip install 'flcontrib[ray]'")
    engine = object.__new__(RayEngine)
    engine._ray = ray

    def told(error: Exception) -> Exception:
        faults = ray.exceptions
        return faults.RayTaskError("work", "trace", error).as_instanceof_cause() if inside else error

    with pytest.raises(ClusterFull, match="object store is full"):
        engine._lost(told(ray.exceptions.ObjectStoreFullError("no room")))
    assert engine._lost(told(ray.exceptions.ObjectLostError("ab", None, "")))
    assert not engine._lost(told(ZeroDivisionError()))
    with pytest.raises(ClusterUnfit, match="lacks strange"):
        engine._lost(told(ModuleNotFoundError("no strange", name="strange")))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of a library that is not installed by default
def test_ray_gives_the_answers_and_the_errors_of_local_processes() -> None:
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'flcontrib[ray]'")
    with open_engine(Execution(2, "ray"), 100) as engine:
        assert sorted(engine.run(operator.add, iter(range(7)))) == list(range(100, 107))
        with pytest.raises(ZeroDivisionError):
            list(engine.run(operator.truediv, [1, 0]))


def test_two_nodes_have_the_bits_of_a_local_assessment_also_when_one_is_killed() -> None:
    """In a process of its own: Ray's helpers end with it, whatever happens."""
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'flcontrib[ray]'")
    done = subprocess.run(
        python_command(str(Path(__file__).with_name("two_ray_nodes.py"))),
        capture_output=True,
        text=True,
        env=child_environment(),
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == {
        "nodes": 2,
        "equal": {"exact": True, "surrogate": True, "gtg": True},
        "gpu_of_a_task": [0],
        "gpus_too_many": "each task asks for 5 GPUs and the cluster has 1; ask for none, or start Ray on its nodes "
        "with GPUs",
        "workers_by_default": 2,
        "given_up": True,
        "equal_without_a_node": True,
        "epochs": 6,
    }


def test_a_gpu_is_used_where_there_is_one() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this machine has no GPU: --gpus is tried with a cluster that only says it has one")
    assert torch.ones(1, device="cuda").item() == 1.0
