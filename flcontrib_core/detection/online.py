"""Reading a run that is still growing.

The same reading, repeated after every epoch. Each look is another chance for a false alarm, so the threshold is the
one that few honest runs exceed at *any* look (the calibration's ``online`` preset). What is reported live is
provisional: read the finished run again, with the preset of your choice, to confirm it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flcontrib_core.detection.alerts import detection_of, raise_alerts
from flcontrib_core.detection.calibration import Calibration, shipped_calibration
from flcontrib_core.detection.findings import Alert, Detection, VerdictKind
from flcontrib_core.detection.objections import StillGrowing
from flcontrib_core.detection.reading import Reading, reading_of
from flcontrib_core.detection.reasons import Window
from flcontrib_core.detection.windows import WindowModel
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import EpochByClient

ONLINE_PRESET = "online"
FIRST_LOOK = 8
"""Epochs with participants before which no window is reported: there is too little outside to compare with."""
REPORTED = (
    VerdictKind.POISONING_WINDOW,
    VerdictKind.CONTRIBUTES_NOTHING,
    VerdictKind.ACTS_TOGETHER,
    VerdictKind.BEHAVIOUR_CHANGED,
    VerdictKind.EXACT_FINDING,
)
"""Persistent clients and changed class mixes need the whole run and are left to the final reading."""


@dataclass(frozen=True)
class ProvisionalAlert:
    """What an alert of a growing run is known by: who, what, which epochs then, and after which epoch it was seen."""

    client: str
    verdict: VerdictKind
    window: Window | None
    finding: str
    seen_after: int

    @classmethod
    def of(cls, alert: Alert, epoch: int) -> ProvisionalAlert:
        """An alert first seen after ``epoch``."""
        return cls(alert.client, alert.verdict, alert.window, alert.finding, epoch)

    def became(self, alert: Alert) -> bool:
        """Is this the same one later? One client, one kind, overlapping or adjoining epochs: a window that grew is not
        a new one."""
        if (alert.client, alert.verdict, alert.finding) != (self.client, self.verdict, self.finding):
            return False
        if alert.window is None or self.window is None:
            return True
        return alert.window[0] <= self.window[1] + 1 and self.window[0] <= alert.window[1] + 1


class OnlineReader:
    """Reads a growing history again after each epoch and returns what is new.

    Windows and exact findings are reported once, when they first appear; a change that turns out harmful, once more.
    ``reported``: what an earlier reader of the same run reported, where this one goes on after it.
    """

    def __init__(
        self,
        calibration: Calibration | None = None,
        model: WindowModel | None = None,
        reported: Iterable[ProvisionalAlert] = (),
    ) -> None:
        self.calibration = calibration or shipped_calibration()
        self.model = model or WindowModel()
        self._reported = list(reported)

    def look(self, history: ContributionHistory) -> tuple[Alert, ...]:
        """Alerts of the history so far that no earlier look has reported, strongest first."""
        return self._new(self._standing(self.read(history)), history.epoch_count)

    def detect(self, history: ContributionHistory) -> tuple[Detection, tuple[Alert, ...]]:
        """Everything that stands after this look, and the alerts among it that are new."""
        reading = self.read(history)
        standing = self._standing(reading)
        return detection_of(reading, standing, ONLINE_PRESET), self._new(standing, history.epoch_count)

    def read(self, history: ContributionHistory) -> Reading:
        """The history as one of many looks sees it."""
        return reading_of(history, self.calibration, self.calibration.preset(ONLINE_PRESET), self.model, online=True)

    def _standing(self, reading: Reading) -> tuple[Alert, ...]:
        growing = StillGrowing(reading.history.epoch_count)
        early = len(reading.channels.epochs) < FIRST_LOOK
        return tuple(
            replace(alert, evidence_against=(growing, *alert.evidence_against))
            for alert in raise_alerts(reading, check_sensitivity=False)
            if alert.verdict in REPORTED and (not early or alert.verdict is VerdictKind.EXACT_FINDING)
        )

    def _new(self, standing: tuple[Alert, ...], epoch: int) -> tuple[Alert, ...]:
        new = tuple(a for a in standing if not any(old.became(a) for old in self._reported))
        self._reported.extend(ProvisionalAlert.of(alert, epoch) for alert in new)
        return new


def history_until(
    history: ContributionHistory, epoch: int, own_cosine: EpochByClient | None = None
) -> ContributionHistory:
    """The history as it stood after ``epoch``, to replay a finished run.

    ``own_cosine`` (epoch + 1, m) replaces the channel that looks at a client's *other* updates, which the finished
    history computes from later ones too. Without it the replay knows a little of the future.
    """
    rows = epoch + 1
    raw = history.channels
    if raw is not None:
        cut: dict[str, Any] = {name: value[:rows] for name, value in vars(raw).items() if isinstance(value, np.ndarray)}
        raw = replace(raw, **cut)
        raw = raw if own_cosine is None else replace(raw, own_cosine=own_cosine)
    return replace(
        history,
        values=history.values[:rows],
        standard_errors=history.standard_errors[:rows],
        state=history.state[:rows],
        increments=history.increments[:rows],
        server_share=history.server_share[:rows],
        evaluations=history.evaluations[:rows],
        estimator=history.estimator[:rows],
        best_subset=history.best_subset[:rows],
        leave_one_out=None if history.leave_one_out is None else history.leave_one_out[:rows],
        unreliable=None if history.unreliable is None else history.unreliable[:rows],
        channels=raw,
    )
