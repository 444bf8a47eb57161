"""Makes a run log from what people already have: folders of models or updates per round, or a table of contributions.

First everything is understood (rounds, clients, counts, models or updates, what the server's files are) and told;
only then is a log written. What cannot be understood is refused together with what was understood.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors.numpy import load_file

from flcontrib_core.execution.apart import CeilingReached, call_apart
from flcontrib_core.execution.limits import ProcessLimits
from flcontrib_core.runs.import_child import ENOUGH_FAULTS
from flcontrib_core.runs.import_layout import Layout, read_layout
from flcontrib_core.runs.problems import refusal, shown
from flcontrib_core.runs.recorder import RunRecorder
from flcontrib_core.vocabulary import FloatArray

Kind = Literal["models", "updates"]
CHILD_MEMORY = 8 << 30
CHILD_SECONDS = 900
FITS = 1e-4
"""Relative distance below which the server's file is taken for the mean of the clients' models."""
ROUNDING = 1e-6
MODEL_LIKE = 0.5
"""Cosine to the server's model from which clients' files are taken for models."""


@dataclass(frozen=True)
class Understanding:
    """What the files were taken for, in facts; ``to_json`` is what the command shows before it writes."""

    kind: Kind
    kind_from: str
    rounds: int
    first_round: int
    clients: tuple[str, ...]
    parameters: int
    tensors: int
    counts: Mapping[str, int]
    counts_vary: bool
    """Whether a client's count is another in some round; ``counts`` is then that of its first."""
    server_files: Literal["after", "before", "none"]
    initial: str
    ignored: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "kind_from": self.kind_from,
            "rounds": self.rounds,
            "first_round": self.first_round,
            "clients": list(self.clients),
            "parameters": self.parameters,
            "tensors": self.tensors,
            "data_sizes": dict(self.counts),
            "data_sizes_vary": self.counts_vary,
            "server_files": self.server_files,
            "initial_model": self.initial,
            "ignored": list(self.ignored),
        }


def import_folder(
    folder: Path,
    target: Path,
    *,
    kind: Kind | None = None,
    initial: Path | None = None,
    tell: Callable[[Understanding], None] = lambda understood: None,
    name: str | None = None,
) -> Understanding:
    """Writes the log of a folder of tensor files; ``tell`` hears what was understood before anything is written.

    ``kind`` and ``initial`` settle what the files leave open. Raises ``RunLogError``.
    """
    layout = read_layout(folder)
    if initial is not None:
        layout.initial = initial
    if not layout.clients:
        raise refusal("E_IMPORT", str(folder), _in_words(layout))
    with tempfile.TemporaryDirectory(prefix="flcontrib-import-") as scratch:
        files = _Files(folder, layout, Path(scratch))
        federation = _Federation(folder, layout, files, kind)
        understood = federation.understanding()
        tell(understood)
        federation.write(target, name)
    return understood


def _in_words(layout: Layout) -> str:
    return (
        f"{len(layout.clients)} files of clients, {len(layout.servers)} of the server, {len(layout.unclear)} tensor "
        f"files whose path tells no round or client{_first(layout)}"
        + "".join(f", {count} {suffix} files, which are not read" for suffix, count in sorted(layout.others.items()))
    )


def _first(layout: Layout) -> str:
    return f", the first {shown(layout.unclear[0].name)}" if layout.unclear else ""


class _Files:
    """Every tensor file as safetensors, converted by a child with ceilings."""

    def __init__(self, folder: Path, layout: Layout, scratch: Path) -> None:
        wanted = [*layout.clients.values(), *layout.servers.values(), *([layout.initial] if layout.initial else [])]
        paths = [str(path) for path in wanted]
        limits = ProcessLimits(memory_bytes=CHILD_MEMORY, cpu_seconds=CHILD_SECONDS, niceness=0)
        argument = {"files": paths, "target": str(scratch)}
        try:
            told = call_apart("flcontrib_core.runs.import_child:convert", argument, limits)
        except CeilingReached as reached:
            raise refusal("E_IMPORT:cost", str(folder), f"more {reached.what} than allowed") from reached
        faults = {path: entry["fault"] for path, entry in told.items() if "fault" in entry}
        if faults:
            path, fault = next(iter(faults.items()))
            more = "many" if len(faults) == ENOUGH_FAULTS else len(faults) - 1
            found = f"{fault} (and {more} more such files)" if faults.keys() - {path} else fault
            place = Path(path).relative_to(folder) if Path(path).is_relative_to(folder) else path
            raise refusal("E_IMPORT:file", str(place), found)
        self._scratch = scratch
        self._told = told
        self.shapes: dict[str, list[int]] = told[paths[0]]["shapes"]
        for path in paths:
            if told[path]["shapes"] != self.shapes:
                raise refusal("E_SHAPE", path, f"tensors {shown(told[path]['shapes'])}", f"{shown(self.shapes)}")

    def count(self, path: Path) -> int | None:
        """How many examples a file says it was trained on."""
        count: int | None = self._told[str(path)]["count"]
        return count

    def flat(self, path: Path) -> FloatArray:
        """The numbers of a file, flattened in one order for all."""
        tensors = load_file(self._scratch / self._told[str(path)]["file"])
        return np.concatenate([tensors[name].ravel() for name in self.shapes]).astype(np.float64)


