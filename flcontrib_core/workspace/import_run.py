"""A run's bytes on their way to the one reader, wherever they come from and however they are stored.

Bundles are read where they lie, lazily. Tables are small and known by their file name, which a stored object does not
have: they are read from a copy under a proper name, with their companion of data sizes beside them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

from flcontrib_core.codec import decode, encode
from flcontrib_core.errors import Problem, RunLogError, SettingsError, WorkspaceError
from flcontrib_core.execution.apart import CeilingReached, Say, call_apart
from flcontrib_core.execution.limits import ProcessLimits
from flcontrib_core.runs.problems import refusal
from flcontrib_core.runs.run_log import ContributionTable, Run, RunLog, UtilityTable

RunSource = str | os.PathLike[str] | BinaryIO | Iterable[bytes]
"""A path (file or run directory), an open binary file, or chunks of bytes as they arrive."""

OnStage = Callable[[str], None]
"""Hears the stages of a reading as they are passed (``flcontrib_core.runs.bundle.STAGES``)."""

OnRemarks = Callable[[tuple[Problem, ...]], None]
"""Hears what was noticed in a run that was accepted all the same."""

TABLES = (".csv", ".parquet")
_CHUNK = 1 << 20
_LONGEST_NAME = 200
_KINDS: dict[type, Literal["log", "contribution-table", "utility-table"]] = {
    RunLog: "log",
    ContributionTable: "contribution-table",
    UtilityTable: "utility-table",
}
_CHECK_MEMORY = 1 << 30
_CHECK_SECONDS = 30
_CHECKED_PER_SECOND = 10 << 20
"""Bytes of a log whose checks are given a second more; hashing and reading them takes a twentieth of it."""


class TooLarge(WorkspaceError):
    """An upload is larger than was allowed; nothing of it is kept."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        super().__init__(
            f"the upload is larger than {largest:,} bytes; add it from the command line, or give its path on the server"
        )


def bare_name(filename: str) -> str:
    """A sender's name for a file without its folders; it is shown and tells tables apart, but never names a file."""
    return filename.replace("\\", "/").rsplit("/", 1)[-1][-_LONGEST_NAME:]


@dataclass(frozen=True)
class ReadingOptions:
    """The options a run was added with; it is always read with the same ones."""

    nonfinite: Literal["refuse", "absent"] = "refuse"
    lower_is_better: tuple[str, ...] = ()
    table: str = ""
    """'.csv' or '.parquet' for a table, '' for a bundle"""

    @classmethod
    def of(cls, name: str, nonfinite: str, lower_is_better: Iterable[str]) -> ReadingOptions:
        """The options for a file of this name."""
        if nonfinite not in ("refuse", "absent"):
            raise SettingsError(f"nonfinite is 'refuse' or 'absent', not {nonfinite!r}")
        suffix = Path(name).suffix.lower()
        treat: Literal["refuse", "absent"] = "absent" if nonfinite == "absent" else "refuse"
        return cls(treat, tuple(sorted(lower_is_better)), suffix if suffix in TABLES else "")

    def fitting(self, content: Path) -> ReadingOptions:
        """The same options for what the file is, where that differs from what its name says."""
        with content.open("rb") as file:
            head = file.read(4)
        if head == b"PK\3\4":
            return replace(self, table="")
        return replace(self, table=".parquet") if head == b"PAR1" else self


def read_run(
    path: Path, reading: ReadingOptions, name: str, companion: Path | None = None, on_stage: OnStage | None = None
) -> Run:
    """The run at a path, called ``name`` in words where it has no name of its own. Raises RunLogError."""
    from flcontrib_core.runs.bundle import read_run_log

    options: dict[str, Any] = {"nonfinite": reading.nonfinite, "lower_is_better": reading.lower_is_better}
    if not reading.table:
        return _called(read_run_log(path, on_stage=on_stage, **options), name)
    with tempfile.TemporaryDirectory(prefix="flcontrib-") as folder:
        table = Path(folder) / f"table{reading.table}"
        shutil.copyfile(path, table)
        if companion is not None:
            shutil.copyfile(companion, data_sizes_beside(table))
        try:
            run = read_run_log(table, on_stage=on_stage, **options)
        except RunLogError as refused:
            raise in_words(refused, table, path.name) from refused
    return _called(run, name)


def family_of(run: Run) -> str:
    """What a run shares with its shorter and longer selves."""
    return run.base_digest or run.digest if isinstance(run, RunLog) else run.digest


@dataclass(frozen=True)
class DescribedRun:
    """What the workspace writes down about a run that the reader accepted."""

    digest: str
    name: str
    kind: Literal["log", "contribution-table", "utility-table"]
    clients: int
    epochs: int
    family: str
    warnings: tuple[Problem, ...]


