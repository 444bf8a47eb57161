"""Words: the only place where a sentence is made of a result. Terminal, page, report and extract all call these."""

from typing import TYPE_CHECKING

from flcontrib_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from flcontrib_core.words import numbers as numbers
    from flcontrib_core.words import wording as wording
    from flcontrib_core.words.changes import agreement_sentence as agreement_sentence
    from flcontrib_core.words.changes import mass_words as mass_words
    from flcontrib_core.words.changes import model_words as model_words
    from flcontrib_core.words.changes import others_mass_words as others_mass_words
    from flcontrib_core.words.changes import series_words as series_words
    from flcontrib_core.words.changes import window_words as window_words
    from flcontrib_core.words.comparing import agreement_words as agreement_words
    from flcontrib_core.words.comparing import contribution_title as contribution_title
    from flcontrib_core.words.comparing import filled_in as filled_in
    from flcontrib_core.words.comparing import moved_words as moved_words
    from flcontrib_core.words.decisions import DECLARED as DECLARED
    from flcontrib_core.words.decisions import decided_sentence as decided_sentence
    from flcontrib_core.words.decisions import decision_sentence as decision_sentence
    from flcontrib_core.words.decisions import note_line as note_line
    from flcontrib_core.words.decisions import state_name as state_name
    from flcontrib_core.words.decisions import step_line as step_line
    from flcontrib_core.words.facts import context as context
    from flcontrib_core.words.facts import counter_evidence as counter_evidence
    from flcontrib_core.words.facts import sentence as sentence
    from flcontrib_core.words.facts import sentences as sentences
    from flcontrib_core.words.facts import verdict_reason as verdict_reason
    from flcontrib_core.words.facts import why as why
    from flcontrib_core.words.false_alarms import false_alarm_sentence as false_alarm_sentence
    from flcontrib_core.words.folders import folder_note as folder_note
    from flcontrib_core.words.folders import folder_understood as folder_understood
    from flcontrib_core.words.headlines import alerts_above as alerts_above
    from flcontrib_core.words.headlines import headline as headline
    from flcontrib_core.words.headlines import is_growing as is_growing
    from flcontrib_core.words.headlines import pending_epochs as pending_epochs
    from flcontrib_core.words.headlines import provisional_lines as provisional_lines
    from flcontrib_core.words.headlines import quiet_badge as quiet_badge
    from flcontrib_core.words.headlines import quiet_sentence as quiet_sentence
    from flcontrib_core.words.headlines import rate_lines as rate_lines
    from flcontrib_core.words.headlines import shift_words as shift_words
    from flcontrib_core.words.headlines import so_far as so_far
    from flcontrib_core.words.headlines import stands_on as stands_on
    from flcontrib_core.words.headlines import undecided_sentence as undecided_sentence
    from flcontrib_core.words.headlines import visible_shift as visible_shift
    from flcontrib_core.words.places import EFFICIENCY as EFFICIENCY
    from flcontrib_core.words.places import client_headline as client_headline
    from flcontrib_core.words.places import epoch_headline as epoch_headline
    from flcontrib_core.words.planning import idle_reason as idle_reason
    from flcontrib_core.words.planning import plan_title as plan_title
    from flcontrib_core.words.planning import price_notes as price_notes
    from flcontrib_core.words.planning import trade_sentence as trade_sentence
    from flcontrib_core.words.problems import ProblemGroup as ProblemGroup
    from flcontrib_core.words.problems import problem_groups as problem_groups
    from flcontrib_core.words.readers import IN_THE_EXTRACT as IN_THE_EXTRACT
    from flcontrib_core.words.readers import channel_meaning as channel_meaning
    from flcontrib_core.words.readers import engineer_line as engineer_line
    from flcontrib_core.words.readers import manager_line as manager_line
    from flcontrib_core.words.readers import meaning_line as meaning_line
    from flcontrib_core.words.remarks import computed_badge as computed_badge
    from flcontrib_core.words.remarks import history_remarks as history_remarks
    from flcontrib_core.words.remarks import remark_line as remark_line
    from flcontrib_core.words.remarks import without_values as without_values
    from flcontrib_core.words.result_labels import result_cost as result_cost
    from flcontrib_core.words.result_labels import result_label as result_label
    from flcontrib_core.words.results import budget as budget
    from flcontrib_core.words.results import credited as credited
    from flcontrib_core.words.results import grouping_sentence as grouping_sentence
    from flcontrib_core.words.results import methods as methods
    from flcontrib_core.words.results import own_warning as own_warning
    from flcontrib_core.words.results import separation_remark as separation_remark
    from flcontrib_core.words.results import total_status as total_status
    from flcontrib_core.words.results import worst_status as worst_status
    from flcontrib_core.words.tables import table_note as table_note
    from flcontrib_core.words.tables import table_understood as table_understood
    from flcontrib_core.words.verdicts import OBSERVED_ONLY as OBSERVED_ONLY
    from flcontrib_core.words.verdicts import alert_line as alert_line
    from flcontrib_core.words.verdicts import alert_title as alert_title
    from flcontrib_core.words.verdicts import how_sure as how_sure
    from flcontrib_core.words.verdicts import strongest_channels as strongest_channels
    from flcontrib_core.words.verdicts import values_behind as values_behind
    from flcontrib_core.words.verdicts import verdict_badge as verdict_badge
    from flcontrib_core.words.verdicts import verdict_name as verdict_name
    from flcontrib_core.words.verdicts import where_words as where_words

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
