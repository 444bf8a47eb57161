"""Which simulated runs have been assessed already?

With ``$FLCONTRIB_BENCH_CACHE`` set, each assessed run is one file there, written under a temporary name and renamed,
so that an interrupted benchmark continues and two may run side by side. The key holds the settings and the package's
version; change the code of the simulator or the engine and empty the folder. Only files this module wrote belong there.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from flcontrib_core import __version__
from flcontrib_core.laboratory.calibration_set import LabelledSettings
from flcontrib_core.laboratory.labelled_history import LabelledHistory, assess_labelled

CACHE = "FLCONTRIB_BENCH_CACHE"
Cached = TypeVar("Cached")


def cached(key: str, make: Callable[[], Cached]) -> Cached:
    """What ``make`` returns, from the cache where it is there."""
    folder = os.environ.get(CACHE)
    if not folder:
        return make()
    path = Path(folder) / f"{hashlib.sha256(f'{__version__} {key}'.encode()).hexdigest()[:32]}.pickle"
    if path.exists():
        found: Cached = pickle.loads(path.read_bytes())
        return found
    made = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_bytes(pickle.dumps(made))
    partial.replace(path)
    return made


def assess_cached(labelled: LabelledSettings, replay: bool = False) -> LabelledHistory:
    """``assess_labelled`` through the cache."""
    return cached(f"{labelled!r} {replay}", lambda: assess_labelled(labelled, replay))
