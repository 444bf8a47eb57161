"""Write the corpus to a folder: ``python -m tests.corpus FOLDER``. See README.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.corpus.cases import Case, all_cases
from tests.made_once import made_once


def write_case(case: Case, folder: Path) -> Path:
    """A case below ``folder/NNN``; one that is there already is not written again."""
    place = folder / f"{all_cases().index(case):03d}"
    return folder / made_once(place, lambda fresh: str(case.write(fresh).relative_to(folder)))


def write_corpus(folder: Path) -> list[tuple[Case, Path]]:
    """Every case below ``folder/NNN``, and ``folder/expected.json`` with what a reader must say to each."""
    written = [(case, write_case(case, folder)) for case in all_cases()]
    expected = [
        {
            "path": str(path.relative_to(folder)),
            "row": case.row,
            "name": case.name,
            "code": case.code or None,
            "warnings": sorted(case.warnings),
            "names": case.names,
        }
        for case, path in written
    ]
    (folder / "expected.json").write_text(json.dumps(expected, ensure_ascii=True, indent=1))
    return written


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(f"{len(write_corpus(Path(sys.argv[1])))} cases in {sys.argv[1]}")
