"""The one way a child process of FLContrib starts: it imports from where its parent does, and from nowhere else.

``python -c`` and ``python -m`` put the working folder first on the import path, and multiprocessing starts its workers
with ``-c``. The working folder may be an unpacked run: without this, a ``multiprocessing.py`` in it would be executed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_environment_is_changed = threading.RLock()
"""One thread at a time changes what this process's children inherit."""


def python_command(*arguments: str) -> list[str]:
    """The command that starts this interpreter without the working folder on its path."""
    return [sys.executable, "-P", *arguments]


def child_environment(**settings: str) -> dict[str, str]:
    """This process's environment for a child: the same import path in the same order, but only absolute places."""
    return {**os.environ, **_safe_path(), **settings}


def other_python(python: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a child of another interpreter, with its own import path and one thread.

    Ours would give it packages that were built for this one; the working folder is on its path as little.
    """
    ours = ("PYTHONPATH", "PYTHONHOME")
    inherited = {name: value for name, value in os.environ.items() if name not in ours}
    return [python, "-P", *arguments], {**inherited, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}


@contextmanager
def safe_starts() -> Iterator[None]:
    """While this is open, what other libraries start (multiprocessing, Ray) starts as safely as our own children.

    They take no environment for their processes, so that this process's own is changed for a moment.
    """
    with _environment_is_changed:
        safe = _safe_path()
        before = {name: os.environ.get(name) for name in safe}
        os.environ.update(safe)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _safe_path() -> dict[str, str]:
    """An empty or relative entry means another folder in every process, so that it is left out.

    The whole path is passed on, not only what was added to it: a folder of packages that came before the standard
    library in the child, but not in its parent, could change what a name means.
    """
    places = [place for place in sys.path if os.path.isabs(place)]
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(places)}
