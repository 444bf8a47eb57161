"""Federated training with known truth: honest and dishonest clients, recorded or in memory."""

from flcontrib_core.laboratory.simulation.settings import Attack, SimulationSettings, paper_settings
from flcontrib_core.laboratory.simulation.simulated_run import SimulationResult, simulate, simulate_in_memory

__all__ = [
    "Attack",
    "SimulationResult",
    "SimulationSettings",
    "paper_settings",
    "simulate",
    "simulate_in_memory",
]
