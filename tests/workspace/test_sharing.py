"""Several processes on one workspace: servers, workers and command lines at once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from flcontrib_core.workspace import JobState, Workspace
from tests.workspace.forked import forked, joined
from tests.workspace.recorded import bundle_run, record_run
from tests.workspace.runners import ALL

KEY = "d1" * 32


def at_once(*actions: Callable[[], None]) -> None:
    """Runs each action in a process of its own, all released together."""
    hold, release = os.pipe()

    def held(action: Callable[[], None]) -> Callable[[], None]:
        def wait_and_act() -> None:
            os.close(release)
            os.read(hold, 1)
            action()

        return wait_and_act

    children = [forked(held(action)) for action in actions]
    os.close(release)
    joined(children)
    os.close(hold)


def test_the_same_bundle_sent_twice_at_once_is_one_run(folder: Path, bundle: Path) -> None:
    path = folder / "workspace"

    def send(name: str) -> Callable[[], None]:
        def action() -> None:
            with Workspace(path) as workspace:
                entry = workspace.add_run(bundle, name)
                assert workspace.open_run(entry.digest).digest == entry.digest

        return action

    at_once(*(send(f"upload {number}") for number in range(4)))
    with Workspace(path) as workspace:
        (entry,) = workspace.runs()
        assert {entry.name, *entry.other_names} == {f"upload {number}" for number in range(4)}
        assert list(workspace.objects.names()) == [entry.object]
        assert len(workspace.log.entries("run-added")) == 1
        assert len(workspace.log.entries("workspace-created")) == 1, "four processes made one workspace"
        assert workspace.verify_chain() is None


def test_two_servers_decide_compute_and_poll_on_one_workspace(folder: Path, bundle: Path) -> None:
    path = folder / "workspace"
    with Workspace(path, runners=ALL) as workspace:
        run = workspace.add_run(bundle).digest
        (alert,) = workspace.alerts.raise_alerts(run, [{"client": "client-0", "verdict": "exact-finding"}])
    settings = {"name": "one", "gate": str(folder / "gate"), "starts": str(folder / "starts")}
    (folder / "gate").touch()

    def server(who: str) -> Callable[[], None]:
        def action() -> None:
            with Workspace(path, runners=ALL) as workspace:
                for number in range(12):
                    workspace.alerts.decide(alert.id, "acknowledged", who, f"{number}")
                    workspace.store_result(run, {"who": who, "n": number}, "note", {"n": number})
                    workspace.checkpoints().keep(f"{number:064x}", {"x": np.full(3, number)})
                    workspace.utility_memory().keep_epoch(KEY, {bytes([number]): np.array([float(number)])})
                    job = workspace.jobs.submit(run, settings, "gated")
                while workspace.jobs.find(job.id).active:
                    time.sleep(0.01)
                    workspace.jobs.poll()
                assert workspace.jobs.find(job.id).state is JobState.DONE

        return action

    at_once(server("ada"), server("grace"))
    with Workspace(path) as workspace:
        history = workspace.alerts.find(alert.id).history
        for who in ("ada", "grace"):
            assert [d.text for d in history if d.by == who] == [str(n) for n in range(12)], "each in its own order"
        assert len(workspace.results(run)) == 24
        assert len(workspace.utility_memory().recall_epoch(KEY)) == 12
        assert workspace.verify_chain() is None
        assert [e.sequence for e in workspace.log.entries()] == list(range(1, len(workspace.log.entries()) + 1))
        assert (folder / "starts").read_text().count("one") == 1, "one job for one question"


def test_a_deletion_beside_uploads_of_the_same_run_leaves_no_broken_entry(folder: Path, bundle: Path) -> None:
    path = folder / "workspace"
    with Workspace(path) as workspace:
        run = workspace.add_run(bundle).digest

    def upload() -> None:
        with Workspace(path) as workspace:
            for _ in range(10):
                workspace.add_run(bundle)

    def delete() -> None:
        with Workspace(path) as workspace:
            for _ in range(10):
                if workspace.find_run(run) is not None:
                    workspace.delete_run(run)

    at_once(upload, delete)
    with Workspace(path) as workspace:
        for entry in workspace.runs():
            assert entry.available
            assert workspace.open_run(entry.digest).digest == run
        assert workspace.verify_chain() is None


def test_many_rebuild_at_once_and_one_index_comes_of_it(folder: Path, bundle: Path) -> None:
    path = folder / "workspace"
    with Workspace(path) as workspace:
        run = workspace.add_run(bundle).digest
    (path / "index.sqlite").write_bytes(b"damaged" * 1000)

    def opens() -> None:
        with Workspace(path) as workspace:
            assert [r.digest for r in workspace.runs()] == [run]
            workspace.store_result(run, {"pid": os.getpid()}, "note", {})

    at_once(*[opens] * 4)
    with Workspace(path) as workspace:
        assert len(workspace.log.entries("index-rebuilt")) == 1
        assert len(workspace.results(run)) == 4
        assert workspace.verify_chain() is None


def test_readers_see_whole_states_while_a_writer_writes(folder: Path, bundle: Path) -> None:
    path = folder / "workspace"
    with Workspace(path) as workspace:
        run = workspace.add_run(bundle).digest

    def writer() -> None:
        with Workspace(path) as workspace:
            for number in range(30):
                workspace.store_result(run, {"n": number}, "note", {"n": number, "x": np.full(1000, number)})

    def reader() -> None:
        with Workspace(path) as workspace:
            seen = 0
            while seen < 30:
                results = workspace.results(run)
                assert len(results) >= seen
                seen = len(results)
                if results:
                    stored = workspace.load_result(results[0])
                    assert (stored["x"] == stored["n"]).all()

    at_once(writer, reader, reader)


def test_threads_of_one_server_share_a_workspace(folder: Path) -> None:
    """Streamlit serves every browser from a thread of its own."""
    with Workspace(folder / "workspace") as workspace:
        directories = [record_run(folder / f"run-{seed}", seed=seed) for seed in range(4)]
        failures: list[BaseException] = []

        def visit(directory: Path) -> None:
            try:
                entry = workspace.add_run(directory)
                for number in range(5):
                    workspace.store_result(entry.digest, {"n": number}, "note", {})
                    assert len(workspace.results(entry.digest)) == number + 1
                    workspace.jobs.poll()
            except BaseException as failure:  # noqa: BLE001 - carried to the main thread
                failures.append(failure)

        visitors = [threading.Thread(target=visit, args=(d,)) for d in directories]
        for visitor in visitors:
            visitor.start()
        for visitor in visitors:
            visitor.join()
        assert failures == []
        assert len(workspace.results()) == 20
        assert workspace.verify_chain() is None


def test_what_a_dead_process_left_half_written_is_swept(folder: Path) -> None:
    path = folder / "workspace"
    with Workspace(path) as workspace, workspace._staging.stage([b"a living process writes this"]) as living:
        (path / "incoming" / "999999-0.part").write_bytes(b"left by a dead one")
        with Workspace(path):
            assert living.path.exists()
            assert not (path / "incoming" / "999999-0.part").exists()


def test_a_forked_process_does_not_disturb_its_parent(folder: Path) -> None:
    with Workspace(folder / "workspace") as workspace:
        run = workspace.add_run(bundle_run(folder / "run")).digest

        def use() -> None:
            workspace.store_result(run, {"who": os.getpid()}, "note", {})
            assert workspace.runs()

        at_once(use, use)
        workspace.store_result(run, {"who": "parent"}, "note", {})
        assert len(workspace.results(run)) == 3
        assert workspace.verify_chain() is None
