"""Reads manifest.json: what it says the run is, every word of it checked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flcontrib_core.runs.limits import (
    MAX_CLASSES,
    MAX_CLIENTS,
    MAX_DATA_SIZE,
    MAX_ID_CHARACTERS,
    MAX_NOTES,
    MAX_TENSORS,
    MAX_TEXT_CHARACTERS,
    most_parameters,
)
from flcontrib_core.runs.model_nodes import MAX_EXTENT, MAX_RANK
from flcontrib_core.runs.problems import Findings, shown
from flcontrib_core.runs.run_log import Client, DishonestTruth, FrozenPart, LogNote, ParameterSpec, Truth
from flcontrib_core.runs.tasks import CLASSIFICATION, TARGETS

WHERE = "manifest.json"
VERSION = 2
"""The newest version of the format; version 1 is read as it always was."""
NUMBER_TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""How updates may be stored: our name, and safetensors' name."""
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Manifest:
    """A manifest as far as it could be read; parts with faults are empty, and the faults are in the findings."""

    name: str
    clients: tuple[Client, ...]
    parameters: tuple[ParameterSpec, ...]
    classes: int | None
    files: dict[str, str]
    truth: Truth | None
    content: dict[str, Any]
    version: int = 1
    dtype: str | None = None
    """How the updates are stored, where the log says so."""
    notes: tuple[LogNote, ...] = ()
    task: str = CLASSIFICATION
    frozen: FrozenPart | None = None


def is_count(value: object, low: int, high: int) -> bool:
    """Is this an integer (no boolean) between the bounds?"""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def is_sha256(value: object) -> bool:
    """64 hex digits?"""
    return isinstance(value, str) and _SHA256.fullmatch(value.lower()) is not None


def id_fault(value: object) -> str | None:
    """Why may this not be a client's id? Any script and any sign is fine, except NUL and half characters.

    Departure: NUL separates names inside the digests and ends them in most other programs, so it is refused here.
    """
    if not isinstance(value, str):
        return "a text"
    if not 1 <= len(value) <= MAX_ID_CHARACTERS:
        return f"1 to {MAX_ID_CHARACTERS} characters"
    if _NO_CHARACTER.search(value):
        return "whole characters without NUL"
    return None


def normal(identity: str) -> str:
    """The form under which ids are compared."""
    return unicodedata.normalize("NFC", identity)


def read_manifest(content: Any, default_name: str, findings: Findings) -> Manifest | None:
    """The manifest from its parsed JSON; every fault goes to ``findings``. None when it is not a manifest at all."""
    if not isinstance(content, dict):
        findings.refuse("E_MANIFEST:none", WHERE, shown(content))
        return None
    if content.get("format") != "flrun":
        findings.refuse("E_FORMAT", f"{WHERE}:format", shown(content.get("format")))
        return None
    if not _version_fits(content.get("version"), findings):
        return None
    name = content.get("name", default_name)
    if not isinstance(name, str) or len(name) > MAX_TEXT_CHARACTERS:
        findings.refuse("E_MANIFEST", f"{WHERE}:name", shown(name), f"up to {MAX_TEXT_CHARACTERS} characters")
        name = default_name
    for key, kind, words in (("source", dict, "an object"), ("created", str, "a text"), ("task", str, "a text")):
        if not isinstance(content.get(key, kind()), kind):
            findings.refuse("E_MANIFEST", f"{WHERE}:{key}", shown(content[key]), words)
        elif kind is str and len(content.get(key, "")) > MAX_TEXT_CHARACTERS:
            findings.refuse(
                "E_MANIFEST", f"{WHERE}:{key}", shown(content[key]), f"up to {MAX_TEXT_CHARACTERS} characters"
            )
    dtype = content.get("dtype") if content["version"] > 1 else None
    if dtype is not None and (not isinstance(dtype, str) or dtype not in NUMBER_TYPES):
        findings.refuse("E_MANIFEST", f"{WHERE}:dtype", shown(dtype), " or ".join(NUMBER_TYPES))
        dtype = None
    classes = content.get("classes")
    if classes is not None and not is_count(classes, 1, MAX_CLASSES):
        findings.refuse("E_MANIFEST", f"{WHERE}:classes", shown(classes), "an integer of at least 1")
        classes = None
    clients = read_clients(content.get("clients"), findings)
    parameters = read_parameters(content.get("parameters"), findings)
    # What version 1 says of some entries was never read.
    further = content if content["version"] > 1 else {}
    return Manifest(
        name=name,
        clients=clients,
        parameters=parameters,
        classes=classes,
        files=_read_files(content.get("files"), findings),
        truth=_read_truth(content.get("truth"), clients, findings),
        content=content,
        version=content["version"],
        dtype=dtype,
        notes=read_notes(further.get("notes", []), clients, findings),
        task=_read_task(further.get("task", CLASSIFICATION), findings),
        frozen=_read_frozen(further.get("frozen"), parameters, findings),
    )


