"""Spot check of the tests by mutation: how many changed lines do they notice? ``make mutants``.

Draws mutants of estimators, scheduler, reader and words by lot, puts each into a copy of the tree and runs the tests of
its room. Needs cosmic-ray, which makes the mutants (``make mutants`` installs it apart from the rest).
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import WorkItem

HERE = Path(__file__).resolve().parent.parent
# A mutant that hangs counts as noticed, and is counted apart: on a busy machine that may be the machine's doing. The
# untouched tests of each room take a small part of this.
SECONDS = 300.0
# Changing what annotations say changes nothing that runs.
WITHOUT_EFFECT = ("core/ReplaceBinaryOperator_BitOr_",)


@dataclass(frozen=True)
class Room:
    """Modules to change, and the tests that must notice."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


ROOMS = {
    "estimators": Room(
        tuple(f"shapley/{name}" for name in ("exact_values", "complementary", "permutation", "gtg", "simplex_kernel")),
        tuple(
            f"shapley/test_{name}.py"
            for name in ("exact", "complementary", "sampling", "gtg_and_multi_round", "simplex_kernel")
        ),
    ),
    "scheduler": Room(
        tuple(f"scheduling/{name}" for name in ("objectives", "local_search", "bounds", "blind_spots")),
        ("scheduling",),
    ),
    "reader": Room(
        tuple(f"runs/{name}" for name in ("strict_json", "zip_directory", "tensors", "manifest")),
        tuple(f"runs/test_{name}.py" for name in ("strict_json", "bundle", "corpus")),
    ),
    "words": Room(
        tuple(f"words/{name}" for name in ("numbers", "headlines", "verdicts", "remarks")),
        ("words", "reports/test_html.py", "reports/test_extract.py"),
    ),
}


def drawn(room: Room, tree: Path, count: int, seed: int) -> list[WorkItem]:
    """Some of the room's mutants, the same ones for the same seed."""
    paths = [tree / f"flcontrib_core/{name}.py" for name in room.modules]
    with use_db(str(tree / "mutants.sqlite"), WorkDB.Mode.create) as work:
        init(paths, work, {})
        items = [i for i in work.work_items if not i.mutations[0].operator_name.startswith(WITHOUT_EFFECT)]
    items.sort(key=lambda i: (str(i.mutations[0].module_path), i.mutations[0].operator_name, i.mutations[0].occurrence))
    return random.Random(seed).sample(items, min(count, len(items)))


def tried(room: Room, items: list[WorkItem], python: str, seconds: float) -> tuple[list[str], int]:
    """The mutants that no test notices, each as a difference of lines, and how many ended for want of time."""
    tests = " ".join(f"tests/{name}" for name in room.tests)
    command = f"{python} -m pytest -x -q -n 0 -m 'not slow and not browser' {tests}"
    if subprocess.run(command, shell=True, capture_output=True).returncode:
        sys.exit(f"the tests fail without any mutant: {command}")
    left, hung = [], 0
    for item in items:
        result = mutate_and_test(item.mutations, command, seconds)
        hung += result.is_killed and result.output == "timeout"
        if not result.is_killed:
            left.append(result.diff or "")
    return left, hung


def main() -> None:
    """Print the share of mutants noticed room by room, and those that were not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rooms", nargs="*", default=list(ROOMS), help=f"of {', '.join(ROOMS)}")
    parser.add_argument("--count", type=int, default=25, help="mutants a room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", default=str(HERE / ".venv/bin/python"), help="interpreter that runs the tests")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that the tests of one mutant may take")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        listed = subprocess.run(["git", "ls-files"], cwd=HERE, capture_output=True, text=True, check=True)
        for name in listed.stdout.splitlines():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(HERE / name, tree / name)
        os.chdir(tree)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(tree), str(tree / "app")])  # before the installed ones
        for name in wanted.rooms:
            items = drawn(ROOMS[name], tree, wanted.count, wanted.seed)
            left, hung = tried(ROOMS[name], items, wanted.python, wanted.seconds)
            for_want_of_time = f", {hung} of them for want of time" if hung else ""
            print(f"{name}: {len(items) - len(left)} of {len(items)} mutants noticed{for_want_of_time}", flush=True)
            for difference in left:
                print(difference, flush=True)


if __name__ == "__main__":
    main()
