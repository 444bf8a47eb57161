"""What does an audit say of a run, and how far is that from the truth?

A run is audited as ``flcontrib audit`` does, in this process: every fourth with Shapley values (the default) where at
most eight clients take part in an epoch, so that they cost little; the others without them (``--no-values``).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from benchmarks.other_hand.draws import draw
from benchmarks.other_hand.federation import make_run
from benchmarks.other_hand.pools import pool_names

HALVES = {"development": 0, "sealed": 1}
"""Even seeds may be looked at while a detector is made, odd ones only when it is done."""


def seeds_of(half: str, count: int, first: int = 0) -> list[int]:
    """The seeds number ``first``, … of one half."""
    return [2 * number + HALVES[half] for number in range(first, first + count)]


def folder_of(out: Path, seed: int) -> Path:
    """Where the run of a seed is kept."""
    return out / f"{seed:05d}"


def with_values(setup: dict[str, Any]) -> bool:
    """Is this run audited with Shapley values?"""
    return bool(setup["seed"] // 2 % 4 == 0 and setup["participation"] * setup["clients"] <= 8)


def make_runs(out: Path, seeds: Iterable[int]) -> None:
    """Trains what is not there yet, on one thread: steps this small only wait for each other on several."""
    torch.set_num_threads(1)
    with threadpool_limits(1):
        for seed in seeds:
            make_run(draw(seed, pool_names()), folder_of(out, seed))
            print(f"made {seed}", file=sys.stderr, flush=True)


def audit_run(folder: Path, truth: dict[str, Any], name: str) -> dict[str, Any]:
    """What the audit says of the run, computed once and kept beside it under this name."""
    from flcontrib_core.auditing import AuditSettings, audit
    from flcontrib_core.history.settings import AssessSettings
    from flcontrib_core.reports.as_json import audit_json
    from flcontrib_core.runs.bundle import read_run_log

    kept = folder / f"{name}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    settings = AuditSettings(assess=AssessSettings(values=with_values(truth["setup"])))
    said = audit_json(audit(read_run_log(folder / "log.flrun"), settings, workers=1))
    wanted = ("alerts", "clients", "change_points", "without_values", "channels_unavailable", "seconds", "remarks")
    answer = {key: said[key] for key in wanted}
    kept.write_text(json.dumps(answer))
    return answer


def keep_labelled(out: Path, seeds: Iterable[int], histories: Path) -> None:
    """Assesses the runs of these seeds and keeps them, labelled, for ``flcontrib calibrate --also``.

    With Shapley values where at most eight clients take part in an epoch. Only the development half is for this.
    """
    from flcontrib_core.history import AssessSettings, assess_contributions
    from flcontrib_core.history.updates_only import lacking_part
    from flcontrib_core.laboratory.corpus import AssessedRun, keep_assessed
    from flcontrib_core.runs.bundle import read_run_log
    from flcontrib_core.runs.run_log import DishonestTruth, Truth

    torch.set_num_threads(1)
    families = {"honest": "plain", "changing": "changing", "attacked": "attacked"}
    with threadpool_limits(1):
        for folder in (folder_of(out, seed) for seed in seeds):
            if not (folder / "truth.json").exists():
                continue
            truth = json.loads((folder / "truth.json").read_text())
            name = f"other/{families[truth['kind']]}/{folder.name}"
            if (histories / f"{name}.history").exists():
                continue
            run = read_run_log(folder / "log.flrun")
            if lacking_part(run) is not None:
                continue  # read by its updates alone: nothing in it measures harm
            setup = truth["setup"]
            values = setup["participation"] * setup["clients"] <= 8
            history = assess_contributions(run, AssessSettings(utilities=("loss",), values=values))
            labels = tuple(
                DishonestTruth(a["client"], tuple((t, t) for t in a["acts"]), a["attack"], a["strength"])
                for a in truth["attackers"]
                if a["acts"]
            )
            keep_assessed(AssessedRun(name, history, Truth(labels), ()), histories)
            print(f"kept {name}", file=sys.stderr, flush=True)


def examined(out: Path, seeds: Iterable[int], name: str = "audit") -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Truth and answer of every run of these seeds that was made and did not diverge; ``name`` keeps the answers."""
    pairs = []
    torch.set_num_threads(1)
    with threadpool_limits(1):
        for folder in (folder_of(out, seed) for seed in seeds):
            if (folder / "log.flrun").exists() and (folder / "truth.json").exists():
                truth = json.loads((folder / "truth.json").read_text())
                pairs.append((truth, audit_run(folder, truth, name)))
                print(f"audited {folder.name}", file=sys.stderr, flush=True)
    return pairs
