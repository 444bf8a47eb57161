"""Names that a run log accepts and that every export must show literally."""

from __future__ import annotations

HOSTILE_NAMES = (
    "<img src=x onerror=alert(1)>",
    "![x](http://outside.invalid/x.png)",
    '=HYPERLINK("http://outside.invalid","x")',
    "'=HYPERLINK",
    "ab\u202egpj.exe",
    "two\nlines",
    "NA",
    "null",
    "</title><script>alert(2)</script>",
    '"onload="alert(3)',
    "😀",
    "x" * 200,
)
