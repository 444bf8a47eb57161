"""Reads epochs.jsonl line by line: who took part in each epoch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs.claims import CLAIM_KINDS, IdentityClaim
from flcontrib_core.runs.epoch_rows import VERSION_TWO_KEYS, RowReader
from flcontrib_core.runs.limits import (
    MAX_DATA_SIZE,
    MAX_EPOCH_LINES_BYTES,
    MAX_EPOCH_LINES_VALUES,
    MAX_EPOCHS,
    MAX_METRICS,
    MAX_STRANGERS,
    MAX_TEXT_CHARACTERS,
)
from flcontrib_core.runs.manifest import id_fault, is_count, is_sha256, normal
from flcontrib_core.runs.problems import Findings, refusal, shown
from flcontrib_core.runs.run_log import Client, EpochRecord, FailedClient
from flcontrib_core.runs.strict_json import parse_json

WHERE = "epochs.jsonl"
_CLAIM_FIELDS = {field.name for field in fields(IdentityClaim)}
_EPOCH_FILE = re.compile(r"epochs/[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}\.safetensors")


class EpochLines:
    """The records of the lines read so far; a line with a fault has none, and its faults are in the findings."""

    def __init__(self, clients: Sequence[Client], findings: Findings, version: int = 1) -> None:
        self._clients = clients
        self._version = version
        self._rows = RowReader(self._position, lambda client: self._clients[client].id, findings)
        self.unread: set[str] = set()
        """Keys of version 2 in a log of version 1, which does not know them."""
        self._positions = {client.id: position for position, client in enumerate(clients)}
        self._positions |= {normal(client.id): position for position, client in enumerate(clients)}
        self._sizes_by_position = [client.data_size for client in clients]
        self._findings = findings
        self._failures: dict[tuple[str, str], FailedClient] = {}
        self._strangers: dict[str, str] = {}
        self._metric_names: tuple[str, ...] = ()
        self._files: set[str] = set()
        self._last = 0
        self._participants_before: tuple[int, ...] = ()
        self._sizes_before: tuple[int, ...] = ()
        """The clients of the last sound line, and the sizes the manifest gives them."""
        self._bytes = self._values = 0
        """Of all lines appended."""
        self.records: list[EpochRecord] = []

    def add_client(self, client: Client) -> None:
        """A client that joined after the first line."""
        self._clients = (*self._clients, client)
        self._positions |= dict.fromkeys((client.id, normal(client.id)), len(self._clients) - 1)
        self._sizes_by_position.append(client.data_size)

    def append(self, line: bytes) -> EpochRecord:
        """Takes a recording's next line as the reader will; raises ``RunLogError``, unchanged, where it will not."""
        due = self._last + 1
        bound_epochs(due)
        bound_line_bytes(self._bytes + len(line))
        bound_line_values(self._values + line.count(b","))
        self.add(line, due)
        if self._findings.errors:
            faults, self._findings.errors = self._findings.errors, []
            self._last = due - 1
            self._files = {record.file for record in self.records if record.file is not None}
            raise RunLogError(tuple(faults))
        self._bytes += len(line)
        self._values += line.count(b",")
        return self.records[-1]

    def withdraw(self, line: bytes) -> None:
        """Takes the last line back, which could not be written: its epoch is due again."""
        record = self.records.pop()
        self._bytes -= len(line)
        self._values -= line.count(b",")
        self._last = record.epoch - 1
        self._files.discard(record.file or "")

    def add(self, line: bytes, number: int) -> None:
        """Reads one line; a line with a fault leaves it in the findings and no record."""
        where = f"{WHERE} line {number}"
        before = len(self._findings.errors)
        try:
            content = parse_json(line, where)
        except RunLogError as refused:
            self._findings.add(refused.problems[0])
            self._last += 1  # a line that cannot be read stands for the epoch that is due
            return
        with self._findings.collecting():
            record = self._read(content, where)
            if record is not None and len(self._findings.errors) == before:
                self.records.append(record)

    def _read(self, content: object, where: str) -> EpochRecord | None:
        if not isinstance(content, dict):
            raise refusal("E_JSON", where, shown(content), "an object")
        epoch = self._epoch(content.get("epoch"), where)
        listed = self._participants(content.get("participants"), where)
        if listed is None or not self._clients:
            return None
        before = len(self._findings.errors)
        sizes = self._sizes(content.get("data_sizes", {}), listed, where)
        refused = len(self._findings.errors) > before  # then they need not even be numbers
        participants, rows = listed, None
        if self._version > 1 and not refused:
            rows = self._rows.read(content, epoch, listed, dict(zip(listed, sizes, strict=True)), where)
            if rows is not None and len(set(listed)) != len(listed):
                size_of = dict(zip(listed, sizes, strict=True))
                participants, sizes = tuple(size_of), tuple(size_of.values())
        elif self._version == 1:
            self.unread.update(key for key in VERSION_TWO_KEYS if key in content)
        file, digest = self._file(content, bool(participants), where)
        failed = self._failed(content.get("failed", []), participants, where)
        return EpochRecord(
            epoch=epoch,
            participants=participants,
            data_sizes=sizes,
            file=file,
            sha256=digest,
            has_global=False,
            asked=self._asked(content.get("asked", []), where),
            failed=failed,
            metrics=self._metrics(content.get("metrics", {}), where),
            claims=self._claims(content.get("claims", []), where),
            gap=self._gap(content.get("gap"), where),
            rows=rows,
        )

    def _epoch(self, epoch: object, where: str) -> int:
        due = self._last + 1
        if not isinstance(epoch, int) or not is_count(epoch, 0, 2**31):
            self._last = due
            raise refusal("E_EPOCH_ORDER", where, f"epoch {shown(epoch)}", f"epoch {due}")
        if epoch != due:
            self._findings.refuse(
                "E_EPOCH_ORDER",
                where,
                f"epoch {epoch}" + (f" after epoch {self._last}" if self._last else " at the beginning"),
                f"epoch {due}: epochs 1, 2, 3, … in order, none left out or repeated",
            )
        self._last = epoch
        return epoch

    def _position(self, name: str) -> int | None:
        """The client's place under any spelling that is the same text to Unicode."""
        position = self._positions.get(name)
        return position if position is not None else self._positions.get(normal(name))

    def _participants(self, names: object, where: str) -> tuple[int, ...] | None:
        if not isinstance(names, list) or not set(map(type, names)) <= {str}:
            self._findings.refuse("E_PARTICIPANTS", where, shown(names), "a list of client ids")
            return None
        if not self._clients:
            return None
        positions = list(map(self._positions.get, names))
        if None in positions:
            positions = list(map(self._position, names))
        if None in positions:
            strangers = [name for name, position in zip(names, positions, strict=True) if position is None]
            self._findings.refuse(
                "E_PARTICIPANTS:unknown",
                where,
                f"{shown(strangers[0])}, not in the manifest"
                + (f" (and {len(strangers) - 1} more)" if strangers[1:] else ""),
            )
            return None
        known: tuple[int, ...] = tuple(positions)  # type: ignore[arg-type]  # none of them is None
        if known == self._participants_before:
            return self._participants_before  # one object for all epochs of a federation where everybody takes part
        if self._version == 1 and len(set(known)) != len(known):
            twice = Counter(known).most_common(1)[0][0]
            self._findings.refuse("E_PARTICIPANTS", where, f"{shown(self._clients[twice].id)} twice")
            return None
        self._participants_before = known
        self._sizes_before = tuple(map(self._sizes_by_position.__getitem__, known))
        return known

    def _sizes(self, overrides: object, participants: tuple[int, ...], where: str) -> tuple[int, ...]:
        if not isinstance(overrides, dict):
            raise refusal("E_CLIENT_SIZE", f"{where}: data_sizes", shown(overrides), "an object")
        usual = self._sizes_before
        if not overrides:
            return usual
        positions, sizes = list(map(self._positions.get, overrides)), list(overrides.values())
        sound = set(map(type, sizes)) == {int} and min(sizes) >= 1 and max(sizes) <= MAX_DATA_SIZE
        if None in positions or len(set(positions)) != len(positions) or not sound:
            positions = [self._size_of(name, size, where) for name, size in overrides.items()]
        own = dict(zip(positions, sizes, strict=True))
        if len(own) - (None in own) != len(positions) - positions.count(None):
            found = "two sizes of one client"
            self._findings.refuse("E_CLIENT_DUP", f"{where}: data_sizes", found)
        return tuple([own.get(p, size) for p, size in zip(participants, usual, strict=True)])

    def _size_of(self, name: str, size: object, where: str) -> int | None:
        """Whose size this is; faults of the name and of the size go to the findings."""
        position = self._position(name)
        at = f"{where}: data_sizes"
        if position is None:
            found = f"{shown(name)}, not in the manifest"
            self._findings.refuse("E_PARTICIPANTS", at, found)
        elif not is_count(size, 1, MAX_DATA_SIZE):
            at = f"{at} of {shown(name)}"
            self._findings.refuse("E_CLIENT_SIZE", at, shown(size))
        return position

    def _file(self, content: Mapping[str, Any], needed: bool, where: str) -> tuple[str | None, str | None]:
        file, digest = content.get("file"), content.get("sha256")
        if file is None and digest is None and not needed:
            return None, None
        if not isinstance(file, str) or not _EPOCH_FILE.fullmatch(file):
            self._findings.refuse("E_EPOCH_FILE", where, f"file {shown(file)}")
        elif file in self._files:
            self._findings.refuse("E_EPOCH_FILE", where, f"{file} again")
        else:
            self._files.add(file)
        if not is_sha256(digest):
            self._findings.refuse("E_HASH", where, f"sha256 {shown(digest)}")
        return file, digest.lower() if isinstance(digest, str) else None

    def _name(self, name: object, where: str) -> str:
        """A name of ``asked`` or ``failed``: a client, or somebody who was asked and never became known."""
        if isinstance(name, str) and (position := self._position(name)) is not None:
            return self._clients[position].id
        if (fault := id_fault(name)) is not None:
            raise refusal("E_PARTICIPANTS", where, shown(name), f"an id: {fault}")
        assert isinstance(name, str)
        return self._remember(name, where)

    def _remember(self, text: str, where: str) -> str:
        if len(self._strangers) >= MAX_STRANGERS and text not in self._strangers:
            raise refusal("E_FILE_SIZE:names", where, f"over {MAX_STRANGERS} unknown names and reasons", "fewer")
        return self._strangers.setdefault(text, text)

    def _asked(self, names: object, where: str) -> tuple[str, ...]:
        if not isinstance(names, list):
            raise refusal("E_PARTICIPANTS", f"{where}: asked", shown(names), "a list of ids")
        positions = list(map(self._positions.get, names)) if set(map(type, names)) <= {str} else [None]
        if None not in positions:
            return tuple([self._clients[position].id for position in positions if position is not None])
        return tuple(self._name(name, f"{where}: asked") for name in names)

    def _failed(self, entries: object, participants: tuple[int, ...], where: str) -> tuple[FailedClient, ...]:
        where = f"{where}: failed"
        if not isinstance(entries, list):
            raise refusal("E_PARTICIPANTS", where, shown(entries), "a list of {client, reason}")
        answered = {self._clients[position].id for position in participants} if entries else set()
        failed: list[FailedClient] = []
        for entry in entries:
            client, reason = (entry.get("client"), entry.get("reason", "")) if isinstance(entry, dict) else (None, None)
            known = None
            if type(client) is str and type(reason) is str:
                known = self._failures.get((client, reason))
            if known is None:
                known = self._failure(client, reason, entry, where)
            if known.client in answered:
                found = f"{shown(known.client)}, who also took part"
                raise refusal("E_PARTICIPANTS", where, found, "failed or participant, not both")
            failed.append(known)
        return tuple(failed)

    def _failure(self, client: object, reason: object, entry: object, where: str) -> FailedClient:
        """Clients fail again and again for the same reason: one object for all of these."""
        if not isinstance(reason, str) or len(reason) > MAX_TEXT_CHARACTERS:
            raise refusal("E_PARTICIPANTS", where, shown(entry), "{client, reason}")
        known = FailedClient(self._name(client, where), self._remember(reason, where))
        assert isinstance(client, str)
        return self._failures.setdefault((client, reason), known)

    def _claims(self, entries: object, where: str) -> tuple[IdentityClaim, ...]:
        where = f"{where}: claims"
        if not isinstance(entries, list):
            raise refusal("E_PARTICIPANTS:claims", where, shown(entries))
        claims = []
        for entry in entries:
            texts = isinstance(entry, dict) and set(map(type, entry.values())) <= {str}
            if not texts or not {"kind", "client", "node", "claimed"} <= entry.keys() <= _CLAIM_FIELDS:
                raise refusal("E_PARTICIPANTS:claims", where, shown(entry))
            if entry["kind"] not in CLAIM_KINDS or max(map(len, entry.values())) > MAX_TEXT_CHARACTERS:
                raise refusal("E_PARTICIPANTS:claims", where, shown(entry))
            claims.append(IdentityClaim(**{key: self._remember(text, where) for key, text in entry.items()}))
        return tuple(claims)

    def _gap(self, reason: object, where: str) -> str | None:
        if reason is None:
            return None
        if not isinstance(reason, str) or len(reason) > MAX_TEXT_CHARACTERS:
            raise refusal("E_EPOCH_GAP", f"{where}: gap", shown(reason))
        return self._remember(reason, where)

    def _metrics(self, values: object, where: str) -> dict[str, float]:
        where = f"{where}: metrics"
        if not isinstance(values, dict) or len(values) > MAX_METRICS:
            raise refusal("E_METRICS", where, shown(values), f"an object of up to {MAX_METRICS} numbers")
        odd = not set(map(type, values.values())) <= {int, float} or len("".join(values)) > MAX_TEXT_CHARACTERS
        for name, value in values.items() if odd else ():
            if type(value) not in (float, int) or len(name) > MAX_TEXT_CHARACTERS:
                raise refusal("E_METRICS", where, f"{shown(name)}: {shown(value)}")
        if tuple(values) != self._metric_names:  # most epochs have the same metrics: one object for each name
            self._metric_names = tuple(values)
        return dict(zip(self._metric_names, map(float, values.values()), strict=True))


