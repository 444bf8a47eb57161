"""What a guard does to a training: ``python guard.py``, with and without it, with and without two sites that harm.

Two of eight sites train on wrong labels from round 11 on. The guard looks at the recording after each round and lets
the server go without clients that an alert accuses of harm. The loss is measured on rows that the guard never sees.
"""

import logging
import tempfile

import torch
from digits.task import accuracy, make_net, site_rows, train, validation_rows
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

import flcontrib_core
from flcontrib_core.detection import Guard

FLIPPING, FIRST_ROUND, ROUNDS = (1, 4), 11, 20


def sites(flipping: tuple[int, ...]) -> ClientApp:
    """The sites' app; ``flipping``: those that train on wrong labels from FIRST_ROUND on."""
    app = ClientApp()

    @app.train()
    def train_round(message: Message, context: Context) -> Message:
        site, number = int(context.node_config["partition-id"]), int(message.content["config"]["server-round"])
        net, (x, y) = make_net(), site_rows(site)
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        train(net, x, (y + 1) % 10 if site in flipping and number >= FIRST_ROUND else y, seed=number)
        content = {
            "arrays": ArrayRecord(net.state_dict()),
            "metrics": MetricRecord({"num-examples": len(y)}),
            "who": ConfigRecord({"client-id": f"hospital-{site}"}),
        }
        return Message(RecordDict(content), reply_to=message)

    return app


def trained(flipping: tuple[int, ...], guard: Guard | None) -> tuple[float, float]:
    """Loss and accuracy of the final model on rows that nobody else uses."""
    x, y = validation_rows()
    net = make_net()
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = FedAvg(fraction_evaluate=0.0)
        with tempfile.TemporaryDirectory() as folder:
            if guard is not None:
                flcontrib_core.record(
                    strategy, f"{folder}/run", model=net, validation=(x[:150], y[:150]), on_verdict=guard
                )
            result = strategy.start(grid=grid, initial_arrays=ArrayRecord(net.state_dict()), num_rounds=ROUNDS)
        net.load_state_dict(result.arrays.to_torch_state_dict())

    run_simulation(server, sites(flipping), num_supernodes=8, backend_config={"client_resources": {"num_cpus": 1}})
    with torch.no_grad():
        loss = float(torch.nn.functional.cross_entropy(net(x[150:]), y[150:]))
    return loss, accuracy(net, x[150:], y[150:])


if __name__ == "__main__":
    logging.getLogger("flwr").setLevel(logging.WARNING)
    for name, flipping in (("two sites flip labels", FLIPPING), ("everybody is honest", ())):
        for words, guard in (("without the guard", None), ("with the guard", Guard())):
            loss, share = trained(flipping, guard)
            print(f"{name}, {words}: loss {loss:.3f}, accuracy {share:.3f}", flush=True)
