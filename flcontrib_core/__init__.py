"""FLContrib audits federated learning: who contributed what, who changed and when, and what it costs to know.

The porch: the names a user needs. Each is imported when it is first asked for, so ``import flcontrib_core`` and the
recorder stay light (numpy and safetensors only).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from flcontrib_core.auditing import AuditReport, AuditSettings, audit, read_history, settings_from_record
    from flcontrib_core.bundled_files import bundled
    from flcontrib_core.charts.of_report import report_charts
    from flcontrib_core.detection.change_points import mass_in_window
    from flcontrib_core.detection.class_evidence import ClassMargins, class_margins
    from flcontrib_core.detection.findings import Alert, Separation, VerdictKind
    from flcontrib_core.detection.presets import PresetRate, preset_rates
    from flcontrib_core.errors import FLContribError, Problem, RunLogError, WorkspaceError
    from flcontrib_core.history.assess import assess_contributions
    from flcontrib_core.history.budget_errors import BudgetError, budget_error
    from flcontrib_core.history.contribution_history import ContributionHistory
    from flcontrib_core.history.preflight import Price, price_of
    from flcontrib_core.history.settings import PAPER_SETTINGS, AssessSettings
    from flcontrib_core.history.trajectory import problem_of_history, scheduling_problem
    from flcontrib_core.laboratory.simulation import SimulationSettings, simulate
    from flcontrib_core.reports.comparison import compare_reports, contribution_ranks
    from flcontrib_core.reports.extract import extract_json, write_extract
    from flcontrib_core.reports.tables import csv_safe, write_history_tables
    from flcontrib_core.reports.twin import report_json, write_report
    from flcontrib_core.reports.verify import verify_report
    from flcontrib_core.runs.bundle import CheckResult, check_run_log, read_run_log
    from flcontrib_core.runs.recorder import RunRecorder
    from flcontrib_core.runs.run_log import RunLog
    from flcontrib_core.scheduling.choose import choose_epochs
    from flcontrib_core.scheduling.explorer import ScheduleExplorer
    from flcontrib_core.scheduling.frontier import Frontier
    from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode, Schedule
    from flcontrib_core.shapley.estimate import ShapleyEstimate
    from flcontrib_core.shapley.registry import register
    from flcontrib_core.vocabulary import FillPolicy, WeightMode
    from flcontrib_core.workspace import (
        AlertEntry,
        AlertState,
        Job,
        JobState,
        NoSpaceLeft,
        ResultEntry,
        RunEntry,
        TooLarge,
        Workspace,
    )
    from flcontrib_core.workspace.audit_jobs import preview_of, sample_digests, stored_report, take_in_samples

_HOMES = {
    "Alert": "detection.findings",
    "AlertEntry": "workspace",
    "AlertState": "workspace",
    "AssessSettings": "history.settings",
    "AuditReport": "auditing",
    "AuditSettings": "auditing",
    "BudgetError": "history.budget_errors",
    "BudgetSettings": "scheduling.schedule",
    "CheckResult": "runs.bundle",
    "ClassMargins": "detection.class_evidence",
    "ContributionHistory": "history.contribution_history",
    "FLContribError": "errors",
    "FairnessMode": "scheduling.schedule",
    "FillPolicy": "vocabulary",
    "Frontier": "scheduling.frontier",
    "Job": "workspace",
    "JobState": "workspace",
    "NoSpaceLeft": "workspace",
    "PAPER_SETTINGS": "history.settings",
    "PresetRate": "detection.presets",
    "Price": "history.preflight",
    "Problem": "errors",
    "ResultEntry": "workspace",
    "RunEntry": "workspace",
    "RunLog": "runs.run_log",
    "RunLogError": "errors",
    "RunRecorder": "runs.recorder",
    "Schedule": "scheduling.schedule",
    "ScheduleExplorer": "scheduling.explorer",
    "Separation": "detection.findings",
    "ShapleyEstimate": "shapley.estimate",
    "SimulationSettings": "laboratory.simulation",
    "TooLarge": "workspace",
    "VerdictKind": "detection.findings",
    "WeightMode": "vocabulary",
    "Workspace": "workspace",
    "WorkspaceError": "errors",
    "assess_contributions": "history.assess",
    "audit": "auditing",
    "budget_error": "history.budget_errors",
    "bundled": "bundled_files",
    "check_run_log": "runs.bundle",
    "choose_epochs": "scheduling.choose",
    "class_margins": "detection.class_evidence",
    "compare_reports": "reports.comparison",
    "contribution_ranks": "reports.comparison",
    "csv_safe": "reports.tables",
    "extract_json": "reports.extract",
    "mass_in_window": "detection.change_points",
    "preset_rates": "detection.presets",
    "preview_of": "workspace.audit_jobs",
    "price_of": "history.preflight",
    "problem_of_history": "history.trajectory",
    "read_history": "auditing",
    "read_run_log": "runs.bundle",
    "register": "shapley.registry",
    "report_charts": "charts.of_report",
    "report_json": "reports.twin",
    "sample_digests": "workspace.audit_jobs",
    "scheduling_problem": "history.trajectory",
    "settings_from_record": "auditing",
    "simulate": "laboratory.simulation",
    "stored_report": "workspace.audit_jobs",
    "take_in_samples": "workspace.audit_jobs",
    "verify_report": "reports.verify",
    "write_extract": "reports.extract",
    "write_history_tables": "reports.tables",
    "write_report": "reports.twin",
}
__all__ = [
    "PAPER_SETTINGS",
    "Alert",
    "AlertEntry",
    "AlertState",
    "AssessSettings",
    "AuditReport",
    "AuditSettings",
    "BudgetError",
    "BudgetSettings",
    "CheckResult",
    "ClassMargins",
    "ContributionHistory",
    "FLContribError",
    "FairnessMode",
    "FillPolicy",
    "Frontier",
    "Job",
    "JobState",
    "NoSpaceLeft",
    "PresetRate",
    "Price",
    "Problem",
    "ResultEntry",
    "RunEntry",
    "RunLog",
    "RunLogError",
    "RunRecorder",
    "Schedule",
    "ScheduleExplorer",
    "Separation",
    "ShapleyEstimate",
    "SimulationSettings",
    "TooLarge",
    "VerdictKind",
    "WeightMode",
    "Workspace",
    "WorkspaceError",
    "__version__",
    "assess_contributions",
    "audit",
    "budget_error",
    "bundled",
    "check_run_log",
    "choose_epochs",
    "class_margins",
    "compare_reports",
    "contribution_ranks",
    "csv_safe",
    "extract_json",
    "mass_in_window",
    "preset_rates",
    "preview_of",
    "price_of",
    "problem_of_history",
    "read_history",
    "read_run_log",
    "register",
    "report_charts",
    "report_json",
    "sample_digests",
    "scheduling_problem",
    "settings_from_record",
    "simulate",
    "stored_report",
    "take_in_samples",
    "verify_report",
    "write_extract",
    "write_history_tables",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"flcontrib_core has no {name!r}; it offers {', '.join(sorted(_HOMES))}")
    return getattr(importlib.import_module(f"flcontrib_core.{_HOMES[name]}"), name)
