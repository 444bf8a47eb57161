"""What the server does: federated averaging, recorded by one line."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import flcontrib_core
from digits.task import make_net, validation_rows

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Trains for as many rounds as the app's configuration says."""
    net, (x_val, y_val) = make_net(), validation_rows()
    strategy = FedAvg(fraction_evaluate=0.5)
    strategy = flcontrib_core.record(strategy, "my-run", model=net, validation=(x_val, y_val))
    rounds = int(context.run_config.get("num-server-rounds", 20))
    strategy.start(grid=grid, initial_arrays=ArrayRecord(net.state_dict()), num_rounds=rounds)
