"""A small log may ask for much memory: it is refused by name before the machine has none left."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flcontrib_core import auditing
from flcontrib_core.errors import MemoryRefusal
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.memory_need import require_memory
from flcontrib_core.runs.bundle import read_run_log
from tests.corpus.__main__ import write_case
from tests.corpus.cases import all_cases
from tests.in_process import flcontrib

HUNGRY = ("60,000 equal updates × 8", "100,000 clients with weights and starts", "50,000 clients twice in a round",
          "utility table: 20,000 epochs")  # fmt: skip


def free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=size, total=size))


@pytest.mark.parametrize("name", HUNGRY)
def test_a_log_that_no_machine_can_hold_ends_by_name(
    name: str, corpus_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``check`` accepts them; their audits took 20 GB and more, and the system ended them."""
    case = next(case for case in all_cases() if case.name == name)
    free(monkeypatch, 16 << 30)
    told = flcontrib("audit", write_case(case, corpus_folder), "--json")
    assert told.returncode == 2
    answer = json.loads(told.stdout)
    assert answer["error"] == "MemoryRefusal"
    assert "GiB are free" in answer["message"]


def test_the_refusal_follows_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "long.csv"
    table.write_text("epoch,client,loss\n" + "".join(f"{epoch},a,1\n" for epoch in range(1, 1001)))
    run = read_run_log(table)
    free(monkeypatch, 80_000_000)
    require_memory(run, reading=True)
    free(monkeypatch, 70_000_000)
    require_memory(run)  # values alone need no pairs of epochs
    with pytest.raises(MemoryRefusal, match="1000 epochs"):
        auditing.audit(run)
    free(monkeypatch, 100_000)
    with pytest.raises(MemoryRefusal):
        assess_contributions(run)


@pytest.mark.parametrize("fault", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 1 byte")])
def test_memory_that_ends_nevertheless_ends_in_words(
    fault: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr("flcontrib_core.runs.bundle.check_run_log", refuse)
    told = flcontrib("check", tmp_path, "--json")
    assert told.returncode == 2
    assert json.loads(told.stdout)["error"] == "MemoryRefusal"
