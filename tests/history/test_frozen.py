"""Models of which a log holds a part: adapters on a frozen base, a shared body without the clients' own heads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

import flcontrib_core as fl
from flcontrib_core.cli import flcontrib
from flcontrib_core.errors import MissingPart, RunLogError
from flcontrib_core.history import NoValues
from flcontrib_core.history.trajectory import evaluator_for
from flcontrib_core.runs.run_log import RunLog


class Adapted(nn.Module):
    """A frozen layer and a low-rank step beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(6, 8)
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 8, bias=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.base(x) + self.up(self.down(x))))


TRAINED = ("down.weight", "up.weight", "head.weight", "head.bias")


def parts(net: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What is trained, and what is not."""
    state = {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}
    return {name: state[name] for name in TRAINED}, {name: t for name, t in state.items() if name not in TRAINED}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Adapted, Path]:
    """A run of adapters, the module, and its base in a file of its own."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("adapters")
    net = Adapted().eval()
    x = torch.randn(120, 6)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
    adapter, base = parts(net)
    with fl.RunRecorder(
        folder / "run",
        clients=[(f"site-{k}", 10) for k in range(4)],
        model=net,
        parameters=adapter,
        validation=(x, y),
        durable=False,
    ) as recorder:
        for epoch in range(4):
            updates = {}
            for k in range(4):
                local = Adapted()
                local.load_state_dict({**adapter, **base})
                optimiser = torch.optim.SGD([p for n, p in local.named_parameters() if n in TRAINED], 0.5)
                rows = torch.randperm(120, generator=torch.Generator().manual_seed(10 * epoch + k))[:40]
                F.cross_entropy(local(x[rows]), y[rows] if k else 2 - y[rows]).backward()
                optimiser.step()
                updates[f"site-{k}"] = {n: t - adapter[n] for n, t in parts(local)[0].items()}
            recorder.epoch(updates)
            adapter = {n: t + sum(u[n] for u in updates.values()) / 4 for n, t in adapter.items()}
    save_file(base, folder / "base.safetensors")
    return folder / "run", net, folder / "base.safetensors"


def test_the_log_names_the_base_by_its_digest(federation: tuple[Path, Adapted, Path]) -> None:
    run = fl.read_run_log(federation[0])
    assert isinstance(run, RunLog)
    assert run.manifest["version"] == 2
    assert run.frozen is not None
    assert run.frozen.sha256 is not None
    assert {spec.name for spec in run.frozen.parameters} == {"base.weight", "base.bias"}
    assert run.parameter_count == 6 * 2 + 2 * 8 + 8 * 3 + 3


def test_the_base_is_given_at_audit_time(federation: tuple[Path, Adapted, Path], tmp_path: Path) -> None:
    path, net, base = federation
    report = fl.audit(path, frozen=base)
    assert np.isfinite(report.history.values).all()
    assert report.provenance.recipe["frozen"]
    by_name = fl.assess(path, frozen=parts(net)[1])
    np.testing.assert_array_equal(by_name.values, report.history.values)
    live = fl.assess(path, evaluator=fl.ModuleEvaluator(net, _rows(path)))
    np.testing.assert_allclose(live.values, report.history.values, rtol=1e-4, atol=1e-6)
    spread = fl.assess(path, frozen=base, workers=2)
    np.testing.assert_array_equal(spread.values, report.history.values)
    _, twin = report.write(tmp_path / "report.html")
    assert fl.verify(twin, path, frozen=base).equal


def _rows(path: Path) -> tuple[np.ndarray, np.ndarray]:
    run = fl.read_run_log(path)
    assert isinstance(run, RunLog)
    validation = run.validation()
    assert validation is not None
    return validation.x, validation.y


def test_another_base_is_refused_with_both_digests(federation: tuple[Path, Adapted, Path], tmp_path: Path) -> None:
    path, net, _ = federation
    run = fl.read_run_log(path)
    assert isinstance(run, RunLog)
    assert run.frozen is not None
    other = {name: tensor + 1e-3 for name, tensor in parts(net)[1].items()}
    with pytest.raises(RunLogError, match=f"expected sha256 {run.frozen.sha256}") as refused:
        fl.audit(path, frozen=other)
    assert refused.value.problems[0].code == "E_FROZEN"
    with pytest.raises(RunLogError, match="no such tensor"):
        fl.audit(path, frozen={"base.weight": other["base.weight"]})
    with pytest.raises(RunLogError, match="holds the whole model"):
        fl.audit(Path("sample_runs/two-poisoned.flrun"), frozen=other)


def test_without_the_base_the_updates_are_read_alone(federation: tuple[Path, Adapted, Path]) -> None:
    path, _, _ = federation
    report = fl.audit(path)
    assert report.history.without_values is NoValues.NO_FROZEN
    run = fl.read_run_log(path)
    assert isinstance(run, RunLog)
    with pytest.raises(MissingPart, match="as the frozen part"):
        evaluator_for(run, ("loss",))


def test_the_command_takes_the_base(federation: tuple[Path, Adapted, Path]) -> None:
    path, _, base = federation
    told = ["assess", str(path), "--no-memory", "--workers", "1", "--json"]
    without = CliRunner().invoke(flcontrib, told)
    assert without.exit_code != 0
    assert "as the frozen part" in str(without.exception)
    given = CliRunner().invoke(flcontrib, [*told, "--frozen", str(base)])
    assert given.exit_code == 0, given.output
    assert json.loads(given.stdout)


def test_a_part_that_each_client_keeps_is_any_that_is_given(tmp_path: Path) -> None:
    """FedPer: the shared body is logged, the heads are not; whoever audits brings one."""
    torch.manual_seed(0)
    net = Adapted().eval()
    state = net.state_dict()
    heads = {name: state[name] for name in ("head.weight", "head.bias")}
    body = {name: tensor for name, tensor in state.items() if name not in heads}
    x, y = torch.randn(30, 6), torch.randint(0, 3, (30,))
    with fl.RunRecorder(
        tmp_path / "run",
        clients=[("a", 1), ("b", 1)],
        model=net,
        parameters=body,
        local=heads,
        validation=(x, y),
        durable=False,
    ) as recorder:
        rng = np.random.default_rng(0)
        width = sum(tensor.numel() for tensor in body.values())
        for _ in range(2):
            recorder.epoch(0.1 * rng.standard_normal((2, width), dtype=np.float32))
    run = fl.read_run_log(tmp_path / "run")
    assert isinstance(run, RunLog)
    assert run.frozen is not None
    assert run.frozen.sha256 is None
    mine = fl.assess(run, frozen=heads)
    theirs = fl.assess(run, frozen={name: -tensor for name, tensor in heads.items()})
    assert not np.allclose(mine.values, theirs.values)
