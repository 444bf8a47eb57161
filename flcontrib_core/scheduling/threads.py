"""Why do small matrix products run in one thread here?

The searches multiply thousands of small matrices. A second BLAS thread makes each of them wait for the other core:
on two cores the same search took six times the CPU time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Inside, linear algebra keeps to one thread; the previous number comes back afterwards."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
