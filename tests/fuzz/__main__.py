"""Fuzz the reader of untrusted bytes: ``python -m tests.fuzz [FOLDER] [-runs=N] [-max_total_time=S]``.

With atheris installed (``pip install atheris``) the search is guided by the reader's own coverage; the options are
libFuzzer's, and FOLDER keeps the inputs that reached something new. Without it the same target gets random mutations
of the same seeds (``-runs`` and ``-seed`` only).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def main(arguments: list[str]) -> None:
    try:
        import atheris
    except ImportError:
        from tests.fuzz.target import random_search

        options = dict(argument[1:].split("=", 1) for argument in arguments if "=" in argument)
        random_search(int(options.get("runs", 2000)), int(options.get("seed", 0)))
        print("random search done (install atheris for a search guided by coverage)")
        return
    with atheris.instrument_imports(include=["flcontrib_core.runs"]):
        import flcontrib_core.runs.tables
        from tests.fuzz.target import one_input, seeds

        assert flcontrib_core.runs.tables  # imported late by the reader, but to be instrumented with it
    folders = [argument for argument in arguments if not argument.startswith("-")]
    folder = Path(folders[0]) if folders else Path(tempfile.mkdtemp(prefix="fuzz-seeds-"))
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (folder / f"seed-{number:02d}").write_bytes(seed)
    given = [argument for argument in arguments if argument.startswith("-")]
    atheris.Setup([sys.argv[0], *given, str(folder)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
