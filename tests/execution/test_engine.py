"""Engines give the same answers, also when a worker dies; tasks of an assessment refer to numbers, and carry none."""

from __future__ import annotations

import os
import pickle
import platform
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flcontrib_core.errors import RunLogError, SettingsError
from flcontrib_core.execution import engine as engines
from flcontrib_core.execution.engine import Execution, InProcess, Placed, PooledEngine, WorkerLost, usual_workers
from flcontrib_core.execution.local import ProcessEngine
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.games.feature_major import FeatureMajorExecutor
from flcontrib_core.history import assess as assessing
from flcontrib_core.history import epoch_stream, shared_epoch, whole_run
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.epoch_stream import Growth
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.shared_epoch import worth_sharing
from flcontrib_core.laboratory.simulation.settings import SimulationSettings
from flcontrib_core.laboratory.simulation.simulated_run import simulate, simulate_in_memory
from flcontrib_core.runs import containers
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.epoch_source import BundleSource
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.scheduling.schedule import BudgetSettings
from flcontrib_core.vocabulary import Float32Array, WeightMode
from tests.execution.at_work import die, fetched, scribble

RUN = SimulationSettings(clients=8, epochs=3, hidden=(16,), seed=5)


class Elsewhere(PooledEngine):
    """Workers that know nothing but what was pickled for them, one task after the other; keeps the sizes of tasks."""

    def __init__(self, shared: object, workers: int) -> None:
        super().__init__(workers)
        self._shared = pickle.dumps(shared)
        self._bench: Any = None
        self.sizes: list[int] = []
        self.placed = 0

    def _submit(self, work: Callable[[Any, Any], Any], task: Any) -> Future[Any]:
        sent = pickle.dumps((work, task))
        self.sizes.append(len(sent))
        self._bench = self._bench or pickle.loads(self._shared)
        future: Future[Any] = Future()
        there, own = pickle.loads(sent)
        future.set_result(pickle.loads(pickle.dumps(there(self._bench, own))))
        return future

    def _lost(self, error: BaseException) -> bool:
        return False

    def place(self, array: Float32Array) -> Placed:
        self.placed += 1
        return InStore(self.placed, array)

    def close(self) -> None:
        InStore.arrays.clear()


class InStore:
    """Stands for an object store: what is sent is a number."""

    arrays: dict[int, Float32Array] = {}  # noqa: RUF012

    def __init__(self, number: int, array: Float32Array) -> None:
        self.number = number
        self.arrays[number] = array

    def fetch(self) -> Float32Array:
        return self.arrays[self.number]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunLog]:
    """One run as a folder, as a file, and in memory."""
    folder = tmp_path_factory.mktemp("logs")
    found: dict[str, RunLog] = {"memory": simulate_in_memory(RUN)}
    for name in ("folder", "file.flrun"):
        simulate(RUN, folder / name)
        run = read_run_log(folder / name)
        assert isinstance(run, RunLog)
        found[name] = run
    return found


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Elsewhere]:
    """The engines that assessments open from now on."""
    found: list[Elsewhere] = []

    def open_elsewhere(where: Execution, shared: object, multiply_adds: float | None = None) -> Elsewhere:
        found.append(Elsewhere(shared, where.processes))
        return found[-1]

    monkeypatch.setattr(assessing, "open_engine", open_elsewhere)
    monkeypatch.setattr(whole_run, "open_engine", open_elsewhere)
    return found


def same(one: ContributionHistory, other: ContributionHistory) -> bool:
    assert one.channels is not None
    assert other.channels is not None
    pairs = [
        (one.values, other.values),
        (one.of("loss").server_share, other.of("loss").server_share),
        (one.channels.solo_margin, other.channels.solo_margin),
        (one.channels.last_step_cosine, other.channels.last_step_cosine),
    ]
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs) and one.evaluations.tolist() == (
        other.evaluations.tolist()
    )


@pytest.mark.parametrize("kind", ["folder", "file.flrun", "memory"])
@pytest.mark.parametrize("weights", [WeightMode.ADAPTIVE, WeightMode.FIXED_ALL])
def test_tasks_refer_to_an_epochs_numbers_and_have_its_bits(
    logs: dict[str, RunLog], opened: list[Elsewhere], monkeypatch: pytest.MonkeyPatch, kind: str, weights: WeightMode
) -> None:
    run, settings = logs[kind], AssessSettings(weights=weights)
    spread = assess_contributions(run, settings, workers=2)
    update_bytes = 4 * run.parameter_count
    assert max(opened[0].sizes) < update_bytes < len(run.clients) * update_bytes
    monkeypatch.undo()
    assert same(spread, assess_contributions(logs["memory"], settings))


