"""Tiny federations, one after the other, in either of Flower's interfaces: INTERFACE-STRATEGY[-STRATEGY] …

Each strategy is recorded into the folder INTERFACE-STRATEGY; site-2 fails in round 2. In the message interface several
share one simulation, whose start is what takes long.
"""

from __future__ import annotations

import sys

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server import strategy as older
from flwr.serverapp import ServerApp
from flwr.serverapp import strategy as newer
from flwr.simulation import run_simulation

from flcontrib_core.runs.flower import record

VERDICT = "verdict"
"""In place of a strategy: the plain mean under a verdict that leaves site-0 out and takes half of site-1's weight."""
clients = [(f"site-{i}", i + 1) for i in range(3)]
start = np.zeros(4, np.float32)


def trained(model, place, number):
    if (place, number) == (2, 2):
        raise RuntimeError("no power")
    return model + np.float32(place + number)


def messages(*kinds):
    """The message interface's two apps."""
    client_app, server_app = ClientApp(), ServerApp()

    @client_app.train()
    def train(message, context):
        place, number = context.node_config["partition-id"], message.content["config"]["server-round"]
        model = trained(message.content["arrays"]["w"].numpy().astype(np.float32), place, number)
        content = {"arrays": ArrayRecord({"w": Array(model)}), "metrics": MetricRecord({"num-examples": place + 1})}
        return Message(RecordDict({**content, "who": ConfigRecord({"client-id": f"site-{place}"})}), reply_to=message)

    @server_app.main()
    def main(grid, context):
        for kind in kinds:
            given = {"on_verdict": lambda path: {"site-0": 0.0, "site-1": 0.5}} if kind == VERDICT else {}
            named = "FedAvg" if kind == VERDICT else kind
            strategy = getattr(newer, named)(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3)
            assert record(strategy, f"messages-{kind}", **given) is strategy
            result = strategy.start(grid=grid, initial_arrays=ArrayRecord({"w": Array(start)}), num_rounds=3)
            np.save(f"messages-{kind}-end.npy", result.arrays["w"].numpy())

    return server_app, client_app


class Site(NumPyClient):
    """A client of the older interface."""

    def __init__(self, place):
        self.place = place

    def fit(self, parameters, config):
        model = trained(parameters[0].astype(np.float32), self.place, config["round"])
        return [model], self.place + 1, {"client-id": f"site-{self.place}"}


def fit(kind):
    """The older interface's two apps."""

    def components(context):
        strategy = getattr(older, kind)(
            fraction_evaluate=0.0,
            min_fit_clients=3,
            min_available_clients=3,
            on_fit_config_fn=lambda number: {"round": number},
            initial_parameters=ndarrays_to_parameters([start]),
            evaluate_fn=lambda number, arrays, config: np.save(f"fit-{kind}-end.npy", arrays[0]),
        )
        strategy = record(strategy, f"fit-{kind}", clients=clients)
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=3))

    client_app = ClientApp(client_fn=lambda context: Site(context.node_config["partition-id"]).to_client())
    return ServerApp(server_fn=components), client_app


if __name__ == "__main__":
    for name in sys.argv[1:]:
        interface, *kinds = name.split("-")
        apps = {"messages": messages, "fit": fit}[interface](*kinds)
        run_simulation(*apps, num_supernodes=3, backend_config={"client_resources": {"num_cpus": 1}})
