"""What is kept: runs, results, finished epochs, remembered utilities, jobs, alerts and decisions, in one folder."""

from flcontrib_core.workspace.audit_log import BrokenLink, ChainHead, LogEntry
from flcontrib_core.workspace.decisions import AlertBook, AlertEntry, AlertState, Decision, alert_identity
from flcontrib_core.workspace.faults import DamagedIndex, DamagedObject, NoSpaceLeft, ReadOnlyWorkspace
from flcontrib_core.workspace.job import Job, JobLimits, JobState
from flcontrib_core.workspace.job_status import Progress
from flcontrib_core.workspace.jobs import JobQueue
from flcontrib_core.workspace.kept_arrays import EpochCheckpoints, ResultEntry, StoredResult
from flcontrib_core.workspace.memory import MemoryShelf, MemoryStatistics, UtilityMemory
from flcontrib_core.workspace.objects import text_array, text_of
from flcontrib_core.workspace.run_intake import TooLarge
from flcontrib_core.workspace.store import Workspace, default_path
from flcontrib_core.workspace.stored_runs import DeletedRun, RunEntry

__all__ = [
    "AlertBook",
    "AlertEntry",
    "AlertState",
    "BrokenLink",
    "ChainHead",
    "DamagedIndex",
    "DamagedObject",
    "Decision",
    "DeletedRun",
    "EpochCheckpoints",
    "Job",
    "JobLimits",
    "JobQueue",
    "JobState",
    "LogEntry",
    "MemoryShelf",
    "MemoryStatistics",
    "NoSpaceLeft",
    "Progress",
    "ReadOnlyWorkspace",
    "ResultEntry",
    "RunEntry",
    "StoredResult",
    "TooLarge",
    "UtilityMemory",
    "Workspace",
    "alert_identity",
    "default_path",
    "text_array",
    "text_of",
]
