"""Makes sure that there is a browser: one on PATH, else apt's when root, else Playwright's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from flcontrib_core.execution.children import child_environment, python_command

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def on_path() -> str | None:
    """The path of a Chromium that is installed, if any."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def main() -> int:
    found = on_path()
    if found:
        print(f"browser: {found}")
        return 0
    if os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]):
            if subprocess.run(command, check=False).returncode:
                break
        if on_path():
            return 0
    return subprocess.run(
        python_command("-m", "playwright", "install", "chromium"), check=False, env=child_environment()
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
