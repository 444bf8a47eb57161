"""The rows of an epoch's file where they are more than one plain update per participant (version 2).

A row may carry an aggregation weight of its own, may have begun from an older model, and a client may have sent
several in one round. What the game of an epoch needs follows from them: one update and one weight per client. The
weighted mean of a client's rows with the sum of their weights gives every sub-model exactly as the rows would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flcontrib_core.runs.mapped import in_blocks, room
from flcontrib_core.runs.problems import Findings, shown
from flcontrib_core.vocabulary import Float32Array

VERSION_TWO_KEYS = ("weights", "start_epoch")
"""Keys of an epoch's line that only version 2 knows."""
MAX_WEIGHT = 1e100
"""And its inverse the least: sums of weights stay inside what a number holds, with all their digits."""
_BLOCK = 1 << 22
"""Numbers that are averaged at a time."""


@dataclass(frozen=True)
class EpochRows:
    """The rows of one epoch's file in their order."""

    clients: tuple[int, ...]
    """Positions in the log's clients; one may stand here several times."""
    weights: tuple[float, ...]
    """What the server weighed each row with, up to a common factor."""
    starts: tuple[int, ...]
    """The epoch whose model each update began from; 0 is the initial model."""
    weighed: bool
    """Whether the log gives the weights; else they are data sizes."""

    def kept(self, rows: Sequence[int]) -> EpochRows:
        """These rows alone."""
        clients, weights, starts = (
            tuple(column[row] for row in rows) for column in (self.clients, self.weights, self.starts)
        )
        return EpochRows(clients, weights, starts, self.weighed)  # type: ignore[arg-type]

    def client_weights(self) -> tuple[float, ...]:
        """The sum of each client's weights, in the order in which the clients first appear."""
        sums: dict[int, float] = {}
        for client, weight in zip(self.clients, self.weights, strict=True):
            sums[client] = sums.get(client, 0.0) + weight
        return tuple(sums.values())

    def by_client(self, updates: Float32Array) -> Float32Array:
        """(clients, P) of (rows, P): the weighted mean of each client's rows."""
        order = {client: place for place, client in enumerate(dict.fromkeys(self.clients))}
        if len(order) == len(self.clients):
            return updates
        places = np.array([order[client] for client in self.clients])
        weights = np.array(self.weights) / np.array(self.client_weights())[places]
        merged: Float32Array = room((len(order), updates.shape[1]))
        for columns in in_blocks(updates.shape[1], max(1, _BLOCK // len(self.clients)), updates, merged):
            block = weights[:, None] * updates[:, columns]
            sums = np.zeros((len(order), block.shape[1]))
            np.add.at(sums, places, block)
            merged[:, columns] = sums
        return merged


def uses_version_two(line: Mapping[str, Any]) -> bool:
    """Does this line of epochs.jsonl say something that version 1 cannot?"""
    names = line.get("participants", ())
    return any(key in line for key in VERSION_TWO_KEYS) or len(set(names)) != len(names)


def per_row(values: Mapping[Any, Any], names: Sequence[Any]) -> list[Any]:
    """Values by client, one for each row: a number holds for all rows of its client, a list gives one each."""
    taken: dict[Any, int] = {}
    found = []
    for name in names:
        value, place = values[name], taken.get(name, 0)
        found.append(value[place] if isinstance(value, list) else value)
        taken[name] = place + 1
    return found


def by_name(values: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """The form of a line for one value per row: a number for each id, a list where a client has several rows."""
    listed: dict[str, list[Any]] = {}
    for name, value in zip(names, values, strict=True):
        listed.setdefault(name, []).append(value)
    return {name: own[0] if len(own) == 1 else own for name, own in listed.items()}


class RowReader:
    """Reads what version 2 says about an epoch's rows; faults go to the findings."""

    def __init__(self, position: Callable[[str], int | None], name: Callable[[int], str], findings: Findings) -> None:
        self._position, self._name, self._findings = position, name, findings

    def read(
        self, content: Mapping[str, Any], epoch: int, clients: tuple[int, ...], sizes: Mapping[int, int], where: str
    ) -> EpochRows | None:
        """The rows; None where they are one plain update per participant."""
        if not any(key in content for key in VERSION_TWO_KEYS) and len(set(clients)) == len(clients):
            return None
        default = {client: float(size) for client, size in sizes.items()}
        rows = Counter(clients)
        weights = self._weights(self._values(content, "weights", rows, where), clients, where)
        starts = self._starts(self._values(content, "start_epoch", rows, where), rows, epoch, where)
        return EpochRows(
            clients,
            weights or tuple(default[client] for client in clients),
            tuple(per_row(starts, clients)),
            "weights" in content,
        )

    def _values(
        self, content: Mapping[str, Any], key: str, counts: Counter[int], where: str
    ) -> dict[int, list[Any]] | None:
        """client -> one value per row; None where the line has none or they cannot be used."""
        code = "E_WEIGHTS" if key == "weights" else "E_START_EPOCH"
        if key not in content:
            return None
        given = content[key]
        if not isinstance(given, dict):
            self._findings.refuse(code, f"{where}: {key}", shown(given), "an object of ids and numbers")
            return None
        found: dict[int, list[Any]] = {}
        for name, value in given.items():
            client = self._position(name)
            if client is None:
                self._findings.refuse(
                    "E_PARTICIPANTS:unknown", f"{where}: {key}", f"{shown(name)}, not in the manifest"
                )
                continue
            if client in found:
                self._findings.refuse("E_CLIENT_DUP", f"{where}: {key}", f"two numbers for {shown(self._name(client))}")
                continue
            rows = max(counts[client], 1)
            if isinstance(value, list) and len(value) != rows:
                at, told = f"{where}: {key} of {shown(name)}", f"{len(value)} numbers"
                self._findings.refuse(code, at, told, f"one number, or {rows}: one for each of its rows")
                continue
            found[client] = value if isinstance(value, list) else [value] * rows
        return found

    def _weights(
        self, given: dict[int, list[Any]] | None, clients: tuple[int, ...], where: str
    ) -> tuple[float, ...] | None:
        if given is None:
            return None
        at = f"{where}: weights"
        for client, values in given.items():
            for value in values:
                if not _is_weight(value):
                    self._findings.refuse("E_WEIGHTS", f"{at} of {shown(self._name(client))}", shown(value))
                    return None
        missing = next((client for client in clients if client not in given), None)
        if missing is not None:
            self._findings.refuse("E_WEIGHTS", at, f"none of {shown(self._name(missing))}", "one for each participant")
            return None
        return tuple(float(value) for value in per_row(given, clients))

    def _starts(
        self, given: dict[int, list[Any]] | None, counts: Counter[int], epoch: int, where: str
    ) -> dict[int, Any]:
        told = given or {}
        for client, values in told.items():
            for value in values:
                if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < epoch:
                    at = f"{where}: start_epoch of {shown(self._name(client))}"
                    self._findings.refuse("E_START_EPOCH", at, shown(value), f"an epoch from 0 to {epoch - 1}")
        return {**dict.fromkeys(counts, epoch - 1), **told}


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 / MAX_WEIGHT <= value <= MAX_WEIGHT
