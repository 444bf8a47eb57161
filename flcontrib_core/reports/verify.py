"""``verify_report``: computes a report again from its run log and names each place where the two differ.

Every leaf that is a statement is compared. Facts are compared as numbers; a sentence must be what the report's own
facts say. On another platform tolerances are wider, and no field is left out. What cannot be computed again (times,
package versions, the platform, what people decided) is listed as unverified.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flcontrib_core.auditing import AuditReport, audit, settings_from_record
from flcontrib_core.errors import SettingsError
from flcontrib_core.reports.extract import EXTRACT_FORMAT, extract_json
from flcontrib_core.reports.paged import PAGE_ENDINGS, Paged, read_page, wrong_page
from flcontrib_core.reports.record import record_of
from flcontrib_core.reports.rendered import without_sentences, wrong_sentences
from flcontrib_core.reports.tree_comparison import ABSOLUTE, RELATIVE, Difference, TreeComparison
from flcontrib_core.reports.twin import (
    LAYOUT,
    REPORT_FORMAT,
    SEAL_KEY,
    SEALS,
    VOLATILE,
    content_digest,
    parts,
    report_json,
    sealed_part,
)
from flcontrib_core.runs.bundle import check_run_log
from flcontrib_core.runs.limits import MAX_JSON_BYTES, MAX_JSON_VALUES
from flcontrib_core.runs.run_log import Run, RunLog
from flcontrib_core.runs.strict_json import parse_json
from flcontrib_core.vocabulary import LOWER_IS_BETTER, OnProgress, no_progress

MAX_REPORT_BYTES = 256 << 20
MAX_REPORT_VALUES = 30_000_000
MAX_PAGE_BYTES = 64 << 20
BYTES_PER_CELL, VALUES_PER_CELL = 1000, 50
"""What a report holds for a client in an epoch: about a hundred bytes and seven values for each utility."""
MOST_DIFFERENCES = 500
ENVIRONMENT = ("version", "platform", "processor", "packages", "recipe")


@dataclass(frozen=True)
class Verification:
    """Equal, or where not; ``bit_equal`` says which comparison was asked of the numbers."""

    equal: bool
    differences: tuple[Difference, ...]
    bit_equal: bool
    """True: same platform and versions, every number to the last bit. False: within the tolerance."""
    environment: tuple[Difference, ...]
    """What is different about this machine; no fault of the report."""
    epochs_replayed: tuple[int, ...]
    unverified: tuple[str, ...]
    """Places whose content no computation can confirm."""

    def to_json(self) -> dict[str, Any]:
        """``flcontrib verify --json``."""
        within = f"within {RELATIVE:g} of each number and {ABSOLUTE:g}"
        return {
            "equal": self.equal,
            "differences": [d.to_json() for d in self.differences],
            "comparison": "bit-equal" if self.bit_equal else within,
            "environment": [d.to_json() for d in self.environment],
            "epochs_replayed": list(self.epochs_replayed),
            "unverified": list(self.unverified),
        }


def read_report(path: Path, cells: Callable[[], int] | None = None) -> dict[str, Any]:
    """A report or an extract from an untrusted file; raises RunLogError or SettingsError saying what is wrong.

    ``cells``: clients × epochs of the run it should be about, asked for only where the file is a large one: then no
    small run's report takes the memory that a large one's needs.
    """
    content = parse_json(*_bounded(path, cells))
    if not isinstance(content, dict) or content.get("format") not in (REPORT_FORMAT, EXTRACT_FORMAT):
        raise SettingsError(f"{path} is not a report; give the JSON that was written beside the page, or the page")
    if content.get("layout") != LAYOUT:
        raise SettingsError(
            f"{path} has layout {content.get('layout')!r}; this version reads layout {LAYOUT}: verify it with the "
            "version that is named in it, or write the report again"
        )
    return content


def _bounded(path: Path, cells: Callable[[], int] | None) -> tuple[bytes, str, int, int]:
    """The file's content and name, and how many bytes and values it may have."""
    content = read_bytes(path, MAX_JSON_BYTES if cells is not None else MAX_REPORT_BYTES)
    if content is not None:
        return content, path.name, MAX_REPORT_BYTES, MAX_REPORT_VALUES if cells is None else MAX_JSON_VALUES
    assert cells is not None
    count = cells()
    most = min(MAX_REPORT_BYTES, MAX_JSON_BYTES + BYTES_PER_CELL * count)
    content = read_bytes(path, most)
    if content is None:
        raise SettingsError(f"{path}: a report of {count} clients × epochs has at most {most} bytes, and this has more")
    return content, path.name, most, min(MAX_REPORT_VALUES, MAX_JSON_VALUES + VALUES_PER_CELL * count)


