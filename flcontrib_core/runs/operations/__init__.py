"""The closed list of operations that a model.json may name, one record for each.

An operation that is not here cannot run, whatever a file says. A new one is written into the module of its kind:
fields, shape rule, how it runs, under which names torch knows it, what it costs.
"""

from flcontrib_core.runs.operations.activations import ACTIVATIONS
from flcontrib_core.runs.operations.arithmetic import ARITHMETIC
from flcontrib_core.runs.operations.convolutions import CONVOLUTIONS
from flcontrib_core.runs.operations.norms import NORMS
from flcontrib_core.runs.operations.pooling import POOLING
from flcontrib_core.runs.operations.record import INPUT as INPUT
from flcontrib_core.runs.operations.record import REQUIRED, SAME_AS_KERNEL
from flcontrib_core.runs.operations.record import Node as Node
from flcontrib_core.runs.operations.record import Operation as Operation
from flcontrib_core.runs.operations.reductions import REDUCTIONS
from flcontrib_core.runs.operations.sequences import SEQUENCES
from flcontrib_core.runs.operations.shaping import SHAPING

OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (*CONVOLUTIONS, *NORMS, *ACTIVATIONS, *SHAPING, *POOLING, *REDUCTIONS, *SEQUENCES, *ARITHMETIC)
}
KNOWN_OPS: tuple[str, ...] = tuple(OPERATIONS)
SEQUENTIAL_OPS: tuple[str, ...] = tuple(name for name, op in OPERATIONS.items() if not op.graph_only)


def documentation() -> str:
    """The table of docs/run-log.md; operations with the same fields and without a word of their own share a line."""
    lines: dict[tuple[str, str], list[str]] = {}
    for name, operation in OPERATIONS.items():
        fields = ", ".join(
            f"`{field}`" if rule.default in (REQUIRED, SAME_AS_KERNEL) else f"`{field}` [{_shown(rule.default)}]"
            for field, rule in operation.fields.items()
        )
        mark = "" if operation.as_documented == "" else f"{'; ' if fields else ''}{operation.as_documented}"
        words = f"{fields}{mark}" or "none"
        lines.setdefault((words, "graph" if operation.graph_only else ""), []).append(f"`{name}`")
    table = "".join(f"| {' '.join(names)} | {words} | {form} |\n" for (words, form), names in lines.items())
    return "| op | fields (defaults in brackets, meaning as in torch) | form |\n|---|---|---|\n" + table


def _shown(default: object) -> str:
    if default is None:
        return "none"
    if isinstance(default, tuple):
        return str(default[0])
    return str(default).lower() if isinstance(default, bool) else str(default)
