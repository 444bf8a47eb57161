"""Does each preset come with the honest runs it was tried on?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.detection.alerts import read_verdicts
from flcontrib_core.detection.calibration import HonestRun, shipped_calibration
from flcontrib_core.detection.presets import preset_rates
from tests.detection.made_histories import made_history


def test_rates_count_the_honest_runs_above_each_threshold() -> None:
    loud = [-3.0] * 180 + [0.5] * 15 + [2.5] * 5
    runs = tuple(HonestRun("made", 8, 1.0, 30, largest=u, largest_value_only=u - 1.0) for u in loud)
    measured = replace(shipped_calibration(), honest_runs=runs, presets={"default": 0.0, "strict": 2.0})
    default, strict = preset_rates(made_history(clients=8), measured)
    assert (default.preset, default.threshold, default.rate.alerting, default.rate.runs) == ("default", 0.0, 20, 200)
    assert (strict.preset, strict.threshold, strict.rate.alerting, strict.rate.runs) == ("strict", 2.0, 5, 200)
    assert default.rate.share == pytest.approx(0.1)
    table = preset_rates(made_history(clients=8, with_channels=False), measured)
    assert [r.rate.alerting for r in table] == [5, 0]


def test_rate_without_honest_runs_is_unknown() -> None:
    measured = replace(shipped_calibration(), honest_runs=())
    assert [r.rate.share for r in preset_rates(made_history(), measured)] == [None, None]


def test_the_rate_under_an_alert_is_the_rate_of_its_preset() -> None:
    """Both ask the same runs: a history whose channels hold nothing is read, and counted, as a table."""
    runs = tuple(HonestRun("made", 8, 1.0, 30, largest=1.0, largest_value_only=-1.0) for _ in range(150))
    measured = replace(shipped_calibration(), honest_runs=runs)
    full = made_history(clients=8)
    assert full.channels is not None
    nothing = np.full_like(full.channels.norm, np.nan)
    empty = replace(full.channels, norm=nothing, spread=nothing, own_cosine=nothing, peer_cosine=nothing)
    for history, alerting in ((full, 150), (replace(full, channels=None), 0), (replace(full, channels=empty), 0)):
        assert preset_rates(history, measured)[0].rate.alerting == alerting
        assert read_verdicts(history, calibration=measured).false_alarm_rate == alerting / 150
