"""Does the page of change points read the series, model and view that the reader asks for?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flcontrib_core.auditing import AuditSettings
from flcontrib_core.bundled_files import bundled
from flcontrib_core.workspace import Workspace
from flcontrib_core.workspace.audit_jobs import audit_in_workspace
from tests.app.test_pages import _own_caches, opened, words

__all__ = ["_own_caches"]


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("poisoned") / "workspace"
    with Workspace(folder) as workspace:
        entry = workspace.add_run(bundled("sample_runs") / "two-poisoned.flrun")
        audit_in_workspace(workspace, entry.digest, AuditSettings().record())
    return folder, entry


@pytest.mark.parametrize("series", ["relative", "solo-margin", "increments", "cumulative"])
def test_series_from_the_link(poisoned: tuple[Path, Any], series: str) -> None:
    shown = opened(poisoned[0], "change_points", poisoned[1], series=series)
    said = words(shown)
    expected = {"increments": "value of each epoch", "cumulative": "as in the paper"}.get(series, "solo margin")
    assert expected in said
    assert "ruptures, on the same series, finds" in said
    if series in ("relative", "solo-margin"):
        assert "client-02 epochs 12–20" in said.replace("*", "")
    assert "Other clients of this run" in shown.dataframe[-1].value.columns


def test_likelihood_from_the_link_and_what_is_shown(poisoned: tuple[Path, Any]) -> None:
    shown = opened(poisoned[0], "change_points", poisoned[1], likelihood="trend", prior="geometric")
    assert [r.value for r in shown.radio] == ["trend", "geometric"]
    assert "no usual level" in words(shown)
    groups: list[Any] = list(shown.get("button_group"))
    group = next(g for g in groups if g.label == "Shown")
    group.set_value("inside").run()
    assert not shown.exception
    assert "Probability that the epoch deviates" in words(shown)
