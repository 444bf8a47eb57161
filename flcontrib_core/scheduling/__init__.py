"""Schedules: which epochs to compute under a budget that is fair to the server and to the clients."""

from typing import TYPE_CHECKING

from flcontrib_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from flcontrib_core.scheduling.budget import check_request as check_request
    from flcontrib_core.scheduling.budget import resolve_budget as resolve_budget
    from flcontrib_core.scheduling.choose import choose_epochs as choose_epochs
    from flcontrib_core.scheduling.choose import schedule_json as schedule_json
    from flcontrib_core.scheduling.effects import Idle as Idle
    from flcontrib_core.scheduling.effects import Trade as Trade
    from flcontrib_core.scheduling.effects import idle_knobs as idle_knobs
    from flcontrib_core.scheduling.effects import trade_of as trade_of
    from flcontrib_core.scheduling.explorer import ScheduleExplorer as ScheduleExplorer
    from flcontrib_core.scheduling.frontier import Frontier as Frontier
    from flcontrib_core.scheduling.schedule import BudgetSettings as BudgetSettings
    from flcontrib_core.scheduling.schedule import FairnessMode as FairnessMode
    from flcontrib_core.scheduling.schedule import Schedule as Schedule
    from flcontrib_core.scheduling.schedule import SchedulingProblem as SchedulingProblem

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
