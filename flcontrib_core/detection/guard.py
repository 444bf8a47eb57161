"""A guard for training: after each round, whose replies should count less in the next one.

The growing recording is read as ``flcontrib watch`` reads it, without Shapley values: at the sequential threshold that
few honest runs exceed at any look. A client counts less for some rounds after an alert that accuses it of harm and
reaches to the last ones, and then in full again. Its updates are recorded all the same, so that the guard can change
its mind and everybody can check it.
"""

from __future__ import annotations

from pathlib import Path

from flcontrib_core.detection.alerts import raise_alerts
from flcontrib_core.detection.findings import Alert
from flcontrib_core.detection.online import FIRST_LOOK, OnlineReader
from flcontrib_core.errors import SettingsError
from flcontrib_core.history.rolling import RollingHistory

RECENT = 2
"""Rounds within which an alert's window must end to count as still going on."""
ROUNDS = 10
"""Rounds for which a client counts less after such an alert. What it would do to the model is not seen while it is
out, so that the alert itself fades."""
HORIZON = 100
"""Rounds that a look sees, so that the thousandth costs what the hundredth did."""
MOST_CLIENTS = 0.5
"""Share of the clients beyond which everybody counts in full: then the guard, not half of the federation, is in doubt.
"""


class Guard:
    """``record(strategy, "run", on_verdict=Guard())``: leaves clients out of the aggregation while they harm it."""

    def __init__(self, factor: float = 0.0, rounds: int = ROUNDS, horizon: int = HORIZON) -> None:
        """``factor``: by what a client's weight is multiplied, 0 leaves it out. ``rounds``: for how long. ``horizon``:
        how many of the last rounds are looked at."""
        if not 0 <= factor < 1:
            raise SettingsError(f"a guard's factor is at least 0 and below 1, not {factor!r}")
        if rounds < 1:
            raise SettingsError(f"a guard acts for at least one round, not {rounds!r}")
        if horizon < FIRST_LOOK:
            raise SettingsError(f"a guard looks at {FIRST_LOOK} rounds or more, not {horizon!r}")
        self.factor, self.rounds, self.horizon = factor, rounds, horizon
        self.alerts: tuple[Alert, ...] = ()
        """What the last look found; epochs are counted from the first round it saw."""
        self._reader = OnlineReader()
        self._accused_in: dict[str, int] = {}
        self._rolling: RollingHistory | None = None

    def __call__(self, path: Path) -> dict[str, float]:
        """The factors of weight that the recording as it stands asks for; a client without one counts in full."""
        if self._rolling is None or self._rolling.folder != path:
            self._rolling, self._accused_in = RollingHistory(path, self.horizon), {}
        history, last = self._rolling.read_on(), self._rolling.epoch
        seen = history.epoch_count
        if seen < FIRST_LOOK:
            return {}
        found = raise_alerts(self._reader.read(history), check_sensitivity=False)
        self.alerts = tuple(a for a in found if a.accuses and (a.window is None or a.window[1] >= seen - RECENT))
        self._accused_in |= dict.fromkeys((alert.client for alert in self.alerts), last)
        named = [client for client, epoch in self._accused_in.items() if epoch > last - self.rounds]
        return dict.fromkeys(named, self.factor) if len(named) <= MOST_CLIENTS * len(history.client_ids) else {}
