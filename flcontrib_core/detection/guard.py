"""A guard for training: after each round, whose replies should count less in the next one.

The growing recording is read as ``flcontrib watch`` reads it, without Shapley values: at the sequential threshold that
few honest runs exceed at any look. A client counts less for some rounds after an alert that accuses it of harm and
reaches to the last ones, and then in full again. Its updates are recorded all the same, so that the guard can change
its mind and everybody can check it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from flcontrib_core.detection.alerts import raise_alerts
from flcontrib_core.detection.findings import Alert
from flcontrib_core.detection.online import FIRST_LOOK, OnlineReader
from flcontrib_core.errors import SettingsError
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.updates_only import history_of_updates, lacking_part
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog

RECENT = 2
"""Rounds within which an alert's window must end to count as still going on."""
ROUNDS = 10
"""Rounds for which a client counts less after such an alert. What it would do to the model is not seen while it is
out, so that the alert itself fades."""
MOST_CLIENTS = 0.5
"""Share of the clients beyond which everybody counts in full: then the guard, not half of the federation, is in doubt.
"""


class Guard:
    """``record(strategy, "run", on_verdict=Guard())``: leaves clients out of the aggregation while they harm it."""

    def __init__(self, factor: float = 0.0, rounds: int = ROUNDS) -> None:
        """``factor``: by what a client's weight is multiplied, 0 leaves it out. ``rounds``: for how long."""
        if not 0 <= factor < 1:
            raise SettingsError(f"a guard's factor is at least 0 and below 1, not {factor!r}")
        if rounds < 1:
            raise SettingsError(f"a guard acts for at least one round, not {rounds!r}")
        self.factor, self.rounds = factor, rounds
        self.alerts: tuple[Alert, ...] = ()
        """What the last look found."""
        self._reader = OnlineReader()
        self._observed = _InMemory()
        self._accused_in: dict[str, int] = {}
        self._run: RunLog | None = None

    def __call__(self, path: Path) -> dict[str, float]:
        """The factors of weight that the recording as it stands asks for; a client without one counts in full."""
        run = read_run_log(path, nonfinite="absent", previous=self._run)
        if not isinstance(run, RunLog) or run.epoch_count < FIRST_LOOK:
            return {}
        self._run, last = run, run.epoch_count
        found = raise_alerts(self._reader.read(self._history(run)), check_sensitivity=False)
        self.alerts = tuple(a for a in found if a.accuses and (a.window is None or a.window[1] >= last - RECENT))
        self._accused_in |= dict.fromkeys((alert.client for alert in self.alerts), last)
        named = [client for client, epoch in self._accused_in.items() if epoch > last - self.rounds]
        return dict.fromkeys(named, self.factor) if len(named) <= MOST_CLIENTS * len(run.clients) else {}

    def _history(self, run: RunLog) -> ContributionHistory:
        settings, lacking = AssessSettings(values=False), lacking_part(run)
        if lacking is not None:
            return history_of_updates(run, settings, lacking)
        return assess_contributions(run, settings, checkpoints=self._observed)


class _InMemory:
    """What was observed in earlier rounds: each is evaluated once, when it is new."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, np.ndarray]] = {}

    def recall(self, key: str) -> dict[str, np.ndarray] | None:
        return self._kept.get(key)

    def keep(self, key: str, arrays: dict[str, np.ndarray]) -> None:
        self._kept[key] = arrays
