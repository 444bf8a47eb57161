"""Linear algebra in one thread, where it decides something or is small; several such pieces side by side.

A product's last bits depend on how many threads share it, and a choice made from them (which coalition next?) would
then depend on the machine. On busy cores threads also wait for each other: the same epoch took ten times the CPU, and a
search over thousands of small matrices six times on two cores. Where whoever has the cores lends them
(``spare_threads``), work that is cut the same way everywhere goes to several threads of one BLAS thread each: they need
no start as processes do, and gain as much where the work is linear algebra.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")

_spare: ContextVar[int] = ContextVar("spare", default=1)


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


@contextmanager
def spare_threads(count: int) -> Iterator[None]:
    """Inside, ``side_by_side`` may take so many cores of this machine: those who would use them wait for the answer."""
    token = _spare.set(max(1, min(count, os.cpu_count() or 1)))
    try:
        yield
    finally:
        _spare.reset(token)


def lent_threads() -> int:
    """How many ``side_by_side`` may take."""
    return _spare.get()


def slices(count: int, width: int) -> list[slice]:
    """``count`` things cut into slices of ``width``; the last may be shorter."""
    return [slice(start, min(start + width, count)) for start in range(0, count, width)]


def side_by_side(work: Callable[[Piece], None], pieces: Iterable[Piece]) -> None:
    """Each piece once. How the work is cut must not depend on the number of threads, or its last bits would."""
    threads = _spare.get()
    if threads == 1:
        for piece in pieces:
            work(piece)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, pieces):
            pass


def in_order(work: Callable[[Piece], Answer], pieces: Sequence[Piece]) -> list[Answer]:
    """What ``work`` makes of each piece, found side by side; who adds the answers up does it in this order."""
    answers: dict[int, Answer] = {}
    side_by_side(lambda at: answers.update({at: work(pieces[at])}), range(len(pieces)))
    return [answers[at] for at in range(len(pieces))]
