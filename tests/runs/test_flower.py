"""Does a wrapped Flower strategy write a sound run and stay what it was?

The stand-ins below have exactly the parts of Flower's objects that its documentation names; the tests with Flower
itself run where it is installed (``pip install "flwr[simulation]"``) and are skipped visibly elsewhere.
"""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flcontrib_core.errors import RunLogError, SettingsError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.flower import record
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


def opened(path: Path) -> RunLog:
    run = read_run_log(path)
    assert isinstance(run, RunLog)
    return run


def final_model(run: RunLog) -> np.ndarray:
    model = run.initial().astype(np.float64)
    for entry in run.epochs:
        data = run.epoch_data(entry.epoch)
        sizes = np.array(entry.data_sizes, dtype=np.float64)
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
    run = opened(tmp_path / "run")
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
    assert first["source"] == {"nodes": {"north": "11", "south": "22", "west": "33"}}
    assert opened(strategy.recording.bundle()).digest == run.digest  # type: ignore[attr-defined]


def test_a_server_that_is_not_the_mean_stores_its_model(tmp_path: Path) -> None:
    strategy = record(MessageStrategy(step=0.5), tmp_path / "run", clients=CLIENTS)
    last = play(strategy, [named_replies(1, [11, 22])], [[11, 22]])
    run = opened(tmp_path / "run")
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
    epochs = opened(tmp_path / "run").epochs
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
    run = opened(tmp_path / "run")
    assert [e.has_global for e in run.epochs] == [False, True]
    np.testing.assert_allclose(final_model(run), flat(last), atol=1e-6)


def test_node_ids_serve_as_names_and_strangers_are_refused(tmp_path: Path) -> None:
    strategy = record(MessageStrategy(), tmp_path / "run", clients=[("11", 5), ("22", 5)])
    play(strategy, [[reply(11, moved("north", 1), 5), reply(22, moved("south", 1), 2.5)]], [[11, 22]])
    assert opened(tmp_path / "run").epochs[0].data_sizes == (5, 5), "half an example is no count"
    stranger = record(MessageStrategy(), tmp_path / "other", clients=CLIENTS)
    with pytest.raises(RunLogError, match="client-id"):
        play(stranger, [[reply(44, moved("north", 1), 5)]], [[44]])


def test_a_recording_goes_on_only_from_its_last_model(tmp_path: Path) -> None:
    first = record(MessageStrategy(), tmp_path / "run", clients=CLIENTS)
    last = play(first, [named_replies(1, [11, 22])], [[11, 22]])
    first.recording.close()  # type: ignore[attr-defined]
    again = record(MessageStrategy(), tmp_path / "run", clients=CLIENTS)
    with pytest.raises(SettingsError, match="another model"):
        again.configure_train(1, array_record(START), {}, [11])
    again.recording.close()  # type: ignore[attr-defined]
    again = record(MessageStrategy(), tmp_path / "run", clients=CLIENTS)
    again.configure_train(1, array_record(last), {}, [11])
    again.aggregate_train(1, named_replies(2, [11]))
    assert opened(tmp_path / "run").epoch_count == 2


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
    run = opened(tmp_path / "run")
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


FEDERATION = """
import sys
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig, strategy as older
from flwr.serverapp import ServerApp, strategy as newer
from flwr.simulation import run_simulation
from flcontrib_core.runs.flower import record

folder, interface, kind = sys.argv[1:]
clients = [(f"site-{i}", i + 1) for i in range(3)]
start = np.zeros(4, np.float32)

def trained(model, place, number):
    if (place, number) == (2, 2):
        raise RuntimeError("no power")
    return model + np.float32(place + number)

if interface == "messages":
    client_app, server_app = ClientApp(), ServerApp()

    @client_app.train()
    def train(message, context):
        place, number = context.node_config["partition-id"], message.content["config"]["server-round"]
        model = trained(message.content["arrays"]["w"].numpy().astype(np.float32), place, number)
        content = {"arrays": ArrayRecord({"w": Array(model)}), "metrics": MetricRecord({"num-examples": place + 1})}
        return Message(RecordDict({**content, "who": ConfigRecord({"client-id": f"site-{place}"})}), reply_to=message)

    @server_app.main()
    def main(grid, context):
        strategy = getattr(newer, kind)(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3)
        assert record(strategy, folder, clients=clients) is strategy
        result = strategy.start(grid=grid, initial_arrays=ArrayRecord({"w": Array(start)}), num_rounds=3)
        np.save(folder + "-end.npy", result.arrays["w"].numpy())
else:
    class Site(NumPyClient):
        def __init__(self, place):
            self.place = place

        def fit(self, parameters, config):
            model = trained(parameters[0].astype(np.float32), self.place, config["round"])
            return [model], self.place + 1, {"client-id": f"site-{self.place}"}

    def components(context):
        strategy = getattr(older, kind)(
            fraction_evaluate=0.0, min_fit_clients=3, min_available_clients=3,
            on_fit_config_fn=lambda number: {"round": number}, initial_parameters=ndarrays_to_parameters([start]),
            evaluate_fn=lambda number, arrays, config: np.save(folder + "-end.npy", arrays[0]),
        )
        strategy = record(strategy, folder, clients=clients, parameters=["w"])
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=3))

    client_app = ClientApp(client_fn=lambda context: Site(context.node_config["partition-id"]).to_client())
    server_app = ServerApp(server_fn=components)

run_simulation(server_app, client_app, num_supernodes=3, backend_config={"client_resources": {"num_cpus": 1}})
"""


@pytest.mark.slow
@pytest.mark.parametrize("interface", ["messages", "fit"])
@pytest.mark.parametrize("kind", ["FedAvg", "FedAdam"])
def test_a_whole_flower_federation(tmp_path: Path, interface: str, kind: str) -> None:
    pytest.importorskip("flwr", reason="Flower is not installed (pip install flwr)")
    pytest.importorskip("ray", reason="Flower's simulation needs ray (pip install 'flwr[simulation]')")
    folder = str(tmp_path / "run")
    subprocess.run(
        python_command("-c", FEDERATION, folder, interface, kind),
        check=True,
        timeout=PATIENCE_SECONDS,
        env=child_environment(),
    )
    run = opened(tmp_path / "run")
    assert [e.participants for e in run.epochs] == [(0, 1, 2), (0, 1), (0, 1, 2)]
    assert [f.client for f in run.epochs[1].failed] == ["site-2"]
    for epoch, entry in enumerate(run.epochs, start=1):
        expected = np.tile(np.array(entry.participants)[:, None] + epoch, (1, 4))
        np.testing.assert_allclose(run.epoch_data(epoch).updates, expected, atol=1e-5)
        assert entry.data_sizes == tuple(c + 1 for c in entry.participants)
        assert entry.has_global == (kind == "FedAdam"), "only a server optimiser's model has to be stored"
    np.testing.assert_allclose(final_model(run), np.load(folder + "-end.npy"), atol=1e-5)
    assert run.manifest["source"]["framework"].startswith("flower ")
