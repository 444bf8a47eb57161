"""Shapley values of any coalition game: estimators with their own options, oracles, and what an estimate says."""

from typing import TYPE_CHECKING

from flcontrib_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from flcontrib_core.shapley.auto import Auto as Auto
    from flcontrib_core.shapley.base import BaseEstimator as BaseEstimator
    from flcontrib_core.shapley.base import SamplingEstimator as SamplingEstimator
    from flcontrib_core.shapley.comfedsv import ComFedSV as ComFedSV
    from flcontrib_core.shapley.complementary import Complementary as Complementary
    from flcontrib_core.shapley.corrected import UnbiasedSurrogate as UnbiasedSurrogate
    from flcontrib_core.shapley.costs import Cost as Cost
    from flcontrib_core.shapley.costs import cost_of as cost_of
    from flcontrib_core.shapley.estimate import EpochEstimator as EpochEstimator
    from flcontrib_core.shapley.estimate import Estimator as Estimator
    from flcontrib_core.shapley.estimate import RunEstimator as RunEstimator
    from flcontrib_core.shapley.estimate import ShapleyEstimate as ShapleyEstimate
    from flcontrib_core.shapley.exact import Exact as Exact
    from flcontrib_core.shapley.exact_values import shapley_from_table as shapley_from_table
    from flcontrib_core.shapley.fedsv import FedSV as FedSV
    from flcontrib_core.shapley.function_game import ShapleyValues as ShapleyValues
    from flcontrib_core.shapley.function_game import shapley_values as shapley_values
    from flcontrib_core.shapley.gradient import Gradient as Gradient
    from flcontrib_core.shapley.gtg import GTG as GTG
    from flcontrib_core.shapley.monte_carlo import MonteCarlo as MonteCarlo
    from flcontrib_core.shapley.multi_round import MultiRound as MultiRound
    from flcontrib_core.shapley.multi_round import TruncatedMultiRound as TruncatedMultiRound
    from flcontrib_core.shapley.one_round import OneRound as OneRound
    from flcontrib_core.shapley.oracle import CoalitionOracle as CoalitionOracle
    from flcontrib_core.shapley.registry import BUILT_IN as BUILT_IN
    from flcontrib_core.shapley.registry import estimator_by_name as estimator_by_name
    from flcontrib_core.shapley.registry import register as register
    from flcontrib_core.shapley.shapiq_adapter import Shapiq as Shapiq
    from flcontrib_core.shapley.surrogate import Surrogate as Surrogate

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