def describe_run(
    path: Path, reading: ReadingOptions, name: str, companion: Path | None = None, on_stage: OnStage | None = None
) -> DescribedRun:
    """Reads a run with all its checks and says what it is. Raises RunLogError."""
    run = read_run(path, reading, name, companion, on_stage)
    if isinstance(run, RunLog):
        run.close()
    return DescribedRun(
        digest=run.digest,
        name=run.name,
        kind=_KINDS[type(run)],
        clients=len(run.client_ids),
        epochs=run.epoch_count,
        family=family_of(run),
        warnings=run.warnings,
    )


def describe_run_apart(
    path: Path, reading: ReadingOptions, name: str, companion: Path | None = None, on_stage: OnStage | None = None
) -> DescribedRun:
    """The same in a child with ceilings: whatever a stranger's file makes the reader do, the server stays usable."""
    argument = {
        "path": str(path),
        "reading": encode(ReadingOptions, reading)[0],
        "name": name,
        "companion": None if companion is None else str(companion),
    }
    seconds = _CHECK_SECONDS + path.stat().st_size // _CHECKED_PER_SECOND
    limits = ProcessLimits(memory_bytes=_CHECK_MEMORY, cpu_seconds=seconds, niceness=0)
    try:
        answer = call_apart(f"{__name__}:_describe", argument, limits, on_stage or (lambda stage: None))
    except CeilingReached as reached:
        allowed = f"{_CHECK_MEMORY >> 20} MB" if reached.what == "memory" else f"{seconds} s of processor time"
        raise refusal("E_CHECK_COST", name, found=f"more than {allowed}") from reached
    if "problems" in answer:
        raise RunLogError(tuple(decode(Problem, problem) for problem in answer["problems"]))
    return decode(DescribedRun, answer["run"])


def _describe(argument: dict[str, Any], say: Say) -> dict[str, Any]:
    """The child's side of ``describe_run_apart``."""
    companion = argument["companion"]
    try:
        run = describe_run(
            Path(argument["path"]),
            decode(ReadingOptions, argument["reading"]),
            argument["name"],
            None if companion is None else Path(companion),
            say,
        )
    except RunLogError as refused:
        return {"problems": [encode(Problem, problem)[0] for problem in refused.problems]}
    return {"run": encode(DescribedRun, run)[0]}


def data_sizes_beside(table: Path) -> Path:
    """Where the reader looks for the optional data sizes of a utility table."""
    from flcontrib_core.runs.tables import companion

    return companion(table)


def in_words(refused: RunLogError, internal: Path, name: str) -> RunLogError:
    """The same problems, placed in the file the sender knows instead of the one it was received into."""
    return RunLogError(tuple(replace(p, where=_known_place(p.where, internal, name)) for p in refused.problems))


def _known_place(where: str, internal: Path, name: str) -> str:
    """'table.csv row 7' as 'results.csv row 7'."""
    for ours in (str(internal), internal.name):
        if where == ours or where.startswith(f"{ours} "):
            return name + where[len(ours) :]
    return where


def chunks_of(source: Path | BinaryIO | Iterable[bytes], largest: int | None) -> Iterator[bytes]:
    """The bytes of a file, or as they arrive; raises TooLarge once there are too many."""
    received = 0
    for chunk in _chunks(source):
        received += len(chunk)
        if largest is not None and received > largest:
            raise TooLarge(largest)
        yield chunk


def zip_run(folder: Path, run: RunLog, out: BinaryIO) -> None:
    """A checked run directory as one zip: stored, in order of names, without times – the same bytes every time.

    A directory may still grow: only the epochs that were checked go in, with just their lines of ``epochs.jsonl``.
    """
    names = ["manifest.json", "initial.safetensors", "model.json", "validation.safetensors"]
    names += [record.file for record in run.epochs if record.file is not None]
    lines = (folder / "epochs.jsonl").read_bytes().splitlines(keepends=True)[: run.epoch_count]
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as bundle:
        for name in sorted(["epochs.jsonl", *(n for n in names if (folder / n).is_file())]):
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            if name == "epochs.jsonl":
                bundle.writestr(entry, b"".join(lines))
                continue
            with (folder / name).open("rb") as content:
                entry.file_size = os.fstat(content.fileno()).st_size
                with bundle.open(entry, "w") as target:
                    shutil.copyfileobj(content, target, _CHUNK)


def _called(run: Run, name: str) -> Run:
    """A stored file has no telling name: the run's own comes first, then the one it was given."""
    own = run.manifest.get("name") if isinstance(run, RunLog) else None
    return replace(run, name=str(own or name or run.name))


def _chunks(source: Path | BinaryIO | Iterable[bytes]) -> Iterator[bytes]:
    if isinstance(source, Path):
        try:
            file = source.open("rb")
        except OSError as fault:
            raise WorkspaceError(f"{source} cannot be read: {fault.strerror}") from fault
        with file:
            yield from _chunks(file)
    elif hasattr(source, "read"):
        while chunk := source.read(_CHUNK):
            yield chunk
    else:
        yield from source
