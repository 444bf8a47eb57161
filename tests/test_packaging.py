"""What is installed is what is imported, and an installation that lacks a part says which one."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import flcontrib_core
from flcontrib_core import console
from flcontrib_core.execution.children import child_environment, python_command

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULE_OF = {
    "mlflow-skinny": "mlflow",
    "resvg-py": "resvg_py",
    "rfc3161-client": "rfc3161_client",
    "scikit-learn": "sklearn",
}
CALLED_BY_OTHERS = {
    "highspy": "PuLP calls it",
    "authlib": "Streamlit signs people in with it",
    "httpx": "Authlib asks the provider with it",
    "tensorboard": "torch writes its files",
    "pytest": "for tests of a user's own estimators",
}
ONLY_THE_BASE = """
import sys

class OnlyTheBase:
    '''Hides whatever the base package does not bring.'''
    def find_spec(self, name, path=None, target=None):
        top = name.partition('.')[0]
        if top in HIDDEN:
            raise ModuleNotFoundError(f'No module named {top!r}', name=top)

sys.meta_path.insert(0, OnlyTheBase())
"""
RECORD = """
import numpy as np
from flcontrib_core import RunRecorder

with RunRecorder(
    sys.argv[1], clients=[("north", 120), ("south", 80)], parameters=[("weight", (3,))], initial=np.zeros(3, "f4")
) as recorder:
    for epoch in range(4):
        recorder.epoch(np.full((2, 3), epoch, dtype="f4"))
    print(recorder.bundle())
"""


def declared(extra: str | None) -> set[str]:
    """The packages that an extra brings beside those of other extras; None = the base."""
    named = PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]
    names = {re.match(r"[A-Za-z0-9-]+", requirement)[0] for requirement in named}  # type: ignore[index]
    return names - {"flcontrib"}


def imported(folder: Path) -> set[str]:
    """The top-level modules of other people that the sources in a folder import."""
    own = {"flcontrib_core", "flcontrib_dashboard"}
    tops: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                tops |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                tops.add(str(node.module).partition(".")[0])
    return tops - own - set(sys.stdlib_module_names)


def modules(extra: str | None) -> set[str]:
    return {MODULE_OF.get(name, name) for name in declared(extra) - set(CALLED_BY_OTHERS)}


def test_everything_declared_is_imported_and_everything_imported_is_declared() -> None:
    core, app = imported(ROOT / "flcontrib_core"), imported(ROOT / "app")
    audit = modules("audit") | modules("ray") | modules("bench") | modules("nvflare")
    audit |= modules("mlflow") | modules("wandb") | modules("png")
    assert core == modules(None) | audit
    assert modules("dashboard") <= app
    assert app <= modules("dashboard") | modules("audit") | modules(None)


def test_the_command_knows_which_extra_brings_a_module() -> None:
    told = {extra: {m for m, e in console.EXTRA_OF.items() if e == extra} for extra in set(console.EXTRA_OF.values())}
    named = {extra: modules(extra) for extra in ("audit", "dashboard", "ray", "bench", "png", "mlflow", "wandb")}
    assert told == named | {"tensorboard": declared("tensorboard")}


def test_all_brings_what_the_project_stands_on() -> None:
    wanted = {"streamlit", "plotly", "torch", "numpy", "ruptures", "tslearn", "pulp", "pytest"}
    assert wanted <= set().union(*(declared(e) for e in (None, "audit", "dashboard", "ray", "bench", "all")))
    assert PROJECT["optional-dependencies"]["all"] == ["flcontrib[dashboard,ray,bench,png]", "pytest>=8"]


def test_every_pinned_version_is_allowed_and_everything_declared_is_pinned() -> None:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}
    extras = PROJECT["optional-dependencies"]
    pinned_apart = ("flower", "nvflare", "mlflow", "tensorboard", "wandb")
    named = [*PROJECT["dependencies"], *(r for e in extras if e not in pinned_apart for r in extras[e])]
    for requirement in map(Requirement, named):
        if requirement.name != "flcontrib":
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement
    assert "torch==2.13.0" in lines


def test_the_version_stands_in_one_place() -> None:
    assert "version" in PROJECT["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", flcontrib_core.__version__)
    versions = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert versions == [flcontrib_core.__version__, "0.1.0"], "the changelog tells this version's changes first"


def in_the_base(code: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What an interpreter says to this code where only the base package's dependencies are installed."""
    hidden = set(console.EXTRA_OF)
    script = f"HIDDEN = {hidden!r}\n{ONLY_THE_BASE}\n{code}"
    command = python_command("-c", script, *map(str, arguments))
    return subprocess.run(command, capture_output=True, text=True, env=child_environment(), check=False)


def test_the_base_package_records_a_run(tmp_path: Path) -> None:
    told = in_the_base(RECORD, tmp_path / "run")
    assert told.returncode == 0, told.stderr
    from flcontrib_core.runs.bundle import check_run_log

    checked = check_run_log(Path(told.stdout.strip()))
    assert checked.ok, checked.errors
    assert (checked.clients, checked.epochs) == (("north", "south"), 4)


def test_a_command_without_its_extra_names_it() -> None:
    told = in_the_base("from flcontrib_core.console import main; main()", "check", "run.flrun", "--json")
    assert told.returncode == 2
    assert told.stderr == (
        "MissingPart: this command needs click, which is not installed: pip install 'flcontrib[audit]'\n"
    )
    assert json.loads(told.stdout)["error"] == "MissingPart"


def test_a_check_that_cannot_rebuild_the_model_names_the_extra() -> None:
    missing = (
        "find = importlib.util.find_spec; importlib.util.find_spec = lambda n, *a: None if n == 'torch' else find(n)"
    )
    code = f"import importlib.util; HIDDEN.clear(); {missing}\nfrom flcontrib_core.console import main; main()"
    told = in_the_base(code, "check", ROOT / "sample_runs" / "clean-iid.flrun")
    assert told.returncode == 2
    assert told.stderr == (
        "MissingPart: this command needs torch, which is not installed: pip install 'flcontrib[audit]'\n"
    )


def test_a_fault_of_our_own_is_not_taken_for_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flcontrib_core.cli", None)
    with pytest.raises(ModuleNotFoundError, match="flcontrib_core"):
        console.main()


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_the_dashboard_without_its_extra_names_it(command: str) -> None:
    missing = "importlib.util.find_spec = lambda name: None if name == 'streamlit' else True"
    code = f"import importlib.util; HIDDEN.clear(); {missing}\nfrom flcontrib_core.console import main; main()"
    told = in_the_base(code, command)
    assert told.returncode == 2
    assert told.stderr == (
        "MissingPart: this command needs streamlit, which is not installed: pip install 'flcontrib[dashboard]'\n"
    )


def test_windows_is_refused_in_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "name", "nt")
    with pytest.raises(SystemExit) as ended:
        console.main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("UnsupportedPlatform: flcontrib runs on Linux and macOS")
    assert "WSL" in told
