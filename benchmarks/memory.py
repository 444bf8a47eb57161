"""How much memory does the audit of a large model take?

A transformer of 110 million parameters, four clients, recorded and audited in processes of their own. Counted is the
peak of resident memory, mapped files included, less what one pass over the validation rows takes by itself, in units of
one client's update. The same run is recorded in 16 bits, where the log is to be half as large.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measurement import Measurement
from flcontrib_core.execution.children import child_environment, python_command

CLIENTS = 4
MOST_UPDATES = 2.5

_MODEL = """
import json, sys, time
import numpy as np, torch
from torch import nn
torch.set_num_threads(1)

class Text(nn.Module):
    def __init__(self, words, layers):
        super().__init__()
        self.embedding = nn.Embedding(words, 768)
        layer = nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(768, 2)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)).mean(1))

def peak():
    return next(int(l.split()[1]) * 1024 for l in open("/proc/self/status") if l.startswith("VmHWM"))
"""
_RECORD = """
import flcontrib_core as fl
path, dtype, epochs, clients, words, layers = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
torch.manual_seed(0)
net = Text(words, layers).eval()
rng = np.random.default_rng(0)
x, y = torch.randint(0, words, (8, 16)), torch.randint(0, 2, (8,))
names = [f"site-{k}" for k in range(clients)]
rec = fl.RunRecorder(path, clients=[(n, 10) for n in names], model=net, validation=(x, y), dtype=dtype, durable=False)
width = sum(t.numel() for t in net.state_dict().values() if t.is_floating_point())
del net
for _ in range(epochs):
    some = rng.standard_normal((clients, 1 << 20), dtype=np.float32) * np.float32(1e-3)
    rec.epoch({n: np.resize(own, width) for n, own in zip(names, some)})
rec.close()
print(json.dumps({"width": width}))
"""
_PASS = """
import flcontrib_core as fl
from flcontrib_core.games.architecture import Architecture
run = fl.read_run_log(sys.argv[1])
v = run.validation()
model = Architecture.from_spec(run.model, run.parameters, run.classes)
vector = torch.from_numpy(np.array(run.initial()))
with torch.inference_mode():
    model.bind(vector)(torch.from_numpy(np.array(v.x)))
print(json.dumps({"peak": peak()}))
"""
_AUDIT = """
import flcontrib_core as fl
began = time.perf_counter()
report = fl.audit(sys.argv[1])
print(json.dumps({"peak": peak(), "seconds": time.perf_counter() - began,
                  "computed": int(report.history.computed[1:].sum())}))
"""


def run(scale: str) -> list[Measurement]:
    """Two epochs of a wide embedding under one layer (full: four of twelve layers), 110 million parameters each."""
    epochs, words, layers = (4, 30522, 12) if scale == "full" else (2, 134_000, 1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        sizes = {}
        for dtype in ("float32", "bfloat16"):
            path = Path(folder) / dtype
            width = _child(_RECORD, path, dtype, epochs, CLIENTS, words, layers)["width"]
            sizes[dtype] = sum(file.stat().st_size for file in (path / "epochs").iterdir())
            alone = _child(_PASS, path)["peak"] - 4 * width
            audited = _child(_AUDIT, path)
            note = f"{width / 1e6:.0f} M parameters, {CLIENTS} clients, {audited['computed']} epochs, "
            note += f"{audited['seconds']:.0f} s; the pass by itself {alone / 2**20:.0f} MB"
            used = (audited["peak"] - alone) / (4 * width)
            rows.append(Measurement(f"updates in memory, {dtype} log", used, MOST_UPDATES, False, "", note))
            for file in (path / "epochs").iterdir():
                file.unlink()
        share = sizes["bfloat16"] / sizes["float32"]
    rows.append(Measurement("size of the epochs in 16 bits, of those in 32", share, 0.5001, False))
    return rows


def _child(script: str, *arguments: Any) -> dict[str, Any]:
    command = python_command("-c", _MODEL + script, *map(str, arguments))
    ended = subprocess.run(command, check=True, capture_output=True, env=child_environment())
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return answer
