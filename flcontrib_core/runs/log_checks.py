"""What a log shows about itself that an auditor should know, although none of it is an error.

Everything is found in the one pass that reads the file anyway, and what is kept per update is a norm and a
fingerprint: zero updates, exact copies, norms far from the others', and a stored server model that is not the
weighted mean of the updates. Evidence becomes a warning (W_…) that follows the run into every export.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np

from flcontrib_core.errors import Problem
from flcontrib_core.runs.limits import NORM_ABOVE, NORM_BELOW
from flcontrib_core.runs.problems import epochs_named, problem, shown, span
from flcontrib_core.runs.run_log import EpochRecord
from flcontrib_core.runs.tensors import Block
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

MAX_PER_CODE = 50
_NARROW = 128
"""Numbers of an update below which hashing rows one by one would cost more than reading them."""
MAX_COPIES = 100_000
"""Equal updates that are told apart; of more than these only the number is given."""
_FINGERPRINT = np.dtype([("high", "<u8"), ("low", "<u8")])


@dataclass(frozen=True)
class EpochFacts:
    """What one pass over an epoch's updates found; row r is participants[r] as the file has them."""

    finite: BoolArray
    zero: BoolArray
    norms: FloatArray
    fingerprints: np.ndarray
    """(rows,) 128 bits of each update: equal for equal updates, and for others only by a chance nobody can steer"""
    global_finite: bool


@lru_cache(maxsize=2 * _NARROW)
def _keys(half: str, width: int) -> np.ndarray:
    """This process's secret factors for updates of some width.

    A million short updates are fingerprinted as one product with random numbers. With numbers that anybody could know,
    a client could compute an update of its own with somebody else's fingerprint, and have both accused of copying.
    """
    return np.frombuffer(os.urandom(8 * width), dtype=np.uint64) | np.uint64(1)


class UpdateFacts:
    """Gathers ``EpochFacts`` from the blocks of one epoch's file."""

    def __init__(self, rows: int) -> None:
        self._squares = np.zeros(rows)
        self._finite = np.ones(rows, dtype=bool)
        self._zero = np.ones(rows, dtype=bool)
        self._fingerprints = np.zeros(rows, dtype=_FINGERPRINT)
        self._stretches = hashlib.sha256()
        self._global_finite = True

    def take(self, block: Block) -> None:
        """One block of the epoch's file."""
        if block.tensor.name == "global":
            self._global_finite &= bool(np.isfinite(block.values).all())
        elif block.tensor.name == "updates":
            self._measure(block)
            self._fingerprint(block)

    def _measure(self, block: Block) -> None:
        rows = slice(block.row, block.row + len(block.values))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", block.values, block.values).astype(np.float64)
        # float32 squares leave their range long before the values do; only such rows are looked at again.
        again = np.flatnonzero(~np.isfinite(squares) | (squares < 1e-30))
        if len(again):
            with np.errstate(over="ignore", invalid="ignore"):  # some bit patterns of NaN complain when widened
                wide = block.values[again].astype(np.float64)
                squares[again] = np.where(np.isfinite(wide).all(axis=1), np.einsum("ij,ij->i", wide, wide), np.nan)
            self._zero[block.row + again] &= ~wide.any(axis=1)
        self._zero[rows] &= ~(squares > 0)
        self._finite[rows] &= np.isfinite(squares)
        self._squares[rows] += squares

    def _fingerprint(self, block: Block) -> None:
        width = block.tensor.shape[-1]
        if block.values.shape[1] == width <= _NARROW:
            words = np.ascontiguousarray(block.values).view(np.uint32).astype(np.uint64)
            for half in ("high", "low"):
                self._fingerprints[half][block.row : block.row + len(words)] = words @ _keys(half, width)
            return
        if block.values.shape[1] == width:
            data, step = block.values.data.cast("B"), width * block.values.itemsize
            rows = (hashlib.sha256(data[at : at + step]) for at in range(0, len(data), step))
        else:
            if block.column == 0:
                self._stretches = hashlib.sha256()
            self._stretches.update(block.values.data)
            rows = (self._stretches for _ in range(block.column + block.values.shape[1] == width))
        digests = b"".join(row.digest()[: _FINGERPRINT.itemsize] for row in rows)
        found = np.frombuffer(digests, dtype=_FINGERPRINT)
        self._fingerprints[block.row : block.row + len(found)] = found

    def result(self) -> EpochFacts:
        """The facts of the blocks so far."""
        return EpochFacts(self._finite, self._zero, np.sqrt(self._squares), self._fingerprints, self._global_finite)