def bound_epochs(number: int) -> None:
    """Refuse a line beyond the last epoch a log may have."""
    if number > MAX_EPOCHS:
        raise refusal("E_EPOCH_COUNT", WHERE, f"more than {MAX_EPOCHS} lines")


def bound_line_bytes(size: int) -> None:
    """Refuse an epochs.jsonl of too many bytes."""
    if size > MAX_EPOCH_LINES_BYTES:
        expected = f"at most {MAX_EPOCH_LINES_BYTES}"
        raise refusal("E_FILE_SIZE:text", WHERE, f"{size} bytes", expected)


def bound_line_values(count: int) -> None:
    """Refuse an epochs.jsonl of too many names and numbers in all its lines together."""
    if count > MAX_EPOCH_LINES_VALUES:
        expected = f"at most {MAX_EPOCH_LINES_VALUES}: participants, asked, failed and metrics of all epochs"
        raise refusal("E_FILE_SIZE", WHERE, f"about {count} names and numbers", expected)


def read_epoch_lines(
    lines: Iterator[bytes], clients: Sequence[Client], findings: Findings, version: int = 1
) -> EpochLines:
    """Every epoch's record; faults go to ``findings``. Without clients only the text itself is checked."""
    epochs = EpochLines(clients, findings, version)
    number = 0
    for number, line in enumerate(lines, start=1):
        bound_epochs(number)
        epochs.add(line, number)
    if number == 0:
        findings.refuse("E_EPOCH_NONE", WHERE, "no whole line")
    return epochs
