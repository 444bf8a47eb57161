"""Contribution histories: Algorithm 1 over a run, its settings, its price, and what a budget leaves out."""

from typing import TYPE_CHECKING

from flcontrib_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from flcontrib_core.history.asking import Asked as Asked
    from flcontrib_core.history.assess import assess_contributions as assess_contributions
    from flcontrib_core.history.budget_errors import BudgetError as BudgetError
    from flcontrib_core.history.budget_errors import budget_error as budget_error
    from flcontrib_core.history.capacity import FederationSize as FederationSize
    from flcontrib_core.history.capacity import Machine as Machine
    from flcontrib_core.history.capacity import capacity as capacity
    from flcontrib_core.history.capacity import standing_questions as standing_questions
    from flcontrib_core.history.contribution_history import ContributionHistory as ContributionHistory
    from flcontrib_core.history.meaning import LogMeaning as LogMeaning
    from flcontrib_core.history.meaning import ModelCurve as ModelCurve
    from flcontrib_core.history.meaning import read_meaning as read_meaning
    from flcontrib_core.history.meaning import read_meaning_apart as read_meaning_apart
    from flcontrib_core.history.measurement import RunMeasurement as RunMeasurement
    from flcontrib_core.history.measurement import measure as measure
    from flcontrib_core.history.preflight import Price as Price
    from flcontrib_core.history.preflight import epoch_costs as epoch_costs
    from flcontrib_core.history.preflight import price as price
    from flcontrib_core.history.preflight import price_and_measurement as price_and_measurement
    from flcontrib_core.history.preflight import price_of as price_of
    from flcontrib_core.history.preflight import problem_of as problem_of
    from flcontrib_core.history.preflight import unpriced_problem as unpriced_problem
    from flcontrib_core.history.remarks import NoValues as NoValues
    from flcontrib_core.history.settings import PAPER_SETTINGS as PAPER_SETTINGS
    from flcontrib_core.history.settings import AssessSettings as AssessSettings
    from flcontrib_core.history.settings import assess_settings_from_record as assess_settings_from_record
    from flcontrib_core.history.trajectory import problem_of_history as problem_of_history
    from flcontrib_core.history.trajectory import scheduling_problem as scheduling_problem
    from flcontrib_core.history.updates_only import lacking_part as lacking_part

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
