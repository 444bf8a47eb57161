"""The innocent and the guilty: a declarative catalogue of simulated federations, for tuning and for reporting."""

from flcontrib_core.laboratory.corpus.generation import (
    AssessedRun,
    assess_corpus,
    keep_assessed,
    kept_runs,
    map_corpus,
    read_assessed,
    simulate_corpus,
)
from flcontrib_core.laboratory.corpus.groups import GROUPS, Group, groups
from flcontrib_core.laboratory.corpus.runs import CorpusRun, corpus, corpus_run
from flcontrib_core.laboratory.corpus.worlds import Part, Regime

__all__ = [
    "GROUPS",
    "AssessedRun",
    "CorpusRun",
    "Group",
    "Part",
    "Regime",
    "assess_corpus",
    "corpus",
    "corpus_run",
    "groups",
    "keep_assessed",
    "kept_runs",
    "map_corpus",
    "read_assessed",
    "simulate_corpus",
]
