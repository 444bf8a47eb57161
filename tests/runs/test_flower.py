"""Does a wrapped Flower strategy write a sound run and stay what it was?

The stand-ins below have exactly the parts of Flower's objects that its documentation names; the tests with Flower
itself are in ``tests/frameworks``.
"""

from __future__ import annotations

import atexit
import hashlib
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flcontrib_core.errors import FileNotWritten, RunLogError, SettingsError
from flcontrib_core.reports.extract import own_updates
from flcontrib_core.runs import live_recording
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.flower import record
from flcontrib_core.runs.run_folder import RunFolder
from flcontrib_core.runs.run_log import RunLog
from tests.patience import PATIENCE_SECONDS

CLIENTS = [("north", 10), ("south", 30), ("west", 20)]
NODES = {11: "north", 22: "south", 33: "west"}
START = {"w": np.ones((2, 2), np.float32), "b": np.zeros(2, np.float32), "steps": np.array(0)}


def moved(client: str, server_round: int) -> dict[str, np.ndarray]:
    """What a client makes of the start model in some round; any deterministic numbers do."""
    rng = np.random.default_rng([len(client), ord(client[0]), server_round])
    return {k: np.asarray(v + rng.normal(size=v.shape), v.dtype) for k, v in START.items()}


def array_record(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: SimpleNamespace(numpy=lambda a=array: a.copy()) for name, array in arrays.items()}


def reply(node: int, arrays: dict[str, np.ndarray], examples: Any, client: str | None = None) -> SimpleNamespace:
    content = SimpleNamespace(
        array_records={"arrays": array_record(arrays)},
        metric_records={"metrics": {"num-examples": examples}},
        config_records={} if client is None else {"config": {"client-id": client}},
    )
    return SimpleNamespace(metadata=SimpleNamespace(src_node_id=node), has_error=lambda: False, content=content)


def error_reply(node: int, reason: str) -> SimpleNamespace:
    return SimpleNamespace(
        metadata=SimpleNamespace(src_node_id=node), has_error=lambda: True, error=SimpleNamespace(reason=reason)
    )


class MessageStrategy:
    """FedAvg in the shape of Flower's message interface; sends generators and writes into the replies."""

    weighted_by_key = "num-examples"
    arrayrecord_key = "arrays"

    def __init__(self, step: float = 1.0) -> None:
        self.step = step
        self.before: dict[str, np.ndarray] = {}

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Iterator[Any]:
        self.before = {k: a.numpy() for k, a in arrays.items()}
        return (SimpleNamespace(metadata=SimpleNamespace(dst_node_id=n)) for n in grid)

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        sound = [r for r in replies if not r.has_error()]
        if not sound:
            return None, None
        sizes = [r.content.metric_records["metrics"]["num-examples"] for r in sound]
        records = [r.content.array_records["arrays"] for r in sound]
        mean = {}
        for name, old in self.before.items():
            target = sum(s / sum(sizes) * x[name].numpy() for s, x in zip(sizes, records, strict=True))
            mean[name] = old + self.step * (target - old)
        for r in sound:
            r.content.array_records.clear()
        return array_record(mean), {"loss": 0.5, "note": "text", "gone": float("nan"), "sure": True}


def play(strategy: Any, rounds: list[list[Any]], asked: list[list[int]]) -> dict[str, np.ndarray]:
    """Flower's own loop: the model goes out, replies come back, the model is replaced unless there is none."""
    arrays: Any = array_record(START)
    for number, (replies, nodes) in enumerate(zip(rounds, asked, strict=True), start=1):
        messages = strategy.configure_train(number, arrays, {}, nodes)
        assert [m.metadata.dst_node_id for m in messages] == nodes
        after, _ = strategy.aggregate_train(number, iter(replies))
        arrays = arrays if after is None else after
    return {k: a.numpy() for k, a in arrays.items()}


