"""Does the code that the upload page offers to copy do what it says?"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from flcontrib_core.runs.bundle import check_run_log

UPLOAD = Path(__file__).parents[2] / "app" / "flcontrib_dashboard" / "views" / "upload.py"


def _snippet(name: str) -> str:
    for node in ast.parse(UPLOAD.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return str(ast.literal_eval(node.value))
    raise AssertionError(f"the upload page has no {name}")


def test_the_loop_records_a_log_that_passes_its_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    rng = torch.Generator().manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3))

    def train(net: torch.nn.Module, client: str) -> dict[str, torch.Tensor]:
        return {n: 0.01 * torch.randn(p.shape, generator=rng) for n, p in net.state_dict().items()}

    def apply(net: torch.nn.Module, updates: dict[str, dict[str, torch.Tensor]]) -> None:
        shares = {"a": 0.6, "b": 0.4}
        moved = {n: p + sum(shares[c] * updates[c][n] for c in updates) for n, p in net.state_dict().items()}
        net.load_state_dict(moved)

    x, y = torch.randn(30, 4, generator=rng), torch.arange(30) % 3
    offered = {"net": net, "train": train, "apply": apply, "x": x, "y": y, "epochs": 3, "chosen": ["a", "b"]}
    exec(compile(_snippet("RECORD"), "snippet", "exec"), offered)
    found = check_run_log(tmp_path / "run.flrun")
    assert found.errors == ()
    assert (found.clients, found.epochs) == (("a", "b"), 3)


def test_the_flower_snippet_is_one_call() -> None:
    tree = ast.parse(_snippet("FLOWER"))
    assert [type(node).__name__ for node in tree.body] == ["Import", "Assign"]
