"""Write the corpus to a folder: ``python -m tests.corpus FOLDER``. See README.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.corpus.cases import Case, all_cases


def write_corpus(folder: Path) -> list[tuple[Case, Path]]:
    """Every case below ``folder/NNN``, and ``folder/expected.json`` with what a reader must say to each."""
    written = []
    for number, case in enumerate(all_cases()):
        place = folder / f"{number:03d}"
        place.mkdir(parents=True)
        written.append((case, case.write(place)))
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
