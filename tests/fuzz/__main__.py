"""Fuzz the reader of untrusted bytes: ``python -m tests.fuzz [FOLDER] [-doors=a,b] [-max_total_time=S] [-runs=N]``.

With atheris installed (``pip install atheris``) the search is guided by the reader's own coverage; the options are
libFuzzer's, and FOLDER keeps the inputs that reached something new. Without it the same doors get random changes of the
same seeds (``-runs``, ``-seed`` and ``-max_total_time`` only). ``-doors`` names some of: archive, file, tensors, table,
version 2, json, model, records, answers, parquet; all but parquet otherwise, whose decoder is another process that
guidance cannot see.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path


def main(arguments: list[str]) -> None:
    options = dict(argument[1:].split("=", 1) for argument in arguments if "=" in argument)
    doors = options.pop("doors", "").split(",") if "doors" in options else []
    try:
        import atheris
    except ImportError:
        from tests.fuzz.target import NAMES, random_search, timed_search

        seed, seconds = int(options.get("seed", 0)), float(options.get("max_total_time", 0))
        tried = int(options.get("runs", 2000))
        if seconds:
            tried = timed_search(seconds, seed, doors or NAMES)
        else:
            random_search(tried, seed, doors or NAMES)
        print(f"{tried} inputs tried at random (install atheris for a search guided by coverage)")
        return
    with atheris.instrument_imports(include=["flcontrib_core.runs", "flcontrib_core.history.answer_files"]):
        import flcontrib_core.runs.tables
        from tests.fuzz.target import GUIDED, mutate, one_input, seeds

        assert flcontrib_core.runs.tables  # imported late by the reader, but to be instrumented with it
    folders = [argument for argument in arguments if not argument.startswith("-")]
    folder = Path(folders[0]) if folders else Path(tempfile.mkdtemp(prefix="fuzz-seeds-"))
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds(doors or GUIDED)):
        (folder / f"seed-{number:02d}").write_bytes(data)

    def change(data: bytes, longest: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if not data or rng.random() < 0.4:
            return bytes(data[:1]) + bytes(atheris.Mutate(data[1:], longest - 1))
        return mutate(data, rng)[:longest]

    given = [f"-{name}={value}" for name, value in ({"max_len": "20000", "timeout": "60"} | options).items()]
    atheris.Setup([sys.argv[0], *given, str(folder)], one_input, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
