"""Does a report say what its run log says? Computes every number again and names each place where the two differ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flcontrib_core.auditing import audit, settings_from_record
from flcontrib_core.errors import SettingsError
from flcontrib_core.reports.extract import EXTRACT_FORMAT, extract_json
from flcontrib_core.reports.twin import REPORT_FORMAT, SEAL_KEY, VOLATILE, content_digest, parts, report_json
from flcontrib_core.runs.run_log import Run
from flcontrib_core.runs.strict_json import parse_json
from flcontrib_core.vocabulary import LOWER_IS_BETTER, OnProgress, no_progress

MAX_REPORT_BYTES = 256 << 20
MAX_REPORT_VALUES = 30_000_000
MOST_DIFFERENCES = 500
TOLERANCE = 1e-4
"""On another platform: share of the largest number in the same list. Float32 models differ in their last bits there."""
ENVIRONMENT = ("version", "platform", "processor", "packages", "recipe")
_BY_CLIENT = {"per_epoch", "standard_error", "participated", "total", "total_standard_error", "total_worst_case"}
_SENTENCES = {"why", "counter_evidence", "notes", "history_notes", "false_alarm_source", "warnings"}
"""Words that quote rounded numbers: compared only where numbers must be bit-equal."""


@dataclass(frozen=True)
class Difference:
    """One place where report and recomputation differ."""

    where: str
    report: Any
    recomputed: Any

    def sentence(self) -> str:
        return f"{self.where}: report {_shown(self.report)}, recomputed {_shown(self.recomputed)}"

    def to_json(self) -> dict[str, Any]:
        return {"where": self.where, "report": self.report, "recomputed": self.recomputed}


@dataclass(frozen=True)
class Verification:
    """Equal, or where not; ``bit_equal`` says which comparison was asked of the numbers."""

    equal: bool
    differences: tuple[Difference, ...]
    bit_equal: bool
    """True: same platform and versions, every number to the last bit. False: within TOLERANCE."""
    environment: tuple[Difference, ...]
    """What is different about this machine; no fault of the report."""
    epochs_replayed: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "equal": self.equal,
            "differences": [d.to_json() for d in self.differences],
            "comparison": "bit-equal" if self.bit_equal else f"within {TOLERANCE:g} of the largest number in each list",
            "environment": [d.to_json() for d in self.environment],
            "epochs_replayed": list(self.epochs_replayed),
        }


def read_report(path: Path) -> dict[str, Any]:
    """A report or an extract from an untrusted file; raises RunLogError or SettingsError saying what is wrong."""
    try:
        size = path.stat().st_size
        if size > MAX_REPORT_BYTES:
            raise SettingsError(f"{path}: {size} bytes; a report has at most {MAX_REPORT_BYTES}")
        data = path.read_bytes()
    except OSError as fault:
        raise SettingsError(
            f"{path}: {fault.strerror or fault}; give the JSON that was written beside a report"
        ) from None
    content = parse_json(data, path.name, MAX_REPORT_BYTES, MAX_REPORT_VALUES)
    if not isinstance(content, dict) or content.get("format") not in (REPORT_FORMAT, EXTRACT_FORMAT):
        raise SettingsError(f"{path} is not a report; give the JSON that 'flcontrib report' wrote beside the page")
    if content.get("layout") != 1:
        raise SettingsError(f"{path} has layout {content.get('layout')!r}; this version reads layout 1")
    return content


def recorded_settings(content: dict[str, Any]) -> dict[str, Any]:
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


def verify_report(report: Path | dict[str, Any], run: Run, *, on_progress: OnProgress = no_progress) -> Verification:
    """Recomputes with the recorded settings and seed, from the log alone (no memory, no checkpoint), and compares."""
    content = read_report(report) if isinstance(report, Path) else report
    again = audit(run, settings_from_record(recorded_settings(content)), on_progress=on_progress)
    if content["format"] == EXTRACT_FORMAT:
        fresh = extract_json(again, str(content.get("client")), run)
    else:
        fresh = report_json(again, chain_head=None)
    environment = tuple(_environment(content, fresh))
    same_place = not environment
    names = fresh.get("client_ids", [])
    comparison = _Comparison(names if isinstance(names, list) else [], exact=same_place)
    found = [d for d in comparison.walk(_steady(content), _steady(fresh), "") if not _about_environment(d.where)]
    differences = sorted(found[:MOST_DIFFERENCES], key=lambda d: d.where != "digest")
    if len(found) > MOST_DIFFERENCES:
        more = len(found) - MOST_DIFFERENCES
        differences.append(Difference(f"{more} more places", "different", "not listed"))
    differences += _broken_seals(content, {d.where for d in differences})
    return Verification(not differences, tuple(differences), same_place, environment, again.provenance.epochs_computed)


def _broken_seals(content: dict[str, Any], named: set[str]) -> Iterator[Difference]:
    """Which parts are not what was sealed? Also names a change that alters no number, such as another seed."""
    sealed_parts = content.get("part_digests")
    known = sealed_parts if isinstance(sealed_parts, dict) else {}
    for name, part in parts(content).items():
        if known.get(name) != content_digest(part) and not any(where.startswith(name) for where in named):
            yield Difference(f"{name} (changed after the report was sealed)", part, "another value when it was sealed")
    seal = content_digest({k: v for k, v in content.items() if k != SEAL_KEY})
    if content.get(SEAL_KEY) != seal:
        yield Difference(f"{SEAL_KEY} (the content is not the sealed one)", content.get(SEAL_KEY), seal)


def _steady(content: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in content.items() if k not in VOLATILE}


def _environment(report: dict[str, Any], fresh: dict[str, Any]) -> Iterator[Difference]:
    recorded = report.get("provenance")
    if not isinstance(recorded, dict):
        return
    for key in ENVIRONMENT:
        if recorded.get(key) != fresh["provenance"][key]:
            yield Difference(f"provenance.{key}", recorded.get(key), fresh["provenance"][key])


def _about_environment(where: str) -> bool:
    return any(where == f"provenance.{k}" or where.startswith(f"provenance.{k}.") for k in ENVIRONMENT)


class _Comparison:
    """Walks two JSON trees side by side and yields every place that differs."""

    def __init__(self, client_ids: list[Any], exact: bool) -> None:
        self._clients = [str(c) for c in client_ids]
        self._exact = exact

    def walk(self, report: Any, fresh: Any, where: str, scale: float = 0.0) -> Iterator[Difference]:
        if isinstance(report, dict) and isinstance(fresh, dict):
            yield from self._mappings(report, fresh, where)
        elif isinstance(report, list) and isinstance(fresh, list):
            yield from self._lists(report, fresh, where, max(scale, _largest(fresh)))
        elif _is_number(report) and _is_number(fresh):
            if not self._close(report, fresh, scale):
                yield Difference(where, report, fresh)
        elif report != fresh or type(report) is not type(fresh):
            yield Difference(where, report, fresh)

    def _mappings(self, report: dict[str, Any], fresh: dict[str, Any], where: str) -> Iterator[Difference]:
        for key in [*fresh, *(k for k in report if k not in fresh)]:
            if not self._exact and key in _SENTENCES:
                continue
            place = f"{where}.{key}" if where else str(key)
            if key not in report or key not in fresh:
                yield Difference(place, report.get(key, "missing"), fresh.get(key, "missing"))
            else:
                yield from self.walk(report[key], fresh[key], place)

    def _lists(self, report: list[Any], fresh: list[Any], where: str, scale: float) -> Iterator[Difference]:
        if len(report) != len(fresh):
            yield Difference(f"{where} (length)", len(report), len(fresh))
            return
        by_client = len(fresh) == len(self._clients) and self._is_row(where)
        for n, (old, new) in enumerate(zip(report, fresh, strict=True)):
            place = f"{where}.{self._clients[n]}" if by_client else f"{where}[{n}]"
            yield from self.walk(old, new, place, scale)

    @staticmethod
    def _is_row(where: str) -> bool:
        """Does this list have one entry per client? 'utilities.loss.per_epoch[7]', 'utilities.loss.total'."""
        last = where.rpartition(".")[2]
        name, bracket, _ = last.partition("[")
        return name in _BY_CLIENT and (bool(bracket) or name.startswith("total"))

    def _close(self, report: float, fresh: float, scale: float) -> bool:
        if self._exact or isinstance(report, bool) or isinstance(fresh, int):
            return report == fresh and type(report) is type(fresh)
        return math.isclose(report, fresh, rel_tol=TOLERANCE, abs_tol=TOLERANCE * scale + 1e-9)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _largest(values: list[Any]) -> float:
    return max((abs(v) for v in values if isinstance(v, float)), default=0.0)


def _shown(value: Any) -> str:
    text = "not computed" if value is None else str(value)
    return text if len(text) <= 200 else text[:197] + "…"
