"""FLContrib audits federated learning: who contributed what, who changed and when, and what it costs to know.

The porch: the names a person at a keyboard needs. Each is imported when it is first asked for, so ``import
flcontrib_core`` and the recorder stay light (numpy and safetensors only). Everything else has the door of its room:
``flcontrib_core.history``, ``flcontrib_core.shapley``, ``flcontrib_core.scheduling``, …
"""

from typing import TYPE_CHECKING

from flcontrib_core.lazy_names import lazy_names

__version__ = "0.2.0"

if TYPE_CHECKING:
    from flcontrib_core.auditing import AuditSettings as AuditSettings
    from flcontrib_core.errors import FLContribError as FLContribError
    from flcontrib_core.games.function_evaluator import FunctionEvaluator as FunctionEvaluator
    from flcontrib_core.games.module_evaluator import ModuleEvaluator as ModuleEvaluator
    from flcontrib_core.history.assess import assess_contributions as assess_contributions
    from flcontrib_core.history.settings import AssessSettings as AssessSettings
    from flcontrib_core.history.trajectory import scheduling_problem as scheduling_problem
    from flcontrib_core.laboratory.simulation import SimulationSettings as SimulationSettings
    from flcontrib_core.laboratory.simulation import simulate as simulate
    from flcontrib_core.notebook import assess as assess
    from flcontrib_core.notebook import audit as audit
    from flcontrib_core.notebook import change_points as change_points
    from flcontrib_core.notebook import verify as verify
    from flcontrib_core.runs.bundle import check_run_log as check_run_log
    from flcontrib_core.runs.bundle import read_run_log as read_run_log
    from flcontrib_core.runs.flower import record as record
    from flcontrib_core.runs.recorder import RunRecorder as RunRecorder
    from flcontrib_core.scheduling.choose import choose_epochs as choose_epochs
    from flcontrib_core.scheduling.schedule import BudgetSettings as BudgetSettings
    from flcontrib_core.shapley.auto import Auto as Auto
    from flcontrib_core.shapley.comfedsv import ComFedSV as ComFedSV
    from flcontrib_core.shapley.complementary import Complementary as Complementary
    from flcontrib_core.shapley.exact import Exact as Exact
    from flcontrib_core.shapley.fedsv import FedSV as FedSV
    from flcontrib_core.shapley.function_game import shapley_values as shapley_values
    from flcontrib_core.shapley.gradient import Gradient as Gradient
    from flcontrib_core.shapley.gtg import GTG as GTG
    from flcontrib_core.shapley.monte_carlo import MonteCarlo as MonteCarlo
    from flcontrib_core.shapley.multi_round import TruncatedMultiRound as TruncatedMultiRound
    from flcontrib_core.shapley.one_round import OneRound as OneRound
    from flcontrib_core.shapley.shapiq_adapter import Shapiq as Shapiq
    from flcontrib_core.shapley.surrogate import Surrogate as Surrogate
    from flcontrib_core.workspace import Workspace as Workspace

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, here=["__version__"])
