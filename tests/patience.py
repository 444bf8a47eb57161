"""How long a test waits before it calls something hung. Nothing is measured by these; a busy machine never meets them.

A test waits for a state (a file, a job's end, words on a page). These limits only end one that would wait for ever.
"""

from __future__ import annotations

PATIENCE_SECONDS = 900.0
"""For a job or a process: jobs step back behind everything else, so that a busy machine gives them little."""
PAGE_MILLISECONDS = 180_000
"""For words on a page whose job has ended: shorter, so that a page that never says them fails soon."""
