"""The dashboard's server with tokens handed out on standard output: ``python -m tests.app.streaming_server PORT``.

``PORT CONNECTIONS SECONDS`` bounds connections of an address, and their silence, more than a real server does.
Prints two tokens, one per line, then serves the workspace named by FLCONTRIB_WORKSPACE until it is ended.
"""

from __future__ import annotations

import sys

from flcontrib_dashboard.pacing import bound_connections
from flcontrib_dashboard.server import dashboard
from flcontrib_dashboard.uploads import upload_route

if __name__ == "__main__":
    if len(sys.argv) > 2:
        bound_connections(int(sys.argv[2]), float(sys.argv[3]))
    for _ in range(2):
        print(upload_route.tokens.issue(), flush=True)
    dashboard.run(config={"server.port": int(sys.argv[1])})
