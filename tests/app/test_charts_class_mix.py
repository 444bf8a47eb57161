"""Does the chart of class margins show which classes moved, and in whose favour?"""

from __future__ import annotations

import numpy as np

from flcontrib_core.charts.class_mix import class_mix_alt, class_mix_facts, class_mix_rows
from flcontrib_core.charts.palette import palette_for
from flcontrib_core.detection.objections import FalseAlarmRate
from flcontrib_core.detection.presets import PresetRate
from flcontrib_core.words import alerts_above, headline, rate_lines
from tests.app.drawn import draw_class_mix
from tests.detection.made_histories import made_history
from tests.reports.made_reports import made_report


def test_bars_point_the_way_each_class_moved() -> None:
    history = made_history()
    assert history.channels is not None
    history.channels.solo_class_margin[10:16, 2, 0] += 1.0
    history.channels.solo_class_margin[10:16, 2, 3] -= 1.0
    facts = class_mix_facts(made_report(history), history.client_ids[2], (10, 15))
    assert facts is not None
    bars = draw_class_mix(facts, "dark").data[0]
    np.testing.assert_allclose(bars.y, facts.moves)
    assert bars.marker.color[0] == palette_for("dark").help
    assert bars.marker.color[3] == palette_for("dark").harm
    assert "class 3 lost most" in class_mix_alt(facts)
    assert "epochs 10–15" in class_mix_alt(facts)
    assert [r["class"] for r in class_mix_rows(facts)] == [0, 1, 2, 3]


def test_nothing_to_draw_without_a_window_or_margins() -> None:
    report = made_report(made_history(with_channels=False))
    assert class_mix_facts(report, report.history.client_ids[1], (8, 12)) is None
    assert class_mix_facts(made_report(made_history()), "client-01", None) is None


def test_stricter_preset_hides_weaker_alerts() -> None:
    report = made_report()
    assert [a.score for a in alerts_above(report, None)] == [3.2, 9.0]
    assert [a.score for a in alerts_above(report, 5.0)] == [9.0]
    assert headline(report, 5.0).startswith("1 of 8 clients stands out")


def test_rates_of_presets_in_words() -> None:
    known = PresetRate("strict", 2.0, FalseAlarmRate(17, 832, 0.0325, (4, 16), False))
    assert rate_lines([known]) == [
        "Strict: 17 of 832 honest simulated runs accuse a client at this setting, at most 3.2% with 95% confidence "
        "(4–16 clients, similar participation)."
    ]
    nothing = FalseAlarmRate(0, 0, None, None, False)
    unknown = rate_lines([PresetRate(name, 0.0, nothing) for name in ("default", "strict")])
    assert len(unknown) == 1
    assert "not known" in unknown[0]
