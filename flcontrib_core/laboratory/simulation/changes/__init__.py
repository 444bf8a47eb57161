"""Honest changes: every kind, one file per family, and which sites have it when."""

from flcontrib_core.laboratory.simulation.changes.catalogue import CHANGES
from flcontrib_core.laboratory.simulation.changes.change import ChangeBehaviour, Sent, ServerRule
from flcontrib_core.laboratory.simulation.changes.plan import Change, parse_changes

__all__ = ["CHANGES", "Change", "ChangeBehaviour", "Sent", "ServerRule", "parse_changes"]
