"""Words: the only place where a sentence is made of a result. Terminal, page, report and extract all call these."""

from __future__ import annotations

from flcontrib_core.words.facts import (
    context,
    counter_evidence,
    false_alarm_sentence,
    sentence,
    sentences,
    verdict_reason,
    why,
)
from flcontrib_core.words.headline import (
    alerts_above,
    headline,
    pending_epochs,
    quiet_sentence,
    rate_lines,
    shift_words,
    so_far,
    undecided_sentence,
    visible_shift,
)
from flcontrib_core.words.remarks import history_remarks, remark_line
from flcontrib_core.words.results import (
    budget,
    credited,
    methods,
    own_warning,
    separation_remark,
    total_status,
    worst_status,
)
from flcontrib_core.words.verdicts import (
    OBSERVED_ONLY,
    alert_line,
    alert_title,
    how_sure,
    strongest_channels,
    values_behind,
    verdict_badge,
    verdict_name,
    where_words,
)

__all__ = [
    "OBSERVED_ONLY",
    "alert_line",
    "alert_title",
    "alerts_above",
    "budget",
    "context",
    "counter_evidence",
    "credited",
    "false_alarm_sentence",
    "headline",
    "history_remarks",
    "how_sure",
    "methods",
    "own_warning",
    "pending_epochs",
    "quiet_sentence",
    "rate_lines",
    "remark_line",
    "sentence",
    "sentences",
    "separation_remark",
    "shift_words",
    "so_far",
    "strongest_channels",
    "total_status",
    "undecided_sentence",
    "values_behind",
    "verdict_badge",
    "verdict_name",
    "verdict_reason",
    "visible_shift",
    "where_words",
    "why",
    "worst_status",
]
