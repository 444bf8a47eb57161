"""``python -m benchmarks.other_hand make|examine|label OUT --half development``: runs, audits, labelled histories."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.other_hand.examining import HALVES, examined, keep_labelled, make_runs, seeds_of
from benchmarks.other_hand.scoring import failures, table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.other_hand", description=__doc__)
    parser.add_argument("step", choices=["make", "examine", "label"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--half", choices=list(HALVES), default="development")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--name", default="audit", help="examine: answers are kept beside each run as NAME.json")
    wanted = parser.parse_args()
    seeds = seeds_of(wanted.half, wanted.count, wanted.first)
    if wanted.step == "make":
        make_runs(wanted.out, seeds)
    elif wanted.step == "label":
        keep_labelled(wanted.out, seeds, wanted.out / "histories")
    else:
        pairs = examined(wanted.out, seeds, wanted.name)
        print(f"{len(pairs)} runs\n{table(pairs)}\n\n{failures(pairs)}")


if __name__ == "__main__":
    main()
