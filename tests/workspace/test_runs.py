"""Runs come in once, are verified whenever they are opened, and leave with everything computed from them."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.errors import Problem, RunLogError, WorkspaceError
from flcontrib_core.runs.bundle import STAGES, read_run_log
from flcontrib_core.runs.run_log import RunLog, UtilityTable
from flcontrib_core.workspace import DamagedObject, Workspace
from tests.workspace.recorded import bundle_run, flip_byte, record_run

KEY = "ab" * 32


def test_a_stored_run_is_the_run_that_was_given(workspace: Workspace, bundle: Path) -> None:
    given = read_run_log(bundle)
    entry = workspace.add_run(bundle)
    stored = workspace.open_run(entry.digest)
    assert isinstance(given, RunLog)
    assert isinstance(stored, RunLog)
    assert stored.digest == given.digest == entry.digest
    assert stored.epoch_digests() == given.epoch_digests()
    for epoch in range(1, given.epoch_count + 1):
        np.testing.assert_array_equal(stored.epoch_data(epoch).updates, given.epoch_data(epoch).updates)
    assert (entry.clients, entry.epochs, entry.kind) == (3, 3, "log")


def test_every_kind_of_source_gives_the_same_run(workspace: Workspace, folder: Path) -> None:
    directory = record_run(folder / "run")
    compressed = bundle_run(folder / "again")
    content = compressed.read_bytes()
    sources = [directory, compressed, io.BytesIO(content), [content[:100], content[100:]]]
    digests = {workspace.add_run(source, "one run").digest for source in sources}
    assert len(digests) == 1
    assert len(workspace.runs()) == 1
    assert len(list(workspace.objects.names())) == 1, "a run zipped again is not stored twice"


def test_a_directory_becomes_the_same_bytes_every_time(folder: Path) -> None:
    directory = record_run(folder / "run")
    objects = []
    for name in ("first", "second"):
        with Workspace(folder / name) as workspace:
            objects.append(workspace.add_run(directory).object)
            with zipfile.ZipFile(workspace.objects.path(objects[-1])) as stored:
                assert {i.compress_type for i in stored.infolist()} == {zipfile.ZIP_STORED}
    assert objects[0] == objects[1]


def test_a_growing_directory_is_taken_as_far_as_it_was_checked(workspace: Workspace, folder: Path) -> None:
    directory = record_run(folder / "run", epochs=2)
    with (directory / "epochs.jsonl").open("ab") as lines:
        lines.write(b'{"epoch": 3, "participants": ["client-0"')  # a recorder is writing this line just now
    entry = workspace.add_run(directory)
    assert entry.epochs == 2
    assert workspace.open_run(entry.digest).epoch_count == 2


def test_the_second_name_of_a_run_is_kept_beside_the_first(workspace: Workspace, bundle: Path) -> None:
    first = workspace.add_run(bundle, "spring")
    second = workspace.add_run(bundle, "autumn")
    workspace.add_run(bundle, "autumn")
    assert (second.digest, second.name, second.other_names) == (first.digest, "spring", ("autumn",))
    assert second.names == ("spring", "autumn", "recorded.flrun")


def test_the_stages_of_the_reading_are_heard(workspace: Workspace, bundle: Path) -> None:
    heard: list[str] = []
    workspace.add_run(bundle, on_stage=heard.append)
    assert heard == list(STAGES)


def test_a_refused_upload_leaves_a_record_and_nothing_else(workspace: Workspace) -> None:
    with pytest.raises(RunLogError) as refused:
        workspace.add_run(io.BytesIO(b"%PDF-1.7 not a run"), "report.zip")
    assert refused.value.problems[0].code == "E_ZIP"
    assert "incoming" not in str(refused.value), "the sender's name, not ours"
    assert workspace.runs() == ()
    assert list(workspace.objects.names()) == []
    assert list((workspace.path / "incoming").iterdir()) == []
    (record,) = workspace.log.entries("upload-refused")
    assert record.body["size"] == 18
    assert record.body["problems"][0]["code"] == "E_ZIP"
    with pytest.raises(RunLogError):
        workspace.add_run(io.BytesIO(b"%PDF-1.7 not a run"), "report.zip")
    assert len(workspace.log.entries("upload-refused")) == 1, "the same bytes again are not news"


def test_an_upload_beyond_the_cap_or_broken_off_leaves_nothing(workspace: Workspace, bundle: Path) -> None:
    with pytest.raises(WorkspaceError, match="larger than 100 bytes"):
        workspace.add_run(bundle, largest=100)

    def broken_off() -> list[bytes]:
        yield bundle.read_bytes()[:200]
        raise ConnectionResetError("the browser was closed")

    with pytest.raises(WorkspaceError, match="the browser was closed"):
        workspace.add_run(broken_off(), "half")
    assert list((workspace.path / "incoming").iterdir()) == []
    assert workspace.runs() == ()


def test_tables_keep_their_kind_and_their_data_sizes(workspace: Workspace, folder: Path) -> None:
    table = folder / "game.csv"
    table.write_text("epoch,coalition,accuracy\n1,,0.1\n1,a,0.3\n1,b,0.2\n1,a;b,0.6\n")
    (folder / "game.data_sizes.csv").write_text("client,data_size\na,5\nb,7\n")
    entry = workspace.add_run(table)
    stored = workspace.open_run(entry.digest)
    assert isinstance(stored, UtilityTable)
    assert stored.data_sizes == (5, 7)
    assert (entry.kind, entry.name) == ("utility-table", "game")
    streamed = workspace.add_run(io.BytesIO(table.read_bytes()), "upload.csv")
    assert streamed.digest != entry.digest, "without its data sizes it is another run"
    assert workspace.open_run(streamed.digest).name == "upload.csv"


def test_a_damaged_bundle_is_set_aside_and_can_be_given_again(workspace: Workspace, bundle: Path) -> None:
    entry = workspace.add_run(bundle)
    assert entry.object is not None
    flip_byte(workspace.objects.path(entry.object), 400)
    with pytest.raises(DamagedObject, match="add its bundle again"):
        workspace.open_run(entry.digest)
    assert not workspace.runs()[0].available
    assert (workspace.path / "quarantine" / entry.object).exists()
    (report,) = workspace.log.entries("damage")
    assert report.subject == entry.object
    assert workspace.add_run(bundle).available
    assert workspace.open_run(entry.digest).digest == entry.digest


def test_other_bytes_of_the_same_run_replace_lost_ones(workspace: Workspace, folder: Path) -> None:
    compressed = bundle_run(folder / "one")
    entry = workspace.add_run(compressed, "the run")
    result = workspace.store_result(entry.digest, {}, "note", {"x": 1})
    workspace.objects.path(entry.object).unlink()
    again = workspace.add_run(folder / "one", "the run")
    assert again.available
    assert again.object != entry.object
    assert workspace.open_run(entry.digest).digest == entry.digest
    assert workspace.results(entry.digest)[0].digest == result.digest


def test_deleting_a_run_removes_what_was_computed_and_says_what_stays(workspace: Workspace, bundle: Path) -> None:
    entry = workspace.add_run(bundle, "gone soon")
    run = workspace.open_run(entry.digest)
    workspace.checkpoints(run).keep(KEY, {"values": np.ones(3)})
    workspace.utility_memory(run).keep_epoch(KEY, {b"\x01": np.array([0.5])})
    workspace.store_result(entry.digest, {"seed": 1}, "note", {"answer": 42})
    workspace.alerts.raise_alerts(entry.digest, [{"client": "client-0", "verdict": "exact-finding"}])
    deleted = workspace.delete_run(entry.digest)
    assert (deleted.results, deleted.epochs, deleted.games) == (1, 1, 1)
    assert deleted.bytes_freed > entry.size
    assert "audit log" in deleted.kept[0]
    assert workspace.runs() == ()
    assert workspace.results() == ()
    assert workspace.alerts.list() == ()
    assert list(workspace.objects.names()) == []
    assert workspace.checkpoints().recall(KEY) is None
    assert workspace.utility_memory().recall_epoch(KEY) == {}
    assert [e.kind for e in workspace.log.entries(subject=entry.digest)][-1] == "run-deleted"
    assert workspace.verify_chain() is None
    with pytest.raises(WorkspaceError, match="no run"):
        workspace.open_run(entry.digest)


def test_what_a_grown_run_shares_with_its_shorter_self_stays_until_both_are_gone(
    workspace: Workspace, folder: Path
) -> None:
    short = workspace.add_run(record_run(folder / "short", epochs=2))
    grown = workspace.add_run(record_run(folder / "grown", epochs=4))
    assert short.family == grown.family
    assert short.digest != grown.digest
    workspace.checkpoints(workspace.open_run(short.digest)).keep(KEY, {"values": np.ones(3)})
    deleted = workspace.delete_run(short.digest)
    assert "grown" in deleted.kept[1]
    assert workspace.checkpoints().recall(KEY) is not None
    assert workspace.delete_run(grown.digest).epochs == 1
    assert workspace.checkpoints().recall(KEY) is None


def test_a_deletion_that_was_interrupted_is_finished_when_the_workspace_is_opened(folder: Path, bundle: Path) -> None:
    workspace = Workspace(folder / "workspace")
    entry = workspace.add_run(bundle)
    workspace.finish_removals = lambda: None  # type: ignore[method-assign]  # the process dies here
    workspace.delete_run(entry.digest)
    workspace.close()
    assert workspace.objects.holds(entry.object)
    assert not Workspace(folder / "workspace").objects.holds(entry.object)


def test_a_run_added_again_after_its_deletion_is_whole(workspace: Workspace, bundle: Path) -> None:
    entry = workspace.add_run(bundle)
    workspace.store_result(entry.digest, {}, "note", {"x": 1})
    workspace.delete_run(entry.digest)
    again = workspace.add_run(bundle)
    assert workspace.results(again.digest) == ()
    assert workspace.open_run(again.digest).epoch_count == 3


def test_options_of_reading_are_kept_with_the_run(workspace: Workspace, folder: Path) -> None:
    table = folder / "scores.csv"
    table.write_text("epoch,client,error\n1,a,0.3\n1,b,0.2\n")
    entry = workspace.add_run(table, lower_is_better=["error"])
    assert "error" in workspace.open_run(entry.digest).lower_is_better  # type: ignore[union-attr]
    assert json.loads(json.dumps(workspace.log.entries("run-added")[0].body))["reading"]["lower_is_better"] == ["error"]


@pytest.mark.parametrize("filename", ["../../table.csv", "/etc/table.csv", "a\\..\\table.csv", "table.csv"])
def test_a_senders_file_name_says_what_it_is_but_never_where(workspace: Workspace, filename: str) -> None:
    table = b"epoch,client,loss\n1,a,0.5\n1,b,0.25\n"
    entry = workspace.add_run([table], filename=filename)
    assert (entry.name, entry.source, entry.kind) == ("table", "table.csv", "contribution-table")


def test_a_problem_is_placed_in_the_senders_file(workspace: Workspace) -> None:
    with pytest.raises(RunLogError) as refused:
        workspace.add_run([b"epoch,client,loss\n1,a,many\n"], filename="rounds.csv")
    assert refused.value.problems[0].where == 'rounds.csv row 1, column "loss"'


def test_a_bundle_under_a_tables_name_is_a_bundle(workspace: Workspace, bundle: Path) -> None:
    entry = workspace.add_run([bundle.read_bytes()], filename="really.csv")
    assert entry.kind == "log"
    assert workspace.open_run(entry.digest).epoch_count == entry.epochs


def test_remarks_of_an_accepted_run_are_told(workspace: Workspace) -> None:
    heard: list[tuple[Problem, ...]] = []
    bundle = next(Path(__file__).parents[2].glob("sample_runs/free-rider*.flrun"))
    entry = workspace.add_run(bundle, on_remarks=heard.append)
    assert heard == [workspace.open_run(entry.digest).warnings]
    assert heard[0]