@pytest.mark.parametrize("estimator", ["exact", "surrogate", "gtg"])
def test_one_epoch_is_shared_by_all_workers_and_has_its_bits(
    logs: dict[str, RunLog], opened: list[Elsewhere], monkeypatch: pytest.MonkeyPatch, estimator: str
) -> None:
    settings = AssessSettings(estimator=estimator)
    monkeypatch.setattr(epoch_stream, "EPOCH_MULTIPLY_ADDS", 0.0)
    monkeypatch.setattr(shared_epoch, "PART_MULTIPLY_ADDS", 1.0)
    monkeypatch.setattr(Evaluator, "models_at_once", 4)
    spread = assess_contributions(logs["folder"], settings, workers=2)
    # two whole epochs; the third in parts, the first of which observes it
    assert len(opened[0].sizes) > 2 + 4
    monkeypatch.undo()
    assert same(spread, assess_contributions(logs["folder"], settings))


@pytest.mark.parametrize("estimator", ["exact", "surrogate"])
def test_threads_share_a_lone_epoch_without_a_process_and_have_its_bits(
    logs: dict[str, RunLog], monkeypatch: pytest.MonkeyPatch, estimator: str
) -> None:
    run, settings = logs["folder"], AssessSettings(estimator=estimator)
    run = replace(run, epochs=run.epochs[:1])
    alone = assess_contributions(run, settings)
    twins: list[object] = []
    kept = FeatureMajorExecutor.twin

    def noted(executor: FeatureMajorExecutor) -> FeatureMajorExecutor:
        twins.append(kept(executor))
        return kept(executor)

    def no_pool(engine: ProcessEngine) -> Any:
        raise AssertionError("a process was started")

    monkeypatch.setattr(epoch_stream, "EPOCH_MULTIPLY_ADDS", 0.0)
    monkeypatch.setattr(FeatureMajorExecutor, "twin", noted)
    monkeypatch.setattr(ProcessEngine, "_new_pool", no_pool)
    assert same(assess_contributions(run, settings, workers=2), alone)
    assert twins
    twins.clear()
    monkeypatch.setattr(assessing, "open_engine", lambda where, shared, adds=None: InProcess(shared, threads=3))
    assert same(assess_contributions(run, settings), alone)
    assert twins


@pytest.mark.parametrize("shared", [False, True])
def test_a_worker_that_does_not_reach_the_log_is_brought_the_numbers(
    logs: dict[str, RunLog], opened: list[Elsewhere], monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    if shared:
        monkeypatch.setattr(epoch_stream, "EPOCH_MULTIPLY_ADDS", 0.0)
        monkeypatch.setattr(shared_epoch, "PART_MULTIPLY_ADDS", 1.0)
    settings = AssessSettings(estimator="exact")
    here = containers.DirectoryContainer.__setstate__

    def elsewhere(container: Any, state: dict[str, Any]) -> None:
        here(container, {**state, "_path": Path("/nowhere")})

    monkeypatch.setattr(containers.DirectoryContainer, "__setstate__", elsewhere)
    spread = assess_contributions(logs["folder"], settings, workers=2)
    assert opened[0].placed >= len(logs["folder"].epochs)
    monkeypatch.undo()
    assert same(spread, assess_contributions(logs["folder"], settings))


@pytest.mark.parametrize("kind", ["folder", "file.flrun", "memory"])
def test_the_schedule_is_measured_by_the_same_workers(
    logs: dict[str, RunLog], opened: list[Elsewhere], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    settings = AssessSettings(budget=BudgetSettings(budget=2))
    spread = assess_contributions(logs[kind], settings, workers=2)
    assert len(opened) == 1
    assert len(opened[0].sizes) == 2 * len(logs[kind].epochs)  # one movement and one assessment of each
    monkeypatch.undo()
    alone = assess_contributions(logs["memory"], settings)
    assert spread.schedule == alone.schedule
    assert same(spread, alone)


@pytest.mark.parametrize("estimator", ["comfedsv", "one-round"])
@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_estimators_of_the_whole_run_ask_the_same_workers(
    logs: dict[str, RunLog], opened: list[Elsewhere], monkeypatch: pytest.MonkeyPatch, kind: str, estimator: str
) -> None:
    monkeypatch.setattr(shared_epoch, "PART_MULTIPLY_ADDS", 1.0)
    monkeypatch.setattr(whole_run, "EPOCH_MULTIPLY_ADDS", 1.0)
    monkeypatch.setattr(Evaluator, "models_at_once", 4)
    settings = AssessSettings(estimator=estimator)
    spread = assess_contributions(logs[kind], settings, workers=2)
    asked = len(opened[0].sizes)
    assert asked > 2 or (kind, estimator) == ("memory", "one-round")  # a run in memory is no worker's to read
    monkeypatch.undo()
    alone = assess_contributions(logs["memory"], settings)
    assert np.array_equal(spread.values, alone.values, equal_nan=True)
    assert np.array_equal(spread.totals_given, alone.totals_given, equal_nan=True)


def test_a_growing_log_is_read_and_computed_from_where_it_was(
    logs: dict[str, RunLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, growth, read = logs["folder"], Growth(), list[int]()
    plain = replace(whole, epochs=tuple(replace(e, has_global=False) for e in whole.epochs))  # every model is rebuilt
    kept = BundleSource.epoch

    def noting(source: BundleSource, record: Any) -> Any:
        read.append(record.epoch)
        return kept(source, record)

    assess_contributions(replace(plain, epochs=plain.epochs[:2]), growth=growth)
    monkeypatch.setattr(BundleSource, "epoch", noting)
    grown = assess_contributions(plain, growth=growth)
    assert set(read) == {2, 3}  # the model after epoch 2 is rebuilt; epoch 1 is not opened again
    assert same(grown, assess_contributions(plain))
    other = replace(plain, base_digest="another run")
    read.clear()
    assess_contributions(other, growth=growth)
    assert set(read) == {1, 2, 3}


def test_work_that_is_not_worth_a_process_is_done_here() -> None:
    assert Execution().fitting(1e9) == 1
    assert Execution().fitting(1e13) == Execution().fitting(None) == usual_workers()
    assert Execution(workers=2).fitting(1e9) == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"workers": 0}, "0 workers"), ({"gpus": -1.0}, "-1.0 GPUs"), ({"address": "a:1"}, "choose the engine 'ray'")],
)
def test_what_cannot_be_asked_of_an_engine_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Execution(**wrong)


