"""Claims: replies whose name and node do not belong together, as the log keeps them and as a warning tells them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from itertools import islice

from flcontrib_core.errors import Problem
from flcontrib_core.runs.problems import epochs_named, problem, shown

TAKEN, CONTESTED, RENAMED, MOVED, TWICE = "taken", "contested", "renamed", "moved", "twice"
CLAIM_KINDS = {
    TAKEN: "the name is another node's",
    CONTESTED: "several nodes gave the name at the same time",
    RENAMED: "the node is known under another name",
    MOVED: "the client came from another node before the recording was interrupted",
    TWICE: "the node answered more than once",
}
"""What a claim of each kind says."""
MOST_WARNINGS = 50


@dataclass(frozen=True)
class IdentityClaim:
    """A reply whose name and node do not belong together; a node that was only restarted looks the same."""

    kind: str
    client: str
    """Under whom the reply is recorded."""
    node: str
    claimed: str
    """The name it gave."""
    other_node: str = ""
    """The node the name, or the client, is bound to; empty where it is nobody's."""
    update: str = ""
    """sha256 of the reply's update: float32, little endian, flattened in the order of the parameters."""
    other_update: str = ""
    """sha256 of what the other node sent in the same epoch, if it answered."""

    def to_json(self) -> dict[str, str]:
        """The claim as a line of epochs.jsonl has it; what is empty is left out."""
        return {key: value for key, value in asdict(self).items() if value}


def claim_evidence(claims: Iterable[tuple[int, IdentityClaim]], ids: Collection[str]) -> list[Problem]:
    """One warning per client, name and kind, from (epoch, claim) pairs; it names the updates of the first epoch."""
    seen: dict[tuple[str, str, str], list[tuple[int, IdentityClaim]]] = defaultdict(list)
    for epoch, claim in claims:
        seen[claim.kind, claim.client, claim.claimed].append((epoch, claim))
    problems: list[Problem] = []
    for (kind, client, claimed), made in islice(seen.items(), MOST_WARNINGS):
        _, first = made[0]
        bound = f" (node {shown(first.other_node)})" if first.other_node and first.other_node != first.node else ""
        hashes = [f"sha256 {h[:16]}…" for h in (first.update, first.other_update) if h]
        found = (
            f"in {epochs_named([epoch for epoch, _ in made])} node {shown(first.node)} answered as {shown(claimed)}: "
            f"{CLAIM_KINDS[kind]}{bound}; recorded as {shown(client)}"
            + (f"; updates {' and '.join(hashes)}" if hashes else "")
        )
        concerned = tuple(dict.fromkeys(name for name in (client, claimed) if name in ids))
        problems.append(problem("W_IDENTITY", f"client {shown(client)}", found, clients=concerned))
    if len(seen) > MOST_WARNINGS:
        problems.append(problem("W_IDENTITY", "log", f"{len(seen) - MOST_WARNINGS} more of these"))
    return problems


def gap_evidence(gaps: Iterable[tuple[int, str]]) -> list[Problem]:
    """One warning for all rounds that could not be recorded."""
    told = list(gaps)
    if not told:
        return []
    return [problem("W_GAP", epochs_named([epoch for epoch, _ in told]), f"not recorded: {shown(told[0][1])}")]
