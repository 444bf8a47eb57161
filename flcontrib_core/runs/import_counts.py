"""How many examples each client's file stands for, as tables beside the files tell it, or the files themselves."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COUNT_NAMES = ("num_examples", "num-examples", "num_samples", "n_samples", "sample_num", "data_size", "examples",
               "samples", "count", "counts", "rows", "size", "anzahl", "n")  # fmt: skip
CLIENT_NAMES = ("client", "client_id", "site", "node", "participant", "hospital", "institution", "name", "id", "klinik")
_ROLE = re.compile(r"^(?:client|site|node|participant|party|hospital|institution|klinik)[_\-. ]*(?=.)")
ROUND_NAMES = ("epoch", "round", "runde", "iteration", "iter", "step", "rnd", "server_round", "t")


@dataclass
class Counts:
    """Numbers of examples per client, of all rounds or of one."""

    of_all: dict[str, int] = field(default_factory=dict)
    of_one: dict[tuple[int, str], int] = field(default_factory=dict)
    """(round, client) → count, where a round has its own"""

    def of(self, number: int, client: str) -> int | None:
        """The count of a client in a round, if one is told."""
        return self.of_one.get((number, client), self.of_all.get(client))

    def read(self, path: Path, number: int | None, clients: frozenset[str]) -> None:
        """Takes what a table says of these clients; ``number``: the round that its path tells."""
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        bare = _unique(clients)
        for (told, name), count in _counts_in(text, path.suffix.lower() == ".json").items():
            client = name if name in clients else bare.get(name.lower(), bare.get(_bare(name)))
            if client is None:
                continue
            if (when := number if told is None else told) is None:
                self.of_all[client] = count
            else:
                self.of_one[when, client] = count


def _unique(clients: frozenset[str]) -> dict[str, str]:
    """Names without the word for what they are → clients, as far as they stay apart: "7" for "site_7"."""
    found = Counter(_bare(client) for client in clients)
    return {_bare(client): client for client in clients if found[_bare(client)] == 1}


def _bare(name: str) -> str:
    return _ROLE.sub("", name.lower())


_Found = dict[tuple[int | None, str], int]


def _counts_in(text: str, is_json: bool) -> _Found:
    """(round, client) → number of examples, from a JSON mapping, a JSON list of objects or a CSV with such columns."""
    if is_json:
        try:
            return _counts_of(json.loads(text))
        except (ValueError, RecursionError):
            return {}
    sample = text[:4096]
    rows = csv.DictReader(text.splitlines(), delimiter=";" if sample.count(";") > sample.count(",") else ",")
    try:
        return _counts_of(list(rows))
    except csv.Error:  # some other table of theirs
        return {}


def _counts_of(content: Any) -> _Found:
    if isinstance(content, Mapping):
        if content and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in content.values()):
            return {(None, str(name)): int(n) for name, n in content.items() if n >= 1}
        for key in ("clients", "counts", "data_sizes", "num_examples"):
            if key in content:
                return _counts_of(content[key])
        told = {str(name): _whole(_lowered(about), COUNT_NAMES) for name, about in content.items()}
        return {(None, name): count for name, count in told.items() if count}
    counts: _Found = {}
    for row in map(_lowered, content if isinstance(content, list) else ()):
        name = _first(row, CLIENT_NAMES)
        if name is not None and (count := _whole(row, COUNT_NAMES)):
            counts[_whole(row, ROUND_NAMES), str(name).strip()] = count
    return counts


def _lowered(row: Any) -> dict[str, Any]:
    return {str(k).strip().lower(): v for k, v in row.items() if k} if isinstance(row, Mapping) else {}


def _first(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if name in row), None)


def _whole(row: dict[str, Any], names: tuple[str, ...]) -> int | None:
    digits = str(_first(row, names)).strip()
    # Other scripts have digits that are no numbers, and no count has twenty.
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
