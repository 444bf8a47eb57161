"""Every chart of a report by name: what its page, its files and a notebook show."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.credit import fill_of
from flcontrib_core.charts.cumulative import cumulative_alt, cumulative_facts, draw_cumulative
from flcontrib_core.charts.evidence import draw_evidence, evidence_alt, evidence_facts
from flcontrib_core.charts.heat_map import draw_heat_map, heat_map_alt, heat_map_facts
from flcontrib_core.charts.picture import Picture
from flcontrib_core.charts.ranking import draw_ranking, ranking_alt, ranking_facts
from flcontrib_core.charts.raster import png_of
from flcontrib_core.charts.svg import inline_svg, svg_file
from flcontrib_core.files import make_folder, write_atomic
from flcontrib_core.vocabulary import CellState
from flcontrib_core.words import numbers

MOST_ALERTS_DRAWN = 12


@dataclass(frozen=True)
class Chart:
    """A picture in light colours with its name, its title, and what it shows in words."""

    name: str
    title: str
    alt: str
    picture: Picture

    def inline(self) -> str:
        """For a page with ``CHART_RULES`` and ``dark_rules``."""
        return inline_svg(self.picture, self.title, self.alt)

    def as_file(self) -> str:
        """A drawing that stands alone, follows the reader's light or dark, and asks for nothing from outside."""
        return svg_file(self.picture, self.title, self.alt)

    def as_png(self) -> bytes:
        """The same as an image, where ``flcontrib[png]`` is installed."""
        return png_of(self.as_file())


def main_utility(report: AuditReport) -> str:
    """The loss where it was assessed, else the first utility."""
    utilities = report.history.utilities
    return "loss" if "loss" in utilities else utilities[0]


def report_charts(report: AuditReport) -> dict[str, Chart]:
    """Ranking, curves, heat map and the evidence of each alert; only the ranking where there are totals alone, and no
    picture of values where there are none."""
    valued = report.history.without_values is None
    charts = [ranking_chart(report)] if valued and report.history.participated.any() else []
    if has_epoch_values(report):
        charts += [cumulative_chart(report), heat_map_chart(report)]
    if has_epoch_values(report) or not valued:
        charts += [evidence_chart(report, n) for n in range(min(len(report.detection.alerts), MOST_ALERTS_DRAWN))]
    return {chart.name: chart for chart in charts}


def write_charts(report: AuditReport, folder: str | PathLike[str]) -> list[Path]:
    """Each chart as an SVG file of its own, which prints at any size; the paths written."""
    make_folder(folder)
    return [write_atomic(Path(folder) / f"{name}.svg", c.as_file()) for name, c in report_charts(report).items()]


def has_epoch_values(report: AuditReport) -> bool:
    """False for methods that give totals only."""
    return bool((report.history.of(main_utility(report)).state[1:] == CellState.COMPUTED).any())


def ranking_chart(report: AuditReport) -> Chart:
    """Who contributed most over the whole run."""
    facts = ranking_facts(report, main_utility(report), fill_of(report.history))
    return Chart("ranking", f"Total {facts.axis} per client", ranking_alt(facts), draw_ranking(facts, "light"))


def cumulative_chart(report: AuditReport) -> Chart:
    """Running credit of the clients with an alert, over the band of the others."""
    alerted = tuple(dict.fromkeys(a.client for a in report.detection.alerts))
    facts = cumulative_facts(report, main_utility(report), alerted, fill_of(report.history))
    title = f"Running {facts.axis} per client"
    return Chart("cumulative", title, cumulative_alt(facts), draw_cumulative(facts, "light"))


def heat_map_chart(report: AuditReport) -> Chart:
    """Every client in every epoch."""
    facts = heat_map_facts(report, main_utility(report), fill=fill_of(report.history))
    title = f"{numbers.capital(facts.axis)} per client and epoch"
    return Chart("heat-map", title, heat_map_alt(facts), draw_heat_map(facts, "light"))


def evidence_chart(report: AuditReport, number: int) -> Chart:
    """Of one alert, by its place among them."""
    alert = report.detection.alerts[number]
    facts = evidence_facts(report, alert.client, alert.window, main_utility(report), fill_of(report.history))
    title = f"Evidence about {numbers.named(alert.client)}"
    return Chart(f"evidence-{number + 1}", title, evidence_alt(facts), draw_evidence(facts, "light"))
