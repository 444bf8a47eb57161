"""Which client sent a reply: names bound to nodes, so that nobody can answer in another client's name.

A framework knows the node a reply came from; the name inside the reply is the sender's own word. A name belongs to the
first node that gave it, or to the node that the server's own map gives it to. A reply that claims another node's name
is recorded under a name of its own, and the claim is kept as a finding with both updates' hashes.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flcontrib_core.runs.claims import CONTESTED, MOVED, RENAMED, TAKEN, TWICE, IdentityClaim
from flcontrib_core.runs.limits import MAX_ID_CHARACTERS
from flcontrib_core.runs.manifest import id_fault, normal

NameOfNode = Mapping[Any, str] | Callable[[str], str | None]

logger = logging.getLogger("flcontrib")
_NOBODY = ""


class Identities:
    """The names of a federation's nodes, as far as they are known."""

    def __init__(self, names: NameOfNode | None = None) -> None:
        """``names``: the server's own map from node to name."""
        self._client_of: dict[str, str] = {}
        self._owner: dict[str, str] = {}
        self._before: dict[str, str] = {}
        self._refused: dict[str, tuple[str, str]] = {}
        """node → the name it did not get, and why"""
        self._unused = isinstance(names, Mapping)
        """Whether the server's own map has not named anybody yet, which is said once."""
        if isinstance(names, Mapping):
            table = {str(node): str(name) for node, name in names.items()}
            self._names: Callable[[str], str | None] = table.get
            self._owner = {normal(name): node for node, name in table.items()}
        else:
            self._names = names or (lambda node: None)

    def resume(self, before: Mapping[str, str]) -> list[IdentityClaim]:
        """Compares with an interrupted recording's client → node; the claims are of those already seen again."""
        self._before = dict(before)
        known = self._client_of.items()
        return [IdentityClaim(MOVED, c, n, c, before[c]) for n, c in known if before.get(c, n) != n]

    def client_of(self, node: str) -> str | None:
        """The client behind a node, if it is known."""
        return self._client_of.get(node) or self._names(node)

    def assign(self, replies: Sequence[tuple[str, str | None]]) -> tuple[list[str], list[IdentityClaim]]:
        """The client of each reply of one round, given as (node, name in the reply), and what does not fit.

        Of several replies of one node the first counts; the others get an empty name. A name that can be no client's
        id (nothing, thousands of characters) counts as none.
        """
        replies = [(node, None if says is None or id_fault(says) is not None else says) for node, says in replies]
        self._remark_unused([node for node, _ in replies])
        claims: list[IdentityClaim] = []
        first = {node: place for place, (node, _) in reversed(list(enumerate(replies)))}
        fresh = [(n, s) for place, (n, s) in enumerate(replies) if first[n] == place and self.client_of(n) is None]
        wanted = Counter(normal(says) for _, says in fresh if says is not None)
        clients: list[str] = []
        for place, (node, says) in enumerate(replies):
            if first[node] != place:
                claims.append(IdentityClaim(TWICE, clients[first[node]], node, says or node, node))
                clients.append(_NOBODY)
                continue
            known = self.client_of(node)
            if known is None:
                known = self._bind(node, says, wanted, claims)
            else:
                self._client_of.setdefault(node, known)
                self._owner.setdefault(normal(known), node)
                if says is not None and normal(says) != normal(known):
                    name, why = self._refused.get(node, ("", ""))
                    owner = self._owner.get(normal(says), _NOBODY)
                    claims.append(IdentityClaim(why if name == says else RENAMED, known, node, says, owner))
            clients.append(known)
        return clients, claims

    def _remark_unused(self, nodes: Sequence[str]) -> None:
        if self._unused and nodes:
            self._unused = False
            if not any(self._names(node) for node in nodes):
                told = ", ".join(nodes[:3])
                logger.warning(
                    "names= knows none of the nodes that replied (%s …); correct the map or leave it out", told
                )

    def _bind(self, node: str, says: str | None, wanted: Counter[str], claims: list[IdentityClaim]) -> str:
        """The name of a node that is seen for the first time."""
        name = node if says is None else says
        owner = self._owner.get(normal(name))
        contested = owner is None and says is not None and wanted[normal(name)] > 1
        if contested:
            self._owner[normal(name)] = owner = _NOBODY
        client = name
        if owner is not None:
            while normal(client) in self._owner:
                suffix = f" (node {node})"
                client = client[: MAX_ID_CHARACTERS - len(suffix)] + suffix
            # Nobody can tell which of several is the one: then the name is nobody's.
            kind = CONTESTED if owner == _NOBODY else TAKEN
            claims.append(IdentityClaim(kind, client, node, name, owner))
            self._refused[node] = (name, kind)
        elif self._before.get(client, node) != node:
            claims.append(IdentityClaim(MOVED, client, node, name, self._before[client]))
        self._client_of[node] = client
        self._owner[normal(client)] = node
        return client
