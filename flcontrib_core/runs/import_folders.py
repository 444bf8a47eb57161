"""A folder of tensor files, or a zip of one, looked at and made a log in a child with ceilings.

Of a zip only tensor files and small tables are taken out, under names of checked entries, into a folder of their own
that is gone when the child ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.execution.apart import CeilingReached, call_apart
from flcontrib_core.execution.limits import ProcessLimits
from flcontrib_core.runs.containers import unreadable
from flcontrib_core.runs.encoding import EPOCHS, MANIFEST
from flcontrib_core.runs.import_layout import TENSORS
from flcontrib_core.runs.importing import CHILD_MEMORY, CHILD_SECONDS, Kind, Understanding, import_folder
from flcontrib_core.runs.limits import PIECE_BYTES
from flcontrib_core.runs.problems import refusal
from flcontrib_core.runs.zip_container import ZipContainer

_TABLES = (".json", ".csv")


@dataclass(frozen=True)
class FolderGlance:
    """What a folder of tensor files was taken for, or what is wrong with it."""

    understood: dict[str, Any]
    """``Understanding.to_json``; empty where nothing was understood."""
    problems: tuple[Problem, ...]


def holds_tensor_files(source: Path) -> bool:
    """Is this a folder, or a zip of one, with files of tensors and no run log, not even part of one?"""
    try:
        names = [str(path) for path in source.rglob("*")] if source.is_dir() else list(ZipContainer(source).sizes)
    except (RunLogError, OSError):
        return False
    of_a_log = any(Path(name).name in (MANIFEST, EPOCHS) for name in names)
    return not of_a_log and any(Path(name).suffix.lower() in TENSORS for name in names)


def import_apart(source: Path, name: str, kind: Kind | None = None, target: Path | None = None) -> FolderGlance:
    """Looks at a folder or zip called ``name``; with ``target``, writes its log there where nothing is wrong.

    Raises RunLogError where it needs more than the ceilings allow.
    """
    limits = ProcessLimits(memory_bytes=CHILD_MEMORY, cpu_seconds=CHILD_SECONDS, niceness=0)
    argument = {"source": str(source), "name": name, "kind": kind, "target": None if target is None else str(target)}
    try:
        told = call_apart(f"{__name__}:_import", argument, limits)
    except CeilingReached as reached:
        raise refusal("E_IMPORT:cost", name, f"more {reached.what} than a folder is given") from reached
    return FolderGlance(told["understood"], tuple(Problem(**problem) for problem in told["problems"]))


@contextmanager
def unpacked(source: Path) -> Iterator[Path]:
    """The folder itself, or a zip's tensor files and tables in a folder that lasts as long as this."""
    if source.is_dir():
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="flcontrib-import-") as scratch:
        container = ZipContainer(source)
        try:
            for name, size in container.sizes.items():
                if not name.endswith("/") and Path(name).suffix.lower() in (*TENSORS, *_TABLES):
                    _take_out(container, name, size, Path(scratch) / name)
        finally:
            container.close()
        yield Path(scratch)


def _take_out(container: ZipContainer, name: str, size: int, target: Path) -> None:
    stream = container.open(name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            while piece := stream.read(min(PIECE_BYTES, size - file.tell())):
                file.write(piece)
    except OSError as bad:  # a folder called like a file, a name that is too long here, no space
        raise unreadable(name, bad) from bad
    finally:
        stream.close()


class _Enough(Exception):
    """Everything was understood, and nothing is to be written."""


def _import(argument: dict[str, Any], say: Callable[[Any], None]) -> dict[str, Any]:
    """The child's side of ``import_apart``."""
    told: dict[str, Any] = {"understood": {}, "problems": []}
    source, target = Path(argument["source"]), argument["target"]

    def tell(understood: Understanding) -> None:
        told["understood"] = understood.to_json()
        if target is None:
            raise _Enough

    name = argument["name"]
    try:
        with unpacked(source) as folder:
            try:
                import_folder(folder, Path(target or "."), kind=argument["kind"], tell=tell, name=Path(name).stem)
            except RunLogError as refused:
                faults = [replace(fault, where=fault.where.replace(str(folder), name)) for fault in refused.problems]
                raise RunLogError(tuple(faults)) from refused
    except _Enough:
        pass
    except RunLogError as refused:
        told["problems"] = [problem.to_json() for problem in refused.problems]
    return told
