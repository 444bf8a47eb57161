"""Honest changes of when a client is there."""

from __future__ import annotations

from flcontrib_core.laboratory.simulation.behaviour import Moment
from flcontrib_core.laboratory.simulation.changes.change import ChangeBehaviour
from flcontrib_core.laboratory.simulation.kinds import ChangeKind


class LateJoiner(ChangeBehaviour):
    """Joins when its window begins and is not there before."""

    kind = ChangeKind.LATE_JOINER
    lasting, turning, not_for_all = True, True, True

    def attends(self, moment: Moment) -> bool:
        return moment.progress > 0


class Leaver(ChangeBehaviour):
    """Is not there in its window."""

    kind = ChangeKind.LEAVER
    turning, not_for_all = True, True

    def attends(self, moment: Moment) -> bool:
        return False


class Intermittent(ChangeBehaviour):
    """Can be asked in a share [s] of its window's epochs only."""

    kind = ChangeKind.INTERMITTENT
    default, most = 0.5, 1.0

    def attends(self, moment: Moment) -> bool:
        return bool(moment.fresh().random() < moment.strength)


ATTENDANCE_CHANGES: tuple[ChangeBehaviour, ...] = (LateJoiner(), Leaver(), Intermittent())
