"""What a labelled run says about honest changes: who did what otherwise, and when. Nobody here was dishonest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flcontrib_core.laboratory.simulation.windows import Window
from flcontrib_core.runs.run_log import RunLog

KEY = "changes"
"""Of the manifest's ``truth``, beside ``dishonest``; a run without changes has no such key."""


@dataclass(frozen=True)
class ChangeTruth:
    """One honest change of one client, or of the server where ``client`` is None."""

    client: str | None
    kind: str
    windows: tuple[Window, ...]
    strength: float | None

    def to_json(self) -> dict[str, Any]:
        """As the manifest has it; a kind without strength names none."""
        said = {"client": self.client, "kind": self.kind, "windows": [list(window) for window in self.windows]}
        return said if self.strength is None else {**said, "strength": self.strength}


def changes_of(run: RunLog) -> tuple[ChangeTruth, ...]:
    """The honest changes that a simulated run's own manifest tells of."""
    truth = run.manifest.get("truth") or {}
    return tuple(
        ChangeTruth(entry["client"], entry["kind"], tuple((a, b) for a, b in entry["windows"]), entry.get("strength"))
        for entry in truth.get(KEY, ())
    )
