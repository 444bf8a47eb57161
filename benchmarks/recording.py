"""What does recording cost the training it records?

A federation in the shape of Flower's message interface, each reply a set of fresh .npy texts as Flower has them: rounds
of five seconds, 10 million parameters × 8 clients. Measured are the seconds that the recording adds to a round on the
server's critical path, and the memory it adds to the peak of the same loop without it, each in a process of its own.
It is the worst round that counts. Storage that keeps up (a memory file system, where there is one) and this machine's
disk are measured apart; a disk that is slower than a round per epoch makes training wait, and that is said.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measurement import Measurement
from flcontrib_core.execution.children import child_environment, python_command

ROUND_SECONDS = 5.0
CLIENTS = 8
MOST_SHARE = 0.10
MOST_OF_THE_LOOP = 0.02
MOST_EPOCHS = 2.0
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None

_FEDERATION = """
import io, json, sys, time
from types import SimpleNamespace
import numpy as np
import flcontrib_core

path, recorded, tensors, rounds, pause, clients = sys.argv[1], sys.argv[2] == "recorded", *map(int, sys.argv[3:])
rng = np.random.default_rng(0)
base = rng.standard_normal((tensors, 1000, 1000), dtype=np.float32)
spent = []

def status(field):
    return next(int(l.split()[1]) / 1024 for l in open("/proc/self/status") if l.startswith(field + ":"))

def npy(array):
    text = io.BytesIO()
    np.save(text, array)
    return SimpleNamespace(data=text.getvalue())

def record_of(model):
    return {f"layer-{i}": npy(model[i]) for i in range(tensors)}

class Mean:
    weighted_by_key, arrayrecord_key = "num-examples", "arrays"

    def configure_train(self, server_round, arrays, config, grid):
        return [SimpleNamespace(metadata=SimpleNamespace(dst_node_id=n)) for n in range(clients)]

    def aggregate_train(self, server_round, replies):
        began = time.perf_counter()
        mean = record_of(base + np.float32(0.01 * server_round))
        self.own = time.perf_counter() - began
        return mean, {}

strategy = Mean()
if recorded:
    flcontrib_core.record(strategy, path)

def reply(node, server_round):
    model = base + np.float32(0.01 * server_round)
    content = SimpleNamespace(array_records={"arrays": record_of(model)}, config_records={},
                              metric_records={"m": {"num-examples": 100}})
    return SimpleNamespace(metadata=SimpleNamespace(src_node_id=node), has_error=lambda: False, content=content)

arrays = record_of(base)
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
for server_round in range(1, rounds + 1):
    began = time.perf_counter()
    strategy.configure_train(server_round, arrays, {}, None)
    path_seconds = time.perf_counter() - began
    ends = time.monotonic() + pause
    replies = [reply(n, server_round) for n in range(clients)]
    time.sleep(max(0.0, ends - time.monotonic()))
    began = time.perf_counter()
    arrays, _ = strategy.aggregate_train(server_round, replies)
    spent.append(path_seconds + time.perf_counter() - began - strategy.own)
    del replies
began = time.perf_counter()
if recorded:
    strategy.recording.close()
print(json.dumps({"seconds": spent, "peak": status("VmHWM") - before, "end": time.perf_counter() - began}))
"""


def run(scale: str) -> list[Measurement]:
    """Three rounds (full: eight) with and without the recording."""
    tensors, rounds = 10, 8 if scale == "full" else 3
    plain, recorded = (_federation(kind, tensors, rounds, MEMORY) for kind in ("plain", "recorded"))
    on_disk = _federation("recorded", tensors, rounds, None)
    epoch = CLIENTS * tensors * 1e6 * 4 / 2**20
    worst, on_this_disk = max(recorded["seconds"]), max(on_disk["seconds"])
    busy = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    note = f"{tensors} M parameters × {CLIENTS} clients, {rounds} rounds of {ROUND_SECONDS:g} s, {busy}"
    added = (recorded["peak"] - plain["peak"]) / epoch
    return [
        Measurement(
            "share of the worst round on the critical path", worst / ROUND_SECONDS, MOST_SHARE, False, "", note
        ),
        Measurement(
            "share of the training loop", sum(recorded["seconds"]) / (rounds * ROUND_SECONDS), MOST_OF_THE_LOOP, False
        ),
        Measurement("seconds on the critical path (median)", statistics.median(recorded["seconds"]), unit="s"),
        Measurement("memory added to the peak", added, MOST_EPOCHS, False, "epochs", f"one epoch is {epoch:.0f} MB"),
        Measurement("seconds to write the last round when training has ended", recorded["end"], unit="s"),
        Measurement("on this disk: share of the worst round", on_this_disk / ROUND_SECONDS, MOST_SHARE, False),
        Measurement("on this disk: seconds to write the last round", on_disk["end"], unit="s"),
    ]


def _federation(kind: str, tensors: int, rounds: int, place: str | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        arguments = [str(Path(folder) / "run"), kind, *map(str, (tensors, rounds, int(ROUND_SECONDS), CLIENTS))]
        ended = subprocess.run(
            python_command("-c", _FEDERATION, *arguments), check=True, capture_output=True, env=child_environment()
        )
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return answer
