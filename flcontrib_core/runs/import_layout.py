"""Which round and which client a file on disk belongs to, told by its path; counts told by tables beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flcontrib_core.runs.import_counts import Counts
from flcontrib_core.runs.problems import refusal, shown

TENSORS = (".pt", ".pth", ".ckpt", ".bin", ".npz", ".safetensors")
OTHERS = (
    ".h5",
    ".hdf5",
    ".keras",
    ".pb",
    ".pbuf",
    ".onnx",
    ".pkl",
    ".pickle",
    ".joblib",
    ".npy",
    ".msgpack",
    ".tflite",
)
"""Files of models that are not read; a refusal says how many there are."""
MOST_FILES = 20_000
MOST_TABLE_BYTES = 8 << 20
_ROUND = re.compile(
    r"(?:^|[_\-. =])(?:round|rnd|epoch|iteration|iter|step|version|runde|r|e|t)[_\-. =]*0*(\d{1,6})(?=$|[_\-. ])", re.I
)
_DATE = re.compile(r"(?<!\d)20\d\d([-_.]?)[01]\d\1[0-3]\d(?:[T_\-. ]?[0-2]\d[-:_.h]?[0-5]\d(?:[-:_.]?[0-5]\d)?)?(?!\d)")
_HIDDEN = (".", "__MACOSX")
"""What file systems and archivers put beside people's files."""
_NUMBER = re.compile(r"^0*(\d{1,6})$")
_SERVER = {"global", "server", "aggregate", "aggregated", "fl"}
_WHEN = {"before", "after", "sent", "out", "new", "old", "averaged", "mean"}
"""What is said of a server's model beside its name; whether it was sent out is seen from the numbers."""
_FIRST = {"initial", "init", "start", "f0"}
_GENERIC = {
    *("client", "clients", "model", "models", "update", "updates", "delta", "deltas", "weights", "local", "checkpoint"),
    *("checkpoints", "app", "simulate", "job", "best", "state", "dict", "params", "rounds", "round", "epochs", "epoch"),
    *("comm", "communication"),
}


@dataclass
class Layout:
    """The files of a federation as their paths tell it."""

    clients: dict[tuple[int, str], Path] = field(default_factory=dict)
    """(round, client) → file"""
    servers: dict[int, Path] = field(default_factory=dict)
    """round → the server's model"""
    initial: Path | None = None
    counts: Counts = field(default_factory=Counts)
    unclear: list[Path] = field(default_factory=list)
    """Tensor files whose round or client the path does not tell."""
    others: dict[str, int] = field(default_factory=dict)
    """Suffix → how many files there are of other formats."""

    @property
    def rounds(self) -> list[int]:
        return sorted({number for number, _ in self.clients})

    @property
    def names(self) -> list[str]:
        return sorted({name for _, name in self.clients})


def read_layout(folder: Path) -> Layout:
    """Looks at every file below the folder; nothing is opened but small tables of counts."""
    layout = Layout()
    found = sorted(folder.rglob("*"))
    found = [p for p in found if not any(part.startswith(_HIDDEN) for part in p.relative_to(folder).parts)]
    files = [path for path in found if path.is_file() and not path.is_symlink()]
    for path in sorted(set(found).difference(files)):
        # Left out without a word, a client's file would make the client absent.
        if path.suffix.lower() in TENSORS and (path.is_symlink() or not path.is_dir()):
            raise refusal("E_FILE_TYPE", shown(str(path.relative_to(folder))), "a link, pipe or device")
        if path.is_symlink():
            layout.unclear.append(path)
    if len(files) > MOST_FILES:
        raise refusal("E_IMPORT:cost", str(folder), f"{len(files)} files", f"at most {MOST_FILES}")
    named = [(path, *_words(path.relative_to(folder))) for path in files if path.suffix.lower() in TENSORS]
    common = set.intersection(*(set(said) for _, _, said in named)) if named else set()
    for path, number, said in named:
        # A folder around everything (a job's name) tells nobody from anybody.
        _place(layout, path, number, [word for word in said if word not in common] or said)
    clients = frozenset(layout.names)
    for path in files:
        if (suffix := path.suffix.lower()) in OTHERS:
            layout.others[suffix] = layout.others.get(suffix, 0) + 1
        if path.suffix.lower() in (".json", ".csv") and path.stat().st_size <= MOST_TABLE_BYTES:
            layout.counts.read(path, _words(path.relative_to(folder))[0], clients)
    return layout


def _words(relative: Path) -> tuple[int | None, list[str]]:
    """The round that a path tells, and the words in it that say something."""
    number: int | None = None
    words: list[str] = []
    for part in [*relative.parts[:-1], relative.stem]:
        part = _DATE.sub("", part)
        found = _ROUND.search(part)
        if found is not None:
            number = int(found[1])
            part = part[: found.start()] + " " + part[found.end() :]
        elif _NUMBER.match(part) and number is None:
            number = int(part)
            continue
        words.append(part.strip(" _-.="))
    return number, [word for word in words if word and not _tokens(word) <= _GENERIC]


def _place(layout: Layout, path: Path, number: int | None, said: Sequence[str]) -> None:
    tokens = set().union(*map(_tokens, said)) if said else set()
    if tokens & _FIRST and number in (None, 0):
        layout.initial = path
    elif number is None:
        layout.unclear.append(path)
    else:
        if not said or (tokens & _SERVER and (tokens - _GENERIC) <= _SERVER | _WHEN):
            taken = layout.servers.setdefault(number, path)
        else:
            taken = layout.clients.setdefault((number, _client_name(said)), path)
        if taken != path:
            layout.unclear.append(path)


def _tokens(word: str) -> set[str]:
    return {token for token in re.split(r"[_\-. =]+", word.lower()) if token}


def _client_name(said: Sequence[str]) -> str:
    """``client_7`` and ``hospital-a_model`` as 7 and hospital-a; a folder's name wins over a file's."""
    word = said[-1] if len(said) == 1 else next((w for w in said if not _tokens(w) & _SERVER), said[0])
    pieces = re.split(r"([_. =]+)", word)
    kept = [p for p in pieces if p and p.lower() not in _GENERIC]
    name = "".join(kept).strip("_-. =")
    return name or word
