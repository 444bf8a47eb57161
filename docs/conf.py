"""The documentation site: ``make docs`` builds it from this folder without any outside asset."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # generated.py, executed.py, house.py: what comes from the code

from flcontrib_core import __version__  # noqa: E402

project = "FLContrib"
author = "the FLContrib authors"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "generated", "executed"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
smartquotes = False  # what is quoted from the code stands as it is there
exclude_patterns = ["_build"]
suppress_warnings = ["myst.strikethrough"]

html_theme = "furo"
html_title = f"FLContrib {version}"
html_show_sourcelink = False
html_show_copyright = False
html_static_path = ["assets"]
html_css_files = ["commands.css"]
html_theme_options = {"navigation_with_keys": True, "footer_icons": []}

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures stay on one line; each argument is explained in words
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "undoc-members": False, "show-inheritance": False}
