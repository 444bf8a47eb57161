"""The dashboard's server with tokens handed out on standard output: ``python -m tests.app.streaming_server PORT``.

Prints two tokens, one per line, then serves the workspace named by FLCONTRIB_WORKSPACE until it is ended.
"""

from __future__ import annotations

import sys

from flcontrib_dashboard.server import dashboard
from flcontrib_dashboard.uploads import upload_route

if __name__ == "__main__":
    for _ in range(2):
        print(upload_route.tokens.issue(), flush=True)
    dashboard.run(config={"server.port": int(sys.argv[1])})
