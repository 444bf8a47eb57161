"""One of everything a workspace does, in steps that can be repeated: what the fault tests break off and check.

``python -m tests.workspace.scenario WORKSPACE BUNDLE SECOND`` runs it and prints each step when it is acknowledged;
exit code 3 stands for a typed error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core.detection import AlertState
from flcontrib_core.errors import WorkspaceError
from flcontrib_core.workspace import Workspace
from flcontrib_core.workspace.disk import Disk

KEYS = [f"{number:02x}" * 32 for number in range(3)]
ALERT = {"client": "client-1", "verdict": "poisoning-window", "window": [2, 3]}


def arrays(number: int) -> dict[str, np.ndarray]:
    return {"values": np.random.default_rng(number).normal(size=700)}


def utilities(number: int) -> dict[bytes, np.ndarray]:
    rng = np.random.default_rng([number, 1])
    return {bytes([c]): rng.normal(size=2) for c in range(1, 200)}


def run_scenario(
    path: Path, bundle: Path, second: Path, acknowledge: Callable[[str], None], disk: Disk | None = None
) -> None:
    """Every step is acknowledged after its call has returned; a second pass over a finished workspace adds nothing."""
    with Workspace(path, disk=disk) as workspace:
        acknowledge("opened")
        run = workspace.add_run(bundle, "first").digest
        acknowledge("run")
        checkpoints, memory = workspace.checkpoints(), workspace.utility_memory()
        for number, key in enumerate(KEYS):
            known = memory.recall_epoch(key)
            memory.keep_epoch(key, {k: v for k, v in utilities(number).items() if k not in known})
            acknowledge(f"memory {number}")
            if checkpoints.recall(key) is None:
                checkpoints.keep(key, arrays(number))
            acknowledge(f"epoch {number}")
        workspace.store_result(run, {"seed": 1}, "note", {"answer": 42, **arrays(9)})
        acknowledge("result")
        (alert,) = workspace.alerts.raise_alerts(run, [ALERT])
        acknowledge("alert")
        if alert.state is not AlertState.CONFIRMED:
            workspace.alerts.decide(alert.id, AlertState.CONFIRMED, "ada", "seen")
        acknowledge("decision")
        other = workspace.add_run(second, "second").digest
        acknowledge("second run")
        workspace.delete_run(other)
        acknowledge("deleted")


def what_holds(workspace: Workspace) -> dict[str, Any]:
    """What a reader finds, by the step that put it there."""
    checkpoints, memory = workspace.checkpoints(), workspace.utility_memory()
    runs = {run.name: run for run in workspace.runs()}
    alerts = workspace.alerts.list()
    found: dict[str, Any] = {"opened": True, "run": "first" in runs and runs["first"].available}
    for number, key in enumerate(KEYS):
        remembered, kept = memory.recall_epoch(key), checkpoints.recall(key)
        found[f"memory {number}"] = {k: v.tolist() for k, v in remembered.items()} == {
            k: v.tolist() for k, v in utilities(number).items()
        }
        found[f"epoch {number}"] = kept is not None and kept["values"].tolist() == arrays(number)["values"].tolist()
    found["result"] = [r.digest for r in workspace.results() if r.available]
    found["alert"] = [a.id for a in alerts]
    found["decision"] = [a.state for a in alerts] == [AlertState.CONFIRMED]
    return found


def check_sound(path: Path, acknowledged: list[str]) -> None:
    """After whatever happened: nothing acknowledged is lost, no object is torn, the log holds, nothing is left over."""
    with Workspace(path) as workspace:
        found = what_holds(workspace)
        for step in acknowledged:
            if step not in ("second run", "deleted"):
                assert found[step], f"{step} was acknowledged and is lost"
        if "deleted" in acknowledged:
            assert [r.name for r in workspace.runs()] == ["first"]
        for name in workspace.objects.names():
            workspace.objects.read(name)
        assert workspace.verify_chain() is None
        assert list((workspace.path / "incoming").iterdir()) == []
        assert workspace.log.entries("damage") == ()


def main() -> int:
    path, bundle, second = (Path(argument) for argument in sys.argv[1:4])
    try:
        run_scenario(path, bundle, second, lambda step: print(step, flush=True))
    except WorkspaceError as fault:
        print(f"{type(fault).__name__}: {fault}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
