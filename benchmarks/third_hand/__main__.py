"""``python -m benchmarks.third_hand make OUT --half development|sealed --first N --count K`` and ``… table OUT``."""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

from benchmarks.third_hand.federation import make_run
from benchmarks.third_hand.plans import SEEDS, MissingData


def _make(out: Path, half: str, first: int, count: int) -> None:
    seconds = []
    for number in range(first, first + count):
        begun = time.process_time()
        try:
            made = make_run(out, half, number)
        except MissingData as source:
            print(f"{half}-{number}: skipped, {source} needs FLCONTRIB_DATA", flush=True)
            continue
        if made:
            seconds.append(time.process_time() - begun)
            print(f"{half}-{number}: {seconds[-1]:.2f} s", flush=True)
    rest = count - len(seconds)
    print(f"made {len(seconds)}, there already or skipped {rest}; median {np.median(seconds or [0]):.2f} s CPU")


def _table(out: Path) -> None:
    """Kind × data: how many, and the accuracy after the first and the last epoch."""
    cells = defaultdict(list)
    for path in sorted(out.glob("*/truth.json")):
        truth = json.loads(path.read_text())
        curve = truth["setup"]["accuracy"]
        cells[truth["kind"], truth["setup"]["data"]].append((curve[0], curve[-1], 1 / truth["setup"]["classes"]))
    print(f"{'kind':9} {'data':14} runs  first   last  chance")
    for (kind, data), rows in sorted(cells.items()):
        first, last, chance = np.mean(rows, 0)
        print(f"{kind:9} {data:14} {len(rows):4} {first:6.2f} {last:6.2f} {chance:6.2f}")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.third_hand", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make", help="make runs that are not there yet")
    make.add_argument("out", type=Path)
    make.add_argument("--half", choices=list(SEEDS), required=True)
    make.add_argument("--first", type=int, default=0)
    make.add_argument("--count", type=int, default=1)
    commands.add_parser("table", help="what was made").add_argument("out", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.command == "make":
        _make(chosen.out, chosen.half, chosen.first, chosen.count)
    else:
        _table(chosen.out)


if __name__ == "__main__":
    main()
