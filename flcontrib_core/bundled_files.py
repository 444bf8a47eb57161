"""Where the parts that are not Python lie: sample runs and the dashboard's configuration."""

from __future__ import annotations

from pathlib import Path

from flcontrib_core.errors import MissingPart


def bundled(name: str) -> Path:
    """'sample_runs' or '.streamlit': beside the package in a clone, inside it in an installed wheel."""
    package = Path(__file__).resolve().parent
    for place in (package / "_bundled" / name, package.parent / name):
        if place.exists():
            return place
    raise MissingPart(f"{name} is neither beside nor inside the installed package; install FLContrib again")
