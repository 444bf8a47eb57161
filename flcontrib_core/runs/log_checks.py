"""What does the log show about itself that an auditor should know, although none of it is an error?

Everything is found in the one pass that reads the file anyway, and what is kept per update is a norm and a
fingerprint: zero updates, exact copies, norms far from the others', and a stored server model that is not the
weighted mean of the updates. Evidence becomes a warning (W_…) that follows the run into every export.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from flcontrib_core.errors import Problem
from flcontrib_core.runs.problems import shown, span
from flcontrib_core.runs.run_log import EpochRecord
from flcontrib_core.runs.tensors import Block
from flcontrib_core.vocabulary import BoolArray, Float32Array, FloatArray

NORM_ABOVE, NORM_BELOW = 10.0, 0.01
"""An update is worth a word when its norm is outside these multiples of the other participants' median."""
MAX_PER_CODE = 50
WINDOW = 1 << 22
"""Columns whose weighted mean is rebuilt at a time: bounds the memory of that check to about 100 MB."""
_RELATIVE = {"F32": 1e-5, "F16": 2.0**-9, "BF16": 2.0**-6}
_ABSOLUTE = 1e-6
_FINGERPRINT = np.dtype([("high", "<u8"), ("low", "<u8")])


@dataclass(frozen=True)
class EpochFacts:
    """What one pass over an epoch's updates found; row r is participants[r] as the file has them."""

    finite: BoolArray
    zero: BoolArray
    norms: FloatArray
    fingerprints: np.ndarray
    """(rows,) first half of the sha256 of each update"""
    global_finite: bool


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
        for r in np.flatnonzero(~np.isfinite(squares) | (squares < 1e-30)):
            with np.errstate(invalid="ignore"):  # some bit patterns of NaN complain when they are widened
                row = block.values[r].astype(np.float64)
            squares[r] = row @ row if np.isfinite(row).all() else np.nan
            self._zero[block.row + r] &= not row.any()
        self._zero[rows] &= ~(squares > 0)
        self._finite[rows] &= np.isfinite(squares)
        self._squares[rows] += squares

    def _fingerprint(self, block: Block) -> None:
        width = block.tensor.shape[-1]
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
        return EpochFacts(self._finite, self._zero, np.sqrt(self._squares), self._fingerprints, self._global_finite)


class AggregateCheck:
    """Is the stored ``global`` the data-size-weighted mean (eq. fl_naive) that the contributions are about?

    Follows F(t) through the run for one window of columns: the stored model where there is one, else the rebuilt.
    """

    def __init__(self, initial: Float32Array, first: int) -> None:
        """``initial`` holds the columns ``first`` … of F⁰."""
        self._first = first
        self._previous: FloatArray | None = initial.astype(np.float64)
        self._mean = np.zeros(len(initial))
        self._global = np.zeros(len(initial), dtype=np.float32)
        self._weights = np.zeros(0)
        self._relative = 0.0
        self._stored = False
        self.differences: dict[int, float] = {}
        """epoch -> largest absolute difference, where it is more than rounding"""

    def begin(self, record: EpochRecord) -> None:
        sizes = np.asarray(record.data_sizes, dtype=np.float64)
        self._weights = sizes / sizes.sum() if len(sizes) else sizes
        self._mean[:] = 0
        self._relative, self._stored = _RELATIVE["F32"], False

    def take(self, block: Block) -> None:
        self._relative = max(self._relative, _RELATIVE[block.tensor.dtype])
        low = max(block.column, self._first)
        high = min(block.column + block.values.shape[1], self._first + len(self._mean))
        self._stored |= block.tensor.name == "global"
        if low >= high:
            return
        values = block.values[:, low - block.column : high - block.column]
        here = slice(low - self._first, high - self._first)
        if block.tensor.name == "global":
            self._global[here] = values[0]
        else:
            with np.errstate(invalid="ignore"):
                self._mean[here] += self._weights[block.row : block.row + len(values)] @ values.astype(np.float64)

    def end(self, epoch: int, facts: EpochFacts) -> None:
        sound = bool(facts.finite.all())
        stored = self._stored and facts.global_finite
        if self._previous is not None and sound:
            self._previous += self._mean
            # Without participants there is nothing to rebuild: a moved model is the server's share by definition.
            if stored and len(self._weights):
                self._compare(epoch)
        if stored:
            self._previous = self._global.astype(np.float64)
        elif not sound:
            self._previous = None

    def adopt(self, stored: Float32Array) -> None:
        """Go on from an epoch's stored model (P,) without looking at the epoch again."""
        self._previous = stored[self._first : self._first + len(self._mean)].astype(np.float64)

    def _compare(self, epoch: int) -> None:
        assert self._previous is not None
        piece = 1 << 18
        for at in range(0, len(self._mean), piece):
            here = slice(at, at + piece)
            rebuilt, stored = self._previous[here], self._global[here].astype(np.float64)
            before = rebuilt - self._mean[here]
            difference = np.abs(stored - rebuilt)
            if (difference > _ABSOLUTE + self._relative * (np.abs(stored) + np.abs(before))).any():
                self.differences[epoch] = max(self.differences.get(epoch, 0.0), float(difference.max()))


def aggregate_evidence(differences: dict[int, float]) -> list[Problem]:
    if not differences:
        return []
    worst = max(differences, key=lambda epoch: differences[epoch])
    return [
        Problem(
            "W_AGGREGATE",
            f"epochs {span(sorted(differences))}",
            f"a stored server model up to {differences[worst]:.3g} (largest absolute difference, epoch {worst}) away "
            "from the weighted mean of the updates",
            "the weighted mean",
            "Contributions are of the recomputed model; the rest is reported as the server's share.",
        )
    ]


