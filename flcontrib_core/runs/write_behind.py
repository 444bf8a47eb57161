"""A thread that writes what training hands over, in order, while training goes on; a bound on what may wait."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

MOST_WAITING = 1
"""Rounds whose numbers are held at a time: one is written while the next one trains. A second one that ends before
waits, so that the recording never holds more than two epochs: the replies of one, and what the next one's are."""


class WriteBehind:
    """Runs jobs one after the other in a thread of its own, which starts with the first job."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._room = threading.BoundedSemaphore(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self.error: Exception | None = None
        """What went wrong last, for those who asked to be told."""

    def submit(self, job: Callable[[], None], *, large: bool) -> float:
        """Hands a job over. Returns the seconds a ``large`` one had to wait for room; jobs never raise."""
        waited = 0.0
        if large and not self._room.acquire(blocking=False):
            began = time.monotonic()
            self._room.acquire()
            waited = time.monotonic() - began
        self._jobs.put(self._releasing(job) if large else job)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="flcontrib recording", daemon=True)
            self._thread.start()
        return waited

    def wait(self) -> float:
        """Returns when everything handed over so far is done, with the seconds that took."""
        began = time.monotonic()
        if self._thread is not None and self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()
        return time.monotonic() - began

    def _releasing(self, job: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                job()
            finally:
                self._room.release()

        return run

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # a round's numbers must not live until the next job comes
