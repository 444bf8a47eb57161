"""``audit``: an assessment, its reading and its settings as one report, and the same of a run that still grows.

``audit(run)`` assesses every epoch the budget allows, reads the history, and returns one frozen report from which the
dashboard, the HTML and JSON reports and ``verify`` all work.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from flcontrib_core import __version__
from flcontrib_core.detection.change_points import ChangePointSettings
from flcontrib_core.detection.findings import Alert, Detection
from flcontrib_core.detection.separation import GroupingSettings
from flcontrib_core.errors import MissingPart, Problem, RunLogError, SettingsError
from flcontrib_core.execution.engine import Execution
from flcontrib_core.history.assess import Computing, assess_contributions
from flcontrib_core.history.axioms import AxiomCheck, check_axioms
from flcontrib_core.history.checkpoints import digest_of
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.epoch_stream import Growth
from flcontrib_core.history.memory_need import require_memory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.standing import LogCheck
from flcontrib_core.history.trajectory import evaluator_for
from flcontrib_core.history.updates_only import history_of_updates, lacking_part
from flcontrib_core.runs.run_log import Run, RunLog, Truth
from flcontrib_core.vocabulary import OnProgress, Phase, no_progress

if TYPE_CHECKING:
    from flcontrib_core.detection.online import ProvisionalAlert
    from flcontrib_core.games.evaluator import Evaluator
    from flcontrib_core.runs.bundle_reader import NonFinite

REFUSALS_IN_A_ROW = 3
"""A recorder may write between two reads of one look; what is refused so often is wrong."""


@dataclass(frozen=True)
class AuditSettings:
    """An assessment and how its history is read."""

    assess: AssessSettings = field(default_factory=AssessSettings)
    preset: str = "default"
    """'default' or 'strict': the threshold of alerts."""
    change_points: ChangePointSettings = field(default_factory=ChangePointSettings)
    grouping: GroupingSettings = field(default_factory=GroupingSettings)

    def record(self) -> dict[str, object]:
        """The settings as plain values, as a stored result carries them."""
        reading = {"change_points": self.change_points.record(), "grouping": self.grouping.record()}
        return {**self.assess.record(), "preset": self.preset, **reading}


@dataclass(frozen=True)
class Provenance:
    """What a result came from; with the log it suffices to compute it again."""

    run_digest: str
    settings: dict[str, object]
    seed: int
    version: str
    packages: dict[str, str]
    platform: str
    recipe: dict[str, object]
    epochs_computed: tuple[int, ...]
    processor: str = ""
    """Kernels are chosen by it, and with them the last bits of a number."""

    @property
    def digest(self) -> str:
        """Identity of (run, settings, seed, version): what a job and a stored result are found by."""
        return digest_of(self.run_digest, self.settings, self.seed, self.version)


@dataclass(frozen=True)
class AuditReport:
    """Everything one audit found."""

    run_name: str
    history: ContributionHistory
    detection: Detection
    axioms: tuple[AxiomCheck, ...]
    warnings: tuple[Problem, ...]
    provenance: Provenance
    truth: Truth | None
    seconds: float
    log_checks: tuple[LogCheck, ...] = ()
    """What the verdicts stand on: checks of the log against itself; none of a table."""


def audit(
    run: Run,
    settings: AuditSettings | None = None,
    *,
    evaluator: Evaluator | None = None,
    on_progress: OnProgress = no_progress,
    **computing: Unpack[Computing],
) -> AuditReport:
    """Assess a run, read its history and say what was observed.

    A log without a model or a validation set is read by its updates alone: no value, and harm is not measurable.
    ``computing``: workers, engine and address, checkpoints and memory, as ``assess_contributions`` takes them.

    Example: ``audit(read_run_log("sample_runs/two-poisoned.flrun")).detection.alerts[0].client``.
    """
    settings = settings or AuditSettings()
    require_memory(run, reading=True)
    lacking = lacking_part(run) if evaluator is None else None
    if lacking is not None and isinstance(run, RunLog):
        threads = Execution(computing.get("workers", 1)).processes
        alone = history_of_updates(run, settings.assess, lacking, on_progress, threads=threads)
        return _with_meaning(run, report_on(run, alone, settings))
    if evaluator is None and isinstance(run, RunLog):
        evaluator = evaluator_for(run, settings.assess.utilities, device=computing.get("device", "cpu"))
    history = assess_contributions(run, settings.assess, evaluator=evaluator, on_progress=on_progress, **computing)
    on_progress(history.epoch_count, history.epoch_count, Phase.READING)
    return _with_meaning(run, report_on(run, history, settings, {} if evaluator is None else evaluator.recipe()))


def _with_meaning(run: Run, report: AuditReport) -> AuditReport:
    """The report with what the log's own numbers say about it, before any verdict is read."""
    if not isinstance(run, RunLog):
        return report
    from flcontrib_core.history.meaning import read_meaning
    from flcontrib_core.history.standing import log_checks

    meaning = read_meaning(run)
    warnings = (*report.warnings, *meaning.warnings, *_contradicted_truth(report))
    return replace(report, warnings=warnings, log_checks=log_checks(run, meaning))


