"""The federation an epoch is checked against while it is recorded: its clients and the layout of its model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from flcontrib_core.runs.epoch_rows import by_name
from flcontrib_core.runs.inputs import (
    NO_REPLY,
    Numbers,
    as_clients,
    as_failures,
    as_float32,
    as_parameters,
    as_plain,
    as_size,
    flatten,
)
from flcontrib_core.runs.problems import refusal, shown
from flcontrib_core.runs.run_log import Client
from flcontrib_core.vocabulary import Float32Array


class Roster:
    """The federation an epoch is checked against: who its clients are and how its model is laid out."""

    def __init__(self, clients: Iterable[Any], parameters: Any) -> None:
        if parameters is None:
            raise refusal("E_MISSING:argument", "parameters", "none", "names and shapes")
        self.clients = as_clients(clients)
        self.parameters = as_parameters(parameters)
        self.sizes = {c.id: c.data_size for c in self.clients}
        self.total = sum(p.count for p in self.parameters)

    def add(self, identity: str, data_size: int) -> Client:
        """Takes in a client that joined later."""
        self.clients = as_clients([*self.clients, (identity, data_size)])
        self.sizes[identity] = data_size
        return self.clients[-1]

    def known(self, names: Iterable[str], where: str) -> list[str]:
        """The names, if each is a client."""
        listed = list(names)
        if strangers := [n for n in listed if n not in self.sizes]:
            raise refusal("E_PARTICIPANTS", where, f"unknown {shown(strangers[:5])}", "clients of the manifest")
        return listed

    def per_row(
        self, values: Mapping[str, Any] | Sequence[Any] | None, names: Sequence[str], where: str
    ) -> dict[str, Any]:
        """Numbers by id, as an epoch's line has them, from such a mapping or from one number per row."""
        if values is None:
            return {}
        if isinstance(values, Mapping):
            return {n: [as_plain(v) for v in own] if isinstance(own, list | tuple) else as_plain(own)
                    for n, own in values.items()}  # fmt: skip
        if len(values) != len(names):
            raise refusal("E_PARTICIPANTS:rows", where, f"{len(values)} numbers for {len(names)} rows")
        return by_name([as_plain(value) for value in values], names)

    def updates(
        self, updates: Numbers, participants: Sequence[str] | None, where: str
    ) -> tuple[list[str], Iterator[Float32Array]]:
        """Participants in row order, and their flat updates, each made when it is asked for."""
        if isinstance(updates, Mapping):
            names = self.known(updates if participants is None else participants, where)
            if set(names) != set(updates) or len(names) != len(updates):
                found = f"updates of {shown(sorted(map(str, updates))[:5])} for {shown(names[:5])}"
                raise refusal("E_PARTICIPANTS:updates", where, found)
            return names, (flatten(updates[n], self.parameters, f"{where}: update of {n!r}") for n in names)
        matrix = as_float32(updates, where)
        names = self.known([c.id for c in self.clients] if participants is None else participants, where)
        if matrix.size == 0 and not names:
            return names, iter(())
        if matrix.shape != (len(names), self.total):
            expected = f"({len(names)} participants, {self.total} numbers)"
            raise refusal("E_SHAPE:rows", f"{where}, updates", f"shape {matrix.shape}", expected)
        return names, iter(matrix)

    def epoch_sizes(
        self, sizes: Mapping[str, int] | Sequence[int] | None, names: Sequence[str], where: str
    ) -> dict[str, int]:
        """The participants' sizes that differ from the manifest's in this epoch."""
        if sizes is None:
            return {}
        if not isinstance(sizes, Mapping) and len(sizes) != len(names):
            found = f"{len(sizes)} sizes"
            raise refusal("E_CLIENT_SIZE", where, found, f"{len(names)}, one per participant")
        pairs = sizes if isinstance(sizes, Mapping) else dict(zip(names, sizes, strict=True))
        if not isinstance(sizes, Mapping) and any(pairs[n] != s for n, s in zip(names, sizes, strict=True)):
            raise refusal("E_CLIENT_SIZE", where, "two sizes of one client", "one size; weights may differ by row")
        self.known(pairs, f"{where}, data_sizes")
        checked = {n: as_size(s, f"{where}, data size of {n!r}") for n, s in pairs.items()}
        return {n: checked[n] for n in names if n in checked and checked[n] != self.sizes[n]}

    def failures(
        self,
        failed: Mapping[str, str] | Iterable[Any] | None,
        asked: Sequence[str] | None,
        names: Sequence[str],
    ) -> dict[str, str]:
        """Who was asked and sent nothing, and why: as told, or else everybody asked who is no participant."""
        present = set(names)
        silent = {n: NO_REPLY for n in asked or () if n not in present}
        return silent if failed is None else as_failures(failed)
