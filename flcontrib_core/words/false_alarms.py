"""How often honest runs accuse somebody, in words."""

from __future__ import annotations

from flcontrib_core.detection import objections as o
from flcontrib_core.words.numbers import percent, window


def false_alarm_sentence(rate: o.FalseAlarmRate) -> str:
    """The honest-run rate of a threshold with its upper bound: '0 of 144 honest simulated runs accuse …'."""
    if not rate.runs or rate.upper is None:
        return (
            "How often honest runs accuse a client at this setting is not known: the calibration holds no comparable "
            "honest runs."
        )
    return f"{false_alarm_counts(rate)} ({false_alarm_runs(rate)})."


def false_alarm_counts(rate: o.FalseAlarmRate) -> str:
    """'0 of 144 honest simulated runs accuse a client at this setting, at most 2.5% with 95% confidence'.

    A run counts where somebody is accused; changes that only ask are not among these.
    """
    bound = "" if rate.upper is None else f", at most {percent(rate.upper)} with 95% confidence"
    return f"{rate.alerting} of {rate.runs} honest simulated runs accuse a client at this setting{bound}"


def false_alarm_runs(rate: o.FalseAlarmRate) -> str:
    """Which honest runs were counted: '4–16 clients, similar participation'."""
    which = "all regimes: too few comparable runs"
    if rate.clients is not None:
        which = f"{window(*rate.clients)} clients, similar participation"
    return f"{which}, read again after every epoch" if rate.every_epoch else which
