"""Actions in processes of their own, forked from the test."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence

Action = Callable[[], None]


def forked(action: Action) -> int:
    """Starts a child that does this and nothing else; its process number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        except BaseException:  # noqa: BLE001 - a child must end here, and say why
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(code)
    return child


def joined(children: Sequence[int]) -> None:
    """Every child has ended well."""
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * len(children)
