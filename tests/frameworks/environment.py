"""Lets the frameworks' environment see the packages of this one: ``python environment.py .venv-frameworks``.

What the frameworks pin otherwise is installed there and comes first on its path; torch, numpy and this tree's code are
those of the main environment, so that setting it up takes seconds and no second torch.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path


def main() -> None:
    """Writes the link: folders that the main environment's own path files name are followed as well."""
    python = Path(sys.argv[1]) / "bin" / "python"
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    theirs = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    link = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (Path(theirs) / "main_environment.pth").write_text(link)


if __name__ == "__main__":
    main()
