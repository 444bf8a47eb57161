"""What ``make lock`` and ``make sbom`` need beside the standard tools.

``requirements`` prints what the dashboard and Ray need, one a line. ``shorten FILE`` leaves the addresses of web pages
out of a bill of materials: they name hosts, change without a release, and say nothing about what is shipped.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
SHIPPED = ("dashboard", "ray")


def requirements(extra: str) -> Iterator[str]:
    """An extra's requirements, with those of the extras it names."""
    for requirement in PROJECT["optional-dependencies"][extra]:
        if inner := re.fullmatch(r"flcontrib\[(.+)\]", requirement):
            for name in inner[1].split(","):
                yield from requirements(name)
        else:
            yield requirement


def shorten(bill: Path) -> None:
    """Leaves out every component's addresses and description."""
    content = json.loads(bill.read_text())
    for part in content["components"]:
        part.pop("externalReferences", None)
        part.pop("description", None)
    content["metadata"].get("component", {}).pop("externalReferences", None)
    content["metadata"].pop("tools", None)
    bill.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["requirements"]:
            print("\n".join(sorted({*PROJECT["dependencies"], *(r for e in SHIPPED for r in requirements(e))})))
        case ["shorten", file]:
            shorten(Path(file))
        case _:
            sys.exit(__doc__)
