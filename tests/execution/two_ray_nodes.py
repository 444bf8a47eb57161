"""Started by its test: assessments on two Ray nodes of this machine, one of which is killed in mid-run; prints JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import ray
from ray.cluster_utils import Cluster

from flcontrib_core.execution.children import safe_starts
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.laboratory.simulation.settings import SimulationSettings
from flcontrib_core.laboratory.simulation.simulated_run import simulate_in_memory

RUN = SimulationSettings(clients=5, epochs=6, hidden=(8,), seed=3)


def same(one: ContributionHistory, other: ContributionHistory) -> bool:
    """Bit for bit, values and their errors."""
    return all(
        np.array_equal(getattr(one.of(u), part), getattr(other.of(u), part), equal_nan=True)
        for u in one.utilities
        for part in ("values", "standard_errors")
    )


def main() -> None:
    run = simulate_in_memory(RUN)
    node = {"num_cpus": 1, "include_dashboard": False}
    with safe_starts():
        cluster = Cluster(initialize_head=True, head_node_args=node)
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
