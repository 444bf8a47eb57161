"""The last epochs of a growing recording as a history without values, at a cost per look that does not grow with it.

Each new epoch is read and observed once; what is kept of it is small. The model goes on from epoch to epoch in memory.
The history holds the last epochs only and counts them from 1.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from flcontrib_core.history.assembly import assemble_history
from flcontrib_core.history.assess import workbench_of
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.epoch_work import EpochAnswer, EpochTask, FetchedEpoch, Workbench, assess_fetched
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.trajectory import evaluator_for, model_after
from flcontrib_core.history.updates_only import history_of_observations, lacking_part
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.reading_on import ReadOn
from flcontrib_core.runs.run_log import EpochRecord, RunLog
from flcontrib_core.vocabulary import Float32Array

if TYPE_CHECKING:
    from flcontrib_core.games.observations import EpochObservation


class RollingHistory:
    """Reads a recording on; ``read_on`` gives what its last epochs look like."""

    def __init__(self, folder: Path, epochs: int, settings: AssessSettings | None = None) -> None:
        """``epochs``: how many are looked at. Reads the folder as it stands; raises ``RunLogError``."""
        self.folder, self._most = folder, epochs
        self._settings = settings or AssessSettings(values=False)
        run = read_run_log(folder, nonfinite="absent")
        assert isinstance(run, RunLog)  # a folder is never a table
        self._run, self._reader = run, ReadOn(folder, run)
        self._lacking = lacking_part(run)
        self._bench: Workbench | None = None
        if self._lacking is None:
            self._bench = workbench_of(evaluator_for(run, self._settings.utilities), self._settings, run)
        self._model: Float32Array = run.initial()
        self._last_step: Float32Array | None = None
        self._records: deque[EpochRecord] = deque()
        self._answers: dict[int, EpochAnswer] = {}
        self._observations: dict[int, EpochObservation] = {}
        self.epoch = 0
        """The last one seen, as the recording counts."""
        for record in run.epochs:
            self._take(record)

    def read_on(self) -> ContributionHistory:
        """The last epochs as they stand now. Raises ``RunLogError``."""
        for record in self._reader.new_epochs():
            self._take(record)
        before = self.epoch - len(self._records)
        records = tuple(_counted_from(before, record) for record in self._records)
        run = replace(self._run, digest="", clients=self._reader.clients, epochs=records, source=self._reader)
        if self._bench is None:
            assert self._lacking is not None
            seen = {t - before: observation for t, observation in self._observations.items()}
            return history_of_observations(run, self._settings, self._lacking, seen)
        answers = {t - before: replace(answer, epoch=t - before) for t, answer in self._answers.items()}
        evaluator = self._bench.evaluator
        start = next((a.start for _, a in sorted(answers.items())), np.full(len(evaluator.utilities), np.nan))
        return assemble_history(run, self._settings, evaluator, answers, None, start)

    def _take(self, record: EpochRecord) -> None:
        data = self._reader.epoch(record)
        if record.rows is not None:
            data = replace(data, updates=record.rows.by_client(data.updates))
        end = model_after(self._model, record, data)
        if record.participants:
            self._observe(record, np.ascontiguousarray(data.updates), end)
        self._last_step, self._model, self.epoch = end - self._model, end, record.epoch
        self._records.append(record)
        if len(self._records) > self._most:
            gone = self._records.popleft()
            self._reader.forget(gone)
            self._answers.pop(gone.epoch, None)
            self._observations.pop(gone.epoch, None)

    def _observe(self, record: EpochRecord, updates: Float32Array, end: Float32Array) -> None:
        from flcontrib_core.games.observations import observe_updates
        from flcontrib_core.games.submodels import epoch_game

        t, bench = record.epoch, self._bench
        if bench is None:
            self._observations[t] = observe_updates(updates, t, self._last_step, self._settings.seed)
            return
        game = epoch_game(self._model, updates, record.weights, bench.evaluator, bench.weights, bench.federation_size)
        task = EpochTask(
            epoch=t,
            client_ids=tuple(self._reader.clients[i].id for i in record.participants),
            start=0,
            before=None,
            updates=None,
            weights=record.weights,
            end=None,
            estimate=False,
            observe=True,
            leave_one_out=False,
            remembered={},
        )
        fetched = FetchedEpoch(game, self._last_step, end if record.has_global else None)
        self._answers[t] = replace(assess_fetched(bench, task, fetched), fresh={}, fresh_logits={})


def _counted_from(before: int, record: EpochRecord) -> EpochRecord:
    """The record as the epoch it is where the ``before`` epochs in front are not counted."""
    rows = record.rows
    if rows is not None:
        rows = replace(rows, starts=tuple(max(0, start - before) for start in rows.starts))
    return replace(record, epoch=record.epoch - before, rows=rows)
