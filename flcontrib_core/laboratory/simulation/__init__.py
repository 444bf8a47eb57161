"""Federated training with known truth: honest, changing and dishonest clients, recorded or in memory."""

from flcontrib_core.laboratory.simulation.attacks.plan import Attack
from flcontrib_core.laboratory.simulation.change_truth import ChangeTruth, changes_of
from flcontrib_core.laboratory.simulation.changes.plan import Change
from flcontrib_core.laboratory.simulation.kinds import AttackKind, ChangeKind
from flcontrib_core.laboratory.simulation.settings import SimulationSettings, paper_settings
from flcontrib_core.laboratory.simulation.simulated_run import (
    SimulationResult,
    simulate,
    simulate_in_memory,
    training_rows,
)

__all__ = [
    "Attack",
    "AttackKind",
    "Change",
    "ChangeKind",
    "ChangeTruth",
    "SimulationResult",
    "SimulationSettings",
    "changes_of",
    "paper_settings",
    "simulate",
    "simulate_in_memory",
    "training_rows",
]
