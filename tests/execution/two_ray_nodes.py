"""Started by its test: assessments on two Ray nodes of this machine, one of which is killed in mid-run; prints JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import ray
from ray.cluster_utils import Cluster

from flcontrib_core.execution.children import safe_starts
from flcontrib_core.execution.engine import Engine, Execution, open_engine
from flcontrib_core.execution.ray_cluster import ClusterUnfit
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.laboratory.simulation.settings import SimulationSettings
from flcontrib_core.laboratory.simulation.simulated_run import simulate_in_memory
from tests.patience import PATIENCE_SECONDS

RUN = SimulationSettings(clients=5, epochs=6, hidden=(8,), seed=3)


def same(one: ContributionHistory, other: ContributionHistory) -> bool:
    """Bit for bit, values and their errors."""
    return all(
        np.array_equal(getattr(one.of(u), part), getattr(other.of(u), part), equal_nan=True)
        for u in one.utilities
        for part in ("values", "standard_errors")
    )


def gpus_of(shared: object, task: int) -> list[int]:
    """The GPUs that Ray gave the task."""
    return [int(gpu) for gpu in ray.get_gpu_ids()]


def beat(shared: object, place: Path | None) -> None:
    """Says that it lives until it is ended; without a place it is done at once."""
    while place is not None:
        place.write_text(str(time.monotonic()))
        time.sleep(0.02)


def gives_up(engine: Engine, folder: Path) -> bool:
    """Does remote work end when nobody waits for its answer any more?"""
    heart = folder / "heart"
    answers = engine.run(beat, [None, heart])
    next(answers)
    while not heart.exists():
        time.sleep(0.02)
    answers.close()  # type: ignore[attr-defined]
    last, deadline = "nothing yet", time.monotonic() + PATIENCE_SECONDS
    while (now := heart.read_text()) != last and time.monotonic() < deadline:
        last = now
        time.sleep(1.0)
    return now == last


def main() -> None:
    run = simulate_in_memory(RUN)
    node = {"num_cpus": 1, "include_dashboard": False}
    with safe_starts():
        cluster = Cluster(initialize_head=True, head_node_args={**node, "num_gpus": 1})  # only said: none is used
        second = cluster.add_node(**node)
    cluster.wait_for_nodes()
    found: dict[str, Any] = {"nodes": len(cluster.list_all_nodes())}

    def spread(estimator: str, **more: Any) -> bool:
        settings = AssessSettings(estimator=estimator)
        local = assess_contributions(run, settings)
        return same(local, assess_contributions(run, settings, engine="ray", address=cluster.address, **more))

    with (
        safe_starts(),
        ray.init(address=cluster.address, log_to_driver=False),
    ):
        found["equal"] = {name: spread(name, workers=2) for name in ("exact", "surrogate", "gtg")}
        with open_engine(Execution(1, "ray", cluster.address, gpus=0.5), None) as engine:
            found["gpu_of_a_task"] = next(iter(engine.run(gpus_of, [0])))
        try:
            open_engine(Execution(1, "ray", cluster.address, gpus=5), None)
        except ClusterUnfit as refused:
            found["gpus_too_many"] = str(refused)
        with open_engine(Execution(None, "ray", cluster.address), None) as engine, TemporaryDirectory() as folder:
            found["workers_by_default"] = engine.workers
            found["given_up"] = gives_up(engine, Path(folder))
    finished: list[int] = []

    def lose_a_node(answer: Any) -> None:
        finished.append(answer.epoch)
        if len(finished) == 2:
            cluster.remove_node(second, allow_graceful=False)  # SIGKILL to all its processes

    found["equal_without_a_node"] = spread("exact", on_epoch=lose_a_node)
    found["epochs"] = len(finished)
    cluster.shutdown()
    print(json.dumps(found), file=sys.__stdout__)


if __name__ == "__main__":
    main()