def read_bytes(path: Path, most: int) -> bytes | None:
    """A report's file, if it is there and a plain one; None where it is larger than ``most``."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would be waited for without end
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise SettingsError(f"{path} is a pipe, a device or a folder; give a report's file")
            content = file.read(most + 1)
    except OSError as fault:
        raise SettingsError(
            f"{path}: {fault.strerror or fault}; give a report's page, or the JSON that was written beside it"
        ) from None
    return content if len(content) <= most else None


def read_report_or_page(path: Path, cells: Callable[[], int] | None = None) -> tuple[dict[str, Any], Paged | None]:
    """The content of a report's JSON, or of the twin that its page names, with the page."""
    if path.suffix.lower() not in PAGE_ENDINGS:
        return read_report(path, cells), None
    page = read_bytes(path, MAX_PAGE_BYTES)
    if page is None:
        raise SettingsError(f"{path}: a report's page has at most {MAX_PAGE_BYTES} bytes")
    paged = read_page(path, page)
    return read_report(path.parent / paged.twin, cells), paged


def cells_at(path: Path) -> int:
    """Clients × epochs of the run at a path; 0 where there is none, which reading it will say."""
    checked = check_run_log(path, nonfinite="absent")
    return len(checked.clients) * (checked.epochs + 1)


def recorded_settings(content: dict[str, Any]) -> dict[str, Any]:
    """The settings a report was made with."""
    settings = content.get("settings")
    if not isinstance(settings, dict):
        raise SettingsError("the report records no settings; nothing can be recomputed from it")
    return settings


def recorded_reading(content: dict[str, Any]) -> dict[str, Any]:
    """How the run was read when the report was made: what ``read_run_log`` takes beside the path."""
    utilities = content.get("utilities")
    if not isinstance(utilities, dict):
        raise SettingsError("the report holds no utilities; nothing in it can be compared")
    lower = [u for u, s in utilities.items() if isinstance(s, dict) and s.get("lower_is_better") is True]
    nonfinite = recorded_settings(content).get("nonfinite")
    return {
        "nonfinite": "absent" if nonfinite == "absent" else "refuse",
        "lower_is_better": tuple(u for u in lower if u not in LOWER_IS_BETTER),
    }


def verify_report(
    report: Path | dict[str, Any], run: Run, *, page: Paged | None = None, on_progress: OnProgress = no_progress
) -> Verification:
    """Recomputes with the recorded settings and seed, from the log alone (no memory, no checkpoint), and compares.

    ``report``: the JSON (or its content) or the page, whose own text is then compared too.
    """
    content = report if isinstance(report, dict) else {}
    if isinstance(report, Path):
        content, page = read_report_or_page(report, lambda: len(run.client_ids) * (run.epoch_count + 1))
    device = _recorded_device(content)
    again = audit(run, settings_from_record(recorded_settings(content)), on_progress=on_progress, device=device)
    return compare_with(content, again, run, page)


def _recorded_device(content: dict[str, Any]) -> str:
    """What the report was computed on, where this machine has it; the last bits are then the same."""
    from flcontrib_core.games.devices import resolve_device

    origin = content.get("provenance")
    recipe = origin.get("recipe") if isinstance(origin, dict) else None
    device = recipe.get("device") if isinstance(recipe, dict) else None
    try:
        return resolve_device(str(device or "cpu"))
    except SettingsError:
        return "cpu"


