"""Linear algebra in one thread, where it decides something or is small.

A product's last bits depend on how many threads share it, and a choice made from them (which coalition next?) would
then depend on the machine. On busy cores threads also wait for each other: the same epoch took ten times the CPU, and a
search over thousands of small matrices six times on two cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    """The loaded BLAS libraries; looking for them takes long, so it is done once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Inside, linear algebra keeps to one thread; the previous number comes back afterwards."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
