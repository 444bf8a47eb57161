"""``python -m benchmarks.other_hand make|examine OUT --half development --count 300``: runs, audits, and the table."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.other_hand.examining import HALVES, examined, make_runs, seeds_of
from benchmarks.other_hand.scoring import failures, table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.other_hand", description=__doc__)
    parser.add_argument("step", choices=["make", "examine"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--half", choices=list(HALVES), default="development")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--name", default="audit", help="examine: answers are kept beside each run as NAME.json")
    wanted = parser.parse_args()
    seeds = seeds_of(wanted.half, wanted.count, wanted.first)
    if wanted.step == "make":
        make_runs(wanted.out, seeds)
    else:
        pairs = examined(wanted.out, seeds, wanted.name)
        print(f"{len(pairs)} runs\n{table(pairs)}\n\n{failures(pairs)}")


if __name__ == "__main__":
    main()
