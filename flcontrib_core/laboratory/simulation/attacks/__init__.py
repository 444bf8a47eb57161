"""Dishonest clients: every kind of attack, one file per family, and who carries it out when.

The 15 attacks of the FLPoison benchmark (Zhang et al., "SoK: benchmarking poisoning attacks and defenses in federated
learning", arXiv 2502.03801) are, in its order: Neurotoxin, edge-case, model replacement, alternating minimisation, DBA
(``distributed-backdoor``), BadNets (``backdoor``), label flipping; mimic, min-max, min-sum, Fang (``fang-trim`` and
``fang-krum``), IPM (``inner-product``), ALIE, sign flipping, Gaussian (``pure-noise``). Each was
written from its paper.
"""

from flcontrib_core.laboratory.simulation.attacks.attack import AttackBehaviour, Scene
from flcontrib_core.laboratory.simulation.attacks.backdoors import with_trigger
from flcontrib_core.laboratory.simulation.attacks.catalogue import ATTACKS
from flcontrib_core.laboratory.simulation.attacks.plan import Attack

__all__ = ["ATTACKS", "Attack", "AttackBehaviour", "Scene", "with_trigger"]