def _contradicted_truth(report: AuditReport) -> list[Problem]:
    """A word where the log's own labels and the verdicts name other clients."""
    if report.truth is None:
        return []
    labelled = {label.client for label in report.truth.dishonest}
    asked = {alert.client for alert in report.detection.alerts}
    accused = {alert.client for alert in report.detection.alerts if alert.accuses}
    wrong = (labelled - asked) | (accused - labelled)  # a question about a labelled client contradicts nothing
    if not wrong:
        return []
    from flcontrib_core.runs.problems import problem, quoted

    contradiction = f"truth names {quoted(sorted(labelled), 5)}, the verdicts {quoted(sorted(asked), 5)}"
    return [problem("W_TRUTH", "manifest.json:truth", contradiction, clients=tuple(sorted(wrong)))]


def report_on(
    run: Run,
    history: ContributionHistory,
    settings: AuditSettings,
    recipe: dict[str, object] | None = None,
    verdicts: Detection | None = None,
) -> AuditReport:
    """The report of a history that exists already; ``verdicts``: where they were read already."""
    truth = run.truth if isinstance(run, RunLog) else None
    detection = read_history(history, settings, truth, verdicts)
    return AuditReport(
        run_name=history.run_name,
        history=history,
        detection=detection,
        axioms=check_axioms(history),
        warnings=run.warnings,
        provenance=provenance_of(history, settings, recipe or {}),
        truth=truth,
        seconds=history.seconds,
    )


def read_history(
    history: ContributionHistory,
    settings: AuditSettings | None = None,
    truth: Truth | None = None,
    verdicts: Detection | None = None,
) -> Detection:
    """Change points, verdicts and grouping of a history. Truth only scores the grouping; no verdict sees it."""
    from flcontrib_core.detection.alerts import read_verdicts
    from flcontrib_core.detection.change_points import read_change_points
    from flcontrib_core.detection.separation import separate

    settings = settings or AuditSettings()
    utility = "loss" if "loss" in history.utilities else history.utilities[0]
    verdicts = verdicts or read_verdicts(history, settings.preset)
    dishonest = None if truth is None else [d.client for d in truth.dishonest]
    return replace(
        verdicts,
        change_points=read_change_points(history, settings.change_points),
        separation=separate(history, utility, settings.grouping, dishonest, settings.assess.seed),
    )


@dataclass(frozen=True)
class LiveLook:
    """What one look at a growing recording found that the look before had not."""

    run: RunLog
    history: ContributionHistory
    first_new: int
    """The first epoch that is new."""
    verdicts: Detection
    """Everything that stands after this look, by the online preset."""
    new_alerts: tuple[Alert, ...]

    def report(self, settings: AuditSettings) -> AuditReport:
        """The report as of this look; its alerts are provisional."""
        from flcontrib_core.detection.online import ONLINE_PRESET

        return report_on(self.run, self.history, replace(settings, preset=ONLINE_PRESET), verdicts=self.verdicts)


