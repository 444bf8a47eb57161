"""The example's server with sites of which some lie, join late or crash: run in the folder that gets the run.

hospital-5 trains on wrong labels in the middle rounds. The site of partition 6 joins in round 2 and answers as
hospital-0. That of partition 7 joins in round 4, and hospital-2 crashes in round 3.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "flower"))

from digits import client_app, server_app, task
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.simulation import run_simulation

FLIPPED = range(8, 15)
app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """The example's training, with lies."""
    site, number = int(context.node_config["partition-id"]), int(message.content["config"]["server-round"])
    if (site, number) == (2, 3):
        raise RuntimeError("no power in 'ward 2'")
    if number < {6: 2, 7: 4}.get(site, 1):
        raise RuntimeError("not yet here")
    net, (x, y) = task.make_net(), task.site_rows(site)
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    task.train(net, x, (y + 1) % 10 if site == 5 and number in FLIPPED else y, seed=number)
    content = {
        "arrays": ArrayRecord(net.state_dict()),
        "metrics": MetricRecord({"num-examples": len(y)}),
        "who": ConfigRecord({"client-id": f"hospital-{0 if site == 6 else site}"}),
    }
    return Message(RecordDict(content), reply_to=message)


app.evaluate()(client_app.evaluate_round)


if __name__ == "__main__":
    run_simulation(server_app.app, app, num_supernodes=8, backend_config={"client_resources": {"num_cpus": 1}})
