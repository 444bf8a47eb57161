"""Run measurements beside their goals: ``python -m benchmarks [NAME …] [--scale small|full] [--out FILE]``.

Exit code 1 when a goal is missed. Each file of this folder that defines ``run(scale) -> list[Measurement]`` is one
benchmark; ratios compare things measured in the same process on the same inputs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import platform
import sys
from dataclasses import asdict
from pathlib import Path

import benchmarks
from benchmarks.measurement import Measurement


def available() -> list[str]:
    names = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in {"__main__", "measurement"}]
    return [n for n in names if hasattr(importlib.import_module(f"benchmarks.{n}"), "run")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="which benchmarks (default: all)")
    parser.add_argument("--scale", choices=["small", "full"], default="small")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest.json"))
    wanted = parser.parse_args()
    missed = 0
    results: dict[str, list[dict[str, object]]] = {}
    for name in wanted.names or available():
        print(f"\n{name}")
        rows: list[Measurement] = importlib.import_module(f"benchmarks.{name}").run(wanted.scale)
        results[name] = [asdict(r) | {"reached": r.reached} for r in rows]
        for r in rows:
            mark = {True: "reached", False: "MISSED", None: ""}[r.reached]
            goal = "" if r.goal is None else f"goal {'≥' if r.at_least else '≤'} {r.goal:g}"
            print(f"  {r.name:<64} {r.value:>12.5g} {r.unit:<6} {goal:<16} {mark}  {r.note}")
            missed += r.reached is False
    wanted.out.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": platform.platform(), "cores": os.cpu_count(), "scale": wanted.scale, "results": results}
    wanted.out.write_text(json.dumps(record, indent=1))
    print(f"\n{missed} goals missed; figures in {wanted.out}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
