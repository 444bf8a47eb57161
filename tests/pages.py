"""Follows a page of the documentation as a reader would: its commands and its Python, from top to bottom.

Uses nothing but the package itself: ``make wheel`` runs it in an environment that has no test tool, on the README that
lies in the wheel and on the pages that are named: ``python -P pages.py start.md``.
"""

from __future__ import annotations

import copy
import os
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

BLOCK = re.compile(r"^```(console|python|sh|\{answered\})\n(.*?)^```", flags=re.S | re.M)
"""What is to be done; an indented block is only shown."""


@dataclass
class Client:
    """What the pages' training loop expects of a client."""

    name: str
    x: Any
    y: Any

    def train(self, net: Any) -> dict[str, Any]:
        """The state dict after three local steps."""
        import torch

        local = copy.deepcopy(net)
        optimiser = torch.optim.SGD(local.parameters(), lr=0.1)
        for _ in range(3):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(local(self.x), self.y).backward()
            optimiser.step()
        return {name: tensor.detach() for name, tensor in local.state_dict().items()}


def weighted_mean(states: dict[str, dict[str, Any]], sizes: dict[str, int]) -> dict[str, Any]:
    """The server's next model."""
    total = sum(sizes[c] for c in states)
    first = next(iter(states.values()))
    return {name: sum(state[name] * (sizes[c] / total) for c, state in states.items()) for name in first}


def federation() -> dict[str, Any]:
    """Names that pages about a reader's own training take for given."""
    import torch

    rng = torch.Generator().manual_seed(0)

    def data(rows: int) -> tuple[Any, Any]:
        y = torch.arange(rows) % 3
        return torch.randn(rows, 4, generator=rng) + y[:, None], y

    x_val, y_val = data(60)
    return {
        "net": torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)),
        "clients": [Client(f"c{k}", *data(20 + 10 * k)) for k in range(4)],
        "x_val": x_val,
        "y_val": y_val,
        "weighted_mean": weighted_mean,
        "strategy": SimpleNamespace(configure_train=print, aggregate_train=print),  # tests/frameworks has Flower's own
        "epochs": 4,
        "loader": torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x_val, y_val), batch_size=16),
    }


def steps(text: str) -> list[tuple[str, str]]:
    """The page's commands, one by one, and its pieces of Python, in their order."""
    found: list[tuple[str, str]] = []
    for language, block in BLOCK.findall(text):
        if language == "python":
            found.append(("python", block))
            continue
        prompt = "" if language == "sh" else "$ "
        lines = [line.removeprefix(prompt) for line in block.splitlines() if line.startswith(prompt)]
        assert lines, block
        assert all(line.startswith("flcontrib ") for line in lines), lines
        found += [("command", line) for line in lines]
    return found


def run_command(line: str) -> None:
    """Runs one of our commands in this process, which has imported what it needs; its answer must be yes."""
    from flcontrib_core.cli import flcontrib

    code = flcontrib.main(shlex.split(line, comments=True)[1:], prog_name="flcontrib", standalone_mode=False)
    assert not isinstance(code, int) or code == 0, (line, code)


def follow(text: str, names: dict[str, Any]) -> int:
    """Does what a page says in the working folder, with these names given; how many steps that were."""
    done = steps(text)
    for number, (kind, told) in enumerate(done):
        if kind == "command":
            run_command(told)
        else:
            exec(compile(told, f"step {number}", "exec"), names)
    return len(done)


if __name__ == "__main__":
    from importlib.metadata import distribution

    from flcontrib_core.bundled_files import bundled

    pages = [Path(page).resolve() for page in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as place:
        os.environ["FLCONTRIB_WORKSPACE"] = str(Path(place) / "workspace")
        _, _, readme = str(distribution("flcontrib").read_text("METADATA")).partition("\n\n")
        counts = []
        for number, text in enumerate([readme, *(page.read_text() for page in pages)]):
            folder = Path(place) / f"page-{number}"
            folder.mkdir()
            os.chdir(folder)
            Path("sample_runs").symlink_to(bundled("sample_runs"))
            counts.append(follow(text, federation()))
    assert min(counts) > 0, counts
    print(f"the wheel's README and {len(pages)} pages work: {sum(counts)} steps")
