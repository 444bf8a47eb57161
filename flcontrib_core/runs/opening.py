"""What a recording begins with: its manifest and opening files, checked as their reader will, before one is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flcontrib_core.runs import encoding
from flcontrib_core.runs.bundle_reader import check_opening
from flcontrib_core.runs.encoding import MANIFEST
from flcontrib_core.runs.frozen import frozen_record
from flcontrib_core.runs.inputs import Numbers, as_classes, as_model, flatten, opening_contents
from flcontrib_core.runs.roster import Roster
from flcontrib_core.runs.run_log import Truth
from flcontrib_core.runs.tasks import CLASSIFICATION
from flcontrib_core.runs.validation_rows import gathered
from flcontrib_core.vocabulary import Float32Array


@dataclass(frozen=True)
class Opening:
    """A run before its first epoch."""

    roster: Roster
    manifest: dict[str, Any]
    contents: Mapping[str, bytes]
    """file -> what it holds"""
    initial: Float32Array | None


def opening_of(
    *,
    clients: Iterable[Any],
    parameters: Any = None,
    initial: Numbers | None = None,
    model: Any = None,
    validation: Any | None = None,
    classes: int | None = None,
    name: str | None = None,
    truth: Truth | Mapping[str, Any] | None = None,
    source: Mapping[str, Any] | None = None,
    created: str | None = None,
    dtype: str = "float32",
    task: str = CLASSIFICATION,
    frozen: Mapping[str, Any] | None = None,
    local: Mapping[str, Any] | None = None,
) -> Opening:
    """The opening of a run, as ``RunRecorder`` takes it; raises RunLogError for what no reader would take."""
    encoding.checked_dtype(dtype)
    validation = gathered(validation)
    classes = as_classes(classes, model, validation, task)
    module = model if hasattr(model, "state_dict") else None
    if module is not None:
        parameters = module.state_dict() if parameters is None else parameters
        model = as_model(module, validation)
    roster = Roster(clients, parameters)
    given = parameters if initial is None and isinstance(parameters, Mapping) else initial
    flat = None if given is None else flatten(given, roster.parameters, "initial model")
    contents = opening_contents(flat, roster.parameters, model, validation, task)
    names = tuple(p.name for p in roster.parameters)
    manifest = encoding.manifest_record(
        roster.clients,
        roster.parameters,
        {file: encoding.sha256(content) for file, content in contents.items()},
        name=name,
        created=created,
        source=dict(source) if source is not None else None,
        task=task if task != CLASSIFICATION or classes is not None else None,
        classes=classes,
        dtype=None if dtype == "float32" else dtype,
        frozen=frozen_record(frozen, local, module, names),
        truth=None if truth is None else encoding.truth_record(truth),
    )
    check_opening({**contents, MANIFEST: encoding.json_bytes(manifest, indent=1, strict=False)})
    return Opening(roster, manifest, contents, flat)
