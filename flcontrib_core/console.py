"""``flcontrib`` as installed: names what is missing before anything that may be missing is imported.

The base package records runs and needs numpy and safetensors only; every command needs an extra.
"""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

from flcontrib_core.errors import FLContribError, MissingPart, UnsupportedPlatform

EXTRA_OF = {
    **dict.fromkeys(("click", "cryptography", "pandas", "platformdirs", "psutil", "pulp", "pyarrow"), "audit"),
    **dict.fromkeys(("rfc3161_client", "ruptures", "scipy", "sklearn", "threadpoolctl", "torch", "tslearn"), "audit"),
    **dict.fromkeys(("anyio", "h11", "plotly", "starlette", "streamlit", "uvicorn", "websockets"), "dashboard"),
    **{name: name for name in ("mlflow", "ray", "tensorboard", "wandb")},
    "resvg_py": "png",
    "shapiq": "bench",
}
"""Which extra of the package brings a module."""


def main() -> None:
    """Runs a command, or says in one line why this machine or this installation cannot."""
    if os.name == "nt":
        _refuse(
            UnsupportedPlatform(
                "flcontrib runs on Linux and macOS; on Windows it lacks the file locks, process groups and limits that "
                "its workspace and its jobs stand on. Use it in WSL."
            )
        )
    try:
        from flcontrib_core.cli import main as run_command

        run_command()
    except ModuleNotFoundError as missing:
        module = (missing.name or "").partition(".")[0]
        if module not in EXTRA_OF:
            raise
        advice = f"pip install 'flcontrib[{EXTRA_OF[module]}]'"
        _refuse(MissingPart(f"this command needs {module}, which is not installed: {advice}"))


def _refuse(fault: FLContribError) -> NoReturn:
    """Says what is wrong, as JSON too where that was asked for, and ends with the code of a bad request."""
    print(f"{type(fault).__name__}: {fault}", file=sys.stderr)
    if "--json" in sys.argv:
        print(json.dumps({"ok": False, "digest": None, "error": type(fault).__name__, "message": str(fault)}))
    sys.exit(2)
