"""The door of the runs: every name opens, paths may be texts, and recording needs numpy and safetensors alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import flcontrib_core.runs as runs
from flcontrib_core.execution.children import child_environment, python_command
from tests.corpus.good_logs import LogWriter, write_directory, zipped
from tests.corpus.tables import CONTRIBUTIONS

BLOCKED = """
import importlib.abc, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ImportError(f"{{name}} is not part of the base install")

sys.meta_path.insert(0, Blocked())
"""
HEAVY = ("torch", "pyarrow", "pydantic", "pandas", "scipy", "sklearn", "streamlit", "plotly", "click", "psutil", "flwr")

RECORDING = """
import numpy as np
from flcontrib_core.runs import RunRecorder, check_run_log, read_run_log
with RunRecorder("run", clients=[("a", 120), ("b", 80)], parameters=[("w", (2, 3)), ("b", (2,))], initial=np.zeros(8),
                 validation=(np.zeros((200, 3)), np.arange(200) % 2), classes=2,
                 model={"input": [3], "layers": [{"op": "linear", "weight": "w", "bias": "b"}]}) as recorder:
    recorder.epoch({"a": np.ones(8), "b": np.arange(8.0)}, metrics={"loss": 0.5})
    recorder.bundle()
print(check_run_log("run").ok, check_run_log("run.flrun").ok, read_run_log("run").epoch_count)
"""


def _isolated(code: str, folder: Path) -> str:
    blocked = BLOCKED.format(blocked=set(HEAVY))
    done = subprocess.run(
        python_command("-c", blocked + code),
        cwd=folder,
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_name_opens() -> None:
    assert dir(runs) == sorted(runs.__all__)
    for name in runs.__all__:
        assert getattr(runs, name) is not None
    with pytest.raises(AttributeError, match="it offers"):
        runs.nobody  # noqa: B018


def test_the_door_loads_nothing(tmp_path: Path) -> None:
    code = "import flcontrib_core.runs; print([m for m in sys.modules if m.startswith('flcontrib_core.runs.')])"
    assert _isolated(code, tmp_path) == "[]"


def test_a_run_is_recorded_and_read_with_the_base_install(tmp_path: Path) -> None:
    assert _isolated(RECORDING, tmp_path) == "True True 1"


def test_parquet_without_arrow_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    code = """
from flcontrib_core.errors import MissingPart
from flcontrib_core.runs import read_run_log
import importlib.util
importlib.util.find_spec = lambda name: None
try:
    read_run_log("t.parquet")
except MissingPart as missing:
    print(missing)
"""
    assert "flcontrib[audit]" in _isolated(code, tmp_path)


def test_paths_may_be_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = LogWriter().files()
    write_directory(files, tmp_path / "run")
    (tmp_path / "run.flrun").write_bytes(zipped(files))
    (tmp_path / "t.csv").write_text(CONTRIBUTIONS)
    for text in ("run", "run.flrun", "t.csv"):
        assert runs.read_run_log(text).digest == runs.read_run_log(Path(text)).digest
        assert runs.check_run_log(text).ok
    assert runs.companion("t.csv") == Path("t.data_sizes.csv")
    assert runs.write_bundle("run", files, "again.flrun") == Path("again.flrun")
    assert runs.read_run_log("again.flrun").digest == runs.read_run_log("run").digest
