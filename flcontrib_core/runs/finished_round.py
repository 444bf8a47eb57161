"""One round as a framework told it, and the epoch that the log makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flcontrib_core.runs.claims import IdentityClaim
from flcontrib_core.runs.inputs import NO_REPLY, EpochOptions
from flcontrib_core.runs.replies import (
    Arrays,
    Reply,
    ReplyUpdates,
    is_count,
    is_weighted_mean,
    own_weights,
    with_hashes,
)

NO_WEIGHT = "reply not recorded: it has the weight 0, and the server's model is the mean without it"


@dataclass(frozen=True)
class FinishedRound:
    """One round as the framework told it; nobody writes into its arrays any more."""

    number: int
    before: Arrays
    asked: Sequence[str]
    replies: Sequence[Reply]
    errors: Mapping[str, str]
    after: Arrays | None
    factors: Mapping[str, float]
    """By what a verdict multiplied the weights of clients in the aggregation."""

    @property
    def model(self) -> Arrays:
        """The server's model when the round had ended."""
        return self.before if self.after is None else self.after


@dataclass(frozen=True)
class StoredEpoch:
    """What the log holds of the last round, as long as the model that the next one starts from is not known."""

    updates: ReplyUpdates | Mapping[str, Arrays]
    options: EpochOptions
    model: Arrays

    def differs(self, sent: Arrays, names: Sequence[str]) -> bool:
        """Is the model that went out next another one than the round ended with?"""
        return not all(name in sent and _same(sent[name], self.model[name]) for name in names)


def counts_of(named: Mapping[str, Reply]) -> dict[str, int]:
    """The weights that can stand as numbers of examples."""
    return {client: int(reply.weight) for client, reply in named.items() if is_count(reply.weight)}


def epoch_of(
    finished: FinishedRound,
    named: Mapping[str, Reply],
    claims: Sequence[IdentityClaim],
    sizes: Mapping[str, int],
    names: Sequence[str],
    shown: Callable[[str], str],
) -> StoredEpoch:
    """The epoch of a round. ``named``: client → reply; ``sizes``: all known clients'; ``shown``: a node's client."""
    unusable = {c: why for c, r in named.items() if (why := r.fault(finished.before, names))}
    server = {name: finished.model[name] for name in names}
    order = [c for c in sizes if c in named and c not in unusable]  # replies come in any order
    weightless = {c: NO_WEIGHT for c in order if named[c].weight == 0}
    if weightless and _mean_of(finished, named, [c for c in order if c not in weightless], sizes, server):
        # Such a client moved nothing, and a log knows no weight of 0.
        unusable |= weightless
        order = [c for c in order if c not in weightless]
    updates = ReplyUpdates({c: named[c].arrays for c in order}, finished.before, names)
    own = own_weights({c: named[c] for c in order})
    counts = counts_of({c: named[c] for c in order})
    answered = {reply.node for reply in finished.replies}
    asked = {**dict.fromkeys(finished.asked), **finished.errors}
    failed = {shown(n): finished.errors.get(n, NO_REPLY) for n in asked if n not in answered}
    source = {"round": finished.number, "nodes": {c: named[c].node for c in order}}
    options: EpochOptions = {
        "data_sizes": {} if own else counts,
        "weights": own,
        "global_model": None if is_weighted_mean(updates, own or {**sizes, **counts}, server) else server,
        "asked": [shown(n) for n in finished.asked],
        "failed": {**failed, **unusable},
        "source": source | ({"verdict": dict(finished.factors)} if finished.factors else {}),
        "claims": with_hashes(claims, finished.replies, updates),
    }
    return StoredEpoch(updates, options, finished.model)


def _mean_of(
    finished: FinishedRound, named: Mapping[str, Reply], chosen: Sequence[str], sizes: Mapping[str, int], server: Arrays
) -> bool:
    """Is the server's model the mean of these clients' replies alone?"""
    replies = {client: named[client] for client in chosen}
    updates = ReplyUpdates({c: r.arrays for c, r in replies.items()}, finished.before, list(server))
    return bool(chosen) and is_weighted_mean(updates, own_weights(replies) or {**sizes, **counts_of(replies)}, server)


def _same(sent: np.ndarray, ended: np.ndarray) -> bool:
    return sent.shape == ended.shape and bool(np.array_equal(sent, ended, equal_nan=True))