def named_replies(server_round: int, nodes: list[int]) -> list[Any]:
    return [reply(n, moved(NODES[n], server_round), 10 + n, NODES[n]) for n in nodes]


def finished(strategy: Any) -> RunLog:
    """The run, when all of it is written."""
    strategy.recording.finish()
    return opened(strategy.recording.path)


def opened(path: Path) -> RunLog:
    run = read_run_log(path)
    assert isinstance(run, RunLog)
    return run


def final_model(run: RunLog) -> np.ndarray:
    model = run.initial().astype(np.float64)
    for entry in run.epochs:
        data = run.epoch_data(entry.epoch)
        sizes = np.array(entry.row_weights, dtype=np.float64)
        if data.global_model is not None:
            model = data.global_model.astype(np.float64)
        elif len(sizes):
            model = model + sizes / sizes.sum() @ data.updates.astype(np.float64)
    return model


def flat(arrays: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([arrays["w"].ravel(), arrays["b"].ravel()])


def test_a_federated_mean_is_recorded_as_updates(tmp_path: Path) -> None:
    strategy = MessageStrategy()
    assert record(strategy, tmp_path / "run", clients=CLIENTS, name="three sites") is strategy
    everybody = [11, 22, 33]
    last = play(strategy, [named_replies(1, [33, 11, 22]), named_replies(2, [22, 33])], [everybody, [22, 33]])
    run = finished(strategy)
    assert [p.name for p in run.parameters] == ["w", "b"], "whole-number counters are nobody's contribution"
    assert [e.participants for e in run.epochs] == [(0, 1, 2), (1, 2)]
    assert run.epochs[0].data_sizes == (21, 32, 43)
    assert not any(e.has_global for e in run.epochs)
    assert run.epochs[0].metrics == {"loss": 0.5}
    assert run.manifest["source"]["aggregator"] == "MessageStrategy"
    assert "created" in run.manifest
    np.testing.assert_allclose(run.epoch_data(1).updates[1], flat(moved("south", 1)) - flat(START), atol=1e-6)
    np.testing.assert_allclose(final_model(run), flat(last), atol=1e-6)
    first = json.loads((tmp_path / "run/epochs.jsonl").read_text().splitlines()[0])
    assert first["source"] == {"round": 1, "nodes": {"north": "11", "south": "22", "west": "33"}}
    assert opened(strategy.recording.bundle()).digest == run.digest  # type: ignore[attr-defined]


def test_a_server_that_is_not_the_mean_stores_its_model(tmp_path: Path) -> None:
    strategy = record(MessageStrategy(step=0.5), tmp_path / "run", clients=CLIENTS)
    last = play(strategy, [named_replies(1, [11, 22])], [[11, 22]])
    run = finished(strategy)
    assert run.epochs[0].has_global
    np.testing.assert_allclose(final_model(run), flat(last), atol=1e-6)


def test_silent_failing_and_unknown_nodes(tmp_path: Path) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run", clients=CLIENTS)
    trace = "Traceback:\n  \x1b[36mFile x\x1b[0m\nMemoryError: too large\n'>"
    rounds = [
        [*named_replies(1, [11]), error_reply(22, trace)],
        [*named_replies(2, [11, 22]), error_reply(33, "")],
        named_replies(3, [22]),
        [],
    ]
    play(strategy, rounds, [[11, 22, 33], [11, 22, 33], [11, 22], [11, 22]])
    epochs = finished(strategy).epochs
    assert [(f.client, f.reason) for f in epochs[0].failed] == [("22", "MemoryError: too large"), ("33", "no reply")]
    assert [(f.client, f.reason) for f in epochs[1].failed] == [("33", "no reply")]
    assert [(f.client, f.reason) for f in epochs[2].failed] == [("north", "no reply")], "now its name is known"
    assert epochs[2].asked == ("north", "south")
    assert epochs[3].participants == ()
    assert not epochs[3].has_global


def test_a_round_the_strategy_throws_away_leaves_the_model_where_it_was(tmp_path: Path) -> None:
    class Refusing(MessageStrategy):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            return (None, None) if server_round == 2 else super().aggregate_train(server_round, replies)

    strategy = record(Refusing(), tmp_path / "run", clients=CLIENTS)
    last = play(strategy, [named_replies(t, [11, 22]) for t in (1, 2)], [[11, 22]] * 2)
    run = finished(strategy)
    assert [e.has_global for e in run.epochs] == [False, True]
    np.testing.assert_allclose(final_model(run), flat(last), atol=1e-6)


def test_nothing_but_a_path_is_needed(tmp_path: Path) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run")
    play(strategy, [[reply(11, moved("north", 1), 5), reply(22, moved("south", 1), 2.5)]], [[11, 22]])
    run = finished(strategy)
    assert [(c.id, c.data_size) for c in run.clients] == [("11", 5), ("22", 1)], "half an example is no count"
    assert run.epochs[0].data_sizes == (5, 1)


def test_a_place_where_nothing_can_be_written_is_refused_before_any_training(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("text")
    with pytest.raises(FileNotWritten, match="no folder can stand in it"):
        record(MessageStrategy(), tmp_path / "notes.txt" / "run")


def test_a_client_that_joins_late_is_added(tmp_path: Path) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run", clients=CLIENTS[:2])
    rounds = [named_replies(1, [11, 22]), named_replies(2, [11, 33])]
    last = play(strategy, rounds, [[11, 22], [11, 33]])
    run = finished(strategy)
    assert run.client_ids == ("north", "south", "west")
    assert [e.participants for e in run.epochs] == [(0, 1), (0, 2)]
    np.testing.assert_allclose(final_model(run), flat(last), atol=1e-6)
    assert opened(strategy.recording.bundle()).digest == run.digest  # type: ignore[attr-defined]


@pytest.mark.parametrize(("dtype", "relative"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8)])
def test_updates_in_16_bits_go_on_after_an_interruption(tmp_path: Path, dtype: str, relative: float) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run", dtype=dtype)
    last = play(strategy, [named_replies(t, [11, 22]) for t in (1, 2)], [[11, 22]] * 2)
    run = finished(strategy)
    expected = flat(moved("north", 1)) - flat(START)
    np.testing.assert_allclose(run.epoch_data(1).updates[0], expected, rtol=relative, atol=1e-7)
    assert not any(e.has_global for e in run.epochs), "that would double the room again"
    assert len(run.casts) == 1
    assert not run.warnings
    strategy.recording.close()  # type: ignore[attr-defined]
    again = record(MessageStrategy(), tmp_path / "run", dtype=dtype)
    again.configure_train(3, array_record(last), {}, [11])
    again.aggregate_train(3, named_replies(3, [11]))
    assert finished(again).epoch_count == 3


def test_weights_that_are_no_counts_are_recorded_and_no_share_of_the_server(tmp_path: Path) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run")
    replies = [reply(n, moved(NODES[n], 1), weight, NODES[n]) for n, weight in ((11, 0.3), (22, 0.05))]
    last = play(strategy, [replies], [[11, 22]])
    run = finished(strategy)
    assert run.manifest["version"] == 2
    assert run.epochs[0].row_weights == (0.3, 0.05)
    assert not run.epochs[0].has_global, "the weighted mean explains the server's model"
    np.testing.assert_allclose(final_model(run), flat(last), atol=1e-6)


def test_training_waits_for_a_slow_disk_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run")
    gate = threading.Event()
    written = RunFolder.write

    def write(folder: RunFolder, name: str, pieces: Any) -> str:
        gate.wait(PATIENCE_SECONDS)
        return written(folder, name, pieces)

    monkeypatch.setattr(RunFolder, "write", write)
    behind = strategy.recording._behind  # type: ignore[attr-defined]
    wait = behind._room.acquire

    def acquire(blocking: bool = True) -> bool:
        if blocking:  # the second round has found no room: now the disk may go on
            gate.set()
        return bool(wait(blocking))

    monkeypatch.setattr(behind._room, "acquire", acquire)
    monkeypatch.setattr(live_recording, "WORTH_SAYING", 0.0)
    play(strategy, [named_replies(t, [11]) for t in (1, 2, 3)], [[11]] * 3)
    assert finished(strategy).epoch_count == 3
    assert "slower than training" in caplog.text


def test_a_module_is_traced_when_the_recording_is_asked_for(tmp_path: Path) -> None:
    """Later, in the writing thread, tracing would catch the training's own calls of modules."""
    import torch

    net = torch.nn.Linear(2, 3)
    strategy = record(
        MessageStrategy(), tmp_path / "run", model=net, validation=(np.ones((4, 2), "f4"), np.arange(4) % 3)
    )
    options = strategy.recording._options  # type: ignore[attr-defined]
    assert options["model"]["nodes"][0]["op"] == "linear"
    assert options["classes"] == 3
    with pytest.raises(RunLogError, match="rows to trace"):
        record(MessageStrategy(), tmp_path / "other", model=net)


# ---- who sent it


def sha_of(update: np.ndarray) -> str:
    return hashlib.sha256(update.astype("<f4").tobytes()).hexdigest()


def test_a_name_belongs_to_the_first_node_that_gave_it(tmp_path: Path) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run")
    thief = reply(33, moved("west", 2), 20, "north")
    play(strategy, [named_replies(1, [11, 22]), [*named_replies(2, [11, 22]), thief]], [[11, 22], [11, 22, 33]])
    run = finished(strategy)
    assert run.client_ids == ("north", "south", "north (node 33)")
    second = run.epoch_data(2).updates
    np.testing.assert_allclose(second[0] - second[2], flat(moved("north", 2)) - flat(moved("west", 2)), atol=1e-5)
    (claim,) = run.epochs[1].claims
    assert (claim.kind, claim.node, claim.claimed, claim.other_node) == ("taken", "33", "north", "11")
    assert (claim.update, claim.other_update) == (sha_of(second[2]), sha_of(second[0])), "both updates stay provable"
    (warning,) = [w for w in run.warnings if w.code == "W_IDENTITY"]
    assert warning.clients == ("north (node 33)", "north")
    assert claim.update[:16] in warning.found
    own = own_updates(run, "north")["rows"]
    assert [row["sha256"] for row in own] == [sha_of(run.epoch_data(t).updates[0]) for t in (1, 2)]


def test_a_name_that_two_nodes_give_at_once_is_nobodys(tmp_path: Path) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run", clients=CLIENTS)
    twice = [reply(44, moved("west", 1), 20, "north"), *named_replies(1, [11, 22])]
    play(strategy, [twice, named_replies(2, [11])], [[11, 22, 44], [11]])
    run = finished(strategy)
    assert run.client_ids == ("north", "south", "west", "north (node 11)", "north (node 44)")
    assert [e.participants for e in run.epochs] == [(1, 3, 4), (3,)]
    assert {c.kind for e in run.epochs for c in e.claims} == {"contested"}
    assert own_updates(run, "north")["rows"] == []


def test_the_servers_own_map_overrules_what_replies_say(tmp_path: Path) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run", names={11: "north", 33: "west"})
    says = [reply(33, moved("west", 1), 20, "north"), reply(22, moved("south", 1), 5, "west"), *named_replies(1, [11])]
    play(strategy, [says], [[11, 22, 33]])
    run = finished(strategy)
    assert set(run.client_ids) == {"north", "west", "west (node 22)"}
    kinds = {c.client: (c.kind, c.claimed) for c in run.epochs[0].claims}
    assert kinds == {"west": ("renamed", "north"), "west (node 22)": ("taken", "west")}


def test_a_map_that_knows_no_node_is_remarked_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run", names={1: "north"})
    play(strategy, [named_replies(1, [11, 22]), named_replies(2, [11, 22])], [[11, 22], [11, 22]])
    assert set(finished(strategy).client_ids) == {"north (node 11)", "south"}, "the map keeps its names for its nodes"
    said = [r.getMessage() for r in caplog.records if "names= knows none of the nodes" in r.getMessage()]
    assert len(said) == 1


def test_an_error_of_several_lines_keeps_what_names_it(tmp_path: Path) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run")
    trace = (
        "Traceback (most recent call last):\n  in train\nException ClientAppException. Message: no memory\nin ward 3"
    )
    play(strategy, [[*named_replies(1, [11]), error_reply(22, trace)]], [[11, 22]])
    (failed,) = finished(strategy).epochs[0].failed
    assert failed.reason == "Exception ClientAppException. Message: no memory in ward 3"


def test_a_node_that_changes_its_name_or_answers_twice_stays_who_it_is(tmp_path: Path) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run")
    again = [*named_replies(2, [11]), reply(11, moved("west", 2), 20, "north"), reply(22, moved("south", 2), 5, "east")]
    play(strategy, [named_replies(1, [11, 22]), again], [[11, 22]] * 2)
    run = finished(strategy)
    assert run.client_ids == ("north", "south")
    assert [(c.kind, c.client) for c in run.epochs[1].claims] == [("twice", "north"), ("renamed", "south")]
    assert [w.code for w in run.warnings].count("W_IDENTITY") == 2


# ---- errors of the recording


def test_a_reply_of_another_shape_costs_only_itself(tmp_path: Path) -> None:
    class Ignoring(MessageStrategy):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            sound = [r for r in replies if r.metadata.src_node_id != 22]
            return super().aggregate_train(server_round, sound)

    strategy = record(Ignoring(), tmp_path / "run", clients=CLIENTS)
    odd = reply(22, {**moved("south", 1), "w": np.zeros((3, 3), np.float32)}, 5, "south")
    empty = reply(33, {}, 5, "west")
    empty.content.array_records = {}
    with_empty = [*named_replies(1, [11]), odd]
    play(strategy, [with_empty], [[11, 22, 33]])
    run = finished(strategy)
    assert [e.participants for e in run.epochs] == [(0,)]
    assert [f.client for f in run.epochs[0].failed] == ["33", "south"]
    assert "expected shape (2, 2)" in run.epochs[0].failed[1].reason


def test_an_error_of_the_recording_is_a_gap_and_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run")
    full = [True]
    written = RunFolder.write

    def write(folder: RunFolder, name: str, pieces: Any) -> str:
        if name == "epochs/00002.safetensors" and full:
            full.pop()
            raise OSError(28, "No space left on device")
        return written(folder, name, pieces)

    monkeypatch.setattr(RunFolder, "write", write)
    last = play(strategy, [named_replies(t, [11, 22]) for t in (1, 2, 3)], [[11, 22]] * 3)
    run = finished(strategy)
    assert "training goes on" in caplog.text
    assert [e.participants for e in run.epochs] == [(0, 1), (), (0, 1)]
    assert run.epochs[1].gap == "round 2: OSError: [Errno 28] No space left on device"
    assert [w.where for w in run.warnings if w.code == "W_GAP"] == ["epoch 2"]
    np.testing.assert_allclose(final_model(run), flat(last), atol=1e-6)


def test_a_gap_that_cannot_be_written_is_written_with_the_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run")
    written, faults = RunFolder.write, iter([True, True])

    def write(folder: RunFolder, name: str, pieces: Any) -> str:
        if name.startswith("epochs/00002") and next(faults, False):
            raise OSError(28, "No space left on device")
        return written(folder, name, pieces)

    monkeypatch.setattr(RunFolder, "write", write)
    last = play(strategy, [named_replies(t, [11, 22]) for t in (1, 2, 3)], [[11, 22]] * 3)
    run = finished(strategy)
    assert [(len(e.participants), e.gap is None) for e in run.epochs] == [(2, True), (0, False), (2, True)]
    np.testing.assert_allclose(final_model(run), flat(last), atol=1e-6)


def test_errors_are_raised_for_those_who_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run", on_error="raise")

    def write(folder: RunFolder, name: str, pieces: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunFolder, "write", write)
    play(strategy, [named_replies(1, [11, 22])], [[11, 22]])
    with pytest.raises(OSError, match="No space"):
        strategy.recording.finish()  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="on_error"):
        record(MessageStrategy(), tmp_path / "run", on_error="ignore")  # type: ignore[arg-type]


