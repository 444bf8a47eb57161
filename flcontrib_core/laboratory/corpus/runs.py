"""The runs of the corpus: an endless, numbered supply per group and part, each by a stable id.

>>> run = corpus_run("report/changing/local-epochs/one/from/0003")
>>> run.group.family, run.part.value, run.index
('changing', 'report', 3)
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.corpus.groups import GROUPS, Group, groups
from flcontrib_core.laboratory.corpus.worlds import Part
from flcontrib_core.laboratory.simulation import SimulationSettings
from flcontrib_core.laboratory.simulation.kinds import named


@dataclass(frozen=True)
class CorpusRun:
    """One federation of the corpus, not yet simulated."""

    part: Part
    group: Group
    index: int

    @property
    def id(self) -> str:
        """Part, group and number; the same id is the same run for good."""
        return f"{self.part}/{self.group.name}/{self.index:04d}"

    @property
    def settings(self) -> SimulationSettings:
        """What to simulate; named by the id."""
        place = zlib.crc32(self.group.name.encode())
        rng = np.random.default_rng([self.part.first_seed, place, self.index])
        return replace(self.group.draw(self.part, rng), name=self.id)


def corpus(
    part: Part | str,
    counts: int | Mapping[str, int] = 1,
    pattern: str = "*",
    *,
    first: int = 0,
    with_data: bool = False,
) -> Iterator[CorpusRun]:
    """The runs of one part, group by group.

    ``counts``: runs per group, or patterns of group names with their counts (the first that fits counts; none: 0).
    ``first``: the number of each group's first run. ``with_data``: also groups that need the data folder.
    """
    chosen = named(Part, part, "part")
    for group in groups(pattern, with_data):
        for index in range(first, first + _count(counts, group.name)):
            yield CorpusRun(chosen, group, index)


def corpus_run(run_id: str) -> CorpusRun:
    """The run of an id. Raises ``SettingsError`` where there is none."""
    part, _, rest = run_id.partition("/")
    name, _, number = rest.rpartition("/")
    if name not in GROUPS or not number.isdecimal():
        raise SettingsError(f"corpus run {run_id!r}: write PART/GROUP/NUMBER, e.g. tuning/plain/any/0000")
    return CorpusRun(named(Part, part, "part"), GROUPS[name], int(number))


def _count(counts: int | Mapping[str, int], name: str) -> int:
    if isinstance(counts, int):
        return counts
    return next((count for pattern, count in counts.items() if fnmatchcase(name, pattern)), 0)
