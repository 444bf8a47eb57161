"""FLContrib audits federated learning: contributions, changes, and what it costs to know."""

__version__ = "0.1.0"
