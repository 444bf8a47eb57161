"""The same work on Ray: same answers, same errors; and a clear word where Ray is not installed."""

from __future__ import annotations

import json
import operator
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flcontrib_core.errors import MissingPart
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.execution.ray_cluster import ClusterUnreachable, run_tasks_on_ray
from tests.patience import PATIENCE_SECONDS


def test_without_ray_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPart, match=r"pip install 'flcontrib\[ray\]', or use --engine local"):
        list(run_tasks_on_ray(operator.add, 1, [1, 2]))


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere", "host:port", "no-such-host.invalid:6379"]
)
def test_an_address_that_does_not_answer_is_named(address: str) -> None:
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'flcontrib[ray]'")
    with pytest.raises(ClusterUnreachable, match=re.escape(address)):
        list(run_tasks_on_ray(operator.add, 1, [1, 2], address=address))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of a library that is not installed by default
def test_ray_gives_the_answers_and_the_errors_of_local_processes() -> None:
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'flcontrib[ray]'")
    assert sorted(run_tasks_on_ray(operator.add, 100, iter(range(7)), workers=2)) == list(range(100, 107))
    with pytest.raises(ZeroDivisionError):
        list(run_tasks_on_ray(operator.truediv, 1, [1, 0], workers=2))


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
        "equal_without_a_node": True,
        "epochs": 6,
    }