def update_evidence(
    client_ids: Sequence[str], records: Sequence[EpochRecord], facts: Sequence[EpochFacts]
) -> list[Problem]:
    """Zero updates, copies, and norms far from the others': one warning per client (or pair) with its epochs."""
    zero: dict[int, list[int]] = defaultdict(list)
    far: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for record, fact in zip(records, facts, strict=True):
        usable = fact.finite & ~fact.zero
        for row in np.flatnonzero(fact.zero):
            zero[record.participants[row]].append(record.epoch)
        for far_row, ratio in _far_norms(fact.norms, usable):
            far[record.participants[far_row]].append((record.epoch, ratio))
    problems = [
        _evidence("W_ZERO_DELTA", (client_ids[c],), f"an all-zero update in epochs {span(epochs)}")
        for c, epochs in zero.items()
    ]
    for client, found in far.items():
        epoch, ratio = max(found, key=lambda pair: abs(np.log(pair[1])))
        epochs = span([e for e, _ in found])
        words = f"in epochs {epochs} a norm far from the others', up to {ratio:.3g} times their median (epoch {epoch})"
        problems.append(_evidence("W_NORM", (client_ids[client],), words))
    return [*_capped(problems, "W_ZERO_DELTA"), *_capped(problems, "W_NORM"), *_copies(client_ids, records, facts)]


def _far_norms(norms: FloatArray, usable: BoolArray) -> Iterable[tuple[int, float]]:
    """Rows whose norm is outside the band around the median of the *other* usable rows, with the ratio."""
    rows = np.flatnonzero(usable)
    if len(rows) < 2:
        return
    ordered = np.sort(norms[rows])
    rank = np.searchsorted(ordered, norms[rows])
    middle = (len(rows) - 1) // 2
    # Median of the others without sorting again: leaving out the element of one rank shifts those above it.
    low = ordered[np.where(rank > (len(rows) - 2) // 2, (len(rows) - 2) // 2, (len(rows) - 2) // 2 + 1)]
    high = ordered[np.where(rank > middle, middle, middle + 1)]
    ratios = norms[rows] / ((low + high) / 2)
    for far in np.flatnonzero((ratios > NORM_ABOVE) | (ratios < NORM_BELOW)):
        yield int(rows[far]), float(ratios[far])


def _copies(client_ids: Sequence[str], records: Sequence[EpochRecord], facts: Sequence[EpochFacts]) -> list[Problem]:
    """Updates that are equal bit by bit to another client's, or to one of the client's own earlier ones."""
    usable = [np.flatnonzero(fact.finite & ~fact.zero) for fact in facts]
    prints = np.concatenate([f.fingerprints[rows] for f, rows in zip(facts, usable, strict=True)] or [_NOTHING])
    epochs = np.repeat([record.epoch for record in records], [len(rows) for rows in usable])
    if not len(prints):
        return []
    positions = [np.array(record.participants, dtype=np.int64) for record in records]
    clients = np.concatenate([own[rows] for own, rows in zip(positions, usable, strict=True)])
    order = np.lexsort((clients, epochs, prints["low"], prints["high"]))
    same = np.flatnonzero(prints[order][1:] == prints[order][:-1]) + 1
    pairs: dict[tuple[int, int, bool], list[tuple[int, int]]] = defaultdict(list)
    original = last = -1
    for at in same.tolist():
        if at != last + 1:
            original = at - 1
        last = at
        first, copy = order[original], order[at]
        key = (int(clients[first]), int(clients[copy]), bool(epochs[first] == epochs[copy]))
        pairs[key].append((int(epochs[first]), int(epochs[copy])))
    problems = []
    for (a, b, same_epoch), found in sorted(pairs.items(), key=lambda item: item[1]):
        when = span(sorted({copy for _, copy in found}))
        who = client_ids[a], client_ids[b]
        if same_epoch:
            found_words = f"the same update, bit by bit, in epochs {when}"
            problems.append(_evidence("W_DUPLICATE_DELTA", who, found_words))
            continue
        whose = "its own" if a == b else f"client {shown(client_ids[a])}'s"
        earlier = span(sorted({first for first, _ in found}))
        found_words = f"in epochs {when} the update of {whose} epoch {earlier}, bit by bit"
        problem = _evidence("W_DUPLICATE_DELTA", who[1:], found_words)
        problems.append(problem if a == b else replace(problem, clients=who))
    return _capped(problems, "W_DUPLICATE_DELTA")


_NOTHING = np.zeros(0, dtype=_FINGERPRINT)


def _evidence(code: str, clients: tuple[str, ...], found: str) -> Problem:
    """A warning about one client, or about two that share something."""
    named = " and ".join(shown(client) for client in clients)
    where = f"client{'s' * (len(clients) > 1)} {named}"
    expected = {
        "W_ZERO_DELTA": "updates that move the model",
        "W_DUPLICATE_DELTA": "updates of one's own",
        "W_NORM": f"norms between {NORM_BELOW:g} and {NORM_ABOVE:g} times the median of the other participants",
    }[code]
    return Problem(code, where, found, expected, "Evidence, not an error: look at this client's training.", clients)


def _capped(problems: list[Problem], code: str) -> list[Problem]:
    """The warnings of one code; beyond the first fifty only their number."""
    chosen = [problem for problem in problems if problem.code == code]
    if len(chosen) <= MAX_PER_CODE:
        return chosen
    rest = len(chosen) - MAX_PER_CODE
    return [*chosen[:MAX_PER_CODE], Problem(code, "log", f"{rest} more of these", chosen[0].expected, chosen[0].fix)]