def test_a_recording_goes_on_from_its_last_model_and_nowhere_else(tmp_path: Path) -> None:
    first = record(MessageStrategy(), tmp_path / "run", clients=CLIENTS)
    last = play(first, [named_replies(1, [11, 22])], [[11, 22]])
    first.recording.close()  # type: ignore[attr-defined]
    second = record(MessageStrategy(), tmp_path / "run", clients=CLIENTS)
    play(second, [named_replies(1, [11, 22])], [[11, 22]])
    assert finished(second).origin == str(tmp_path / "run-2"), "another training never writes into the first one's run"
    second.recording.close()  # type: ignore[attr-defined]
    again = record(MessageStrategy(), tmp_path / "run", clients=[*CLIENTS, ("east", 7)])
    again.configure_train(1, array_record(last), {}, [11, 99])
    again.aggregate_train(1, [*named_replies(2, [11]), reply(99, moved("south", 2), 5, "south")])
    run = finished(again)
    assert (run.origin, run.epoch_count, run.client_ids[-1]) == (str(tmp_path / "run"), 2, "east")
    (claim,) = run.epochs[1].claims
    assert (claim.kind, claim.client, claim.node, claim.other_node) == ("moved", "south", "99", "22")


def parameters(arrays: list[np.ndarray]) -> SimpleNamespace:
    tensors = []
    for array in arrays:
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        tensors.append(buffer.getvalue())
    return SimpleNamespace(tensors=tensors, tensor_type="numpy.ndarray")


