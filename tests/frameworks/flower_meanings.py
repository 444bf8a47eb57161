"""Federations on the digits that are recorded wrongly, one after the other in one simulation: run in an empty folder.

Each is recorded into a folder of its name. ``refused.json`` says how recordings that no reader would take ended, and
in which round; ``threads.json`` which threads wrote the epochs.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "flower"))

import torch
from digits import task
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

import flcontrib_core
from flcontrib_core.errors import FLContribError
from flcontrib_core.runs.limits import PARAMETERS_VARIABLE
from flcontrib_core.runs.run_folder import RunFolder

ROUNDS = 4
client_app, server_app = ClientApp(), ServerApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """The example's training; the reply is the new model, or what a careless site takes for it."""
    site, config = int(context.node_config["partition-id"]), message.content["config"]
    net, (x, y) = task.make_net(), task.site_rows(site)
    start = {name: tensor.clone() for name, tensor in message.content["arrays"].to_torch_state_dict().items()}
    net.load_state_dict(start)
    task.train(net, x, y, seed=int(config["server-round"]))
    reply = {
        "negated": lambda before, after: 2 * before - after,
        "models": lambda before, after: before + after,
    }.get(str(config["kind"]), lambda before, after: after)
    arrays = {name: Array(reply(start[name], after).numpy()) for name, after in net.state_dict().items()}
    content = {"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": len(y)})}
    who = ConfigRecord({"client-id": f"hospital-{site}"})
    return Message(RecordDict({**content, "who": who}), reply_to=message)


def trained(grid: Grid, kind: str, arrays: ArrayRecord, **recorded: Any) -> None:
    """One recorded training."""
    strategy = flcontrib_core.record(FedAvg(fraction_evaluate=0.0, min_available_nodes=4), kind, **recorded)
    strategy.start(grid=grid, initial_arrays=arrays, num_rounds=ROUNDS, train_config=ConfigRecord({"kind": kind}))
    strategy.recording.close()


def refused(grid: Grid, kind: str, arrays: ArrayRecord, **recorded: Any) -> dict[str, Any]:
    """How a training ended whose recording could not be read, and which rounds were trained."""
    ended: list[int] = []
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=4)
    aggregate = strategy.aggregate_train
    strategy.aggregate_train = lambda number, *rest: ended.append(number) or aggregate(number, *rest)  # type: ignore
    try:
        strategy = flcontrib_core.record(strategy, kind, **recorded)
        strategy.start(grid=grid, initial_arrays=arrays, num_rounds=1, train_config=ConfigRecord({"kind": kind}))
    except FLContribError as error:
        return {"words": str(error), "rounds": ended}
    return {"words": "", "rounds": ended}


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """Every kind in turn."""
    net, (x, y) = task.make_net(), task.validation_rows()
    whole = ArrayRecord(net.state_dict())
    writers: set[str] = set()
    write = RunFolder.write

    def watched(folder: RunFolder, name: str, pieces: Any) -> str:
        if name.startswith("epochs/"):
            writers.add(threading.current_thread().name)
        return write(folder, name, pieces)

    RunFolder.write = watched  # type: ignore[method-assign,assignment]
    trained(grid, "right", whole, model=net, validation=(x, y), dtype="float16")
    for kind in ("negated", "models"):
        trained(grid, kind, whole, model=net, validation=(x, y))
    trained(grid, "unscaled", whole, model=net, validation=(16 * x, y))
    trained(grid, "updates-alone", whole)
    Path("threads.json").write_text(json.dumps({"main": threading.current_thread().name, "writers": sorted(writers)}))

    dense = torch.nn.Sequential(torch.nn.Linear(64, 40), torch.nn.Unflatten(1, (10, 4)))
    adapter = ArrayRecord({"0.adapter": Array(torch.zeros(2, 64).numpy())})
    told = {
        "dense": refused(grid, "dense", ArrayRecord(dense.state_dict()), model=dense, validation=(x, y)),
        "adapter": refused(grid, "adapter", adapter, model=net, validation=(x, y)),
    }
    os.environ[PARAMETERS_VARIABLE] = "1000"
    told["too large"] = refused(grid, "too-large", whole)
    Path("refused.json").write_text(json.dumps(told))


if __name__ == "__main__":
    run_simulation(server_app, client_app, num_supernodes=4, backend_config={"client_resources": {"num_cpus": 1}})
