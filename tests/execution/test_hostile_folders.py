"""Nothing in a folder is executed because somebody works in it: not in this process, not in any that it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flcontrib_core.execution.children import child_environment, python_command, safe_starts
from flcontrib_core.laboratory.simulation import SimulationSettings, simulate
from tests.hostile_modules import console_script, executed, importable_names, plant, usual_environment
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
SMALL = SimulationSettings(clients=4, epochs=6, train_rows=160, hidden=(4,))
JOB = """
import sys, time
from flcontrib_core.auditing import AuditSettings
from flcontrib_core.workspace import Workspace

with Workspace(sys.argv[1]) as workspace:
    entry = workspace.add_run(sys.argv[2])
    job = workspace.jobs.submit(entry.digest, AuditSettings().record())
    while (seen := workspace.jobs.find(job.id)).active:
        workspace.jobs.poll()
        time.sleep(0.1)
print(seen.state.value, seen.error or "without a fault")
"""


class Folders:
    """A working folder, an unpacked run and a workspace, all three full of hostile modules."""

    def __init__(self, folder: Path) -> None:
        self.marks = folder
        self.script = console_script(folder / "bin")
        self.working = plant(folder / "working", self.marks)
        self.workspace = plant(folder / "workspace", self.marks)
        simulate(SMALL, folder / "run")
        self.run = plant(folder / "run", self.marks)

    def python(self, *arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """What this Python says to these arguments in one of the folders; it must end well."""
        command = [sys.executable, *map(str, arguments)]
        where = cwd or self.working
        told = subprocess.run(
            command,
            cwd=where,
            env=usual_environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert told.returncode == 0, told.stderr
        return told


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(autouse=True)
def _nothing_is_executed(folders: Folders) -> None:
    (folders.marks / "executed.txt").unlink(missing_ok=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "."),
        ("assess", ".", "--workers", "2", "--no-memory"),
        ("schedule", ".", "--prove", "--budget", "3", "--fairness", "two-sided", "--gamma", "0.3"),
        ("audit", ".", "--workspace", "WORKSPACE"),
    ],
    ids=["check", "assess on two workers", "schedule with proof", "audit"],
)
def test_a_command_in_an_unpacked_run_executes_nothing_of_it(folders: Folders, arguments: tuple[str, ...]) -> None:
    given = [str(folders.workspace) if a == "WORKSPACE" else a for a in arguments]
    told = folders.python(folders.script, *given, "--json", cwd=folders.run)
    assert json.loads(told.stdout)
    assert executed(folders.marks) == []


def test_the_schedule_is_proved_by_a_solver_in_a_process_of_its_own(folders: Folders) -> None:
    """So that the test above cannot pass because no solver was needed."""
    code = (
        "import numpy as np\n"
        "from flcontrib_core.scheduling.objectives import ProgramTerms, TwoSidedProgram\n"
        "from flcontrib_core.scheduling.solver_process import solve_apart\n"
        "terms = ProgramTerms.of(np.arange(1.0, 7.0), np.ones((6, 2)), np.arange(2))\n"
        "print(solve_apart(TwoSidedProgram(terms, 0.1, 3, 1.0, np.zeros(6, dtype=np.bool_))).proved_optimal)\n"
    )
    told = folders.python("-P", "-c", code)
    assert told.stdout.split() == ["True"]
    assert executed(folders.marks) == []


def test_a_job_of_a_workspace_executes_nothing(folders: Folders, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    told = folders.python(script, folders.workspace, folders.run)
    assert told.stdout.split() == ["done", "without", "a", "fault"]
    assert executed(folders.marks) == []


def test_the_plant_bites(folders: Folders) -> None:
    """Python as it usually starts does execute these modules: by ``-c``, by ``-m``, and in workers of a pool."""
    subprocess.run([sys.executable, "-c", "import secrets"], cwd=folders.working, env=usual_environment(), check=False)
    assert executed(folders.marks) != []
    assert {"multiprocessing", "numpy", "torch", "streamlit", "flcontrib_core"} <= importable_names()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_safe_start_covers_every_way_multiprocessing_starts_python(
    folders: Folders, tmp_path: Path, method: str
) -> None:
    code = (
        "import multiprocessing, sys\n"
        "from flcontrib_core.execution.children import safe_starts\n"
        "if __name__ == '__main__':\n"
        f"    context = multiprocessing.get_context({method!r})\n"
        "    with safe_starts(), context.Pool(1) as pool:\n"
        "        print(pool.apply(sum, ([1, 2],)))\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    assert folders.python(script).stdout.split() == ["3"]
    assert executed(folders.marks) == []


def test_a_child_imports_from_where_its_parent_does(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", "relative", *sys.path])
    command = python_command("-c", "import sys; print('\\n'.join(sys.path))")
    told = subprocess.run(
        command, cwd=folders.working, env=child_environment(), capture_output=True, text=True, check=True
    )
    child = told.stdout.splitlines()
    assert child == list(dict.fromkeys(sys.path[2:]))
    assert executed(folders.marks) == []


def test_a_safe_start_leaves_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    before = dict(os.environ)
    with safe_starts():
        assert os.environ["PYTHONSAFEPATH"] == "1"
        assert os.environ["PYTHONPATH"] != "somewhere"
        with safe_starts():
            pass
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert dict(os.environ) == before


STARTS_PYTHON_AS_A_USER_DOES = {"tests/browser/conftest.py", "tests/execution/test_hostile_folders.py"}


@pytest.mark.parametrize("part", ["flcontrib_core", "app", "benchmarks", "tests"])
def test_every_child_is_started_in_the_one_place(part: str) -> None:
    """Whoever names the interpreter, or a pool of processes, does it by way of ``execution.children``."""
    own = {"flcontrib_core/execution/children.py", "tests/hostile_modules.py", *STARTS_PYTHON_AS_A_USER_DOES}
    for path in (ROOT / part).rglob("*.py"):
        if path.relative_to(ROOT).as_posix() in own:
            continue
        code = path.read_text()
        assert "sys.executable" not in code, f"{path}: start children with python_command and child_environment"
        if "ProcessPoolExecutor" in code or 'get_context("spawn")' in code or "ray.init(" in code:
            assert "safe_starts()" in code, f"{path}: start processes under safe_starts()"
