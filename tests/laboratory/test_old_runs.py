"""Are runs that could be simulated before honest changes came the same runs, to the byte?

``old_runs.json`` has their digests as the version before gave them, and the platform they were made on; elsewhere the
last bits of a matrix product may differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flcontrib_core.laboratory.simulation import Attack, AttackKind, SimulationSettings, simulate_in_memory
from flcontrib_core.laboratory.simulation.settings import Privacy
from sample_runs.rebuild import this_platform

RECORD = json.loads((Path(__file__).parent / "old_runs.json").read_text(encoding="utf-8"))


def settings_of(changes: dict[str, Any]) -> SimulationSettings:
    given: dict[str, Any] = {"clients": 5, "epochs": 6, "train_rows": 300, "validation_rows": 100, "hidden": [8]}
    given |= {"seed": 4} | changes
    more = given.pop("more_attacks", [])
    for key in ("hidden", "windows"):
        if key in given:
            given[key] = _tuples(given[key])
    if "privacy" in given:
        given["privacy"] = Privacy(*given["privacy"])
    attacks = tuple(Attack(AttackKind(kind), clients=_tuples(c), windows=_tuples(w)) for kind, c, w in more)
    return SimulationSettings(**given, more_attacks=attacks)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value


@pytest.mark.skipif(RECORD["platform"] != this_platform(), reason="made on another platform")
@pytest.mark.parametrize("name", list(RECORD["runs"]))
def test_an_old_run_keeps_its_digest(name: str) -> None:
    run = RECORD["runs"][name]
    assert simulate_in_memory(settings_of(run["settings"])).digest == run["digest"]
