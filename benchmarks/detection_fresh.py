"""Runs of all three makers that nobody has read: made once, read once, and counted for the tables of docs/detection.md.

``python -m benchmarks.detection_fresh make OUT --report 1300 --other 2100 --third 1400 --minutes 60`` goes through the
groups of the report part and through both sealed halves, from these numbers on and in an order shuffled once, until the
time is up. ``… read OUT`` reads what is there with the detector as it stands and keeps the answers under ``--name``.
``make --half development`` makes runs to work on instead: of the tuning part and of both development halves.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from benchmarks.detection_fresh_tables import Answer, answer_of, tables
from benchmarks.other_hand.examining import folder_of, labelled, make_runs, seeds_of
from benchmarks.third_hand.federation import make_run as make_third
from benchmarks.third_hand.plans import MissingData
from flcontrib_core.detection.alerts import read_verdicts
from flcontrib_core.errors import SettingsError
from flcontrib_core.files import write_atomic
from flcontrib_core.history import AssessSettings, assess_contributions
from flcontrib_core.laboratory.corpus import AssessedRun, Part, corpus, corpus_run, keep_assessed, read_assessed
from flcontrib_core.laboratory.simulation import changes_of, simulate_in_memory

FAMILIES = ("plain/*", "changing/*", "attacked/*,mixed/*")
VALUED = {False: 8, True: 4}
"""Participants up to which Shapley values are computed; of a convolutional net fewer."""
PARTS = {"sealed": Part.REPORT, "development": Part.TUNING}
TURNS = {"sealed": (8, 4), "development": (2, 2)}
"""half -> rounds of one run of each family of the corpus before the third hand's turn, and before the other hand's"""


@dataclass(frozen=True)
class Making:
    """Which runs are made, and where."""

    out: Path
    half: str
    corpus: int
    """Number of each group's first run; of the hands the same:"""
    other: int
    third: int


def make(making: Making, minutes: float) -> None:
    """Makes what is not there yet, one run after the other, until the time is up; one line on stderr for each."""
    end = time.monotonic() + 60 * minutes
    for name, made in _steps(making):
        if time.monotonic() > end:
            return
        print(f"{name}: {'made' if made else 'there already, or not to be had'}", file=sys.stderr, flush=True)


def _steps(making: Making) -> Iterator[tuple[str, bool]]:
    shuffled = random.Random(13)
    families = [_ids(PARTS[making.half], family, making.corpus, shuffled) for family in FAMILIES]
    other, third = making.other, making.third
    while True:
        for rounds, hand in zip(TURNS[making.half], ("third", "other"), strict=True):
            for run_id in [next(family) for _ in range(rounds) for family in families]:
                yield run_id, _corpus_run(making.out, run_id)
            if hand == "third":
                yield f"third hand {third}", _third_run(making.out, making.half, third)
                third += 1
            else:
                yield f"other hand {other}", _other_run(making.out, making.half, other)
                other += 1


def _ids(part: Part, family: str, number: int, shuffled: random.Random) -> Iterator[str]:
    """Every group of the family with this number in a shuffled order, then with the next number."""
    while True:
        ids = [run.id for pattern in family.split(",") for run in corpus(part, 1, pattern, first=number)]
        shuffled.shuffle(ids)
        yield from ids
        number += 1


def _corpus_run(out: Path, run_id: str) -> bool:
    if (out / f"{run_id}.history").exists():
        return False
    try:
        run = simulate_in_memory(corpus_run(run_id).settings)
    except SettingsError as problem:
        print(f"{run_id}: {problem}", file=sys.stderr)  # its training diverged, which is no run to read
        return False
    assert run.truth is not None
    most = max((len(epoch.participants) for epoch in run.epochs), default=0)
    values = most <= VALUED[str(corpus_run(run_id).settings.model) == "cnn"]
    history = assess_contributions(run, AssessSettings(utilities=("loss",), values=values))
    keep_assessed(AssessedRun(run_id, history, run.truth, changes_of(run)), out)
    return True


def _third_run(out: Path, half: str, number: int) -> bool:
    try:
        make_third(out / "third-logs", half, number)
    except MissingData:
        return False
    return _kept(out, "third", out / "third-logs" / f"{half}-{number}")


def _other_run(out: Path, half: str, number: int) -> bool:
    seeds = seeds_of(half, 1, number)
    make_runs(out / "other-logs", seeds)
    return _kept(out, "other", folder_of(out / "other-logs", seeds[0]))


def _kept(out: Path, hand: str, folder: Path) -> bool:
    """Assesses a run of another hand; False where it diverged or is kept already."""
    if any(out.glob(f"{hand}/*/{folder.name}.history")):
        return False
    run = labelled(folder, hand)
    if run is None:
        return False
    keep_assessed(run, out)
    return True


def read(out: Path, name: str) -> list[Answer]:
    """What the detector says of every run that is there; an answer of this name is not asked for again."""
    answers = []
    for run in read_assessed(out):
        path = out / "answers" / name / f"{run.run_id}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            detection = read_verdicts(run.history, check_sensitivity=False)
            write_atomic(path, json.dumps(answer_of(run, detection)))
        answers.append(json.loads(path.read_text()))
    return answers


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection_fresh", description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    making = steps.add_parser("make", help="draw, train and assess")
    reading = steps.add_parser("read", help="read, count and print the tables")
    for step in (making, reading):
        step.add_argument("out", type=Path)
    for hand in ("report", "other", "third"):
        making.add_argument(
            f"--{hand}", type=int, required=True, help="first number; docs/detection.md says what was read"
        )
    making.add_argument("--half", choices=list(PARTS), default="sealed")
    making.add_argument("--minutes", type=float, default=60.0)
    reading.add_argument("--name", default="answers", help="folder of the answers; another detector takes another")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        if asked.step == "make":
            make(Making(asked.out, asked.half, asked.report, asked.other, asked.third), asked.minutes)
        else:
            print(tables(read(asked.out, asked.name)))


if __name__ == "__main__":
    main()