def test_on_another_machine_a_file_is_known_by_its_size_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("run", "run.flrun"):
        simulate(RUN, tmp_path / name)
        run = read_run_log(tmp_path / name)
        assert isinstance(run, RunLog)
        sent = pickle.dumps(run)
        file = tmp_path / name if name == "run.flrun" else tmp_path / "run" / str(run.epochs[0].file)
        copy = file.with_name("copy")
        copy.write_bytes(file.read_bytes())
        os.utime(copy, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
        copy.replace(file)  # another file number, as on another machine
        with pytest.raises(RunLogError, match="E_CHANGED"):
            pickle.loads(sent).epoch_data(1)
        monkeypatch.setattr(platform, "node", lambda: "another")
        assert np.array_equal(pickle.loads(sent).epoch_data(1).updates, pickle.loads(sent).epoch_data(1).updates)
        os.utime(file)
        with pytest.raises(RunLogError, match="E_CHANGED"):
            pickle.loads(sent).epoch_data(1)
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("epochs", "workers", "shared"), [(1, 2, 1), (50, 2, 0), (51, 2, 1), (3, 1, 0), (1, 64, 1), (15, 16, 0), (2, 16, 2)]
)
def test_epochs_left_over_are_shared_where_that_ends_earlier(epochs: int, workers: int, shared: int) -> None:
    assert worth_sharing(epochs, workers) == shared


def test_work_of_a_killed_process_is_done_by_another_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "MOST_ATTEMPTS", 2)
    with ProcessEngine(str(tmp_path), workers=1) as engine:
        assert sorted(engine.run(die, [0, 1])) == [0, 1]
        assert 1 <= engine.retries <= engines.AHEAD
        assert list(engine.run(fetched, [engine.place(np.arange(3, dtype=np.float32))])) == [[0.0, 1.0, 2.0]]
        with pytest.raises(WorkerLost, match="2 times"):
            list(engine.run(die, [9]))


def test_an_unknown_engine_is_named() -> None:
    with pytest.raises(SettingsError, match="'dask' is unknown; use 'local' or 'ray'"):
        Execution(engine="dask")


def test_no_worker_writes_into_what_another_one_was_given(tmp_path: Path) -> None:
    """Evaluators keep scratch tensors; torch would hand all workers one piece of memory for them."""
    import torch

    engine = ProcessEngine((str(tmp_path), torch.zeros(4)), 2)
    try:
        assert sorted(engine.run(scribble, [1, 2])) == [1.0, 2.0]
    finally:
        engine.close()