def absent_evidence(absent: Mapping[str, Sequence[int]] | Mapping[str | None, Sequence[int]]) -> list[Problem]:
    """Who counts as absent in which epochs because of values that are not finite; None stands for the server."""
    problems: list[Problem] = []
    for client, epochs in islice(absent.items(), MAX_PER_CODE):
        where = "global model" if client is None else f"client {shown(client)}"
        found = f"NaN or infinite numbers in {epochs_named(sorted(epochs))}"
        clients = () if client is None else (client,)
        problems.append(problem("W_NONFINITE_ABSENT", where, found, clients=clients))
    return problems + _more("W_NONFINITE_ABSENT", len(absent) - MAX_PER_CODE)


def update_evidence(
    client_ids: Sequence[str], records: Sequence[EpochRecord], facts: Sequence[EpochFacts]
) -> list[Problem]:
    """Zero updates, copies, and norms far from the others': one warning per client (or pair) with its epochs."""
    return [
        *_zero_updates(client_ids, records, facts),
        *_far_updates(client_ids, records, facts),
        *_copies(client_ids, records, facts),
    ]


def _zero_updates(
    client_ids: Sequence[str], records: Sequence[EpochRecord], facts: Sequence[EpochFacts]
) -> list[Problem]:
    zero = _Occurrences()
    for record, fact in zip(records, facts, strict=True):
        zero.add(record, np.flatnonzero(fact.zero))
    problems: list[Problem] = []
    for client, here in zero.first_clients():
        words = f"an all-zero update in {epochs_named(zero.epochs[here].tolist())}"
        problems.append(_evidence("W_ZERO_DELTA", (client_ids[client],), words))
    return problems + _more("W_ZERO_DELTA", zero.client_count - MAX_PER_CODE)


def _far_updates(
    client_ids: Sequence[str], records: Sequence[EpochRecord], facts: Sequence[EpochFacts]
) -> list[Problem]:
    far, parts = _Occurrences(), [np.zeros(0)]
    for record, fact in zip(records, facts, strict=True):
        rows, found = _far_norms(fact.norms, fact.finite & ~fact.zero)
        far.add(record, rows)
        parts.append(found)
    ratios = np.concatenate(parts)
    problems: list[Problem] = []
    for client, here in far.first_clients():
        epochs, own = far.epochs[here], ratios[here]
        worst = int(np.argmax(np.abs(np.log(own))))
        words = f"in {epochs_named(epochs.tolist())} a norm far from the others', "
        words += f"up to {own[worst]:.3g} times their median (epoch {epochs[worst]})"
        problems.append(_evidence("W_NORM", (client_ids[client],), words))
    return problems + _more("W_NORM", far.client_count - MAX_PER_CODE)


class _Occurrences:
    """Which clients something was seen of, and in which epochs: arrays, because it may be millions of times."""

    def __init__(self) -> None:
        self._clients: list[np.ndarray] = []
        self._epochs: list[np.ndarray] = []

    def add(self, record: EpochRecord, rows: IntArray) -> None:
        if len(rows):
            self._clients.append(np.array(record.row_clients, dtype=np.int32)[rows])
            self._epochs.append(np.full(len(rows), record.epoch, dtype=np.int32))

    @cached_property
    def clients(self) -> np.ndarray:
        return np.concatenate([*self._clients, np.zeros(0, dtype=np.int32)])

    @cached_property
    def epochs(self) -> np.ndarray:
        return np.concatenate([*self._epochs, np.zeros(0, dtype=np.int32)])

    @cached_property
    def _distinct(self) -> np.ndarray:
        """The clients in the order in which they first appear."""
        first = np.full(self.clients.max(initial=-1) + 1, len(self.clients))
        np.minimum.at(first, self.clients, np.arange(len(self.clients)))
        clients = np.flatnonzero(first < len(self.clients))
        return clients[np.argsort(first[clients])]

    @property
    def client_count(self) -> int:
        return len(self._distinct)

    def first_clients(self) -> Iterator[tuple[int, IntArray]]:
        """The first fifty clients, each with the places of its occurrences."""
        for client in self._distinct[:MAX_PER_CODE].tolist():
            yield client, np.flatnonzero(self.clients == client)


