"""Coalition games: an epoch's sub-models, the evaluators that value them, and what is observed on the way."""

from typing import TYPE_CHECKING

from flcontrib_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from flcontrib_core.games.architecture import Architecture as Architecture
    from flcontrib_core.games.evaluator import Evaluator as Evaluator
    from flcontrib_core.games.function_evaluator import FunctionEvaluator as FunctionEvaluator
    from flcontrib_core.games.module_evaluator import ModuleEvaluator as ModuleEvaluator
    from flcontrib_core.games.submodels import EpochGame as EpochGame
    from flcontrib_core.games.submodels import WholeRunGame as WholeRunGame
    from flcontrib_core.games.submodels import aggregate as aggregate
    from flcontrib_core.games.utilities import lower_is_better as lower_is_better
    from flcontrib_core.games.utilities import parse_utility as parse_utility

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
