"""How were the sample runs made? Run this file to make them again: ``python sample_runs/rebuild.py [FOLDER]``.

Everything is drawn from data that comes with scikit-learn and from fixed seeds. On the platform named in
``digests.json`` the runs come out equal to the byte of their digest; elsewhere the last bits of a matrix product may
differ, and with them the digests.
"""

from __future__ import annotations

import csv
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.laboratory.simulation import Attack, SimulationSettings, simulate, simulate_in_memory
from flcontrib_core.laboratory.simulation.settings import AttackKind, DatasetName, Sizes, Split
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.bundle_writer import write_bundle
from flcontrib_core.runs.encoding import sha256

HERE = Path(__file__).resolve().parent
DIGESTS = "digests.json"
TABLE = "contributions-table.csv"
BROKEN = "broken.flrun"

RUNS: dict[str, SimulationSettings] = {
    "clean-iid.flrun": SimulationSettings(name="Digits, 6 honest clients", clients=6, epochs=24, hidden=(16,)),
    "two-poisoned.flrun": SimulationSettings(
        name="Digits, 8 clients, 2 flip labels in epochs 12–20",
        clients=8,
        epochs=30,
        attack=AttackKind.LABEL_FLIP,
        strength=0.7,
        dishonest=2,
        windows=((12, 20),),
    ),
    "late-window.flrun": SimulationSettings(
        name="Digits, 12 clients, half of them per epoch, 1 flips labels in epochs 29–37",
        clients=12,
        epochs=40,
        participation=0.5,
        hidden=(16,),
        attack=AttackKind.LABEL_FLIP,
        strength=0.8,
        windows=((29, 37),),
    ),
    "heterogeneous-honest.flrun": SimulationSettings(
        name="Digits, 8 honest clients with very different classes and sizes",
        clients=8,
        epochs=30,
        split=Split.DIRICHLET,
        alpha=0.3,
        sizes=Sizes.UNEQUAL,
        hidden=(16,),
    ),
    "free-rider-and-scaled.flrun": SimulationSettings(
        name="Digits, 7 clients, one sends nothing in epochs 14–22, one exaggerates in epochs 9–16",
        clients=7,
        epochs=30,
        hidden=(16,),
        more_attacks=(
            Attack(AttackKind.ZERO, clients=(2,), windows=((14, 22),)),
            Attack(AttackKind.SCALE, clients=(5,), windows=((9, 16),), strength=6.0),
        ),
    ),
}
TABLE_RUN = SimulationSettings(
    dataset=DatasetName.BREAST_CANCER,
    clients=6,
    epochs=25,
    participation=0.85,
    hidden=(8,),
    batch=8,
    lr=0.02,
    attack=AttackKind.LABEL_FLIP,
    strength=0.8,
    windows=((13, 19),),
)


def rebuild(folder: Path) -> dict[str, str]:
    """Writes every sample into ``folder`` and returns the digests by file name."""
    folder.mkdir(parents=True, exist_ok=True)
    digests = {}
    for name, settings in RUNS.items():
        (folder / name).unlink(missing_ok=True)
        digests[name] = simulate(settings, folder / name).digest
    write_table(folder / TABLE)
    digests[TABLE] = read_run_log(folder / TABLE).digest
    write_broken_bundle(folder / BROKEN)
    return digests


def write_table(path: Path) -> None:
    """Exact Shapley values of a run whose log is not shipped: all that a history computed elsewhere consists of."""
    run = simulate_in_memory(TABLE_RUN)
    history = assess_contributions(run)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["epoch", "client", "loss", "accuracy"])
        for record in run.epochs:
            for position in record.participants:
                values = [history.of(utility).values[record.epoch, position] for utility in ("loss", "accuracy")]
                rows.writerow([record.epoch, run.clients[position].id, *(f"{value:.9g}" for value in values)])


def write_broken_bundle(path: Path) -> None:
    """A bundle as it arrives when a home-made script went wrong in several places at once."""
    settings = SimulationSettings(name="A recording that went wrong", clients=4, epochs=5, train_rows=200, hidden=(4,))
    with tempfile.TemporaryDirectory() as scratch:
        run = simulate(settings, Path(scratch) / "run").run
        _break(run)
        files = [file.relative_to(run).as_posix() for file in run.rglob("*") if file.is_file()]
        write_bundle(run, files, path)


def _break(run: Path) -> None:
    """Six faults of six kinds, each of them seen in the wild."""
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (run / "epochs.jsonl").read_text(encoding="utf-8").splitlines()]
    # 1. a client that wrote a size of nothing in one epoch
    lines[0]["data_sizes"] = {manifest["clients"][3]["id"]: 0}
    # 2. an update that is not a number
    update = load_file(run / lines[1]["file"])["updates"]
    update[2, 10] = np.nan
    _store(run, lines[1], {"updates": update})
    # 3. an epoch recorded with another model
    wide = load_file(run / lines[2]["file"])["updates"]
    _store(run, lines[2], {"updates": np.ascontiguousarray(wide[:, :-4])})
    # 4. tensors changed after they were recorded
    content = bytearray((run / lines[3]["file"]).read_bytes())
    content[-1] ^= 1
    (run / lines[3]["file"]).write_bytes(content)
    # 5. an epoch that was skipped in the numbering
    lines[4]["epoch"] = 6
    # 6. a label the task does not have
    validation = load_file(run / "validation.safetensors")
    validation["y"][7] = 10
    save_file(validation, run / "validation.safetensors")
    manifest["files"]["validation.safetensors"] = sha256((run / "validation.safetensors").read_bytes())
    (run / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    (run / "epochs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _store(run: Path, line: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Writes an epoch's tensors and keeps the line's hash true, so that only the intended fault is there."""
    save_file(tensors, run / line["file"])
    line["sha256"] = sha256((run / line["file"]).read_bytes())


def this_platform() -> str:
    """What the last bits of a simulated run depend on."""
    from threadpoolctl import threadpool_info

    kernels = sorted(
        {
            f"{i['internal_api']} {i['version']} {i.get('architecture', '')}"
            for i in threadpool_info()
            if i["user_api"] == "blas" and "numpy" in i["filepath"]
        }
    )
    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return f"{platform.machine()} {' '.join(found)}, numpy {np.__version__}, {', '.join(kernels)}"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    digests = rebuild(folder)
    record = {"platform": this_platform(), "digests": digests}
    (folder / DIGESTS).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, digest in digests.items():
        print(f"{digest}  {name}")


if __name__ == "__main__":
    main()
