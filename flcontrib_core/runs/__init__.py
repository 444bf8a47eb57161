"""Runs: a federated run as data. Logs and tables are read and checked here, and recorded here; nothing else is.

Recording needs numpy and safetensors alone, so nothing is imported before it is asked for.
"""

from typing import TYPE_CHECKING

from flcontrib_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from flcontrib_core.runs.bundle import STAGES as STAGES
    from flcontrib_core.runs.bundle import CheckResult as CheckResult
    from flcontrib_core.runs.bundle import check_run_log as check_run_log
    from flcontrib_core.runs.bundle import read_run_log as read_run_log
    from flcontrib_core.runs.bundle_reader import NonFinite as NonFinite
    from flcontrib_core.runs.bundle_writer import write_bundle as write_bundle
    from flcontrib_core.runs.contribution_table import table_template as table_template
    from flcontrib_core.runs.encoding import split_flat as split_flat
    from flcontrib_core.runs.flower import record as record
    from flcontrib_core.runs.import_folders import FolderGlance as FolderGlance
    from flcontrib_core.runs.import_folders import holds_tensor_files as holds_tensor_files
    from flcontrib_core.runs.import_folders import import_apart as import_apart
    from flcontrib_core.runs.import_table import TableGlance as TableGlance
    from flcontrib_core.runs.import_table import glance_apart as glance_apart
    from flcontrib_core.runs.model_spec import INPUT as INPUT
    from flcontrib_core.runs.model_spec import KNOWN_OPS as KNOWN_OPS
    from flcontrib_core.runs.model_spec import Node as Node
    from flcontrib_core.runs.model_spec import check_model_spec as check_model_spec
    from flcontrib_core.runs.model_spec import normalise_spec as normalise_spec
    from flcontrib_core.runs.model_spec import reads_tokens as reads_tokens
    from flcontrib_core.runs.recorder import RunRecorder as RunRecorder
    from flcontrib_core.runs.run_log import Client as Client
    from flcontrib_core.runs.run_log import ContributionTable as ContributionTable
    from flcontrib_core.runs.run_log import DishonestTruth as DishonestTruth
    from flcontrib_core.runs.run_log import EpochData as EpochData
    from flcontrib_core.runs.run_log import EpochRecord as EpochRecord
    from flcontrib_core.runs.run_log import ParameterSpec as ParameterSpec
    from flcontrib_core.runs.run_log import Run as Run
    from flcontrib_core.runs.run_log import RunLog as RunLog
    from flcontrib_core.runs.run_log import Truth as Truth
    from flcontrib_core.runs.run_log import UtilityTable as UtilityTable
    from flcontrib_core.runs.run_log import Validation as Validation
    from flcontrib_core.runs.run_log import participants_per_epoch as participants_per_epoch
    from flcontrib_core.runs.strict_json import parse_json as parse_json
    from flcontrib_core.runs.tables import companion as companion

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
