"""What a site does in NVFlare's client API: receive the model, train it on its own rows, send it back."""

import os
from pathlib import Path

import nvflare.client as flare
import torch
from digits_net import Net, site_rows

FLIPS = os.environ.get("FLIPPING_SITE")
"""For the tests: the site that trains on wrong labels in rounds 6 to 12."""
KEPT = Path(__file__).parents[1] / "models" if os.environ.get("KEEP_MODELS") else None
"""Where a site keeps what it trained in each round: beside its app's code, in NVFlare's workspace."""


def main() -> None:
    """Trains as long as the job runs."""
    flare.init()
    site = flare.get_site_name()
    x, y = site_rows(int(site.rpartition("-")[2]) - 1)
    net = Net()
    while flare.is_running():
        received = flare.receive()
        net.load_state_dict({name: torch.as_tensor(value) for name, value in received.params.items()})
        wrong = site == FLIPS and 6 <= received.current_round <= 12
        optimiser = torch.optim.SGD(net.parameters(), lr=0.2)
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(received.current_round))
        batches = order.split(32)
        for batch in batches:
            optimiser.zero_grad()
            labels = (y[batch] + 1) % 10 if wrong else y[batch]
            torch.nn.functional.cross_entropy(net(x[batch]), labels).backward()
            optimiser.step()
        params = {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}
        if KEPT is not None:
            KEPT.mkdir(exist_ok=True)
            torch.save(params, KEPT / f"round_{received.current_round}.pt")
        flare.send(flare.FLModel(params=params, meta={"NUM_STEPS_CURRENT_ROUND": len(batches)}))


if __name__ == "__main__":
    main()
