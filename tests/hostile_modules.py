"""Modules that tell when they are executed, planted under every name that could be imported."""

from __future__ import annotations

import os
import pkgutil
import sys
from pathlib import Path

MARKS = "executed.txt"


def importable_names() -> set[str]:
    """Every top-level name that an import statement can mean here, so also each one we import, now or later.

    The interpreter's own table knows its library, built-in parts included; the folders on the path know the rest.
    """
    return {module.name for module in pkgutil.iter_modules()} | set(sys.stdlib_module_names) | {"sitecustomize"}


def plant(folder: Path, marks: Path) -> Path:
    """Fills a folder with a module of every name, and with a package that offers an estimator, as installed ones do."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in importable_names() | {"planted_estimator"}:
        code = f"with open({str(marks / MARKS)!r}, 'a') as marks:\n    marks.write({str(folder / name)!r} + '\\n')\n"
        (folder / f"{name}.py").write_text(code)
    offered = folder / "planted-1.0.dist-info"
    offered.mkdir()
    (offered / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    (offered / "entry_points.txt").write_text("[flcontrib.estimators]\nplanted = planted_estimator:Estimator\n")
    return folder


def executed(marks: Path) -> list[str]:
    """The planted modules that somebody has executed."""
    path = marks / MARKS
    return sorted(set(path.read_text().split("\n")) - {""}) if path.exists() else []


def usual_environment(**settings: str) -> dict[str, str]:
    """What a user's shell passes on: nothing that makes Python careful, only where this tree's packages lie."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if os.path.isabs(p)), **settings}
    environment.pop("PYTHONSAFEPATH", None)
    return environment


def console_script(folder: Path) -> Path:
    """The script that an installer writes for ``flcontrib``, in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "flcontrib"
    lines = [f"#!{sys.executable}", "import sys", "from flcontrib_core.console import main"]
    script.write_text("\n".join([*lines, "if __name__ == '__main__':", "    sys.exit(main())", ""]))
    script.chmod(0o755)
    return script
