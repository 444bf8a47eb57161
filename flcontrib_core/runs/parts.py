"""Reads one file of a log, gathers its faults and takes its hash, all in the same pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.runs.containers import ByteStream, Container, HashingStream
from flcontrib_core.runs.encoding import MANIFEST
from flcontrib_core.runs.epoch_source import BundleSource
from flcontrib_core.runs.limits import MAX_DAMAGE_BYTES, MAX_FEW_HEADER_BYTES, MAX_JSON_BYTES, PIECE_BYTES
from flcontrib_core.runs.problems import Findings, refusal, shown
from flcontrib_core.runs.strict_json import parse_json
from flcontrib_core.runs.tensors import Block, TensorLayout, read_layout, stream_blocks

Observer = Callable[[Block], None]
_TOO_LARGE = frozenset({"E_FILE_SIZE", "E_ST_MANY"})


class Parts:
    """The files of one log while it is being checked: their layouts and hashes as far as they are known."""

    def __init__(self, container: Container, findings: Findings, earlier: BundleSource | None = None) -> None:
        """``earlier``: the parts as an earlier reading of the same growing directory found them."""
        self.container = container
        self.findings = findings
        self.earlier = earlier
        self.hashes: dict[str, str] = {}
        self.layouts: dict[str, TensorLayout] = {}
        self._looked_through = 0
        """Bytes of refused files that were read only to tell damage from a wrong form."""

    def __contains__(self, name: str) -> bool:
        return name in self.container.sizes

    @contextmanager
    def open(self, name: str) -> Iterator[HashingStream]:
        """One file as a stream that takes its hash on the way."""
        stream: ByteStream = self.container.open(name)
        try:
            yield HashingStream(stream)
        finally:
            stream.close()

    @contextmanager
    def faults_of(self, name: str) -> Iterator[None]:
        """Gather the faults of one file; where its bytes themselves are damaged, that is the only fault it has."""
        try:
            yield
        except RunLogError as refused:
            damage: tuple[Problem, ...] = ()
            # What is refused for its size is not read through only to say more about it; nor is a file that is large
            # by its own account alone, such as one of holes.
            if name in self and not any(problem.code in _TOO_LARGE for problem in refused.problems):
                size = self.container.sizes[name]
                if self._looked_through + size <= MAX_DAMAGE_BYTES:
                    self._looked_through += size
                    damage = self._damage(name)
            for problem in damage or refused.problems:
                self.findings.add(problem)

    def _damage(self, name: str) -> tuple[Problem, ...]:
        try:
            with self.open(name) as stream:
                while stream.read(PIECE_BYTES):
                    pass
                self.hashes.setdefault(name, stream.hexdigest())
        except RunLogError as damaged:
            return damaged.problems
        return ()

    def read_json(self, name: str) -> Any:
        """The value of one of the log's texts; its hash is noted."""
        size = self.container.sizes[name]
        if size > MAX_JSON_BYTES:
            raise refusal("E_FILE_SIZE:text", name, f"{size} bytes", f"at most {MAX_JSON_BYTES}")
        with self.open(name) as stream:
            data = stream.read(size)
            self.hashes[name] = stream.hexdigest()
        return parse_json(data, name)

    def lay_out(
        self, name: str, faults: Callable[[TensorLayout], list[Problem]], longest_header: int = MAX_FEW_HEADER_BYTES
    ) -> None:
        """Read a tensor file's header and keep it when ``faults`` finds nothing wrong with it."""
        if name not in self:
            return
        with self.faults_of(name):
            if self.earlier is not None and self.earlier.unchanged(self.container, name):
                layout = self.earlier.layouts[name]
            else:
                with self.open(name) as stream:
                    layout = read_layout(stream, self.container.sizes[name], name, longest_header)
            if found := faults(layout):
                raise RunLogError(tuple(found))
            self.layouts[name] = layout

    def stream(self, name: str, *observers: Observer) -> None:
        """Every number of a tensor file past the observers, and the file's hash into ``hashes``."""
        layout = self.layouts[name]
        with self.open(name) as stream:
            stream.read(layout.data_offset)
            for block in stream_blocks(stream, layout):
                for observe in observers:
                    observe(block)
            self.hashes[name] = stream.hexdigest()

    def hash_fits(self, name: str, expected: str | None, source: str) -> bool:
        """Does the content have the hash that the log gives for it? A mismatch is a fault."""
        found = self.hashes.get(name)
        if found is None or found == expected:
            return True
        self.findings.refuse("E_HASH", name, f"sha256 {found[:16]}…", f"{shown(expected)[1:17]}… ({source})")
        return False


def missing_file(name: str, names: Iterable[str]) -> tuple[str, str, str]:
    """(kind of problem, where, what was found) for a file that is not at the top of what was given."""
    bundles = sorted(other for other in names if other.endswith(".flrun"))
    folders = [other.split("/")[0] for other in names if other.endswith("/" + name)]
    if bundles:
        more = " …" if len(bundles) > 3 else ""
        return "E_MISSING:runs", name, f"no such file, but runs: {', '.join(map(shown, bundles[:3]))}{more}"
    if folders:
        return "E_MISSING:folder", name, f"no such file, but one in the folder {shown(min(folders))}"
    return "E_MISSING:manifest" if name == MANIFEST else "E_MISSING", name, "no such file"
