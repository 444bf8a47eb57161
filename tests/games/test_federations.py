"""Federations of every kind, recorded, audited and reported: the planted attacker is found, and nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.federations import ATTACKER, CASES, OWN, WINDOW, audited

CHEAP = ("scikit-learn's logistic regression",)


@pytest.mark.parametrize(
    "name", [name if name in CHEAP else pytest.param(name, marks=pytest.mark.slow) for name in (*CASES, *OWN)]
)
def test_the_attacker_is_found(tmp_path: Path, name: str) -> None:
    report = audited(name, tmp_path)
    assert not [w for w in report.warnings if w.code == "W_NO_LEARNING"], (
        "a federation that learns nothing shows nothing"
    )
    accused = [alert for alert in report.detection.alerts if alert.accuses]
    assert [alert.client for alert in accused] == [f"site-{ATTACKER}"]
    first, last = accused[0].window
    assert first <= WINDOW[1]
    assert last >= WINDOW[0]
    assert (tmp_path / "report.html").exists()
