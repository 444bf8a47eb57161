"""The headlines of the page of one client and of the page of one epoch."""

from __future__ import annotations

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.detection.review import NO_REVIEWS, AlertState, Reviews
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.words import numbers
from flcontrib_core.words.verdicts import alert_title, verdict_name

EFFICIENCY = (
    "Efficiency: the values add up to what the weighted mean of the updates gained. What the server did beyond that "
    "mean is its own share, credited to nobody."
)


def client_headline(report: AuditReport, client: str, reviews: Reviews = NO_REVIEWS) -> str:
    """What was seen of a client, strongest first: 'client-03 lowered the model's quality in epochs 12–20, confirmed'.

    What was dismissed comes last, and says so.
    """
    own = reviews.ordered(a for a in report.detection.alerts if a.client == client)
    if own:
        more = f"; {numbers.several(len(own) - 1, 'more alert')}" if len(own) > 1 else ""
        state = reviews.state(own[0])
        return f"{alert_title(own[0])}{'' if state is AlertState.NEW else f', {state.value}'}{more}"
    verdict = next(c.verdict for c in report.detection.clients if c.client == client)
    return f"{numbers.named(client)}: {verdict_name(verdict).lower()}"


def epoch_headline(history: ContributionHistory, epoch: int) -> str:
    """'Epoch 12: loss gained 0.031 with 8 of 8 clients', or that its values were not computed."""
    utility = history.utilities[0]
    gain = -history.harm_sign(utility) * float(history.of(utility).increments[epoch])
    who = f"{int(history.participated[epoch].sum())} of {numbers.several(len(history.client_ids), 'client')} took part"
    if not np.isfinite(gain):
        return f"Epoch {epoch}: {who}"
    name = numbers.credited(utility, utility in history.lower_is_better)
    uncomputed = "" if history.computed[epoch] else "; no values were computed"
    return f"Epoch {epoch}: {name} {numbers.signed(gain, 4)}, {who}{uncomputed}"
