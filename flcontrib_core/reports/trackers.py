"""An audit in the experiment trackers that people have: MLflow, Weights & Biases, TensorBoard.

Each gets the same facts: a series per client and utility over epochs, help up; the totals; a series per client that is
1 in the epochs of a standing alert; the alerts with their sentences; the run's digest and the settings. Nothing is
sent anywhere that was not named: W&B writes into a folder unless ``WANDB_MODE`` says otherwise.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.detection.review import NO_REVIEWS, Reviews
from flcontrib_core.errors import SettingsError
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.reports.as_json import alert_json
from flcontrib_core.vocabulary import FillPolicy
from flcontrib_core.words import credited

LONGEST_KEY = 180
"""Characters of a client's part of a series' name; MLflow takes 250 for the whole."""
PROJECT = "flcontrib"
_METRICS_AT_ONCE = 1000
_STRANGE = re.compile(r"[^\w.-]|_(?=x)|\A\.+\Z")


@dataclass(frozen=True)
class TrackedAudit:
    """What a tracker gets of an audit."""

    name: str
    last_epoch: int
    series: Mapping[str, Mapping[int, float]]
    """name → epoch → number; epochs that were not computed are left out"""
    totals: Mapping[str, float]
    alerts: tuple[dict[str, Any], ...]
    about: Mapping[str, str]
    clients: Mapping[str, str]
    """the name in a series → the client's id"""


def tracked_audit(report: AuditReport, reviews: Reviews = NO_REVIEWS) -> TrackedAudit:
    """The facts of an audit as series, totals and alerts."""
    history, series, totals = report.history, dict[str, Mapping[int, float]](), dict[str, float]()
    keys = [series_key(client) for client in history.client_ids]
    fill = FillPolicy(str(history.settings.get("fill", FillPolicy.EQUAL)))
    for utility in history.utilities:
        sign = -history.harm_sign(utility)
        name = credited(history, utility).replace(" ", "_")
        values, total = history.of(utility).values, history.totals(utility, fill)
        for i, key in enumerate(keys):
            series[f"{name}/{key}"] = _finite(sign * values[:, i])
            if np.isfinite(total[i]):
                totals[f"{name}_total/{key}"] = float(sign * (total[i] - values[0, i]))
    standing = reviews.standing(report.detection.alerts)
    for client, key in zip(history.client_ids, keys, strict=True):
        windows = [a.window or (1, history.epoch_count) for a in standing if a.client == client]
        if windows:
            inside = {t: any(a <= t <= b for a, b in windows) for t in range(1, history.epoch_count + 1)}
            series[f"alert/{key}"] = {t: float(held) for t, held in inside.items()}
    totals["alerts/accusing"] = float(sum(a.accuses for a in standing))
    totals["alerts/all"] = float(len(standing))
    return TrackedAudit(
        name=report.run_name,
        last_epoch=history.epoch_count,
        series=series,
        totals=totals,
        alerts=tuple(alert_json(alert) for alert in standing),
        about=_about(history),
        clients=dict(zip(keys, history.client_ids, strict=True)),
    )


def track(
    report: AuditReport,
    to: str,
    *,
    place: str | os.PathLike[str] | None = None,
    project: str = PROJECT,
    reviews: Reviews = NO_REVIEWS,
) -> str:
    """Writes an audit into a tracker (``mlflow``, ``wandb``, ``tensorboard``) and says where it is.

    ``place``: MLflow's tracking address, or the folder that W&B or TensorBoard gets (default: as the tracker's own
    environment says; ``runs`` for TensorBoard). ``project``: MLflow's experiment, W&B's project.
    """
    if to not in TRACKERS:
        raise SettingsError(f"no tracker is called {to!r}; known are {', '.join(TRACKERS)}")
    return TRACKERS[to](tracked_audit(report, reviews), None if place is None else os.fspath(place), project)


def series_key(client: str) -> str:
    """A client's id as part of a name that all trackers take; different ids stay different.

    >>> series_key("hospital-a"), series_key("ward 2/east")
    ('hospital-a', 'ward_x20_2_x2f_east')
    """
    key = _STRANGE.sub(lambda match: "".join(f"_x{ord(c):x}_" for c in match[0]), client)
    if len(key) <= LONGEST_KEY:
        return key
    return f"{key[: LONGEST_KEY - 17]}-{hashlib.sha256(client.encode()).hexdigest()[:16]}"


