"""Writes a table's audit into every tracker by the documented commands, and what each tracker's own reader then finds.

Arguments: the table, then the commands. The answer is ``found.json`` in this folder.
"""

from __future__ import annotations

import json
import shlex
import struct
import sys
from pathlib import Path
from typing import Any

from flcontrib_core.cli import flcontrib


def read_tensorboard() -> dict[str, Any]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator("board").Reload()
    series = {name: {e.step: e.value for e in events.Scalars(name)} for name in events.Tags()["scalars"]}
    (text,) = events.Tensors("alerts/text_summary")
    return {"series": series, "alerts": text.tensor_proto.string_val[0].decode()}


def read_mlflow() -> dict[str, Any]:
    from mlflow import MlflowClient

    client = MlflowClient("sqlite:///mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("flcontrib").experiment_id])
    history = {n: client.get_metric_history(run.info.run_id, n) for n in run.data.metrics}
    kept = Path(client.download_artifacts(run.info.run_id, "alerts.json")).read_text()
    series = {name: {m.step: m.value for m in metrics} for name, metrics in history.items()}
    return {"series": series, "alerts": kept, "digest": run.data.params["run_digest"]}


def read_wandb() -> dict[str, Any]:
    """The records of the offline file: a log in blocks of 32 KiB, each record with a header of 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = Path("wandb").glob("offline-run-*/run-*.wandb")
    content, at, whole, records = file.read_bytes(), 7, b"", []
    while at + 7 <= len(content):
        if (room := 32768 - at % 32768) < 7:
            at += room
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        whole += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a full record, or the last part of one
            records.append(Record.FromString(whole))
            whole = b""
    series: dict[str, dict[int, float]] = {}
    totals: dict[str, float] = {}
    for record in records:
        row = {(i.key or "/".join(i.nested_key)): json.loads(i.value_json) for i in record.history.item}
        for name, value in row.items() if "epoch" in row else ():
            series.setdefault(name, {})[row["epoch"]] = value
        totals |= {(i.key or "/".join(i.nested_key)): json.loads(i.value_json) for i in record.summary.update}
    (table,) = file.parent.glob("files/media/table/alerts*.json")
    return {"series": series, "totals": totals, "alerts": table.read_text()}


if __name__ == "__main__":
    for command in sys.argv[2:]:
        words = shlex.split(command.replace("my-run", sys.argv[1]))[1:]
        flcontrib([*words, "--no-memory"], standalone_mode=False)
    found = {"tensorboard": read_tensorboard(), "mlflow": read_mlflow(), "wandb": read_wandb()}
    Path("found.json").write_text(json.dumps(found))
