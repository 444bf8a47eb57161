"""Reports made by hand from made histories: every kind of cell, an alert of every kind, no detector involved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flcontrib_core.auditing import AuditReport, AuditSettings, provenance_of
from flcontrib_core.detection.facts import BelowThreshold
from flcontrib_core.detection.findings import Alert, ChangePoints, ClientVerdict, Detection, VerdictKind
from flcontrib_core.detection.objections import FalseAlarmRate, FewComputed, HappenedOnce, HoldsUnder, OthersMovedToo
from flcontrib_core.detection.reasons import ChannelScore, CopiedClient, ValueInWindow
from flcontrib_core.errors import Problem
from flcontrib_core.history.axioms import check_axioms
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.tagged import Others
from tests.detection.made_histories import made_history

RATE = FalseAlarmRate(17, 832, 0.0325, (4, 16), every_epoch=False)


def made_report(history: ContributionHistory | None = None, *, alerts: bool = True) -> AuditReport:
    """Two alerted clients (positions 1 and 2), one warning, skipped and absent cells."""
    history = history or made_history(
        clients=8, epochs=20, participation=0.8, poisoned=[(1, 8, 12)], computed=(1, 2, 3, 5, 8, 9, 10, 12, 16), seed=5
    )
    names = history.client_ids
    raised = (
        Alert(
            client=names[1],
            verdict=VerdictKind.POISONING_WINDOW,
            window=(8, 12),
            probability=0.994,
            score=3.2,
            expert="reversal",
            channels=(ChannelScore("Shapley value", 4.5), ChannelScore("size", None)),
            evidence_for=(ValueInWindow((8, 12), "loss", True, 0.02, -0.01, 0.004, 4, 4),),
            evidence_against=(OthersMovedToo(Others.named(names[2:6])), FewComputed(2)),
            context=(HoldsUnder(9, 10), RATE),
            computed_in_window=4,
            participated_in_window=5,
        ),
        Alert(
            client=names[2],
            verdict=VerdictKind.EXACT_FINDING,
            window=(5, 5),
            probability=None,
            score=9.0,
            expert="exact check",
            channels=(),
            evidence_for=(CopiedClient((5,), Others.named(names[:1])),),
            evidence_against=(HappenedOnce(5),),
        ),
    )
    flagged = {a.client: a for a in raised} if alerts else {}
    verdicts = tuple(
        ClientVerdict(c, flagged[c].verdict, flagged[c].probability, flagged[c].window, 1.0, flagged[c].evidence_for)
        if c in flagged
        else ClientVerdict(c, VerdictKind.NOTHING_FOUND, 0.02, None, -3.0, (BelowThreshold(-3.0),))
        for c in names
    )
    change = np.zeros(history.of("loss").values.shape)
    change[8:10, 1] = 0.49
    detection = Detection(
        alerts=raised if alerts else (),
        clients=verdicts,
        change_points=ChangePoints(names, "loss", "cumulative", change, change, changes={names[1]: ((8, 9, 0.97),)}),
        separation=None,
        preset="default",
        false_alarms=RATE,
        smallest_visible_shift=0.021,
    )
    warning = Problem("W_NORM", f"epoch 5, client {names[2]}", "a norm of 99", "about 1", "Look at it.", (names[2],))
    return AuditReport(
        run_name="made by hand",
        history=history,
        detection=detection,
        axioms=check_axioms(history),
        warnings=(warning,),
        provenance=provenance_of(history, AuditSettings(), {"device": "cpu"}),
        truth=None,
        seconds=1.5,
    )


def with_names(report: AuditReport, names: tuple[str, ...]) -> AuditReport:
    """The same report with other client names, everywhere."""
    return made_report(replace(report.history, client_ids=names))
