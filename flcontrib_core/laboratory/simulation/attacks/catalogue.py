"""Every kind of attack by its name."""

from __future__ import annotations

from flcontrib_core.laboratory.simulation.attacks.attack import AttackBehaviour
from flcontrib_core.laboratory.simulation.attacks.backdoors import BACKDOORS
from flcontrib_core.laboratory.simulation.attacks.crafted import CRAFTED_ATTACKS
from flcontrib_core.laboratory.simulation.attacks.free_riders import FREE_RIDERS
from flcontrib_core.laboratory.simulation.attacks.labels import LABEL_ATTACKS
from flcontrib_core.laboratory.simulation.attacks.scores import SCORE_ATTACKS
from flcontrib_core.laboratory.simulation.attacks.updates import UPDATE_ATTACKS
from flcontrib_core.laboratory.simulation.kinds import AttackKind

ATTACKS: dict[AttackKind, AttackBehaviour] = {
    attack.kind: attack
    for family in (LABEL_ATTACKS, BACKDOORS, CRAFTED_ATTACKS, UPDATE_ATTACKS, FREE_RIDERS, SCORE_ATTACKS)
    for attack in family
}