class FitStrategy:
    """The shape of Flower's older interface: keywords, ClientProxy.cid, FitRes, failures without a name."""

    def __init__(self, rounds: list[list[int]]) -> None:
        self.rounds = rounds

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> list[Any]:
        return [(SimpleNamespace(cid=str(n)), None) for n in self.rounds[server_round - 1]]

    def aggregate_fit(self, server_round: int, results: list[Any], failures: list[Any]) -> Any:
        total = sum(r.num_examples for _, r in results)
        decoded = [[np.load(io.BytesIO(t)) for t in r.parameters.tensors] for _, r in results]
        mean = [
            sum(r.num_examples / total * d[i] for (_, r), d in zip(results, decoded, strict=True)) for i in range(3)
        ]
        return parameters(mean), {}


def fit_result(node: int, server_round: int) -> tuple[Any, Any]:
    arrays = list(moved(NODES[node], server_round).values())
    metrics = {"client-id": NODES[node]}
    return SimpleNamespace(cid=str(node)), SimpleNamespace(
        parameters=parameters(arrays), num_examples=node, metrics=metrics
    )


def test_the_older_interface(tmp_path: Path) -> None:
    strategy = FitStrategy([[11, 22, 33], [], [22, 33]])
    record(strategy, tmp_path / "run", clients=CLIENTS, parameters=START)
    model = parameters(list(START.values()))
    strategy.configure_fit(server_round=1, parameters=model, client_manager=None)
    told = (SimpleNamespace(cid="33"), SimpleNamespace(status=SimpleNamespace(message="disk full")))
    results = [fit_result(22, 1), fit_result(11, 1)]
    model, _ = strategy.aggregate_fit(1, results, [RuntimeError("lost"), told])
    assert strategy.configure_fit(server_round=2, parameters=model, client_manager=None) == []
    strategy.configure_fit(server_round=3, parameters=model, client_manager=None)  # round 2 had nobody to ask
    model, _ = strategy.aggregate_fit(3, [fit_result(22, 3)], [RuntimeError("lost")])
    run = finished(strategy)
    assert [p.name for p in run.parameters] == ["w", "b"]
    assert [e.participants for e in run.epochs] == [(0, 1), (), (1,)]
    assert run.epochs[0].data_sizes == (11, 22)
    assert [(f.client, f.reason) for f in run.epochs[0].failed] == [("33", "disk full")]
    assert [(f.client, f.reason) for f in run.epochs[2].failed] == [("33", "no reply")]
    ended = np.concatenate([np.load(io.BytesIO(t)).ravel() for t in model.tensors[:2]])
    np.testing.assert_allclose(final_model(run), ended, atol=1e-6)