def _finite(values: np.ndarray) -> dict[int, float]:
    """Epoch → number for epochs 1 … T, without those that were not computed."""
    return {t: float(v) for t, v in enumerate(values) if t and np.isfinite(v)}


def _about(history: ContributionHistory) -> dict[str, str]:
    settings = {name: json.dumps(value, ensure_ascii=False) for name, value in history.settings.items()}
    return {"run_digest": history.run_digest, "run_name": history.run_name, **settings}


def _to_tensorboard(audit: TrackedAudit, place: str | None, project: str) -> str:
    from torch.utils.tensorboard import SummaryWriter

    folder = place or str(Path("runs") / series_key(audit.name))
    with SummaryWriter(log_dir=folder) as writer:
        for name, numbers in audit.series.items():
            for epoch, value in numbers.items():
                writer.add_scalar(name, value, epoch)
        for name, value in audit.totals.items():
            writer.add_scalar(name, value, audit.last_epoch)
        for name, content in (("alerts", list(audit.alerts)), ("about", dict(audit.about))):
            text = json.dumps(content, ensure_ascii=False, indent=1)
            writer.add_text(name, "\n".join(f"    {line}" for line in text.splitlines()), audit.last_epoch)
    return folder


def _to_mlflow(audit: TrackedAudit, place: str | None, project: str) -> str:
    from mlflow.exceptions import MlflowException

    try:
        return _logged_by_mlflow(audit, place, project)
    except MlflowException as refused:
        raise SettingsError(f"MLflow refused: {refused.message}") from refused


def _logged_by_mlflow(audit: TrackedAudit, place: str | None, project: str) -> str:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    client = MlflowClient(tracking_uri=place)
    experiment = client.get_experiment_by_name(project)
    number = client.create_experiment(project) if experiment is None else experiment.experiment_id
    run = client.create_run(number, run_name=audit.name).info.run_id
    now = int(1000 * time.time())
    metrics = [Metric(n, v, now, t) for n, numbers in audit.series.items() for t, v in numbers.items()]
    metrics += [Metric(name, value, now, audit.last_epoch) for name, value in audit.totals.items()]
    client.log_batch(run, params=[Param(name, value) for name, value in audit.about.items()])
    for start in range(0, len(metrics), _METRICS_AT_ONCE):
        client.log_batch(run, metrics=metrics[start : start + _METRICS_AT_ONCE])
    client.log_dict(run, {"alerts": list(audit.alerts), "clients": dict(audit.clients)}, "alerts.json")
    client.set_terminated(run)
    return f"{client.tracking_uri}, experiment {project}, run {run}"


def _to_wandb(audit: TrackedAudit, place: str | None, project: str) -> str:
    import wandb

    run = wandb.init(
        project=project,
        name=audit.name,
        dir=place,
        mode=os.environ.get("WANDB_MODE", "offline"),
        config=dict(audit.about),
        # What runs here is an audit: its own console, program and machine are nobody's experiment.
        settings=wandb.Settings(
            console="off",
            disable_git=True,
            disable_code=True,
            silent=True,
            x_disable_stats=True,
            x_save_requirements=False,
        ),
    )
    with run:
        run.define_metric("epoch")
        run.define_metric("*", step_metric="epoch")
        for epoch in sorted({t for numbers in audit.series.values() for t in numbers}):
            run.log({"epoch": epoch, **{n: numbers[epoch] for n, numbers in audit.series.items() if epoch in numbers}})
        run.summary.update(dict(audit.totals))
        rows = [[_cell(alert[part]) for part in _ALERT_PARTS] for alert in audit.alerts]
        run.log({"alerts": wandb.Table(columns=list(_ALERT_PARTS), data=rows)})
    return str(run.dir)


def _cell(fact: Any) -> str:
    """A fact as one text: W&B's tables want one type per column."""
    return fact if isinstance(fact, str) else json.dumps(fact, ensure_ascii=False)


_ALERT_PARTS = ("client", "verdict", "accuses", "window", "probability", "why", "counter_evidence")
TRACKERS: Mapping[str, Callable[[TrackedAudit, str | None, str], str]] = {
    "mlflow": _to_mlflow,
    "wandb": _to_wandb,
    "tensorboard": _to_tensorboard,
}
"""By name: writes a tracked audit to a place and returns where it is."""
