"""Four sites in NVFlare's simulator, recorded by one line; ``--guard`` lets the server go without sites that harm."""

import sys

import numpy as np
from digits_net import SITES, Net, rows
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe.sim_env import SimEnv

from flcontrib_core.runs.nvflare import add_contribution_audit


def main() -> None:
    """Writes the server's validation rows, describes the job and runs it."""
    x, y = rows()
    np.savez("validation.npz", x=x[:300].numpy(), y=y[:300].numpy())
    recipe = FedAvgRecipe(name="digits", model=Net(), min_clients=SITES, num_rounds=14, train_script="client.py")
    recipe.add_server_config({"server": {"task_request_interval": 0.2}})  # rounds are short here: sites ask often
    guard = None
    if "--guard" in sys.argv:  # needs flcontrib[audit] where the server runs
        from flcontrib_core.detection import Guard

        guard = Guard()
    add_contribution_audit(recipe, "my-run", model=Net(), validation="validation.npz", on_verdict=guard)
    print(recipe.execute(SimEnv(num_clients=SITES, num_threads=SITES, workspace_root="workspace")))


if __name__ == "__main__":
    main()