class _Federation:
    """The rounds in order, and what has to be known to write them."""

    def __init__(self, folder: Path, layout: Layout, files: _Files, kind: Kind | None) -> None:
        self._folder, self._layout, self._files = folder, layout, files
        self._rounds = layout.rounds
        gaps = sorted(set(range(self._rounds[0], self._rounds[-1] + 1)) - set(self._rounds))
        if gaps:
            raise refusal("E_IMPORT:rounds", str(folder), f"no client's file for round {gaps[0]}; {_in_words(layout)}")
        self._counts = self._counted()
        self._server_is = self._servers(kind)
        self._kind, self._kind_from = self._recognise(kind)
        self._start_file, self._skipped = self._initial()

    def _counted(self) -> dict[tuple[int, str], int]:
        """The number of examples behind each client's file; empty where nobody says any."""
        layout = self._layout
        told = {key: layout.counts.of(*key) or self._files.count(path) for key, path in layout.clients.items()}
        counts = {key: count for key, count in told.items() if count is not None}
        uncounted = sorted(told.keys() - counts.keys())
        if counts and uncounted:  # as 1 beside real counts they would weigh next to nothing
            number, name = uncounted[0]
            known = len({name for _, name in counts})
            found = f"a count for {known} of {len(layout.names)} clients, none for {shown(name)} in round {number}"
            raise refusal("E_IMPORT:counts", str(self._folder), f"{found}; {_in_words(layout)}")
        return counts

    def _present(self, number: int) -> dict[str, int]:
        """The clients of a round and what each counts."""
        names = [name for name in self._layout.names if (number, name) in self._layout.clients]
        return {name: self._counts.get((number, name), 1) for name in names}

    def _first_counts(self) -> dict[str, int]:
        first = {name: self._counts[number, name] for number, name in sorted(self._counts, reverse=True)}
        return dict(sorted(first.items()))

    def _servers(self, kind: Kind | None) -> Literal["after", "before", "none"]:
        """Is a round's server file the model that was sent out, or what came of it? By whether it is the mean."""
        servers, rounds = self._layout.servers, self._rounds
        if not servers:
            return "none"
        if kind != "updates":
            for number in rounds:
                if number in servers and _near(self._files.flat(servers[number]), self._mean(number)):
                    return "after"
                if number + 1 in servers and _near(self._files.flat(servers[number + 1]), self._mean(number)):
                    return "before"
            if (nearer := self._nearer()) is not None:
                return nearer
        sent_out = rounds[0] in servers and rounds[0] - 1 not in servers and self._layout.initial is None
        return "before" if sent_out else "after"

    def _nearer(self) -> Literal["after", "before"] | None:
        """Which of two server files the mean is nearer to, where none is the mean itself (counts that nobody told)."""
        servers, after, before = self._layout.servers, 0.0, 0.0
        for number in self._rounds:
            if number in servers and number + 1 in servers:
                ended, sent, mean = (
                    self._files.flat(servers[number]),
                    self._files.flat(servers[number + 1]),
                    self._mean(number),
                )
                if min(distances := (_length(ended - mean), _length(sent - mean))) > _length(ended - sent):
                    return None  # the mean is no model
                after, before = after + distances[0], before + distances[1]
        return None if after == before else "after" if after < before else "before"

    def _mean(self, number: int) -> FloatArray:
        present = self._present(number)
        mean = np.zeros(sum(int(np.prod(shape)) for shape in self._files.shapes.values()))
        for name, count in present.items():
            mean += count / sum(present.values()) * self._files.flat(self._layout.clients[number, name])
        return mean

    def _recognise(self, kind: Kind | None) -> tuple[Kind, str]:
        if kind is not None:
            return kind, "as told"
        first = self._rounds[0]
        reference = self._start_path(first) or self._layout.servers.get(first)
        if reference is None:
            other = self._layout.clients[self._rounds[-1], self._layout.names[0]] if len(self._rounds) > 1 else None
            reference = other
        if reference is None:
            raise refusal("E_IMPORT:kind", str(self._folder), _in_words(self._layout))
        model = self._files.flat(reference)
        name = next(n for n in self._layout.names if (first, n) in self._layout.clients)
        own = self._files.flat(self._layout.clients[first, name])
        lengths = float(np.linalg.norm(model) * np.linalg.norm(own))
        cosine = float(model @ own) / lengths if lengths else 0.0
        kind = "models" if cosine >= MODEL_LIKE else "updates"
        return kind, f"a cosine of {cosine:.2f} between the first client's file and {reference.name}"

    def _start_path(self, number: int) -> Path | None:
        """The file of the model that a round starts from, where there is one."""
        servers = self._layout.servers
        if self._server_is == "before":
            return servers.get(number)
        if number == self._rounds[0] and self._layout.initial is not None:
            return self._layout.initial
        return servers.get(number - 1)

    def _initial(self) -> tuple[Path | None, bool]:
        """The file of F⁰; without one the first round's models become F⁰ and that round is no epoch."""
        path = self._start_path(self._rounds[0])
        if path is None and (self._kind == "updates" or len(self._rounds) < 2):
            found = f"{self._kind} and no initial model; {_in_words(self._layout)}"
            raise refusal("E_IMPORT:initial", str(self._folder), found)
        return path, path is None

    def understanding(self) -> Understanding:
        """What will be written."""
        used = self._rounds[1:] if self._skipped else self._rounds
        first = self._first_counts()
        said = self._start_file.name if self._start_file else "the mean of the first round's models, which is no epoch"
        return Understanding(
            kind=self._kind,
            kind_from=self._kind_from,
            rounds=len(used),
            first_round=used[0],
            clients=tuple(self._layout.names),
            parameters=sum(int(np.prod(shape)) for shape in self._files.shapes.values()),
            tensors=len(self._files.shapes),
            counts=first,
            counts_vary=any(count != first[name] for (_, name), count in self._counts.items()),
            server_files=self._server_is,
            initial=said,
            ignored=tuple(str(path.relative_to(self._folder)) for path in self._layout.unclear[:20]),
        )

    def write(self, target: Path, name: str | None) -> None:
        """Records round after round."""
        rounds, sizes = self._rounds, dict.fromkeys(self._layout.names, 1) | self._first_counts()
        start = self._mean(rounds[0]) if self._start_file is None else self._files.flat(self._start_file)
        parameters = [(tensor, tuple(shape)) for tensor, shape in self._files.shapes.items()]
        with RunRecorder(
            target,
            clients=sizes,
            parameters=parameters,
            initial=start.astype(np.float32),
            name=name or self._folder.name,
            source={"framework": "files", "imported": self._kind},
        ) as recorder:
            for number in rounds[1:] if self._skipped else rounds:
                sent = self._start_path(number)
                before = start if sent is None else self._files.flat(sent)
                present = self._present(number)
                base = before if self._kind == "models" else 0.0
                updates = {n: self._files.flat(self._layout.clients[number, n]) - base for n in present}
                total = sum(present.values())
                rebuilt = before + sum(present[n] / total * update for n, update in updates.items())
                after = self._after(number)
                start = rebuilt if after is None else after
                stored = None if after is None or _near(after, rebuilt, ROUNDING) else after.astype(np.float32)
                own = {n: count for n, count in present.items() if count != sizes[n]}
                recorder.epoch(updates, data_sizes=own or None, global_model=stored, source={"round": number})

    def _after(self, number: int) -> FloatArray | None:
        """The server's own model after a round, where there is a file of it."""
        path = self._layout.servers.get(number if self._server_is == "after" else number + 1)
        return None if path is None or self._server_is == "none" else self._files.flat(path)


def _near(left: FloatArray, right: FloatArray, relative: float = FITS) -> bool:
    return _length(left - right) <= relative * max(_length(right), 1e-12)


def _length(vector: FloatArray) -> float:
    return float(np.linalg.norm(vector))
