"""One update beyond all measure costs its own epoch and no other."""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.auditing import audit
from flcontrib_core.detection.reasons import DivergingUpdates
from flcontrib_core.games.submodels import aggregate
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.remarks import Diverged, EpochRemark, StartDiverged
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.recorder import RunRecorder
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.scheduling.schedule import BudgetSettings
from flcontrib_core.tagged import Others
from flcontrib_core.vocabulary import CellState, FillPolicy

HUGE = 1e20


@pytest.fixture(scope="module", params=[True, False], ids=["rejected", "aggregated"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    """Five clients, eight epochs; client c sends 1e20 in epoch 5, which the server rejects or takes in."""
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
    rng = np.random.default_rng(3)
    x = rng.normal(size=(120, 4)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    start = np.concatenate([p.detach().numpy().ravel() for p in net.parameters()])
    folder = tmp_path_factory.mktemp("huge") / "run"
    with RunRecorder(
        folder, clients=[(c, 20) for c in "abcde"], model=net, validation=(x, y), classes=2, durable=False
    ) as recorder:
        for epoch in range(1, 9):
            updates = rng.normal(scale=0.05, size=(5, start.size)).astype(np.float32)
            honest = updates.copy()
            if epoch == 5:
                updates[2] = HUGE
                honest[2] = 0
            start = aggregate(start, honest, (20,) * 5)
            recorder.epoch(updates, global_model=start if request.param else None)
    log = read_run_log(folder)
    assert isinstance(log, RunLog)
    return log


def _rejected(run: RunLog) -> bool:
    return run.epochs[0].has_global


@pytest.mark.parametrize("estimator", ["exact", "auto", "surrogate", "monte-carlo", "gtg", "tmr"])
def test_the_other_epochs_are_computed(run: RunLog, estimator: str) -> None:
    history = assess_contributions(run, AssessSettings(estimator=estimator))
    lost = [5] if _rejected(run) else [5, 6, 7, 8]
    known = [t for t in range(1, 9) if t not in lost]
    assert (history.state[lost] == CellState.NOT_COMPUTED).all()
    assert (history.state[known] == CellState.COMPUTED).all()
    assert np.isfinite(history.values[known]).all()
    told = {r.remark: r.epochs for r in history.remarks if isinstance(r.remark, Diverged | StartDiverged)}
    later = {} if _rejected(run) else {StartDiverged(): (6, 7, 8)}
    assert told == {Diverged(Others.named("c")): (5,), **later}
    for fill in (FillPolicy.EQUAL, FillPolicy.ZERO):
        assert np.isfinite(history.totals("loss", fill)).all()


def test_the_audit_names_the_update_and_says_what_was_not_computed(run: RunLog) -> None:
    report = audit(run)
    facts = [(a.client, reason) for a in report.detection.alerts for reason in a.evidence_for]
    assert ("c", DivergingUpdates((5,))) in facts
    assert {a.client for a in report.detection.alerts if a.accuses} == {"c"}
    assert EpochRemark((5,), Diverged(Others.named("c"))) in report.history.remarks


@pytest.mark.parametrize("fill", list(FillPolicy))
def test_leaving_the_epoch_out_or_keeping_a_budget_works(run: RunLog, fill: FillPolicy) -> None:
    for budget in (BudgetSettings(epochs=(1, 2, 3)), BudgetSettings(budget=3)):
        history = assess_contributions(run, AssessSettings(budget=budget, fill=fill, estimator="exact"))
        assert history.computed[1:].sum() <= 3
        assert not history.computed[5] or not _rejected(run)
        assert np.isfinite(history.totals("loss", fill)).all()
