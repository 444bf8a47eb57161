"""Values without the clients' votes on themselves: what a voter would say of itself, as all others lead one to expect.

A client's own vote on itself is replaced, not only left away: its rows are part of the federation's, and without them
its value would be that of other rows than everybody else's. Two things are known of a voter without asking it about
itself: which mixture of the other voters answers as it does about everybody else, and how what is particular to a
voter's rows goes on from what the others' updates do to them to what this client's do. The guess never leaves the range
of what the other voters say of the client, so that nobody gains more by its votes than its kindest fellow would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flcontrib_core.history.voting import VoterPanel, regressed_values
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

TOWARDS_THE_MEAN, TOWARDS_NOTHING = 0.3, 0.03
"""How far mixtures are drawn to the others' mean and particulars to none: shares of the mean square of what explains.

Chosen on simulated splits of eight clients; docs/federations.md has the agreement on fresh ones.
"""
FEWEST_OTHERS = 3
"""With fewer there is nothing to learn of particulars from."""


@dataclass(frozen=True)
class EpochVotes:
    """One epoch's values as the voters see them; rows are its participants."""

    client_ids: tuple[str, ...]
    of_everybody: FloatArray
    """(participants, metrics) from all votes together"""
    of_others: FloatArray
    """(participants, metrics) from all votes but the participant's own"""
    of_each: FloatArray
    """(voters, participants, metrics) from one voter's votes alone"""


def read_epoch(
    panel: VoterPanel, client_ids: tuple[str, ...], coalitions: BoolArray, answers: Sequence[tuple[str, str]]
) -> EpochVotes:
    """The values of an epoch from what was asked: ``answers`` are (question, model before) ids, one per coalition."""

    def regressed(changes: FloatArray) -> FloatArray:
        return regressed_values(coalitions, changes) if len(client_ids) > 1 else changes[coalitions[:, 0]][:1]

    joint = {client: panel.changes(answers, client) for client in client_ids if panel.votes(client)}
    everybody = regressed(panel.changes(answers))
    others = everybody.copy()
    for row, client in enumerate(client_ids):
        if client in joint:
            others[row] = regressed(joint[client])[row]
    votes = panel.single_changes(answers)
    voters, questions, metrics = votes.shape
    flat = regressed(votes.transpose(1, 0, 2).reshape(questions, voters * metrics))
    each = flat.reshape(len(client_ids), voters, metrics).transpose(1, 0, 2)
    return EpochVotes(client_ids, everybody, others, each)


def own_votes_replaced(epochs: Sequence[EpochVotes], panel: VoterPanel) -> list[FloatArray]:
    """(participants, metrics) per epoch: what is added to the joint values."""
    clients = sorted({client for epoch in epochs for client in epoch.client_ids} | {v.client for v in panel.voters})
    column = {client: place for place, client in enumerate(clients)}
    rows = np.array([voter.rows for voter in panel.voters], dtype=np.float64)
    shares = rows / rows.sum()
    metrics = epochs[0].of_everybody.shape[1] if epochs else 0
    seen = np.zeros((metrics, len(shares), len(epochs), len(clients)))  # who took no part moved nothing
    for t, epoch in enumerate(epochs):
        seen[:, :, t, [column[client] for client in epoch.client_ids]] = epoch.of_each.transpose(2, 0, 1)
    own = np.array([column[voter.client] for voter in panel.voters])
    expected = np.array([expected_votes(of_metric, shares, own) for of_metric in seen])
    added = [np.zeros_like(epoch.of_everybody) for epoch in epochs]
    for place, voter in enumerate(panel.voters):
        for t, epoch in enumerate(epochs):
            if voter.client in epoch.client_ids:
                row = epoch.client_ids.index(voter.client)
                joint = (1 - shares[place]) * epoch.of_others[row] + shares[place] * expected[:, place, t]
                added[t][row] = joint - epoch.of_everybody[row]
    return added


def expected_votes(seen: FloatArray, shares: FloatArray, own: IntArray) -> FloatArray:
    """(voters, epochs) what each voter would say of itself, from (voters, epochs, clients) values as each sees them.

    ``own``: the column of the client that each voter is. What a voter says of itself is not looked at.
    """
    flat = seen.reshape(len(seen), -1)
    products = flat @ flat.T
    expected = np.empty(seen.shape[:2])
    for voter, column in enumerate(own.tolist()):
        others = np.delete(np.arange(len(seen)), voter)
        about = seen[others][:, :, column]
        elsewhere = np.delete(seen, column, axis=2).reshape(len(seen), -1)
        inner = products[np.ix_(others, others)] - about @ about.T
        mixture = _mixture(inner, elsewhere[others] @ elsewhere[voter], shares[others])
        guess = mixture @ about
        if len(others) >= FEWEST_OTHERS:
            left = seen[voter] - np.tensordot(mixture, seen[others], 1)
            guess = guess + _particular(left, _unexplained(seen, products, others, shares), column)
        expected[voter] = np.clip(guess, about.min(axis=0), about.max(axis=0))
    return expected


def _mixture(inner: FloatArray, right: FloatArray, shares: FloatArray) -> FloatArray:
    """The weights with which the others answer as a voter does, drawn to their shares of the rows.

    ``inner``: the others' products with each other; ``right``: with the voter.
    """
    usual = shares / shares.sum()
    return np.asarray(usual + _ridge(inner, right - inner @ usual, TOWARDS_THE_MEAN))


def _unexplained(seen: FloatArray, products: FloatArray, voters: IntArray, shares: FloatArray) -> FloatArray:
    """(voters, epochs, clients) what each of these says beside the mixture of the rest of them."""
    left = np.empty((len(voters), *seen.shape[1:]))
    for place, voter in enumerate(voters):
        rest = voters[voters != voter]
        mixture = _mixture(products[np.ix_(rest, rest)], products[rest, voter], shares[rest])
        left[place] = seen[voter] - np.tensordot(mixture, seen[rest], 1)
    return left


def _particular(left: FloatArray, others: FloatArray, column: int) -> FloatArray:
    """(epochs,) what is left of a voter in one column, from the other columns, as it goes for the other voters."""
    rest = np.delete(np.arange(left.shape[1]), column)
    known = others[:, :, rest].reshape(-1, len(rest))
    turns = _ridge(known.T @ known, known.T @ others[:, :, column].reshape(-1), TOWARDS_NOTHING)
    return np.asarray(left[:, rest] @ turns)


def _ridge(inner: FloatArray, right: FloatArray, drawn: float) -> FloatArray:
    mean = float(np.trace(inner)) / len(inner)
    if mean <= 0:
        return np.zeros(len(inner))
    return np.asarray(np.linalg.solve(inner + drawn * mean * np.eye(len(inner)), right))