def _far_norms(norms: FloatArray, usable: BoolArray) -> tuple[IntArray, FloatArray]:
    """Rows whose norm is outside the band around the median of the *other* usable rows, and the ratios."""
    rows = np.flatnonzero(usable)
    if len(rows) < 2:
        return rows[:0], norms[:0]
    order = np.argsort(norms[rows])
    ordered = norms[rows][order]
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    middle = (len(rows) - 1) // 2
    # Median of the others without sorting again: leaving out the element of one rank shifts those above it.
    low = ordered[np.where(rank > (len(rows) - 2) // 2, (len(rows) - 2) // 2, (len(rows) - 2) // 2 + 1)]
    high = ordered[np.where(rank > middle, middle, middle + 1)]
    ratios = norms[rows] / ((low + high) / 2)
    far = np.flatnonzero((ratios > NORM_ABOVE) | (ratios < NORM_BELOW))
    return rows[far], ratios[far]


def _equal_updates(facts: Sequence[EpochFacts], usable: Sequence[IntArray]) -> IntArray:
    """Which updates, counted through all epochs, have a twin? Half of a fingerprint is enough to look closer."""
    halves = np.concatenate([f.fingerprints["high"][rows] for f, rows in zip(facts, usable, strict=True)])
    order = np.argsort(halves)
    same = halves[order][1:] == halves[order][:-1]
    twin = np.zeros(len(halves), dtype=bool)
    twin[order[1:][same]] = True
    twin[order[:-1][same]] = True
    return np.flatnonzero(twin)


def _copies(client_ids: Sequence[str], records: Sequence[EpochRecord], facts: Sequence[EpochFacts]) -> list[Problem]:
    """Updates that are equal bit by bit to another client's, or to one of the client's own earlier ones."""
    if not facts:
        return []
    usable = [np.flatnonzero(fact.finite & ~fact.zero) for fact in facts]
    twins = _equal_updates(facts, usable)
    begins = np.concatenate([[0], np.cumsum([len(rows) for rows in usable])])
    found: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    """fingerprint -> (epoch, client) of each update that has it"""
    for place in range(len(facts)):
        begin, end = np.searchsorted(twins[:MAX_COPIES], begins[place : place + 2])
        for row in usable[place][twins[begin:end] - begins[place]].tolist():
            found[facts[place].fingerprints[row].tobytes()].append(
                (records[place].epoch, records[place].row_clients[row])
            )
    pairs: dict[tuple[int, int, bool], list[tuple[int, int]]] = defaultdict(list)
    for updates in found.values():
        first_epoch, original = min(updates)
        for epoch, client in sorted(updates)[1:]:
            pairs[original, client, first_epoch == epoch].append((first_epoch, epoch))
    problems: list[Problem] = []
    ordered = sorted(pairs.items(), key=lambda item: (sorted(item[1]), item[0]))
    for (a, b, same_epoch), when in ordered[:MAX_PER_CODE]:
        epochs = epochs_named(sorted({copy for _, copy in when}))
        both = client_ids[a], client_ids[b]
        if same_epoch and a == b:
            words = f"two equal updates, bit by bit, in {epochs}"
            problems.append(_evidence("W_DUPLICATE_DELTA", both[1:], words))
            continue
        if same_epoch:
            words = f"the same update, bit by bit, in {epochs}"
            problems.append(_evidence("W_DUPLICATE_DELTA", both, words))
            continue
        whose = "its own" if a == b else f"client {shown(client_ids[a])}'s"
        earlier = span(sorted({first for first, _ in when}))
        words = f"in {epochs} the update of {whose} epoch {earlier}, bit by bit"
        problem = _evidence("W_DUPLICATE_DELTA", both[1:], words)
        problems.append(problem if a == b else replace(problem, clients=both))
    if len(twins) > MAX_COPIES:
        words = f"{len(twins) - MAX_COPIES} more updates that others equal"
        return [*problems, _evidence("W_DUPLICATE_DELTA", (), words)]
    return problems + _more("W_DUPLICATE_DELTA", len(ordered) - MAX_PER_CODE)


def _evidence(code: str, clients: tuple[str, ...], found: str) -> Problem:
    """A warning about one client, about two that share something, or (without clients) about the whole log."""
    named = " and ".join(shown(client) for client in clients)
    where = f"client{'s' * (len(clients) > 1)} {named}" if clients else "log"
    return problem(code, where, found, clients=clients)


def _more(code: str, count: int) -> list[Problem]:
    """Beyond the first fifty warnings of one code: only their number."""
    return [_evidence(code, (), f"{count} more of these")] if count > 0 else []
