"""One pass over every epoch's file: whether its updates are sound, and what they show."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from flcontrib_core.errors import Problem
from flcontrib_core.runs.aggregate_check import AggregateCheck, aggregate_evidence
from flcontrib_core.runs.claims import claim_evidence, gap_evidence
from flcontrib_core.runs.epoch_source import BundleSource, Verified
from flcontrib_core.runs.limits import WINDOW
from flcontrib_core.runs.log_checks import (
    EpochFacts,
    UpdateFacts,
    absent_evidence,
    update_evidence,
)
from flcontrib_core.runs.parts import Parts
from flcontrib_core.runs.problems import shown
from flcontrib_core.runs.run_log import Client, EpochRecord, ParameterSpec
from flcontrib_core.runs.shape_checks import INITIAL
from flcontrib_core.runs.tensors import stream_columns

LINES = "epochs.jsonl"


def _without(record: EpochRecord, kept: Sequence[int], bad: Sequence[int]) -> EpochRecord:
    """The record with these rows alone; a client whose every row is bad did not take part."""
    clients = record.row_clients
    sizes = dict(zip(record.participants, record.data_sizes, strict=True))
    left = dict.fromkeys(clients[row] for row in kept)
    return dataclasses.replace(
        record,
        participants=tuple(left),
        data_sizes=tuple(sizes[client] for client in left),
        nonfinite=tuple(dict.fromkeys(clients[row] for row in bad)),
        rows=None if record.rows is None else record.rows.kept(kept),
    )


class EpochValues:
    """Reads the epochs' numbers through once; ``records`` then says who takes part in what follows."""

    def __init__(
        self,
        parts: Parts,
        clients: Sequence[Client],
        parameters: Sequence[ParameterSpec],
        records: Sequence[EpochRecord],
        known: BundleSource | None,
    ) -> None:
        self._parts = parts
        self._clients = clients
        self._parameters = parameters
        self._written = list(records)
        self._known = known
        self._facts: list[EpochFacts] = []
        self._adopted: EpochRecord | None = None
        """The last epoch that was not read again; the check of the server's model goes on from its stored one."""
        self.records = list(records)
        self.kept_rows: dict[int, tuple[int, ...]] = {}
        self.verified: dict[str, Verified] = {}
        self.differences: dict[int, float] = {}

    def read(self, absent_if_nonfinite: bool) -> None:
        """Goes through every epoch's numbers; ``absent_if_nonfinite`` takes broken updates out instead of refusing."""
        check = self._aggregate_check(0)
        nothing = UpdateFacts(0).result()
        for index, record in enumerate(self.records):
            facts = nothing
            if record.file is None:
                if check is not None:
                    check.begin(record)
                    check.end(record.epoch, facts)
            elif record.file in self._parts.layouts:
                with self._parts.faults_of(record.file):
                    facts = self._scan(record, check)
                    if self._parts.hash_fits(record.file, record.sha256, LINES):
                        self._settle(index, facts, absent_if_nonfinite)
            else:
                self._parts.hash_fits(record.file, record.sha256, LINES)
            self._facts.append(facts)
        if check is not None and not self._parts.findings.errors:
            self.differences.update(check.differences)
            del check  # its window's worth of memory is the next one's
            self._check_further_columns()

    def _scan(self, record: EpochRecord, check: AggregateCheck | None) -> EpochFacts:
        file = str(record.file)
        signature = self._parts.container.signature(file)
        known = self._known.verified.get(file) if self._known is not None else None
        expected = (signature, record.sha256, record.row_weights)
        if known is not None and (known.signature, known.sha256, known.weights) == expected:
            # The check of the server's model can go on from a stored one, but not from one it would have to rebuild.
            follows = check is None or (record.has_global and known.facts.global_finite)
            if follows:
                return self._reuse(record, known, check)
        updates = UpdateFacts(len(record.row_clients))
        if check is None:
            self._parts.stream(file, updates.take)
        else:
            if self._adopted is not None:
                stored = self._source().epoch(self._adopted).global_model
                assert stored is not None
                check.adopt(stored)
                self._adopted = None
            check.begin(record)
            self._parts.stream(file, updates.take, check.take)
            check.end(record.epoch, updates.result())
        facts = updates.result()
        self.verified[file] = Verified(signature, self._parts.hashes[file], record.row_weights, facts)
        return facts

    def _reuse(self, record: EpochRecord, known: Verified, check: AggregateCheck | None) -> EpochFacts:
        """An epoch that an earlier reading of the same growing run has been through."""
        file = str(record.file)
        self._parts.hashes[file], self.verified[file] = known.sha256, known
        if check is not None and self._known is not None:
            self._adopted = record  # read only where an epoch follows that has to be compared with it
            if record.epoch in self._known.differences:
                self.differences[record.epoch] = self._known.differences[record.epoch]
        return known.facts

    def _source(self) -> BundleSource:
        return BundleSource(self._parts.container, self._parts.layouts, self._parameters)

    def _aggregate_check(self, first: int) -> AggregateCheck | None:
        """The check of one window of columns; None where the log has no global model to compare with."""
        if INITIAL not in self._parts.layouts or not any(record.has_global for record in self._written):
            return None
        return AggregateCheck(self._source().initial_columns(first, first + WINDOW), first)

    def _check_further_columns(self) -> None:
        """A model wider than one window is followed window by window, each time through the whole run."""
        for first in range(WINDOW, sum(spec.count for spec in self._parameters), WINDOW):
            for epoch, difference in self._differences_in_window(first).items():
                self.differences[epoch] = max(self.differences.get(epoch, 0.0), difference)

    def _differences_in_window(self, first: int) -> dict[int, float]:
        check = self._aggregate_check(first)
        assert check is not None
        for record, facts in zip(self._written, self._facts, strict=True):
            check.begin(record)
            if record.file is not None:
                layout = self._parts.layouts[record.file]
                stream = self._parts.container.open(record.file)
                try:
                    stream.skip(layout.data_offset)
                    for block in stream_columns(stream, layout, first, first + WINDOW):
                        check.take(block)
                finally:
                    stream.close()
            check.end(record.epoch, facts)
        return check.differences

    def _settle(self, index: int, facts: EpochFacts, absent_if_nonfinite: bool) -> None:
        """Refuse an epoch's non-finite updates, or take their clients out of it, as the caller chose."""
        record = self.records[index]
        bad = [int(row) for row in np.flatnonzero(~facts.finite)]
        if not absent_if_nonfinite:
            for row in bad:
                self._refuse(record, f"the update of client {shown(self._clients[record.row_clients[row]].id)}")
            if not facts.global_finite:
                self._refuse(record, "the global model")
            return
        if bad:
            kept = tuple(int(row) for row in np.flatnonzero(facts.finite))
            self.kept_rows[record.epoch] = kept
            record = _without(record, kept, bad)
        self.records[index] = dataclasses.replace(record, has_global=record.has_global and facts.global_finite)

    def _refuse(self, record: EpochRecord, what: str) -> None:
        self._parts.findings.refuse(
            "E_NONFINITE", f"{record.file} (epoch {record.epoch})", f"NaN or infinite numbers in {what}"
        )

    def evidence(self) -> list[Problem]:
        """What the epochs show about themselves; only for a log without faults."""
        ids = [client.id for client in self._clients]
        absent: dict[str | None, list[int]] = defaultdict(list)
        for record, written in zip(self.records, self._written, strict=True):
            for position in record.nonfinite:
                absent[ids[position]].append(record.epoch)
            if written.has_global and not record.has_global:
                absent[None].append(record.epoch)
        return [
            *claim_evidence(((r.epoch, claim) for r in self.records for claim in r.claims), set(ids)),
            *gap_evidence((r.epoch, r.gap) for r in self.records if r.gap is not None),
            *aggregate_evidence(self.differences),
            *absent_evidence(absent),
            *update_evidence(ids, self._written, self._facts),
        ]
