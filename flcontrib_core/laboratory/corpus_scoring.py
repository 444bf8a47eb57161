"""How the verdicts fare on the corpus: innocents accused, attackers found, probabilities held against the truth.

A client is found when an accusing alert of it has no window, or one that overlaps a window in which it acted. An
innocent is accused by any accusing alert, whatever its kind. Every share comes with its Clopper–Pearson interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from flcontrib_core.detection.alerts import read_verdicts
from flcontrib_core.detection.calibration import Calibration, upper_bound
from flcontrib_core.detection.findings import Alert, Detection, VerdictKind
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.laboratory.corpus import AssessedRun
from flcontrib_core.laboratory.scoring import Window, calibration_error

Windows = dict[str, tuple[Window, ...]]
Read = Callable[[ContributionHistory], Detection]


@dataclass(frozen=True)
class Share:
    """So many of so many."""

    hits: int
    of: int

    @property
    def value(self) -> float:
        """The share itself; NaN of nothing."""
        return self.hits / self.of if self.of else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's, at 95 %."""
        if not self.of:
            return 0.0, 1.0
        return 1.0 - upper_bound(self.of - self.hits, self.of), upper_bound(self.hits, self.of)


@dataclass(frozen=True)
class ScoredRun:
    """One run of the corpus, counted."""

    group: str
    found: tuple[bool, ...]
    """one per client that acted dishonestly"""
    innocents_accused: tuple[tuple[str, VerdictKind], ...]
    probabilities: tuple[tuple[float, bool, VerdictKind], ...]
    """(stated, is it dishonest?, verdict) of each client with a probability; 1 for an exact finding that accuses"""
    overlaps: tuple[float, ...]
    """IoU of the union of a found client's windows with the epochs in which it acted"""


def acted(run: AssessedRun) -> Windows:
    """client -> the windows in which it was dishonest and took part."""
    took_part = dict(zip(run.history.client_ids, run.history.participated.T, strict=True))
    whole = ((1, run.history.epoch_count),)
    truth = {
        d.client: tuple((a, b) for a, b in d.windows or whole if took_part[d.client][a : b + 1].any())
        for d in run.truth.dishonest
    }
    return {client: windows for client, windows in truth.items() if windows}


def score_corpus(
    runs: Iterable[AssessedRun], calibration: Calibration | None = None, read: Read | None = None
) -> list[ScoredRun]:
    """Reads and counts every run; ``read`` in place of the default reading."""

    def plain(history: ContributionHistory) -> Detection:
        return read_verdicts(history, calibration=calibration, check_sensitivity=False)

    return [_scored(run, (read or plain)(run.history)) for run in runs]


def _scored(run: AssessedRun, detection: Detection) -> ScoredRun:
    truth = acted(run)
    accusing: dict[str, list[Alert]] = {}
    for alert in detection.alerts:
        if alert.accuses:
            accusing.setdefault(alert.client, []).append(alert)
    hits = {
        client: [a for a in accusing.get(client, []) if a.window is None or _meets(a.window, windows)]
        for client, windows in truth.items()
    }
    stated = [
        (1.0 if v.probability is None else v.probability, v.client in truth, v.verdict)
        for v in detection.clients
        if v.probability is not None or (v.verdict is VerdictKind.EXACT_FINDING and v.client in accusing)
    ]
    return ScoredRun(
        run.run_id.split("/", 1)[1].rpartition("/")[0],
        tuple(bool(mine) for mine in hits.values()),
        tuple((c, alerts[0].verdict) for c, alerts in accusing.items() if c not in truth),
        tuple(stated),
        tuple(_overlap(mine, truth[client], run.history.epoch_count) for client, mine in hits.items() if mine),
    )


def _meets(window: Window, windows: Iterable[Window]) -> bool:
    return any(window[0] <= b and a <= window[1] for a, b in windows)


def _overlap(alerts: list[Alert], windows: tuple[Window, ...], epochs: int) -> float:
    said, true = np.zeros(epochs + 1, dtype=bool), np.zeros(epochs + 1, dtype=bool)
    for alert in alerts:
        first, last = alert.window or (1, epochs)
        said[first : last + 1] = True
    for first, last in windows:
        true[first : last + 1] = True
    return float((said & true).sum() / (said | true).sum())


def accused(scored: Iterable[ScoredRun], *patterns: str, without: str = "") -> Share:
    """Runs of these groups with an accused innocent."""
    mine = [s for s in scored if _fits(s, patterns) and not (without and fnmatchcase(s.group, without))]
    return Share(sum(bool(s.innocents_accused) for s in mine), len(mine))


def recall(scored: Iterable[ScoredRun], *patterns: str) -> Share:
    """Clients of these groups that acted and were found."""
    found = [f for s in scored if _fits(s, patterns) for f in s.found]
    return Share(sum(found), len(found))


def mean_overlap(scored: Iterable[ScoredRun], *patterns: str) -> float:
    """Mean IoU over the found clients of these groups."""
    overlaps = [o for s in scored if _fits(s, patterns) for o in s.overlaps]
    return float(np.mean(overlaps)) if overlaps else float("nan")


def stated_error(scored: Iterable[ScoredRun]) -> float:
    """Expected calibration error over all clients with a probability."""
    stated = [(p, float(y)) for s in scored for p, y, _ in s.probabilities]
    p, y = np.array(stated).reshape(-1, 2).T
    return calibration_error(p, y)


def stated_and_true(scored: Iterable[ScoredRun], kind: VerdictKind) -> tuple[float, Share]:
    """Mean stated probability of the clients with a verdict, and the share of dishonest ones among them."""
    mine = [(p, y) for s in scored for p, y, k in s.probabilities if k is kind]
    mean = float(np.mean([p for p, _ in mine])) if mine else float("nan")
    return mean, Share(sum(y for _, y in mine), len(mine))


def _fits(scored: ScoredRun, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(scored.group, pattern) for pattern in patterns)