def compare_with(
    content: dict[str, Any],
    again: AuditReport,
    run: Run,
    page: Paged | None = None,
    fresh: dict[str, Any] | None = None,
) -> Verification:
    """A report against the same audit made again; ``fresh``: that audit's own JSON, where it is there already."""
    is_extract = content["format"] == EXTRACT_FORMAT
    if fresh is None:
        fresh = extract_json(again, str(content.get("client")), run) if is_extract else report_json(again)
    environment = tuple(_environment(content, fresh))
    named = _unnamed_table(content, run)
    compared = TreeComparison(not environment, again.history.client_ids, _steps(again))
    differences = [*compared.differences(_statements(content, named), _statements(fresh, named))]
    differences += [d for d in wrong_sentences(content) if d not in differences]
    differences += _wrong_record(content)
    differences = _most(sorted(differences, key=lambda d: d.where != "digest"))
    differences += _broken_seals(content, {d.where for d in differences})
    unverified = [*(k for k in sorted(VOLATILE - SEALS) if k in content), *named]
    unverified += [f"provenance.{key}" for key in ENVIRONMENT]
    if page is not None and not differences:
        shown = again if not named else replace(again, run_name=str(content.get("run")))
        differences += wrong_page(page, content, None if environment else shown)
        unverified += ["page"] if environment and not is_extract else []
    epochs = again.provenance.epochs_computed
    return Verification(not differences, tuple(differences), not environment, environment, epochs, tuple(unverified))


def _wrong_record(content: dict[str, Any]) -> Iterator[Difference]:
    """Decisions cannot be computed again, but they must be such: a list of what the log's entries say."""
    try:
        record_of(content)
    except ValueError as odd:
        yield Difference("decisions", content.get("decisions"), f"no record of this version: {odd}")


def _statements(content: dict[str, Any], unverified: tuple[str, ...]) -> dict[str, Any]:
    """What can be computed again: without seals, times, the environment, and sentences, which have their own check."""
    stated = {k: v for k, v in without_sentences(content).items() if k not in VOLATILE and k not in unverified}
    origin = stated.get("provenance")
    if isinstance(origin, dict):
        stated["provenance"] = {k: v for k, v in origin.items() if k not in ENVIRONMENT}
    return stated


def _unnamed_table(content: dict[str, Any], run: Run) -> tuple[str, ...]:
    """A table has no name of its own but its file's, which anybody may change."""
    return () if isinstance(run, RunLog) or "run" not in content else ("run",)


def _steps(report: AuditReport) -> dict[str, float]:
    """What one validation row is worth in the utilities that count rows."""
    from flcontrib_core.shapley.surrogate_fit import moves_in_steps

    channels = report.history.channels
    rows = 0 if channels is None else channels.validation_rows
    return {u: 1.0 / rows for u in report.history.utilities if rows and moves_in_steps(u)}


def _most(differences: list[Difference]) -> list[Difference]:
    more = len(differences) - MOST_DIFFERENCES
    if more <= 0:
        return differences
    return [*differences[:MOST_DIFFERENCES], Difference(f"{more} more places", "different", "not listed")]


def _broken_seals(content: dict[str, Any], named: set[str]) -> Iterator[Difference]:
    """Which parts are not what was sealed? Also names a change that alters no number, such as another seed."""
    sealed_parts = content.get("part_digests")
    known = sealed_parts if isinstance(sealed_parts, dict) else {}
    for name, part in parts(content).items():
        if known.get(name) != content_digest(part) and not any(where.startswith(name) for where in named):
            yield Difference(f"{name} (changed after the report was sealed)", part, "another value when it was sealed")
    seal = content_digest(sealed_part(content))
    if content.get(SEAL_KEY) != seal:
        yield Difference(f"{SEAL_KEY} (the content is not the sealed one)", content.get(SEAL_KEY), seal)


def _environment(report: dict[str, Any], fresh: dict[str, Any]) -> Iterator[Difference]:
    recorded = report.get("provenance")
    if not isinstance(recorded, dict):
        return
    for key in ENVIRONMENT:
        if recorded.get(key) != fresh["provenance"][key]:
            yield Difference(f"provenance.{key}", recorded.get(key), fresh["provenance"][key])
