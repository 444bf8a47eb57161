"""What does an audit say of a run, and how far is that from the truth?

A run is audited as ``flcontrib audit`` does, in this process: every fourth with Shapley values (the default) where at
most eight clients take part in an epoch, so that they cost little; the others without them (``--no-values``).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from threadpoolctl import threadpool_limits

from benchmarks.other_hand.draws import draw
from benchmarks.other_hand.federation import make_run
from benchmarks.other_hand.pools import pool_names

if TYPE_CHECKING:
    from flcontrib_core.laboratory.corpus import AssessedRun

HALVES = {"development": 0, "sealed": 1}
"""Even seeds may be looked at while a detector is made, odd ones only when it is done."""
FAMILIES = {"honest": "plain", "changing": "changing", "attacked": "attacked"}
"""A run's kind by the corpus' names."""
MOST_VALUED = 8
"""Participants up to which a labelled run gets Shapley values."""


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


def labelled(folder: Path, hand: str) -> AssessedRun | None:
    """A run of this or the third hand, assessed and with its truth; None where it diverged.

    With Shapley values where at most eight clients take part in an epoch; of a log without a model the updates alone.
    """
    from flcontrib_core.history import AssessSettings, assess_contributions
    from flcontrib_core.history.updates_only import history_of_updates, lacking_part
    from flcontrib_core.laboratory.corpus import AssessedRun
    from flcontrib_core.runs.bundle import read_run_log
    from flcontrib_core.runs.run_log import DishonestTruth, RunLog, Truth

    if not (folder / "log.flrun").exists():
        return None
    truth = json.loads((folder / "truth.json").read_text())
    run = read_run_log(folder / "log.flrun")
    assert isinstance(run, RunLog)
    most = max((len(epoch.participants) for epoch in run.epochs), default=0)
    settings, lacking = AssessSettings(utilities=("loss",), values=most <= MOST_VALUED), lacking_part(run)
    history = assess_contributions(run, settings) if lacking is None else history_of_updates(run, settings, lacking)
    labels = tuple(
        DishonestTruth(a["client"], tuple((t, t) for t in a["acts"]), a["attack"], a["strength"])
        for a in truth["attackers"]
        if a["acts"]
    )
    return AssessedRun(f"{hand}/{FAMILIES[truth['kind']]}/{folder.name}", history, Truth(labels), ())


def keep_labelled(out: Path, seeds: Iterable[int], histories: Path) -> None:
    """Assesses the runs of these seeds and keeps them, labelled, for ``flcontrib calibrate --also``.

    Only the development half is for this. A log that is read by its updates alone is left out: nothing measures harm.
    """
    from flcontrib_core.history.remarks import NoValues
    from flcontrib_core.laboratory.corpus import keep_assessed

    torch.set_num_threads(1)
    with threadpool_limits(1):
        for folder in (folder_of(out, seed) for seed in seeds):
            if any(histories.glob(f"other/*/{folder.name}.history")):
                continue
            run = labelled(folder, "other")
            if run is not None and run.history.without_values in (None, NoValues.NOT_ASKED):
                keep_assessed(run, histories)
                print(f"kept {run.run_id}", file=sys.stderr, flush=True)


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
