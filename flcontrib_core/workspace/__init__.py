"""The workspace: one folder where runs, results, cached work, jobs, alerts and decisions survive whatever happens.

Two stores
----------
``index.sqlite``      what is known: the audit log, the state of jobs, which object holds what (WAL, synchronous FULL).
``objects/ab/abcd…``  content named by its sha256: bundles and tables as they were given, results, finished epochs,
                      coalition utilities (arrays as safetensors records whose header says what they are). The entries
                      of the audit log are such objects too, in ``log/``, their number before their hash so that the
                      end of the chain is seen without opening one.

The index can be lost: objects and log entries rebuild it. Everything typed passes ``flcontrib_core.codec``.

No stores: ``incoming/`` (half-written files), ``quarantine/`` (what was damaged or replaced), ``jobs/ID/`` (a worker's
desk: its status, output and preview). The desk stays beside the stores because two tests need it: on a full disk a job
must still say that it paused (``test_the_last_word_of_a_job_needs_no_space``), which neither a commit nor a new object
can, and a worker's lock must end with its process, whatever ends that (``test_a_zombie_is_not_alive``).

Who writes
----------
Any number of processes and threads. A write stages its objects, then holds SQLite's write lock and a shared lock on
``index.lock``; whoever replaces the index file holds that lock alone. A job's worker writes its own desk.

What a kill leaves, at any moment
---------------------------------
staging             a locked file without a name; swept when the workspace is next opened
objects, no commit  an object nobody points at; the same content published again is the same file
commit, no copy     a log entry without its copy; copied at the next opening, which the log then says
deletion decided    rows gone, files noted in ``removals``; removed at the next opening
rebuilding          ``index.rebuilding`` stands; whoever finds it starts over

Nothing acknowledged is lost, nothing is half there; ``tests/workspace`` kills at every single call.
"""

from typing import TYPE_CHECKING

from flcontrib_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from flcontrib_core.execution.engine import DEVICES as DEVICES
    from flcontrib_core.execution.engine import Execution as Execution
    from flcontrib_core.workspace.audit_jobs import audit_in_workspace as audit_in_workspace
    from flcontrib_core.workspace.audit_jobs import keep_report as keep_report
    from flcontrib_core.workspace.audit_jobs import preview_of as preview_of
    from flcontrib_core.workspace.audit_jobs import sample_digests as sample_digests
    from flcontrib_core.workspace.audit_jobs import stored_report as stored_report
    from flcontrib_core.workspace.audit_jobs import take_in_samples as take_in_samples
    from flcontrib_core.workspace.audit_log import BrokenLink as BrokenLink
    from flcontrib_core.workspace.audit_log import ChainCheck as ChainCheck
    from flcontrib_core.workspace.audit_log import ChainHead as ChainHead
    from flcontrib_core.workspace.audit_log import LogEntry as LogEntry
    from flcontrib_core.workspace.decisions import AlertEntry as AlertEntry
    from flcontrib_core.workspace.decisions import alert_identity as alert_identity
    from flcontrib_core.workspace.decisions import observed_once as observed_once
    from flcontrib_core.workspace.faults import BrokenChain as BrokenChain
    from flcontrib_core.workspace.faults import DamagedIndex as DamagedIndex
    from flcontrib_core.workspace.faults import DamagedObject as DamagedObject
    from flcontrib_core.workspace.faults import NoSpaceLeft as NoSpaceLeft
    from flcontrib_core.workspace.faults import ReadOnlyWorkspace as ReadOnlyWorkspace
    from flcontrib_core.workspace.follow_jobs import FOLLOW as FOLLOW
    from flcontrib_core.workspace.follow_jobs import follow_recording as follow_recording
    from flcontrib_core.workspace.grants import Grant as Grant
    from flcontrib_core.workspace.grants import GrantKind as GrantKind
    from flcontrib_core.workspace.import_run import TooLarge as TooLarge
    from flcontrib_core.workspace.job import Job as Job
    from flcontrib_core.workspace.job import JobState as JobState
    from flcontrib_core.workspace.job_status import Progress as Progress
    from flcontrib_core.workspace.planning_jobs import measure_in_workspace as measure_in_workspace
    from flcontrib_core.workspace.planning_jobs import proof_question as proof_question
    from flcontrib_core.workspace.planning_jobs import stored_meaning as stored_meaning
    from flcontrib_core.workspace.planning_jobs import stored_measurement as stored_measurement
    from flcontrib_core.workspace.planning_jobs import stored_proof as stored_proof
    from flcontrib_core.workspace.preferences import Display as Display
    from flcontrib_core.workspace.preferences import Notices as Notices
    from flcontrib_core.workspace.recordings import RECORDING as RECORDING
    from flcontrib_core.workspace.recordings import recorder_at_work as recorder_at_work
    from flcontrib_core.workspace.removals import DeletedRun as DeletedRun
    from flcontrib_core.workspace.results import ResultEntry as ResultEntry
    from flcontrib_core.workspace.results import opening_first as opening_first
    from flcontrib_core.workspace.retention import OldLog as OldLog
    from flcontrib_core.workspace.store import Workspace as Workspace
    from flcontrib_core.workspace.store import check_log as check_log
    from flcontrib_core.workspace.store import default_path as default_path
    from flcontrib_core.workspace.stored_runs import RunEntry as RunEntry
    from flcontrib_core.workspace.time_stamps import read_stamp as read_stamp
    from flcontrib_core.workspace.time_stamps import request_stamp as request_stamp

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
