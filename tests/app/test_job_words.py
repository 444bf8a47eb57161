"""A job's line says which phase it is in, whatever the labels of its epochs read like."""

from __future__ import annotations

import pytest
from flcontrib_dashboard.job_progress import job_words, standing_words

from flcontrib_core.execution.limits import ProcessLimits
from flcontrib_core.vocabulary import Phase
from flcontrib_core.workspace import Job, JobState
from flcontrib_core.workspace.job_status import Progress


def at_work(done: int, label: str) -> Job:
    now = Progress(done, 9, label, 4.0, done, 4.0)
    return Job(
        "j", 1, "audit", "d", {}, ProcessLimits(), JobState.RUNNING, 1, now, "", None, "0", 4.0, "2026-01-01T00:00:00Z"
    )


@pytest.mark.parametrize(
    ("done", "label", "words"),
    [
        (4, "epoch 4", "4 of 9 epochs"),
        (4, "epoch 4, a node was lost", "4 of 9 epochs"),
        (4, Phase.MEASURING, "measuring the model's movement, 4 of 9 epochs"),
        (9, str(Phase.READING), "reading the history, 9 of 9 epochs"),
        (0, "2 nodes", "2 nodes, 0 of 9 epochs"),
        (0, "", "0 of 9 epochs"),
    ],
)
def test_only_a_phase_is_named(done: int, label: str, words: str) -> None:
    assert job_words(at_work(done, label)) == words


def test_what_is_only_measured_is_not_said_to_be_behind_on_the_page() -> None:
    assert standing_words(at_work(4, "epoch 4"), 2, beside=False).endswith("2 of them shown here")
    assert "shown here" not in standing_words(at_work(4, Phase.MEASURING), 2, beside=False)