def test_what_cannot_be_recorded_says_why(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not a Flower strategy"):
        record(object(), tmp_path / "a", clients=CLIENTS)
    strategy = record(FitStrategy([[11]]), tmp_path / "b", clients=CLIENTS, parameters=["w"])
    with pytest.raises(RunLogError, match="1 names for 3 arrays"):
        strategy.configure_fit(server_round=1, parameters=parameters(list(START.values())), client_manager=None)
    odd = SimpleNamespace(tensors=[], tensor_type="pickled")
    with pytest.raises(SettingsError, match="pickled"):
        strategy.configure_fit(server_round=1, parameters=odd, client_manager=None)
    with pytest.raises(SettingsError, match="no round"):
        strategy.recording.bundle()  # type: ignore[attr-defined]


# ---- what nobody planned for


@pytest.mark.parametrize(
    ("name", "weight"),
    [("", 10), ("x" * 9_999, 0), ("a\0b", -3), ("north\x1b[2J", 2.5), (" ", 10**17), ("42", float("inf")),
     ("", "many"), ("x" * 9_999, None)],
)  # fmt: skip
def test_no_reply_costs_the_others_their_round(tmp_path: Path, name: str, weight: Any) -> None:
    class Robust(MessageStrategy):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            return super().aggregate_train(server_round, [r for r in replies if r.metadata.src_node_id != 33])

    strategy: Any = record(Robust(), tmp_path / "run")
    odd = {**moved("west", 1), "w": np.full((2, 2), np.inf if weight is None else 1.0)}
    rounds = [[*named_replies(t, [11, 22]), reply(33, odd, weight, name)] for t in (1, 2)]
    rounds += [[*named_replies(3, [11, 22]), reply(33, {"w": np.ones(7)}, weight, "north" if weight else name)]]
    play(strategy, rounds, [[11, 22, 33]] * 3)
    strategy.recording.finish()
    run = read_run_log(tmp_path / "run", nonfinite="absent")
    assert isinstance(run, RunLog)
    assert [e.gap for e in run.epochs] == [None] * 3
    for epoch in run.epochs:
        honest = [run.client_ids[c] in ("north", "south") for c in epoch.participants]
        north, south = run.epoch_data(epoch.epoch).updates[np.array(honest)]
        np.testing.assert_allclose(
            north - south, flat(moved("north", epoch.epoch)) - flat(moved("south", epoch.epoch)), atol=1e-5
        )


def test_a_model_that_changes_between_two_rounds_is_the_one_the_next_round_begins_with(tmp_path: Path) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run")
    model: Any = array_record(START)
    for number in (1, 2, 3):
        strategy.configure_train(number, model, {}, [11, 22])
        model, _ = strategy.aggregate_train(number, named_replies(number, [11, 22]))
        if number == 2:  # somebody went back to another model, or added noise around the strategy
            model = array_record({name: array + 1 for name, array in START.items()})
    run = finished(strategy)
    assert [e.has_global for e in run.epochs] == [False, True, False]
    np.testing.assert_array_equal(run.epoch_data(2).global_model, flat(START) + 1)
    np.testing.assert_allclose(final_model(run), flat({k: a.numpy() for k, a in model.items()}), atol=1e-6)


def test_a_reply_that_weighs_nothing_is_no_part_of_the_mean(tmp_path: Path) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run")
    play(strategy, [[*named_replies(1, [11, 22]), reply(33, moved("west", 1), 0, "west")]], [[11, 22, 33]])
    run = finished(strategy)
    assert [run.client_ids[c] for c in run.epochs[0].participants] == ["north", "south"]
    assert not run.epochs[0].has_global
    assert [(f.client, "weight 0" in f.reason) for f in run.epochs[0].failed] == [("west", True)]


def test_a_round_that_a_crash_kept_from_the_log_is_found_again(tmp_path: Path) -> None:
    crashed = record(MessageStrategy(), tmp_path / "run")
    last = play(crashed, [named_replies(t, [11, 22]) for t in (1, 2)], [[11, 22]] * 2)
    crashed.recording._behind.wait()  # type: ignore[attr-defined]
    crashed.recording._recorder.close()  # type: ignore[attr-defined]
    atexit.unregister(crashed.recording.close)  # type: ignore[attr-defined]
    assert [w.code for w in opened(tmp_path / "run").warnings] == [], "what a recorder works on is no stranger"
    assert opened(tmp_path / "run").epoch_count == 1
    again = record(MessageStrategy(), tmp_path / "run")
    again.configure_train(1, array_record(last), {}, [11])
    again.aggregate_train(1, named_replies(3, [11]))
    run = finished(again)
    assert (run.origin, run.epoch_count) == (str(tmp_path / "run"), 3)


def test_trainings_one_after_the_other_in_one_process(tmp_path: Path) -> None:
    class Starting(MessageStrategy):
        def start(self, grid: Any, initial_arrays: Any, num_rounds: int = 1, evaluate_fn: Any = None) -> Any:
            for number in range(1, num_rounds + 1):
                self.configure_train(number, initial_arrays, {}, grid)
                initial_arrays, _ = self.aggregate_train(number, named_replies(number, grid))
                evaluate_fn(number, initial_arrays)
            return initial_arrays

    strategy = record(Starting(), tmp_path / "run")
    ended = strategy.start([11, 22], array_record(START), 2, lambda number, arrays: {"loss": 1.0})
    assert opened(tmp_path / "run").epochs[1].metrics["server/loss"] == 1, "however the function was given"
    strategy.start([11, 22], ended, 1, lambda number, arrays: {})
    assert opened(tmp_path / "run").epoch_count == 3, "it begins where the last one ended"
    strategy.start([11, 22], array_record(START), 1, lambda number, arrays: {})
    assert opened(tmp_path / "run").epoch_count == 3
    assert opened(tmp_path / "run-2").epoch_count == 1, "another training"


def test_adapters_are_recorded_with_the_base_that_nobody_sends(tmp_path: Path) -> None:
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
    rows = (torch.randn(4, 2), torch.tensor([0, 1, 0, 1]))
    adapter = {name: tensor.numpy() for name, tensor in net.state_dict().items() if name.startswith("2.")}
    strategy = record(MessageStrategy(), tmp_path / "run", model=net, validation=rows)
    strategy.configure_train(1, array_record(adapter), {}, [11])
    strategy.aggregate_train(1, [reply(11, {name: array + 1 for name, array in adapter.items()}, 5)])
    run = finished(strategy)
    assert [p.name for p in run.parameters] == ["2.weight", "2.bias"]
    assert run.frozen is not None
    assert [p.name for p in run.frozen.parameters] == ["0.weight", "0.bias"]
    strange = record(MessageStrategy(), tmp_path / "strange", model=net, validation=rows)
    with pytest.raises(RunLogError, match="E_MODEL_NAME"):
        strange.configure_train(1, array_record({"0.adapter": np.zeros(3, np.float32)}), {}, [11])