def _version_fits(version: object, findings: Findings) -> bool:
    if is_count(version, 1, VERSION):
        return True
    key = "E_VERSION:newer" if is_count(version, VERSION + 1, 2**62) else "E_VERSION"
    findings.refuse(key, f"{WHERE}:version", f"version {shown(version)}")
    return False


def read_clients(entries: object, findings: Findings) -> tuple[Client, ...]:
    """The federation's clients; none where one of them has a fault."""
    where = f"{WHERE}:clients"
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_CLIENTS:
        found = f"{len(entries)} clients" if isinstance(entries, list) else shown(entries)
        findings.refuse("E_MANIFEST", where, found, f"a list of 1 to {MAX_CLIENTS} clients")
        return ()
    clients: list[Client] = []
    first: dict[str, int] = {}
    before = len(findings.errors)
    for position, entry in enumerate(entries):
        identity = entry.get("id") if isinstance(entry, dict) else None
        size = entry.get("data_size") if isinstance(entry, dict) else None
        if not isinstance(identity, str) or id_fault(identity) is not None:
            fault = id_fault(identity) or ""
            at = f"{where}[{position}].id"
            findings.refuse("E_CLIENT_ID", at, shown(identity), fault)
        elif (other := first.setdefault(normal(identity), position)) != position:
            found = f"{shown(identity)}, as clients[{other}]"
            at = f"{where}[{position}].id"
            findings.refuse("E_CLIENT_DUP", at, found)
        if not isinstance(size, int) or not is_count(size, 1, MAX_DATA_SIZE):
            expected = f"an integer from 1 to {MAX_DATA_SIZE}"
            at = f"{where}[{position}].data_size"
            findings.refuse("E_CLIENT_SIZE", at, shown(size), expected)
        elif isinstance(identity, str):
            clients.append(Client(identity, size))
    return tuple(clients) if len(findings.errors) == before else ()


def read_parameters(
    entries: object, findings: Findings, where: str = f"{WHERE}:parameters", fewest: int = 1
) -> tuple[ParameterSpec, ...]:
    """Names and shapes in the order of the flat vector; none where one has a fault or all are too large."""
    if not isinstance(entries, list) or not fewest <= len(entries) <= MAX_TENSORS:
        found = f"{len(entries)} parameters" if isinstance(entries, list) else shown(entries)
        findings.refuse("E_MANIFEST", where, found, f"a list of {fewest} to {MAX_TENSORS} tensors")
        return ()
    parameters: dict[str, ParameterSpec] = {}
    for position, entry in enumerate(entries):
        at = f"{where}[{position}]"
        name = entry.get("name") if isinstance(entry, dict) else None
        shape = entry.get("shape") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_TEXT_CHARACTERS or name == "__metadata__":
            findings.refuse("E_MANIFEST", f"{at}.name", shown(name), "a tensor's name")
        elif name in parameters:
            findings.refuse("E_MANIFEST", f"{at}.name", f"{shown(name)} twice", "each tensor once")
        elif not isinstance(shape, list) or len(shape) > MAX_RANK or not all(is_count(n, 1, MAX_EXTENT) for n in shape):
            findings.refuse("E_SHAPE", f"{at}.shape", shown(shape), "a list of integers ≥ 1")
        else:
            parameters[name] = ParameterSpec(name, tuple(shape))
    if len(parameters) != len(entries):
        return ()
    if (total := sum(spec.count for spec in parameters.values())) > (most := most_parameters()):
        findings.refuse("E_MODEL_SIZE", where, f"{total} parameters", f"at most {most} on this machine")
        return ()
    return tuple(parameters.values())


def _read_task(task: object, findings: Findings) -> str:
    """Any name; one that only looks like a known task would turn off what is known of it."""
    if not isinstance(task, str):  # a fault that was noted already
        return CLASSIFICATION
    plain = task.strip().casefold()
    if not 1 <= len(task) <= MAX_ID_CHARACTERS or not task.isprintable() or (plain in TARGETS and task != plain):
        expected = f"a plain name of up to {MAX_ID_CHARACTERS} characters, such as {CLASSIFICATION}"
        findings.refuse("E_MANIFEST", f"{WHERE}:task", shown(task), expected)
    return task


