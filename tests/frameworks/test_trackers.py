"""Do MLflow, Weights & Biases and TensorBoard hold what the audit found, read back by their own readers?"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from flcontrib_core.reports.trackers import LONGEST_KEY, series_key
from tests.frameworks.conftest import RunScript

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "sample_runs" / "contributions-table.csv"
TRACKERS = ("tensorboard", "mlflow", "wandb")


@pytest.fixture(scope="module")
def found(run_script_once: RunScript) -> dict[str, Any]:
    """What each tracker holds after the command that its page shows."""
    pages = [(ROOT / "docs" / "trackers" / f"{name}.md").read_text() for name in TRACKERS]
    commands = [re.findall(r"^flcontrib track .*$", page, flags=re.MULTILINE)[0] for page in pages]
    folder = run_script_once("tracked.py", str(TABLE), *commands)
    held: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return held


def values() -> dict[str, dict[str, float]]:
    """The table's own numbers, help up."""
    series: dict[str, dict[str, float]] = defaultdict(dict)
    with TABLE.open() as rows:
        for row in csv.DictReader(rows):
            for name, utility, sign in (("loss_reduction", "loss", -1), ("accuracy_gain", "accuracy", 1)):
                if row["epoch"] != "0":
                    series[f"{name}/{row['client']}"][row["epoch"]] = sign * float(row[utility])
    return series


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_tracker_holds_values_totals_and_alerts(found: dict[str, Any], tracker: str) -> None:
    held = found[tracker]
    totals = held.get("totals") or {name: steps.get("25") for name, steps in held["series"].items()}
    for name, expected in values().items():
        taken_part = {epoch: held["series"][name][epoch] for epoch in expected}
        assert taken_part == pytest.approx(expected, abs=1e-7)
        total = name.replace("/", "_total/")
        assert totals[total] == pytest.approx(sum(expected.values()), abs=1e-6)
    assert totals["alerts/accusing"] == totals["alerts/all"] == 1
    inside = [int(epoch) for epoch, held_there in held["series"]["alert/client-02"].items() if held_there]
    assert inside == list(range(13, 19))
    assert [name for name in held["series"] if name.startswith("alert/")] == ["alert/client-02"]
    assert "poisoning-window" in held["alerts"]
    assert "outside +0.005" in held["alerts"], "with its sentences"


def test_any_clients_id_makes_a_name_of_its_own() -> None:
    clients = ["a b", "a_b", "a_x20_b", "a/b", "..", ".", "東京-1", "=1+1", "x" * 200, "x" * 199 + "y", " ", "a.b"]
    keys = [series_key(client) for client in clients]
    assert len(set(keys)) == len(clients)
    assert all(re.fullmatch(r"[\w.-]+", key) and len(key) <= LONGEST_KEY and key.strip(".") for key in keys)
    assert (series_key("東京-1"), series_key("a.b")) == ("東京-1", "a.b")
