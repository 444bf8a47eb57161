"""Results of one run in words: what tells one from another, and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flcontrib_core.words import numbers
from flcontrib_core.words.results import budget


def result_label(settings: Mapping[str, Any], name: str = "") -> str:
    """What tells a result from another one of its run: its name, its epochs, and the settings that are not usual."""
    parts = [name] if name else []
    parts.append("no values" if not settings.get("values", True) else budget(settings))
    asked = settings.get("budget") or {}
    limited = bool(asked.get("epochs") or asked.get("budget"))
    if limited:
        parts.append(f"{asked.get('fairness', 'two-sided')}, γ {asked.get('gamma', 0.3):g}")
    usual = {"estimator": "auto", "preset": "default", "weights": "adaptive", "weight_utility": "loss"}
    parts += [str(settings[key]) for key, value in usual.items() if settings.get(key, value) != value]
    if settings.get("seed"):
        parts.append(f"seed {settings['seed']}")
    return " · ".join(parts)


def result_cost(remarks: Mapping[str, Any]) -> str:
    """What a result took: evaluations and time, as far as they were noted."""
    parts = []
    if "evaluations" in remarks:
        parts.append(f"{numbers.count(int(remarks['evaluations']))} evaluations")
    if "seconds" in remarks:
        parts.append(numbers.seconds(float(remarks["seconds"])))
    return ", ".join(parts) or "cost not noted"
