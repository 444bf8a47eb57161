"""Which part of Plotly's script do our charts need? A quarter of it, cut from what the Python package brings.

The script holds every kind of chart, maps and three dimensions among them: 4.8 MB that a browser reads and runs before
it draws the first line. It is a row of modules, each a function that is called when it is first needed; the last one
names the kinds of charts. Ours names fewer, and modules that nothing can reach any more are left out; no module is
changed. The tests draw every chart with the part and with the whole and want the same picture; a version that they
have not compared is sent whole.
"""

from __future__ import annotations

import gzip
import re
from functools import lru_cache
from pathlib import Path

import plotly

KINDS = frozenset({"bar", "heatmap"})
"""What our charts are made of beside lines and points, which are Plotly's core."""
COMPARED = ("4.1.1",)
"""Versions of the script whose part draws what the whole draws."""
_VERSION = re.compile(r"plotly\.js v([\d.]+)")
_KINDS_NAMED = re.compile(r"(?<=\.register\(\[)(?:[\w$]+\(\),?)+(?=\]\))")
_CLOSED = re.compile(r"[ ,]([\w$]+)=\([\w$,]+\)=>\(\)=>.{0,60}?\{exports:\{\}\}")
"""The bundler's function around a module that keeps all its names to itself."""
_OPEN = re.compile(r"[ ,]([\w$]+)=\([\w$,]+\)=>\(\)=>.{0,60}?\([\w$]+=0\)")
"""Its function around the first steps of a module whose names stand beside it, for others to use."""
_WORD = re.compile(r"[\w$]+")


def whole_script() -> str:
    return (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def packed_script() -> bytes:
    """The script as it is sent."""
    script = whole_script()
    version = _VERSION.search(script)
    part = used_part(script) if version and version[1] in COMPARED else script
    return gzip.compress(compiled_ahead(part).encode(), compresslevel=6)


def used_part(script: str) -> str:
    """The script with our kinds of charts and what they need."""
    modules = _modules(script)

    def ours(named: re.Match[str]) -> str:
        return ",".join(call for call in named[0].split(",") if _kind(modules, call.removesuffix("()")) in KINDS)

    return _reachable(_modules(_KINDS_NAMED.sub(ours, script)))


def _modules(script: str) -> dict[str, str]:
    """Name → text, in order; under "" what stands before the first. What follows a module belongs to its text."""
    starts = list(re.finditer(rf"(?<=[;}}])var ([\w$]+)={_helper(_CLOSED, script)}\(", script))
    ends = [*(m.start() for m in starts[1:]), len(script)]
    return {"": script[: starts[0].start()]} | {
        m[1]: script[m.start() : end] for m, end in zip(starts, ends, strict=True)
    }


def _helper(kind: re.Pattern[str], script: str) -> str:
    found = kind.search(script)
    if found is None:
        raise ValueError("Plotly's script is not the row of modules it was; send it whole")
    return re.escape(found[1])


def _kind(modules: dict[str, str], name: str) -> str:
    """Which kind of chart a module that is named among the kinds stands for: it passes another module on."""
    passed_on = re.search(r"\.exports=([\w$]+)\(\)\}\);$", modules[name])
    said = re.search(r'moduleType:"trace",name:"(\w+)"', modules[passed_on[1]]) if passed_on else None
    return said[1] if said else ""


def _reachable(modules: dict[str, str]) -> str:
    """The beginning, the last module, and whatever they reach by any word in any text that is kept."""
    first_steps = re.compile(rf"([\w$]+)={_helper(_OPEN, modules[''])}\(")
    holder = {name: name for name in modules}
    for name, text in modules.items():  # whoever uses a name of an open module has called its first steps
        holder |= dict.fromkeys(first_steps.findall(text), name)
    waiting, found = ["", next(reversed(modules))], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += {holder[word] for word in _WORD.findall(modules[name]) if word in holder}
    return "".join(text for name, text in modules.items() if name in found)


def compiled_ahead(script: str) -> str:
    """The same script with its one large function in brackets, where it is built as Plotly's makers build it.

    A browser compiles a function in brackets while the script arrives, beside the page. Any other one it only skims
    then, and compiles when it is called: a quarter of a second in which the page stands still.
    """
    head, opening, body = script.partition("this, () => {")
    body, closing, tail = body.rpartition("}));")
    if not opening or not closing or tail.strip():
        return script
    return f"{head}this, (() => {{{body}}})));{tail}"
