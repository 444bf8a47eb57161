"""Every bad (and odd) input with the code it must get.

``CASES`` is the corpus. A case writes its input below a fresh directory and says what the reader must answer: the
code of the first error, or no error and exactly these warnings. ``row`` is the line of the table of bad inputs that
the case belongs to; 0 marks cases beyond that table (architectures, tables, directories).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.corpus.good_logs import Files, LogWriter, write_directory, zipped

Write = Callable[[Path], Path]


@dataclass(frozen=True)
class Case:
    row: int
    name: str
    write: Write
    code: str = ""
    """The expected refusal; empty = accepted."""
    warnings: tuple[str, ...] = ()
    """What an accepted log must be warned about."""
    names: str = ""
    """A text that the first error (or the warnings) must contain: the entry, the client, the gap."""


CASES: list[Case] = []


def add(row: int, name: str, write: Write, code: str = "", *, warnings: tuple[str, ...] = (), names: str = "") -> None:
    assert name not in {case.name for case in CASES}, name
    CASES.append(Case(row, name, write, code, warnings, names))


def file(content: bytes | Callable[[], bytes], suffix: str = ".flrun") -> Write:
    """A single file with this content."""

    def write(folder: Path) -> Path:
        path = folder / f"input{suffix}"
        path.write_bytes(content if isinstance(content, bytes) else content())
        return path

    return write


def bundle(files: Files | Callable[[], Files], method: int = 8) -> Write:
    """The files as a zip."""
    return file(lambda: zipped(files if isinstance(files, dict) else files(), method))


def directory(files: Files | Callable[[], Files]) -> Write:
    """The files as a run directory."""
    return lambda folder: write_directory(files if isinstance(files, dict) else files(), folder / "run")


def changed(change: Callable[[LogWriter], object], method: int = 8) -> Write:
    """A good log after one change, its hashes taken afterwards."""

    def files() -> Files:
        writer = LogWriter()
        change(writer)
        return writer.files()

    return bundle(files, method)


def edited(edit: Callable[[Files], object], method: int = 8) -> Write:
    """A good log's files after one change, its hashes left as they were."""

    def files() -> Files:
        content = LogWriter().files()
        edit(content)
        return content

    return bundle(files, method)


def all_cases() -> list[Case]:
    from tests.corpus import archives, attacks, contents, exhausting, structures, tables

    if not CASES:
        for module in (archives, structures, contents, tables, exhausting, attacks):
            module.register()
    return CASES
