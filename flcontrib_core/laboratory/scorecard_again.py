"""Fits the scorecard of a calibration again, to further labelled runs; its thresholds and presets stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flcontrib_core.detection.calibration import Calibration
from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.corpus import AssessedRun
from flcontrib_core.laboratory.corpus_calibration import NOTHING, QUESTION, WINDOW, verdict_odds
from flcontrib_core.laboratory.scorecard_fit import NEW_SHARE, fit_scorecard, harmful_windows


def refit_scorecard(first: Calibration, runs: Sequence[AssessedRun]) -> Calibration:
    """The calibration with a card, its limit and the shares of its verdicts fitted to these runs; all else stays.

    Raises SettingsError where the runs have too few harmful windows to learn from.
    """
    windows = harmful_windows(first, runs)
    if not windows.suffice:
        raise SettingsError(f"{len(windows.run)} harmful windows in {len(runs)} runs are too few to fit a scorecard to")
    carded = replace(first, scorecard=fit_scorecard(windows, first.scorecard))
    odds = verdict_odds(carded, runs)
    fit = {
        "runs": len(runs),
        "windows with measured harm": len(windows.run),
        "of dishonest clients": int(windows.right.sum()),
        "share of the card before": round(1 - NEW_SHARE, 2),
    }
    return replace(
        carded,
        window_odds=odds[WINDOW],
        question_odds=odds[QUESTION],
        quiet_odds=odds[NOTHING],
        provenance={**first.provenance, "scorecard fitted again": fit},
    )
