"""Reports: what leaves the house (pages with their JSON twins, tables, extracts) and how anybody checks it."""

from typing import TYPE_CHECKING

from flcontrib_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from flcontrib_core.reports.as_json import alert_json as alert_json
    from flcontrib_core.reports.as_json import audit_json as audit_json
    from flcontrib_core.reports.as_json import history_json as history_json
    from flcontrib_core.reports.comparison import compare_reports as compare_reports
    from flcontrib_core.reports.extract import extract_json as extract_json
    from flcontrib_core.reports.extract import write_extract as write_extract
    from flcontrib_core.reports.naming import extract_name as extract_name
    from flcontrib_core.reports.naming import file_name as file_name
    from flcontrib_core.reports.paper_figure import QUESTIONS as QUESTIONS
    from flcontrib_core.reports.paper_figure import REPRODUCTION as REPRODUCTION
    from flcontrib_core.reports.paper_figure import PaperFigure as PaperFigure
    from flcontrib_core.reports.paper_figure import read_paper_figures as read_paper_figures
    from flcontrib_core.reports.record import Record as Record
    from flcontrib_core.reports.tables import AXIOMS as AXIOMS
    from flcontrib_core.reports.tables import alerts_table as alerts_table
    from flcontrib_core.reports.tables import axioms_table as axioms_table
    from flcontrib_core.reports.tables import csv_safe as csv_safe
    from flcontrib_core.reports.tables import share_of_help as share_of_help
    from flcontrib_core.reports.tables import state_names as state_names
    from flcontrib_core.reports.tables import table_csv as table_csv
    from flcontrib_core.reports.tables import totals_table as totals_table
    from flcontrib_core.reports.tables import write_history_tables as write_history_tables
    from flcontrib_core.reports.trackers import track as track
    from flcontrib_core.reports.twin import report_json as report_json
    from flcontrib_core.reports.twin import write_report as write_report
    from flcontrib_core.reports.verify import Verification as Verification
    from flcontrib_core.reports.verify import verify_report as verify_report

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
