"""What do the charts of a report show, before any drawing? Help is up in all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.vocabulary import FillPolicy, FloatArray
from flcontrib_core.words.report_words import credited, main_utility

MOST_IN_FOCUS = 8
BAND = (0.1, 0.25, 0.5, 0.75, 0.9)
STATE_COMPUTED, STATE_ABSENT, STATE_SKIPPED = 1, 0, 2


@dataclass(frozen=True)
class RunFacts:
    """Everything the charts need, turned so that help is up and without the initial model's share."""

    utility: str
    axis: str
    client_ids: tuple[str, ...]
    epochs: int
    state: np.ndarray
    """(T + 1, clients) 0 absent, 1 computed, 2 took part but not computed"""
    values: FloatArray
    """(T + 1, clients) per epoch; NaN where not computed"""
    half_widths: FloatArray
    """(T + 1, clients) 95%; 0 = exact, NaN = none"""
    credit: FloatArray
    """(T + 1, clients) running totals, skipped epochs by the fill policy"""
    totals: FloatArray
    """(clients,)"""
    total_errors: FloatArray
    """(clients,) standard errors; 0 = exact, NaN = none"""
    gain: FloatArray
    """(T + 1,) the model's gain of each epoch"""
    change: FloatArray
    """(T + 1, clients) probability that a new segment starts"""
    windows: dict[str, tuple[tuple[int, int], ...]]
    """Of every alerted client, strongest alert first; empty where an alert has no window"""
    fill: FillPolicy

    @property
    def has_epoch_values(self) -> bool:
        """False for methods that give totals only."""
        return bool((self.state[1:] == STATE_COMPUTED).any())

    @property
    def focus(self) -> tuple[str, ...]:
        return tuple(self.windows)[:MOST_IN_FOCUS]

    def position(self, client: str) -> int:
        return self.client_ids.index(client)

    def band(self, without: tuple[str, ...]) -> tuple[FloatArray, int]:
        """(5, T + 1) quantiles of the others' running credit, and how many others there are."""
        rest = [i for i, c in enumerate(self.client_ids) if c not in without]
        if not rest:
            return np.empty((0, 0)), 0
        return np.quantile(self.credit[:, rest], BAND, axis=1), len(rest)

    def ranking(self) -> list[int]:
        """Positions, most helpful first; clients that never took part have no rank."""
        active = [i for i in range(len(self.client_ids)) if (self.state[1:, i] != STATE_ABSENT).any()]
        return sorted(active, key=lambda i: (-self.totals[i], self.client_ids[i]))


def run_facts(report: AuditReport, utility: str | None = None) -> RunFacts:
    """The facts of one utility; by default the loss, else the first."""
    history = report.history
    name = utility or main_utility(history)
    fill = FillPolicy(str(history.settings.get("fill", FillPolicy.EQUAL)))
    sign = -history.harm_sign(name)
    series = history.of(name)
    state = np.where(series.computed, STATE_COMPUTED, np.where(series.missing, STATE_SKIPPED, STATE_ABSENT))
    state[0] = STATE_ABSENT
    filled = sign * history.filled(name, fill)
    filled[0] = 0.0
    windows: dict[str, tuple[tuple[int, int], ...]] = {}
    for alert in report.detection.alerts:
        known = windows.setdefault(alert.client, ())
        if alert.window is not None and alert.window not in known:
            windows[alert.client] = (*known, alert.window)
    gain = sign * history.of(name).increments
    gain[0] = 0.0
    return RunFacts(
        utility=name,
        axis=credited(history, name),
        client_ids=history.client_ids,
        epochs=history.epoch_count,
        state=state,
        values=np.where(state == STATE_COMPUTED, sign * history.of(name).values, np.nan),
        half_widths=1.96 * np.where(state == STATE_COMPUTED, history.of(name).standard_errors, np.nan),
        credit=np.cumsum(filled, axis=0),
        totals=sign * (history.totals(name, fill) - history.of(name).values[0]),
        total_errors=history.total_standard_errors(name),
        gain=gain,
        change=report.detection.change_points.probability,
        windows=windows,
        fill=fill,
    )
