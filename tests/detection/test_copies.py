"""A client that sends another's update, changed by a hair or not at all: both are asked, and nobody is accused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.auditing import AuditSettings, audit
from flcontrib_core.history import AssessSettings
from flcontrib_core.runs import RunLog, RunRecorder, read_run_log

HONEST = Path(__file__).parents[2] / "sample_runs" / "clean-iid.flrun"
WINDOW = (5, 12)


def with_copies(folder: Path, factor: float) -> RunLog:
    """The honest sample, in whose window the second client sends the first one's update times a factor."""
    run = read_run_log(HONEST)
    assert isinstance(run, RunLog)
    first, second = run.client_ids[:2]
    sizes = dict(zip(run.client_ids, run.epochs[0].data_sizes, strict=True))
    parameters = [(parameter.name, parameter.shape) for parameter in run.parameters]
    with RunRecorder(folder, clients=sizes.items(), parameters=parameters, initial=run.initial()) as recorder:
        for epoch in run.epochs:
            sent = dict(zip((run.client_ids[p] for p in epoch.participants), run.epoch_data(epoch.epoch).updates,
                            strict=True))  # fmt: skip
            if WINDOW[0] <= epoch.epoch <= WINDOW[1]:
                sent[second] = (factor * sent[first].astype(np.float64)).astype(np.float32)
            recorder.epoch(sent)
    copied = read_run_log(folder)
    assert isinstance(copied, RunLog)
    return copied


@pytest.mark.parametrize("factor", [1.0, 1 + 1e-6, 1.01])
def test_a_copy_changed_by_a_hair_is_noticed_and_its_victim_not_accused(factor: float, tmp_path: Path) -> None:
    run = with_copies(tmp_path / "run", factor)
    alerts = audit(run, AuditSettings(AssessSettings(values=False))).detection.alerts
    assert {alert.client for alert in alerts} == set(run.client_ids[:2])
    assert {alert.window for alert in alerts} == {WINDOW}
    assert not any(alert.accuses for alert in alerts)
