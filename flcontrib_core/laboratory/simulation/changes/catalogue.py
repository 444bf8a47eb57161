"""Every kind of honest change by its name."""

from __future__ import annotations

from flcontrib_core.laboratory.simulation.changes.attendance import ATTENDANCE_CHANGES
from flcontrib_core.laboratory.simulation.changes.change import ChangeBehaviour
from flcontrib_core.laboratory.simulation.changes.compression import COMPRESSION_CHANGES
from flcontrib_core.laboratory.simulation.changes.data import DATA_CHANGES
from flcontrib_core.laboratory.simulation.changes.privacy import PRIVACY_CHANGES
from flcontrib_core.laboratory.simulation.changes.server import SERVER_CHANGES
from flcontrib_core.laboratory.simulation.changes.training import TRAINING_CHANGES
from flcontrib_core.laboratory.simulation.kinds import ChangeKind

CHANGES: dict[ChangeKind, ChangeBehaviour] = {
    change.kind: change
    for family in (
        TRAINING_CHANGES,
        PRIVACY_CHANGES,
        COMPRESSION_CHANGES,
        ATTENDANCE_CHANGES,
        DATA_CHANGES,
        SERVER_CHANGES,
    )
    for change in family
}
