"""Names of a door that are imported when they are first asked for (PEP 562).

A room's ``__init__.py`` names what others may use without loading any of it::

    if TYPE_CHECKING:
        from flcontrib_core.shapley.exact import Exact as Exact

    __getattr__, __dir__, __all__ = lazy_names(__name__, {"exact": ["Exact"]})

The first block is for type checkers and editors, the last line for Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]], here: Sequence[str] = (), whole: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of ``package``, from the names that each of its modules gives.

    ``here`` are names that the package defines itself, ``whole`` are modules that are offered under their own name.
    """
    homes = {name: module for module, names in modules.items() for name in names}
    everything = sorted([*homes, *here, *whole])

    def lookup(name: str) -> Any:
        if name in whole:
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"{package} has no {name!r}; it offers {', '.join(everything)}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    def listing() -> list[str]:
        return list(everything)

    return lookup, listing, everything
