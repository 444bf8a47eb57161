"""How often a preset alerts on honest runs like this one."""

from __future__ import annotations

from dataclasses import dataclass

from flcontrib_core.detection.calibration import Calibration, RunRegime, shipped_calibration
from flcontrib_core.detection.channels import values_alone
from flcontrib_core.detection.objections import FalseAlarmRate
from flcontrib_core.history.contribution_history import ContributionHistory

PRESETS = ("default", "strict")
"""The presets of a finished run; a growing one has its own."""


@dataclass(frozen=True)
class PresetRate:
    """A preset, the score above which it alerts, and how the honest runs it was tried on fared."""

    preset: str
    threshold: float
    """u; an alert of this preset has a larger ``Alert.score``."""
    rate: FalseAlarmRate


def regime_of(history: ContributionHistory) -> RunRegime:
    """With which honest runs is this history compared?"""
    took_part = history.participated[1:]
    held = took_part[took_part.any(axis=1)]
    participation = float(held.mean()) if held.size else 1.0
    return RunRegime(len(history.client_ids), participation, values_alone(history))


def preset_rates(history: ContributionHistory, calibration: Calibration | None = None) -> tuple[PresetRate, ...]:
    """Each preset with its measured rate on honest runs of comparable size and participation, default first."""
    measured = calibration or shipped_calibration()
    lacking = history.without_values
    if lacking is not None and not lacking.measurable:
        measured = measured.of_updates_alone()
    regime = regime_of(history)
    rates = []
    for name in PRESETS:
        threshold = measured.preset(name)
        rates.append(PresetRate(name, threshold, measured.false_alarms(threshold, regime)))
    return tuple(rates)
