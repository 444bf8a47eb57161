"""Names of a door that are imported when they are first asked for (PEP 562).

A room's ``__init__.py`` names what others may use without loading any of it::

    if TYPE_CHECKING:
        from flcontrib_core.shapley.exact import Exact as Exact

    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

The block is the one list: type checkers and editors follow its imports, Python reads them here without running them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_names(
    package: str, file: str, here: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of ``package``, from the imports under its ``TYPE_CHECKING``.

    ``here`` are names that the package defines itself. ``from the.package import module as module`` offers a whole
    module under its own name.
    """
    homes = _listed(Path(file).read_text(encoding="utf-8"))
    everything = sorted([*homes, *here])

    def lookup(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"{package} has no {name!r}; it offers {', '.join(everything)}")
        home = homes[name]
        return import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)

    def listing() -> list[str]:
        return list(everything)

    return lookup, listing, everything


def _listed(source: str) -> dict[str, str]:
    """name -> module, of every import under ``if TYPE_CHECKING:``."""
    return {
        alias.name: statement.module
        for block in ast.parse(source).body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
    }