class LiveAudit:
    """Reads a recording on as it grows: each look reads and computes what is new, and tells the alerts that are.

    The one reader of growing logs, for ``flcontrib watch`` and the dashboard. Each look is another chance of a false
    alarm, so alerts pass the online preset's threshold; ``audit`` of the finished run has the last word. ``reported``:
    alerts an earlier reader told, where this one goes on after it.
    """

    def __init__(
        self,
        folder: Path,
        settings: AuditSettings | None = None,
        *,
        nonfinite: NonFinite = "refuse",
        reported: Iterable[ProvisionalAlert] = (),
    ) -> None:
        from flcontrib_core.detection.online import OnlineReader

        self.folder, self.settings = folder, settings or AuditSettings()
        self.run: RunLog | None = None
        """As the last look read it; None before the first epoch."""
        self._nonfinite: NonFinite = nonfinite
        self._reader = OnlineReader(reported=reported)
        self._refused = 0
        self._growth = Growth()

    def look(
        self, computing: Callable[[RunLog], Computing] = lambda run: {}, on_progress: OnProgress = no_progress
    ) -> LiveLook | None:
        """What is new; None where nothing is. Raises RunLogError for a log that stays refused."""
        before, run = self.run, self._read_on()
        epochs_before = 0 if before is None else before.epoch_count
        self.run = run
        if run is None or run is before or run.epoch_count <= epochs_before:
            return None
        settings, lacking = self.settings.assess, lacking_part(run)
        if lacking is None:
            how = Computing(growth=self._growth, **computing(run))
            history = assess_contributions(run, settings, on_progress=on_progress, **how)
        else:
            threads = Execution(computing(run).get("workers", 1)).processes
            history = history_of_updates(run, settings, lacking, on_progress, threads=threads, growth=self._growth)
        verdicts, new = self._reader.detect(history)
        return LiveLook(run, history, epochs_before + 1, verdicts, new)

    def _read_on(self) -> RunLog | None:
        """The recording as it stands; None before its first epoch has ended. Only what is new in it is read."""
        from flcontrib_core.runs.bundle import read_run_log

        if self.run is None and not (self.folder / "manifest.json").exists():
            return None
        try:
            run = read_run_log(self.folder, nonfinite=self._nonfinite, previous=self.run)
        except RunLogError as refused:
            if self.run is None and all(problem.code == "E_EPOCH_NONE" for problem in refused.problems):
                return None
            self._refused += 1
            if self._refused >= REFUSALS_IN_A_ROW:
                raise
            return self.run
        self._refused = 0
        if not isinstance(run, RunLog):
            raise MissingPart(f"{self.folder}: only a recording in a directory can be watched")
        return run


def provenance_of(history: ContributionHistory, settings: AuditSettings, recipe: dict[str, object]) -> Provenance:
    """What a history came from: settings, versions of the packages that computed it, platform and recipe."""
    from flcontrib_core.provenance import machine

    packages = {}
    for name in ("numpy", "torch", "tslearn", "pulp", "scipy"):
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            packages[name] = "not installed"
    return Provenance(
        run_digest=history.run_digest,
        settings=settings.record(),
        seed=settings.assess.seed,
        version=__version__,
        packages=packages,
        platform=f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        recipe=recipe,
        epochs_computed=tuple(t for t in range(1, history.epoch_count + 1) if history.computed[t]),
        processor=machine()["processor"],
    )


def settings_from_record(record: dict[str, object]) -> AuditSettings:
    """The inverse of ``AuditSettings.record``: settings from a report or a job, checked on the way."""
    from flcontrib_core.history.settings import assess_settings_from_record

    rest = dict(record)
    preset = str(rest.pop("preset", "default"))
    changes, grouping = (rest.pop(name, None) or {} for name in ("change_points", "grouping"))
    if not isinstance(changes, dict) or not isinstance(grouping, dict):
        raise SettingsError("change_points and grouping are settings by name")
    assess = assess_settings_from_record(rest)
    return AuditSettings(
        assess, preset, ChangePointSettings.from_record(changes), GroupingSettings.from_record(grouping)
    )
