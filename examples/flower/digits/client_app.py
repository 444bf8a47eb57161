"""What a site does: train on its own rows, and measure the model on them."""

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits.task import accuracy, make_net, site_rows, train

app = ClientApp()


@app.train()
def train_round(message: Message, context: Context) -> Message:
    """One round of training; ``client-id`` tells who this is (left out: the node's id is the name)."""
    site = int(context.node_config["partition-id"])
    net, (x, y) = make_net(), site_rows(site)
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    train(net, x, y, seed=int(message.content["config"]["server-round"]))
    content = {
        "arrays": ArrayRecord(net.state_dict()),
        "metrics": MetricRecord({"num-examples": len(y)}),
        "who": ConfigRecord({"client-id": f"hospital-{site}"}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate_round(message: Message, context: Context) -> Message:
    """How good is the new model on this site's rows?"""
    net, (x, y) = make_net(), site_rows(int(context.node_config["partition-id"]))
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    metrics = MetricRecord({"accuracy": accuracy(net, x, y), "num-examples": len(y)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