def _read_frozen(content: object, trained: Sequence[ParameterSpec], findings: Findings) -> FrozenPart | None:
    if content is None:
        return None
    digest = content.get("sha256") if isinstance(content, dict) else 0
    if not isinstance(content, dict) or not (digest is None or is_sha256(digest)):
        expected = 'an object with "parameters" and, for a base that all clients share, its sha256'
        findings.refuse("E_MANIFEST", f"{WHERE}:frozen", shown(content), expected)
        return None
    listed = read_parameters(content.get("parameters", []), findings, f"{WHERE}:frozen.parameters", fewest=0)
    own = {spec.name for spec in trained}
    if both := [spec.name for spec in listed if spec.name in own]:
        findings.refuse("E_MANIFEST", f"{WHERE}:frozen.parameters", shown(both[0]), "names that no trained one has")
    return FrozenPart(listed, None if digest is None else str(digest).lower())


def _read_files(entries: object, findings: Findings) -> dict[str, str]:
    if not isinstance(entries, dict):
        findings.refuse("E_MANIFEST", f"{WHERE}:files", shown(entries), "an object of file names and sha256")
        return {}
    for name, digest in entries.items():
        if not is_sha256(digest):
            findings.refuse("E_HASH", f"{WHERE}:files.{shown(name)}", shown(digest))
    return {name: digest.lower() for name, digest in entries.items() if is_sha256(digest)}


def _read_truth(content: object, clients: Sequence[Client], findings: Findings) -> Truth | None:
    if content is None:
        return None
    where = f"{WHERE}:truth.dishonest"
    entries = content.get("dishonest") if isinstance(content, dict) else None
    if not isinstance(entries, list) or len(entries) > MAX_CLIENTS:
        findings.refuse("E_TRUTH", where, shown(entries))
        return None
    known = {normal(client.id): client.id for client in clients}
    labels: list[DishonestTruth] = []
    for position, entry in enumerate(entries):
        at = f"{where}[{position}]"
        client = entry.get("client") if isinstance(entry, dict) else None
        if not isinstance(client, str) or (clients and normal(client) not in known):
            findings.refuse("E_TRUTH", f"{at}.client", shown(client), "a client of the manifest")
            continue
        windows = entry.get("windows")
        if not isinstance(windows, list) or len(windows) > MAX_TEXT_CHARACTERS or not all(map(_is_window, windows)):
            findings.refuse("E_TRUTH", f"{at}.windows", shown(windows), "pairs [first, last] ≥ 1")
            continue
        attack, strength = entry.get("attack", ""), entry.get("strength")
        if not isinstance(attack, str) or isinstance(strength, bool) or not isinstance(strength, int | float | None):
            findings.refuse("E_TRUTH", at, "an attack or strength of another kind", "a text, a number")
            continue
        spans = tuple((first, last) for first, last in windows)
        labels.append(
            DishonestTruth(
                known.get(normal(client), client), spans, attack, None if strength is None else float(strength)
            )
        )
    return Truth(tuple(labels))


def read_notes(entries: object, clients: Sequence[Client], findings: Findings) -> tuple[LogNote, ...]:
    """What was declared about clients in the log itself."""
    where = f"{WHERE}:notes"
    if not isinstance(entries, list) or len(entries) > MAX_NOTES:
        findings.refuse("E_NOTES", where, shown(entries), f"a list of up to {MAX_NOTES} notes")
        return ()
    known = {normal(client.id): client.id for client in clients}
    notes: list[LogNote] = []
    for position, entry in enumerate(entries):
        at = f"{where}[{position}]"
        client = entry.get("client") if isinstance(entry, dict) else None
        texts: list[Any] = [entry.get(key, "") for key in ("text", "by", "when")] if isinstance(entry, dict) else [0]
        if not isinstance(client, str) or (clients and normal(client) not in known):
            findings.refuse("E_NOTES", f"{at}.client", shown(client), "a client of the manifest")
        elif not _is_window(entry.get("epochs")):
            findings.refuse("E_NOTES", f"{at}.epochs", shown(entry.get("epochs")), "[first, last], counted from 1")
        elif not all(isinstance(text, str) and len(text) <= MAX_TEXT_CHARACTERS for text in texts) or not texts[0]:
            findings.refuse("E_NOTES", at, shown(entry), f"texts of up to {MAX_TEXT_CHARACTERS} characters")
        else:
            first, last = entry["epochs"]
            notes.append(LogNote(known.get(normal(client), client), (first, last), *texts))
    return tuple(notes)


def _is_window(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(is_count(epoch, 1, 2**31) for epoch in value)
        and value[0] <= value[1]
    )
