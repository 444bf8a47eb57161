"""Detection: a history read into findings, which are alerts, verdicts, change points and groups as typed facts."""

from typing import TYPE_CHECKING

from flcontrib_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from flcontrib_core.detection.alerts import read_verdicts as read_verdicts
    from flcontrib_core.detection.change_points import ChangePointSettings as ChangePointSettings
    from flcontrib_core.detection.change_points import ChangeSeries as ChangeSeries
    from flcontrib_core.detection.change_points import mass_in_window as mass_in_window
    from flcontrib_core.detection.change_points import read_change_points as read_change_points
    from flcontrib_core.detection.change_windows import agreement as agreement
    from flcontrib_core.detection.change_windows import deviating_windows as deviating_windows
    from flcontrib_core.detection.change_windows import masses_in_windows as masses_in_windows
    from flcontrib_core.detection.facts import Fact as Fact
    from flcontrib_core.detection.facts import fact_from_json as fact_from_json
    from flcontrib_core.detection.findings import ACCUSING_KINDS as ACCUSING_KINDS
    from flcontrib_core.detection.findings import ALERT_KINDS as ALERT_KINDS
    from flcontrib_core.detection.findings import Alert as Alert
    from flcontrib_core.detection.findings import ChangePoints as ChangePoints
    from flcontrib_core.detection.findings import ClientVerdict as ClientVerdict
    from flcontrib_core.detection.findings import Detection as Detection
    from flcontrib_core.detection.findings import JaccardScore as JaccardScore
    from flcontrib_core.detection.findings import Separation as Separation
    from flcontrib_core.detection.findings import VerdictKind as VerdictKind
    from flcontrib_core.detection.guard import Guard as Guard
    from flcontrib_core.detection.objections import FalseAlarmRate as FalseAlarmRate
    from flcontrib_core.detection.online import OnlineReader as OnlineReader
    from flcontrib_core.detection.online import ProvisionalAlert as ProvisionalAlert
    from flcontrib_core.detection.other_rules import PeerOpinion as PeerOpinion
    from flcontrib_core.detection.other_rules import peer_opinions as peer_opinions
    from flcontrib_core.detection.other_rules import scores_of_run as scores_of_run
    from flcontrib_core.detection.presets import PresetRate as PresetRate
    from flcontrib_core.detection.presets import preset_rates as preset_rates
    from flcontrib_core.detection.reasons import ChannelScore as ChannelScore
    from flcontrib_core.detection.review import NO_REVIEWS as NO_REVIEWS
    from flcontrib_core.detection.review import AlertReview as AlertReview
    from flcontrib_core.detection.review import AlertState as AlertState
    from flcontrib_core.detection.review import ClientMark as ClientMark
    from flcontrib_core.detection.review import DeclaredNote as DeclaredNote
    from flcontrib_core.detection.review import Mark as Mark
    from flcontrib_core.detection.review import Reviews as Reviews
    from flcontrib_core.detection.review import ReviewStep as ReviewStep
    from flcontrib_core.detection.review import StepKind as StepKind
    from flcontrib_core.detection.review import alert_key as alert_key
    from flcontrib_core.detection.segmentation import LengthPrior as LengthPrior
    from flcontrib_core.detection.segmentation import SegmentLikelihood as SegmentLikelihood
    from flcontrib_core.detection.separation import METRICS as METRICS
    from flcontrib_core.detection.separation import GroupingSettings as GroupingSettings
    from flcontrib_core.detection.separation import jaccard as jaccard
    from flcontrib_core.detection.separation import jaccard_of_marked as jaccard_of_marked
    from flcontrib_core.detection.separation import separate as separate

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
