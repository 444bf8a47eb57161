"""How model.json is written down, and what it says once defaults are filled in.

Both forms of the architecture – the hand-written sequence and the traced graph – become one list of ``Node``s in
running order. Only the grammar lives here: op names, fields, and which node feeds which. Whether the shapes fit the
parameters is the next module's question (``model_spec``). No name in the file is ever imported or looked up
outside the closed list of ``operations``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.runs.operations import INPUT, KNOWN_OPS, OPERATIONS, SEQUENTIAL_OPS, Node
from flcontrib_core.runs.operations.record import MAX_EXTENT, MAX_RANK, REQUIRED, SAME_AS_KERNEL, BadField, extents
from flcontrib_core.runs.problems import MAX_PROBLEMS, problem, shown

__all__ = ["INPUT", "KNOWN_OPS", "MAX_EXTENT", "MAX_NODES", "MAX_RANK", "SEQUENTIAL_OPS", "Node"]

MAX_NODES = 4096
_STRUCTURAL = frozenset({"op", "name", "inputs"})
_LOOKS_UP = frozenset({"embedding", "embedding_bag"})


def normalise_spec(spec: Mapping[str, Any]) -> list[Node]:
    """Which operations does this architecture run, in order, with every default filled in?

    A sequence becomes nodes ``layer1``, ``layer2``, … each reading the one before it. In the graph form, nodes
    that the output does not depend on are left out; the last node of the list is always the output (see also
    ``output_name``). Raises ``RunLogError`` with every grammatical fault found.

    >>> [(n.name, n.op, n.inputs) for n in normalise_spec({"input": [4], "layers": [{"op": "relu"}]})]
    [('layer1', 'relu', ('input',))]
    """
    nodes, problems = parse_spec(spec)
    if problems:
        raise RunLogError(tuple(problems[:MAX_PROBLEMS]))
    return nodes


def output_name(spec: Mapping[str, Any]) -> str:
    """Which node gives the logits?"""
    return normalise_spec(spec)[-1].name


def input_shape(spec: Mapping[str, Any]) -> tuple[int, ...]:
    """Which shape has one input row, without the batch dimension? (After ``parse_spec`` found no fault.)"""
    return tuple(spec["input"])


def reads_tokens(nodes: list[Node]) -> bool:
    """Does the model take integers (an embedding looks them up) instead of float features?"""
    tokens = token_values(nodes)
    return any(node.op in _LOOKS_UP and node.inputs[0] in tokens for node in nodes)


def token_values(nodes: list[Node]) -> set[str]:
    """The input and what only moves it about: whole numbers, where the input is."""
    tokens = {INPUT}
    for node in nodes:
        if node.op in ("reshape", "slice") and node.inputs[0] in tokens:
            tokens.add(node.name)
    return tokens


def parse_spec(spec: object) -> tuple[list[Node], list[Problem]]:
    """The nodes and every grammatical fault; the nodes are meaningless where there are faults."""
    problems: list[Problem] = []
    if not isinstance(spec, Mapping):
        return [], [_fault("model.json", type(spec).__name__, "an object with input and layers (or nodes)")]
    try:
        extents(1)(spec.get("input"))
    except BadField:
        problems.append(
            _fault("model.json:input", shown(spec.get("input")), f"the shape of one row, 1 to {MAX_RANK} integers ≥ 1")
        )
    if ("layers" in spec) == ("nodes" in spec):
        problems.append(_fault("model.json", f"keys {shown(sorted(map(str, spec)))}", "either layers or nodes"))
        return [], problems
    graph = "nodes" in spec
    key = "nodes" if graph else "layers"
    allowed = {"input", "nodes", "output"} if graph else {"input", "layers"}
    unknown = sorted(str(name) for name in spec if name not in allowed)
    if unknown:
        problems.append(_fault("model.json", f"unknown keys {shown(unknown)}", f"only {', '.join(sorted(allowed))}"))
    entries = spec[key]
    if not isinstance(entries, list) or not entries:
        problems.append(_fault(f"model.json:{key}", shown(entries), "a list of at least one operation"))
        return [], problems
    if len(entries) > MAX_NODES:
        problems.append(
            problem("E_MODEL_SIZE", f"model.json:{key}", f"{len(entries)} operations", f"at most {MAX_NODES}")
        )
        return [], problems
    nodes = _read_graph(entries, problems) if graph else _read_sequence(entries, problems)
    if graph and not problems:
        nodes = _ending_at_output(nodes, spec.get("output"), problems)
    return nodes, problems


def _read_sequence(entries: list[Any], problems: list[Problem]) -> list[Node]:
    nodes: list[Node] = []
    previous = INPUT
    for number, entry in enumerate(entries, start=1):
        where = f"model.json:layers[{number}]"
        checked = _read_op(entry, where, SEQUENTIAL_OPS, problems)
        if checked is None:
            continue
        op, fields = checked
        if "inputs" in entry:
            problems.append(_fault(where, "inputs", "no inputs in a sequence; use the graph form (nodes)"))
        nodes.append(Node(f"layer{number}", op, (previous,), fields))
        previous = f"layer{number}"
    return nodes


def _read_graph(entries: list[Any], problems: list[Problem]) -> list[Node]:
    nodes: list[Node] = []
    known = {INPUT}
    for number, entry in enumerate(entries, start=1):
        where = f"model.json:nodes[{number}]"
        checked = _read_op(entry, where, KNOWN_OPS, problems)
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not 1 <= len(name) <= 200 or name in known:
            problems.append(_fault(where, f"name {shown(name)}", "a name unlike earlier nodes' and 'input'"))
            continue
        known.add(name)
        if checked is None:
            continue
        op, fields = checked
        inputs = entry.get("inputs")
        fewest, most = OPERATIONS[op].inputs
        if not isinstance(inputs, list) or not fewest <= len(inputs) <= most:
            count = f"{fewest} input{'' if fewest == 1 else 's'}" if fewest == most else f"{fewest} to {most} inputs"
            problems.append(_fault(where, f"inputs {shown(inputs)}", f"{count} for {op}"))
            continue
        strangers = [i for i in inputs if not isinstance(i, str) or i not in known or i == name]
        if strangers:
            problems.append(_fault(where, f"inputs {shown(strangers)}", "'input' or names of earlier nodes"))
            continue
        nodes.append(Node(name, op, tuple(inputs), fields))
    return nodes


def _ending_at_output(nodes: list[Node], output: object, problems: list[Problem]) -> list[Node]:
    if not isinstance(output, str) or output not in {node.name for node in nodes}:
        problems.append(_fault("model.json:output", shown(output), "the name of one of the nodes"))
        return []
    needed = {output}
    for node in reversed(nodes):
        if node.name in needed:
            needed.update(node.inputs)
    return [node for node in nodes if node.name in needed]


def _read_op(
    entry: object, where: str, known: tuple[str, ...], problems: list[Problem]
) -> tuple[str, dict[str, Any]] | None:
    """The op's name and its checked fields; faults go to ``problems`` and give None."""
    if not isinstance(entry, dict):
        problems.append(_fault(where, shown(entry), "an object with an op"))
        return None
    op = entry.get("op")
    if not isinstance(op, str) or op not in known:
        problems.append(problem("E_MODEL_OP", where, f"op {shown(op)}", f"one of {', '.join(known)}"))
        return None
    before = len(problems)
    table = OPERATIONS[op].fields
    # dropout does nothing here, so its probability may be written down for the reader; every other unknown field
    # could change what is computed and is refused rather than ignored.
    unknown = [key for key in entry if key not in table and key not in _STRUCTURAL and (op, key) != ("dropout", "p")]
    if unknown:
        expected = f"only {', '.join(table)}" if table else "no fields"
        problems.append(_fault(where, f"{op} with unknown fields {shown(unknown)}", expected))
    fields: dict[str, Any] = {}
    for key, rule in table.items():
        if key not in entry:
            if rule.default is REQUIRED:
                problems.append(_fault(where, f"{op} without {key}", f"{key} is required"))
            else:
                fields[key] = fields.get("kernel") if rule.default is SAME_AS_KERNEL else rule.default
            continue
        try:
            fields[key] = rule.read(entry[key])
        except BadField as bad:
            problems.append(_fault(f"{where}.{key}", shown(entry[key]), str(bad)))
    return (op, fields) if len(problems) == before else None


def _fault(where: str, found: str, expected: str) -> Problem:
    return problem("E_MODEL", where, found, expected)
