"""Charts: facts of a result → a picture as plain data → Plotly in the page, SVG everywhere else, words and a table.

Every chart has four functions: ``…_facts`` (what it shows), ``draw_…`` (the picture), ``…_alt`` (its take-away in
words) and ``…_rows`` (the numbers behind it).
"""

from typing import TYPE_CHECKING

from flcontrib_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from flcontrib_core.charts.change_points import ChangePointFacts as ChangePointFacts
    from flcontrib_core.charts.change_points import change_point_alt as change_point_alt
    from flcontrib_core.charts.change_points import change_point_facts as change_point_facts
    from flcontrib_core.charts.change_points import change_point_rows as change_point_rows
    from flcontrib_core.charts.change_points import change_words as change_words
    from flcontrib_core.charts.change_points import draw_change_points as draw_change_points
    from flcontrib_core.charts.class_mix import class_mix_alt as class_mix_alt
    from flcontrib_core.charts.class_mix import class_mix_facts as class_mix_facts
    from flcontrib_core.charts.class_mix import class_mix_rows as class_mix_rows
    from flcontrib_core.charts.class_mix import draw_class_mix as draw_class_mix
    from flcontrib_core.charts.clusters import ClusterFacts as ClusterFacts
    from flcontrib_core.charts.clusters import cluster_alt as cluster_alt
    from flcontrib_core.charts.clusters import cluster_facts as cluster_facts
    from flcontrib_core.charts.clusters import cluster_rows as cluster_rows
    from flcontrib_core.charts.clusters import draw_clusters as draw_clusters
    from flcontrib_core.charts.clusters import draw_silhouette as draw_silhouette
    from flcontrib_core.charts.clusters import silhouette_alt as silhouette_alt
    from flcontrib_core.charts.clusters import silhouette_rows as silhouette_rows
    from flcontrib_core.charts.comparison import AlignedFacts as AlignedFacts
    from flcontrib_core.charts.comparison import RankFacts as RankFacts
    from flcontrib_core.charts.comparison import aligned_alt as aligned_alt
    from flcontrib_core.charts.comparison import aligned_facts as aligned_facts
    from flcontrib_core.charts.comparison import aligned_rows as aligned_rows
    from flcontrib_core.charts.comparison import draw_aligned as draw_aligned
    from flcontrib_core.charts.comparison import draw_ranks as draw_ranks
    from flcontrib_core.charts.comparison import rank_alt as rank_alt
    from flcontrib_core.charts.comparison import rank_facts as rank_facts
    from flcontrib_core.charts.comparison import rank_rows as rank_rows
    from flcontrib_core.charts.credit import fill_of as fill_of
    from flcontrib_core.charts.credit import total_credit as total_credit
    from flcontrib_core.charts.cumulative import MOST_IN_FOCUS as MOST_IN_FOCUS
    from flcontrib_core.charts.cumulative import CumulativeFacts as CumulativeFacts
    from flcontrib_core.charts.cumulative import cumulative_alt as cumulative_alt
    from flcontrib_core.charts.cumulative import cumulative_facts as cumulative_facts
    from flcontrib_core.charts.cumulative import cumulative_rows as cumulative_rows
    from flcontrib_core.charts.cumulative import draw_cumulative as draw_cumulative
    from flcontrib_core.charts.evidence import draw_evidence as draw_evidence
    from flcontrib_core.charts.evidence import evidence_alt as evidence_alt
    from flcontrib_core.charts.evidence import evidence_facts as evidence_facts
    from flcontrib_core.charts.evidence import evidence_rows as evidence_rows
    from flcontrib_core.charts.following import NOTHING as NOTHING
    from flcontrib_core.charts.following import Following as Following
    from flcontrib_core.charts.following import read_pick as read_pick
    from flcontrib_core.charts.frontier import draw_frontier as draw_frontier
    from flcontrib_core.charts.frontier import frontier_alt as frontier_alt
    from flcontrib_core.charts.frontier import frontier_facts as frontier_facts
    from flcontrib_core.charts.frontier import frontier_rows as frontier_rows
    from flcontrib_core.charts.group_means import MANY_CLIENTS as MANY_CLIENTS
    from flcontrib_core.charts.group_means import draw_group_means as draw_group_means
    from flcontrib_core.charts.group_means import group_means_alt as group_means_alt
    from flcontrib_core.charts.group_means import group_means_facts as group_means_facts
    from flcontrib_core.charts.group_means import group_means_rows as group_means_rows
    from flcontrib_core.charts.heat_map import MOST_HEAT_ROWS as MOST_HEAT_ROWS
    from flcontrib_core.charts.heat_map import draw_heat_map as draw_heat_map
    from flcontrib_core.charts.heat_map import heat_map_alt as heat_map_alt
    from flcontrib_core.charts.heat_map import heat_map_facts as heat_map_facts
    from flcontrib_core.charts.heat_map import heat_map_rows as heat_map_rows
    from flcontrib_core.charts.model_curve import ModelCurveFacts as ModelCurveFacts
    from flcontrib_core.charts.model_curve import draw_model_curve as draw_model_curve
    from flcontrib_core.charts.model_curve import model_curve_alt as model_curve_alt
    from flcontrib_core.charts.model_curve import model_curve_facts as model_curve_facts
    from flcontrib_core.charts.model_curve import model_curve_rows as model_curve_rows
    from flcontrib_core.charts.of_report import MOST_ALERTS_DRAWN as MOST_ALERTS_DRAWN
    from flcontrib_core.charts.of_report import Chart as Chart
    from flcontrib_core.charts.of_report import cumulative_chart as cumulative_chart
    from flcontrib_core.charts.of_report import has_epoch_values as has_epoch_values
    from flcontrib_core.charts.of_report import main_utility as main_utility
    from flcontrib_core.charts.of_report import report_charts as report_charts
    from flcontrib_core.charts.of_report import write_charts as write_charts
    from flcontrib_core.charts.own_series import OwnSeriesFacts as OwnSeriesFacts
    from flcontrib_core.charts.own_series import draw_own_series as draw_own_series
    from flcontrib_core.charts.own_series import own_series_alt as own_series_alt
    from flcontrib_core.charts.palette import DARK as DARK
    from flcontrib_core.charts.palette import LIGHT as LIGHT
    from flcontrib_core.charts.palette import Palette as Palette
    from flcontrib_core.charts.palette import palette_for as palette_for
    from flcontrib_core.charts.panels import draw_panels as draw_panels
    from flcontrib_core.charts.panels import panels_alt as panels_alt
    from flcontrib_core.charts.panels import panels_rows as panels_rows
    from flcontrib_core.charts.picture import Picture as Picture
    from flcontrib_core.charts.ranking import RankingFacts as RankingFacts
    from flcontrib_core.charts.ranking import draw_ranking as draw_ranking
    from flcontrib_core.charts.ranking import ranking_alt as ranking_alt
    from flcontrib_core.charts.ranking import ranking_facts as ranking_facts
    from flcontrib_core.charts.ranking import ranking_rows as ranking_rows
    from flcontrib_core.charts.raster import png_of as png_of
    from flcontrib_core.charts.schedule import draw_exposure as draw_exposure
    from flcontrib_core.charts.schedule import draw_schedule as draw_schedule
    from flcontrib_core.charts.schedule import exposure_alt as exposure_alt
    from flcontrib_core.charts.schedule import exposure_facts as exposure_facts
    from flcontrib_core.charts.schedule import exposure_rows as exposure_rows
    from flcontrib_core.charts.schedule import schedule_alt as schedule_alt
    from flcontrib_core.charts.schedule import schedule_facts as schedule_facts
    from flcontrib_core.charts.schedule import schedule_rows as schedule_rows
    from flcontrib_core.charts.schedule_file import write_schedule as write_schedule
    from flcontrib_core.charts.sparkline import draw_sparkline as draw_sparkline
    from flcontrib_core.charts.sparkline import sparkline_alt as sparkline_alt
    from flcontrib_core.charts.style import FONT as FONT
    from flcontrib_core.charts.svg import BESIDE as BESIDE
    from flcontrib_core.charts.svg import CHART_RULES as CHART_RULES
    from flcontrib_core.charts.svg import NARROW as NARROW
    from flcontrib_core.charts.svg import NARROW_MARGIN as NARROW_MARGIN
    from flcontrib_core.charts.svg import dark_rules as dark_rules
    from flcontrib_core.charts.svg import inline_svg as inline_svg

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
