"""How fast and how frugal is the reader of untrusted logs?

Measured: the corpus of bad inputs (seconds and memory per case), a large log read through and then walked epoch by
epoch (peak memory, in epochs), a bundle of 50 MB, and a tensor header of 500 000 entries beside the library's parser.
Every memory figure comes from a process of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measurement import Measurement
from flcontrib_core.execution.children import child_environment, python_command

BUFFERS_MB = 16.0
"""What the reader may hold beside two epochs: pieces of a file, the interpreter's own growth."""


def write_synthetic_log(path: Path, epochs: int, participants: int, parameters: int) -> float:
    """A run directory of random updates, written epoch by epoch; the size of one epoch in MB."""
    from safetensors.numpy import save

    def sha256(content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    (path / "epochs").mkdir(parents=True)
    rng = np.random.default_rng(0)
    initial = save({"w": rng.normal(size=parameters).astype(np.float32)})
    (path / "initial.safetensors").write_bytes(initial)
    ids = [f"client-{i:02d}" for i in range(participants)]
    manifest = {
        "format": "flrun",
        "version": 1,
        "clients": [{"id": name, "data_size": 100 + i} for i, name in enumerate(ids)],
        "parameters": [{"name": "w", "shape": [parameters]}],
        "files": {"initial.safetensors": sha256(initial)},
    }
    (path / "manifest.json").write_text(json.dumps(manifest))
    with (path / "epochs.jsonl").open("w") as lines:
        for epoch in range(1, epochs + 1):
            file = f"epochs/{epoch:05d}.safetensors"
            content = save({"updates": rng.standard_normal((participants, parameters), dtype=np.float32)})
            (path / file).write_bytes(content)
            entry = {"epoch": epoch, "participants": ids, "file": file, "sha256": sha256(content)}
            lines.write(json.dumps(entry) + "\n")
    return participants * parameters * 4 / 2**20


def zip_directory(path: Path, target: Path, compress: bool) -> None:
    import zipfile

    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED, compresslevel=1) as out:
        for file in sorted(path.rglob("*")):
            if file.is_file():
                out.write(file, str(file.relative_to(path)))


_WALK = """
import json, resource, sys, time
import numpy as np
from flcontrib_core.runs.bundle import read_run_log
def status(field):
    return next(int(l.split()[1]) / 1024 for l in open("/proc/self/status") if l.startswith(field + ":"))
def forget_the_peak():
    open("/proc/self/clear_refs", "w").write("5")
forget_the_peak(); before = status("VmRSS"); begun = time.process_time()
run = read_run_log(sys.argv[1])
seconds = time.process_time() - begun
read_peak = status("VmHWM") - before
forget_the_peak(); before = status("VmRSS")
total = 0.0
for record in run.epochs:
    data = run.epoch_data(record.epoch)          # the epoch before is still held while this one is read
    total += float(np.einsum("ij->", data.updates))
print(json.dumps({"cpu": seconds, "read_mb": read_peak, "walk_mb": status("VmHWM") - before, "total": total}))
"""


def walk(path: Path) -> dict[str, float]:
    """Read a log and go through its epochs in a fresh process: CPU seconds and peak memory beyond its start."""
    done = subprocess.run(
        python_command("-c", _WALK, str(path)), capture_output=True, text=True, check=False, env=child_environment()
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def run(scale: str) -> list[Measurement]:
    with tempfile.TemporaryDirectory(prefix="reader-") as folder:
        place = Path(folder)
        return [*_corpus(place / "corpus"), *_large_log(place, scale), *_bundle_of_50_mb(place), *_many_tensors()]


def _corpus(folder: Path) -> list[Measurement]:
    folder.mkdir()
    for command in ("tests.corpus", "tests.corpus.limited"):
        done = subprocess.run(
            python_command("-m", command, str(folder)),
            capture_output=True,
            text=True,
            check=True,
            env=child_environment(),
        )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    slowest = max(answers, key=lambda answer: answer["cpu_seconds"])
    largest = max(answers, key=lambda answer: answer["extra_mb"])
    expected = json.loads((folder / "expected.json").read_text())
    right = sum((a["codes"][:1] or [None])[0] == e["code"] for a, e in zip(answers, expected, strict=True))
    return [
        Measurement("bad inputs with their expected code", right, len(expected), unit="cases"),
        Measurement("slowest bad input", slowest["cpu_seconds"], 2.0, False, "s", slowest["name"]),
        Measurement("largest memory of a bad input", largest["extra_mb"], 256.0, False, "MB", largest["name"]),
    ]


def _large_log(place: Path, scale: str) -> list[Measurement]:
    epochs, participants, parameters = (50, 32, 180_000) if scale == "full" else (20, 16, 120_000)
    epoch_mb = write_synthetic_log(place / "large", epochs, participants, parameters)
    zip_directory(place / "large", place / "large.flrun", compress=False)
    total_mb = epochs * epoch_mb
    begun = time.process_time()
    for file in (place / "large").rglob("*.safetensors"):
        hashlib.sha256(file.read_bytes()).hexdigest()
    hashing = time.process_time() - begun
    rows = []
    for form, path in (("directory", place / "large"), ("stored zip", place / "large.flrun")):
        figures = walk(path)
        goal = 2 * epoch_mb + BUFFERS_MB
        note = f"{total_mb:.0f} MB log, {epoch_mb:.1f} MB per epoch"
        rows += [
            Measurement(f"{form}: peak while checking", figures["read_mb"], goal, False, "MB", note),
            Measurement(f"{form}: peak while walking the epochs", figures["walk_mb"], goal, False, "MB", note),
            Measurement(f"{form}: CPU of checking / CPU of hashing", figures["cpu"] / hashing, None, unit="×"),
            Measurement(f"{form}: checked per CPU second", total_mb / figures["cpu"], None, unit="MB/s"),
        ]
    return rows


def _bundle_of_50_mb(place: Path) -> list[Measurement]:
    write_synthetic_log(place / "fifty", 10, 13, 100_000)
    rows = []
    for words, compress in (("stored", False), ("deflated", True)):
        path = place / f"fifty-{words}.flrun"
        zip_directory(place / "fifty", path, compress)
        figures = walk(path)
        size = path.stat().st_size / 2**20
        rows.append(Measurement(f"check of a {words} bundle", figures["cpu"], 2.0, False, "s", f"{size:.0f} MB"))
    return rows


def _many_tensors(count: int = 500_000) -> list[Measurement]:
    from safetensors.numpy import load

    from flcontrib_core.errors import RunLogError
    from flcontrib_core.runs.tensors import read_layout
    from tests.corpus.contents import many_tensors

    content = many_tensors(count)

    class Memory:
        def __init__(self) -> None:
            self.at = 0

        def read(self, wanted: int) -> bytes:
            self.at += wanted
            return content[self.at - wanted : self.at]

        def skip(self, count: int) -> None:
            self.at += count

        def close(self) -> None:
            """Nothing to close."""

    def seconds(action: Any) -> float:
        begun = time.process_time()
        action()
        return time.process_time() - begun

    def ours() -> None:
        with contextlib.suppress(RunLogError):
            read_layout(Memory(), len(content), "x")
            raise AssertionError("the header was accepted")

    library = seconds(lambda: load(content))
    return [
        Measurement("header of 500 000 tensors refused", 1000 * seconds(ours), 50.0, False, "ms"),
        Measurement("the same header read by the library", 1000 * library, None, unit="ms"),
    ]
