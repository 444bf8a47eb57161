"""What runs while the site is built: the gallery's drawings, notebooks' cells, a page's commands with their answers.

A piece that fails, fails the build; nothing that is shown was stored, so nothing can be stale.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import textwrap
from html import escape
from pathlib import Path
from typing import Any
from unittest import mock

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from flcontrib_core.bundled_files import bundled
from flcontrib_core.charts import Chart
from flcontrib_core.cli import flcontrib

WIDE = 92
"""Characters of a line of an answer; longer sentences go on in the next line, tables do not."""


class Executed(SphinxDirective):
    """A directive whose code shares its names with the page's other pieces."""

    has_content = True

    def names(self) -> dict[str, Any]:
        """What the page has defined so far. The page is read anew in every build: what it shows depends on all code."""
        self.env.note_reread()
        found: dict[str, Any] = self.env.temp_data.setdefault("executed", {})
        return found

    @staticmethod
    def code(text: str) -> nodes.Node:
        """The code as a reader sees it."""
        return nodes.literal_block(text, text, language="python")


class Drawn(Executed):
    """Code, and the drawing of the ``Chart`` it makes, if it makes one."""

    def run(self) -> list[nodes.Node]:
        """Writes the drawing into the site, beside its page."""
        text = "\n".join(self.content)
        names = self.names()
        names.pop("chart", None)
        exec(compile(text, f"{self.env.docname}, line {self.lineno}", "exec"), names)
        if "chart" not in names:
            return [self.code(text)]
        chart: Chart = names["chart"]
        folder = Path(self.env.app.outdir) / "drawings"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{chart.name}.svg").write_text(chart.as_file())
        image = f'<img src="drawings/{chart.name}.svg" style="max-width:100%" alt="{escape(chart.alt, quote=True)}">'
        said = nodes.paragraph("", "", nodes.emphasis("", chart.alt))
        return [self.code(text), nodes.raw("", image, format="html"), said]


class Answered(Executed):
    """Commands, and what they print on standard output; those of one page share a working folder."""

    def run(self) -> list[nodes.Node]:
        """Each command as it is typed, with its answer. A command that fails, fails the build."""
        shown: list[nodes.Node] = []
        with contextlib.chdir(self.folder()), mock.patch.dict(os.environ, FLCONTRIB_WORKSPACE="workspace"):
            for line in self.content:
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
                    words = shlex.split(line.removeprefix("$ "))[1:]
                    code = flcontrib.main(words, prog_name="flcontrib", standalone_mode=False)
                if isinstance(code, int) and code:
                    raise self.severe(f"{line}: exit code {code}")
                answer = "\n".join(folded(printed.getvalue()))
                shown.append(nodes.literal_block(line, line, language="console"))
                shown.append(nodes.literal_block(answer, answer, language="text"))
        return shown

    def folder(self) -> Path:
        """Empty but for the sample runs when a page's first command runs, and never inside the site."""
        names = self.names()
        if "folder" not in names:
            folder = names["folder"] = Path(self.env.app.doctreedir).resolve() / "answers" / self.env.docname
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / "sample_runs").symlink_to(bundled("sample_runs"))
        return Path(names["folder"])


def folded(answer: str) -> list[str]:
    """The lines of an answer, long sentences folded; a table's lines have wide gaps or rules and stay."""
    lines = []
    for line in answer.rstrip().splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        wide = len(line) > WIDE and "   " not in line.strip() and "──" not in line
        lines += textwrap.wrap(line, WIDE, subsequent_indent=indent) if wide else [line]
    return lines


class Notebook(Executed):
    """A notebook's cells with what they print and show; its first heading is the page's own."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The cells' nodes, from top to bottom."""
        path = Path(self.env.doc2path(self.env.docname)).parent / self.arguments[0]
        shown: list[nodes.Node] = []
        for cell in json.loads(path.read_text())["cells"]:
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                for part in re.split(r"^(?=##? )", text, flags=re.M):
                    shown += self.told(part)
            else:
                shown += [self.code(text), *self.answer(text)]
        return shown

    def told(self, text: str) -> list[nodes.Node]:
        """A piece of text with its heading, which opens no section: the code that follows would fall out of it."""
        heading, _, rest = text.partition("\n") if text.startswith("#") else ("", "", text)
        name = heading.removeprefix("##").strip()
        above: list[nodes.Node] = [nodes.rubric(name, name, **{"heading-level": 2})] if heading[:3] == "## " else []
        return above + self.parse_text_to_nodes(rest)

    def answer(self, text: str) -> list[nodes.Node]:
        """What a cell prints, and the value of its last line as a notebook shows it."""
        names, printed = self.names(), io.StringIO()
        body = ast.parse(text).body
        last = ast.Expression(body.pop().value) if body and isinstance(body[-1], ast.Expr) else None  # type: ignore[attr-defined]
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module(body, []), self.arguments[0], "exec"), names)
            value = None if last is None else eval(compile(last, self.arguments[0], "eval"), names)
        out: list[nodes.Node] = []
        if printed.getvalue():
            out.append(nodes.literal_block(printed.getvalue(), printed.getvalue(), language="text"))
        if hasattr(value, "_repr_html_"):
            out.append(nodes.raw("", f'<div style="overflow-x:auto">{value._repr_html_()}</div>', format="html"))
        elif value is not None:
            out.append(nodes.literal_block(repr(value), repr(value), language="text"))
        return out


def setup(app: Sphinx) -> dict[str, bool]:
    """Makes the directives known."""
    app.add_directive("answered", Answered)
    app.add_directive("drawn", Drawn)
    app.add_directive("notebook", Notebook)
    return {"parallel_read_safe": True}
