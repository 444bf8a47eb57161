"""No untrusted byte is ever unpickled, imported, evaluated or extracted: the words that could do it do not occur.

Nor does a message of the core name a flag of the command line, which whoever reads it may not be using. The scan reads
syntax trees, so that a comment or a sentence may speak of these things.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BANNED_MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
IMPORTER = "flcontrib_core/runs/import_child.py"
"""The one exception: a child with ceilings and a watch on what it opens reads .pt files, with weights_only=True."""
BANNED_CALLS = {"eval", "exec", "compile", "__import__"}
BANNED_METHODS = {"extract", "extractall", "unpack_archive", "load_module"}
BANNED_KEYWORDS = {"allow_pickle", "unsafe_allow_html"}
BANNED_ATTRIBUTES = {
    ("torch", "load"),
    ("torch", "jit"),
    ("torch", "package"),
    ("builtins", "eval"),
    ("builtins", "exec"),
}


def offences(source: str) -> Iterator[str]:
    """What in this source could run, unpickle or unpack something of somebody else's?"""
    for node in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.expr | ast.stmt | ast.keyword)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            names = []
        for name in names:
            if name.split(".")[0] in BANNED_MODULES or name in {"torch.load", "torch.jit", "torch.package"}:
                yield f"line {node.lineno}: import {name}"
        spelled = (
            (node.value.id, node.attr) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else None
        )
        if spelled in BANNED_ATTRIBUTES:
            yield f"line {node.lineno}: {'.'.join(spelled)}"
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
                yield f"line {node.lineno}: {node.func.id}()"
            if isinstance(node.func, ast.Attribute) and node.func.attr in BANNED_METHODS:
                yield f"line {node.lineno}: .{node.func.attr}()"
        if isinstance(node, ast.keyword) and node.arg in BANNED_KEYWORDS and not _is_false(node.value):
            yield f"line {node.value.lineno}: {node.arg}="


FLAG = re.compile(r"(?:^|[\s`'\"]|(?<!var)\()--[a-z][a-z-]+")
SPEAKS_OF_COMMANDS = {"flcontrib_core/cli.py", "flcontrib_core/words/wording.py"}
"""The command line itself, and the help page's list of commands."""


def named_flags(source: str) -> Iterator[str]:
    """Sentences that name a flag. What a process of ours is started with is no sentence: it has no space."""
    tree = ast.parse(source)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        said = node.value if isinstance(node, ast.Constant) and id(node) not in documentation else None
        if isinstance(said, str) and " " in said and FLAG.search(said):
            yield f"line {getattr(node, 'lineno', 0)}: {said}"


def _is_false(node: ast.expr) -> bool:
    """Saying aloud that pickles are not allowed is welcome."""
    return isinstance(node, ast.Constant) and node.value is False


def sources() -> list[Path]:
    return sorted(path for room in ("flcontrib_core", "app") for path in (ROOT / room).rglob("*.py"))


def test_nothing_can_be_unpickled_evaluated_or_extracted() -> None:
    found = {str(path.relative_to(ROOT)): list(offences(path.read_text())) for path in sources()}
    (loading,) = found.pop(IMPORTER)
    assert loading.endswith("torch.load")
    assert "weights_only=True" in (ROOT / IMPORTER).read_text()
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_no_message_of_the_core_names_a_flag_of_the_command_line() -> None:
    core = [path.relative_to(ROOT) for path in sources() if path.is_relative_to(ROOT / "flcontrib_core")]
    asked = [path for path in core if "commands" not in path.parts and str(path) not in SPEAKS_OF_COMMANDS]
    assert len(asked) > 300
    assert [f"{path} {said}" for path in asked for said in named_flags((ROOT / path).read_text())] == []
    assert list(named_flags("raise SettingsError('no Ray here; use --engine local')"))
    assert list(named_flags("f'{n} workers, or leave out --workers'"))
    assert not list(named_flags("start(['worker', '--workspace'])\nstyle = 'a{color: var(--ink)}'"))


def test_the_scan_sees_both_rooms() -> None:
    rooms = {path.relative_to(ROOT).parts[0] for path in sources()}
    assert rooms == {"flcontrib_core", "app"}
    assert ROOT / "flcontrib_core" / "runs" / "bundle.py" in sources()


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from pickle import loads",
        "import joblib as j",
        "import torch\ntorch.load('x')",
        "from torch import load",
        "np.load('x', allow_pickle=True)",
        "eval('1')",
        "exec('1')",
        "compile('1', '', 'eval')",
        "__import__('os')",
        "archive.extractall('.')",
        "archive.extract('x')",
        "st.markdown('x', unsafe_allow_html=True)",
        "shutil.unpack_archive('x')",
    ],
)
def test_the_scan_bites(line: str) -> None:
    assert list(offences(line))


@pytest.mark.parametrize(
    "line",
    [
        "# pickle, eval(x)",
        "'''torch.load'''",
        "np.load(f, allow_pickle=False)",
        "model.eval()",
        "x = 'allow_pickle=True'",
    ],
)
def test_words_and_other_methods_are_free(line: str) -> None:
    assert not list(offences(line))
