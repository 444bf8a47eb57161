"""Traced calls that read several values, give several, or pick some of one: indexing, splitting, joining, turning."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from flcontrib_core.runs.operations.record import MAX_CONSTANTS, Fields, Shape, Unwritable
from flcontrib_core.runs.trace_values import Fixed, FreeParameter, Moved, States, Written, is_several
from flcontrib_core.runs.trace_writer import TraceWriter


def _argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def _axis(value: Written, dim: int) -> int:
    """The dimension as model.json counts it: the batch is 0."""
    position = dim % len(value.shape)
    if not value.shared and position == 0:
        raise Unwritable("over the batch dimension")
    return position + 1 if value.shared else position


def _row(value: Written, shape: Shape) -> list[int]:
    return list(shape if value.shared else shape[1:])


def _reshaped(writer: TraceWriter, value: Written, shape: Shape) -> Written:
    if shape == value.shape:
        return value
    fields: Fields = {"shape": _row(value, shape)}
    if not value.shared and shape[0] > writer.rows:
        fields["fold"] = shape[0] // writer.rows
    return writer.add("reshape", [value], fields, shape)


def _first(writer: TraceWriter, node: fx.Node) -> Any:
    """A call that changes nothing which matters here."""
    return writer.values[node.all_input_nodes[0]]


def _getattr(writer: TraceWriter, node: fx.Node) -> Any:
    value, name = writer.values[node.all_input_nodes[0]], node.args[1]
    if is_several(value) and name in ("values", "hidden"):
        return value[0]
    if name in ("T", "mT"):
        written = writer.written(value)
        order = list(range(len(written.shape)))
        order = order[::-1] if name == "T" else [*order[:-2], order[-1], order[-2]]
        return _turned(writer, written, order)
    raise Unwritable("cannot be written")


def _getitem(writer: TraceWriter, node: fx.Node) -> Any:
    value, index = writer.values[node.all_input_nodes[0]], node.args[1]
    if is_several(value):
        return value[writer.plain(index)]
    if isinstance(value, States):
        return _state(writer, value, index)
    if isinstance(value, Moved):
        return _of_moved(writer, value, index)
    chosen = writer.values.get(index) if isinstance(index, fx.Node) else None
    if isinstance(chosen, Fixed) and isinstance(value, FreeParameter):
        return rows_of(writer, value, chosen)
    return _sliced(writer, writer.written(value), writer.plain(index), writer.shape_of(node))


def _state(writer: TraceWriter, states: States, index: Any) -> Written:
    first, *rest = index if isinstance(index, tuple) else (index,)
    if not isinstance(first, int) or any(part not in (slice(None), ...) for part in rest):
        raise Unwritable("other than one state of a recurrent layer at a time, as in h[-1]")
    return writer.add(states.op, [states.source], {**states.fields, "position": first}, states.shape)


def rows_of(writer: TraceWriter, table: FreeParameter, index: Fixed) -> Written:
    """The rows of a parameter that fixed positions choose: (…positions, …row)."""
    if index.tensor.dtype not in (torch.int64, torch.int32) or index.tensor.numel() > MAX_CONSTANTS:
        raise Unwritable("with an index that is no list of positions")
    shape = (*index.shape, *table.shape[1:])
    fields: Fields = {"weight": table.name, "shape": list(shape), "index": index.tensor.flatten().tolist()}
    return writer.node("parameter", [], fields, shape, shared=True)


def _sliced(writer: TraceWriter, value: Written, index: Any, result: Shape) -> Written:
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(not (isinstance(part, slice | int) or part is None or part is ...) for part in parts):
        raise Unwritable("with an index that is no slice")
    if ... in parts:
        at = parts.index(...)
        named = sum(part is not None for part in parts) - 1
        parts[at : at + 1] = [slice(None)] * (len(value.shape) - named)
    shape, dim = list(value.shape), 0
    for part in parts:
        if part is None:
            continue
        extent = shape[dim]
        chosen = slice(part, part + 1 if part != -1 else None) if isinstance(part, int) else part
        if chosen.indices(extent) != (0, extent, 1):
            fields: Fields = {"dim": _axis(value, dim)}
            fields |= {k: v for k in ("start", "stop", "step") if (v := getattr(chosen, k)) is not None}
            shape[dim] = len(range(*chosen.indices(extent)))
            value = writer.add("slice", [value], fields, tuple(shape))
        elif isinstance(part, int):
            _axis(value, dim)
        dim += 1
    return _reshaped(writer, value, result)


def _of_moved(writer: TraceWriter, value: Moved, index: Any) -> Any:
    """One slice along the dimension that stands in front, as in ``qkv.permute(2, 0, 3, 1, 4)[0]``."""
    if not isinstance(index, int):
        raise Unwritable("of values without the batch in front (take one of them at a time, as in q = qkv[0])")
    dim, source = value.order[0], value.source
    rest = (*source.shape[:dim], *source.shape[dim + 1 :])
    one = _sliced(writer, source, (*(slice(None),) * dim, index), rest)
    return _turned(writer, one, [d - (d > dim) for d in value.order[1:]])


def _parts(writer: TraceWriter, node: fx.Node) -> tuple[Written, ...]:
    """chunk, split and unbind: each part is a slice of its own."""
    single = node.target in ("unbind", torch.unbind)
    dim = writer.plain(_argument(node, 1 if single else 2, "dim", 0))
    moved = writer.values[node.all_input_nodes[0]]
    if isinstance(moved, Moved) and single and dim in (0, -len(moved.order)):
        return tuple(_of_moved(writer, moved, place) for place in range(len(writer.results[node])))
    value = writer.operand(node)
    dim %= len(value.shape)
    given, start = [], 0
    for part in writer.results[node]:
        extent = 1 if single else part.shape[dim]
        shape = (*value.shape[:dim], extent, *value.shape[dim + 1 :])
        fields: Fields = {"dim": _axis(value, dim), "start": start, "stop": start + extent}
        given.append(_reshaped(writer, writer.add("slice", [value], fields, shape), tuple(part.shape)))
        start += extent
    return tuple(given)


def _cat(writer: TraceWriter, node: fx.Node) -> Written:
    listed, dim = _argument(node, 0, "tensors"), _argument(node, 1, "dim", 0)
    if isinstance(listed, fx.Node):
        sides = list(writer.values[listed]) if is_several(writer.values[listed]) else []
    else:
        sides = [writer.values[n] if isinstance(n, fx.Node) else n for n in listed]
    if not sides or any(not isinstance(side, Written | FreeParameter | Fixed) for side in sides):
        raise Unwritable("of something else than a list of values")
    result = writer.shape_of(node)
    values = writer.aligned(sides, len(result))
    like = next((value for value in values if not value.shared), values[0])
    return writer.add("cat", values, {"dim": _axis(like, writer.plain(dim))}, result)


def _stack(writer: TraceWriter, node: fx.Node) -> Written:
    listed = _argument(node, 0, "tensors")
    result = writer.shape_of(node)
    dim = writer.plain(_argument(node, 1, "dim", 0)) % len(result)
    if not isinstance(listed, list | tuple):
        raise Unwritable("of something else than a list of values")
    values = [writer.written(writer.values[n]) for n in listed]
    shape = (*result[:dim], 1, *result[dim + 1 :])
    like = next((value for value in values if not value.shared), values[0])
    apart = [_reshaped(writer, value, shape) for value in values]
    return writer.add("cat", apart, {"dim": _axis(Written(like.name, shape, like.shared), dim)}, result)


def flatten(writer: TraceWriter, node: fx.Node, start: int | None = None, end: int | None = None) -> Written:
    """The flattening of these dimensions, which a layer gives itself."""
    value = writer.operand(node)
    first = writer.plain(_argument(node, 1, "start_dim", 0)) if start is None else start
    last = writer.plain(_argument(node, 2, "end_dim", -1)) if end is None else end
    result, rank = writer.shape_of(node), len(value.shape)
    if not value.shared and first % rank == 1 and last % rank == rank - 1:
        return writer.add("flatten", [value], {}, result)
    return _reshaped(writer, value, result)


def _turned(writer: TraceWriter, value: Written | Moved, order: list[int]) -> Written | Moved:
    """``order`` counts the module's own dimensions."""
    if isinstance(value, Moved):
        return _turned(writer, value.source, [value.order[dim] for dim in order])
    result = tuple(value.shape[dim] for dim in order)
    if order == list(range(len(order))):
        return value
    if not value.shared and order[0] != 0:
        return Moved(value, tuple(order))
    dims = [dim + 1 for dim in order] if value.shared else order[1:]
    return writer.add("permute", [value], {"dims": dims}, result)


def _turnable(writer: TraceWriter, node: fx.Node) -> tuple[Written | Moved, list[int]]:
    """The value and its dimensions as they stand."""
    value = writer.values[node.all_input_nodes[0]]
    value = value if isinstance(value, Moved) else writer.operand(node)
    return value, list(range(len(value.order if isinstance(value, Moved) else value.shape)))


def _transpose(writer: TraceWriter, node: fx.Node) -> Written | Moved:
    value, order = _turnable(writer, node)
    first = writer.plain(_argument(node, 1, "dim0")) % len(order)
    second = writer.plain(_argument(node, 2, "dim1")) % len(order)
    order[first], order[second] = order[second], order[first]
    return _turned(writer, value, order)


def _t(writer: TraceWriter, node: fx.Node) -> Written | Moved:
    value, order = _turnable(writer, node)
    return _turned(writer, value, order[::-1])


def _permute(writer: TraceWriter, node: fx.Node) -> Written | Moved:
    value, order = _turnable(writer, node)
    given = node.args[1:] or (node.kwargs["dims"],)
    dims = writer.plain(given[0] if len(given) == 1 and isinstance(given[0], tuple | list) else given)
    return _turned(writer, value, [order[dim] for dim in dims])


def _expand(writer: TraceWriter, node: fx.Node) -> Written:
    value, result = writer.values[node.all_input_nodes[0]], writer.shape_of(node)
    shape: Shape = value.shape
    shared = not isinstance(value, Written) or value.shared
    if shared and len(shape) <= len(result) and result[0] == writer.rows and len(result) > 1:
        # one value for all rows of the batch: it stands once and is repeated where it is used
        row = shape[1:] if len(shape) == len(result) else (1,) * (len(result) - 1 - len(shape)) + shape
        if len(shape) == len(result) and shape[0] != 1:
            raise Unwritable("with one value for each row of the batch")
        once = writer.written(value, tuple(row))
        return _grown(writer, Written(once.name, (writer.rows, *row)), result)
    return _grown(writer, writer.written(value), result)


def _grown(writer: TraceWriter, value: Written, result: Shape) -> Written:
    if value.shape == result:
        return value
    if len(value.shape) != len(result) or any(a not in (1, b) for a, b in zip(value.shape, result, strict=True)):
        raise Unwritable("of more than extents of 1")
    return writer.add("expand", [value], {"shape": _row(value, result)}, result)


def _max(writer: TraceWriter, node: fx.Node) -> tuple[Written, ...]:
    """Largest numbers along a dimension; where they stand cannot be asked."""
    dim = writer.plain(_argument(node, 1, "dim"))
    if not isinstance(dim, int) or not isinstance(writer.results[node], tuple):
        raise Unwritable("without saying along which dimension")
    value = writer.operand(node)
    fields: Fields = {"dims": [_axis(value, dim)]}
    if _argument(node, 2, "keepdim", False):
        fields["keep"] = True
    return (writer.add("largest", [value], fields, tuple(writer.results[node][0].shape)),)


def _masked_fill(writer: TraceWriter, node: fx.Node) -> Written:
    result = writer.shape_of(node)
    mask, number = _argument(node, 1, "mask"), writer.plain(_argument(node, 2, "value"))
    values = writer.aligned([writer.values[node.all_input_nodes[0]], writer.values[mask]], len(result))
    value: float | str = float(number)
    if value in (float("inf"), float("-inf")):
        value = str(value)
    return writer.add("masked_fill", values, {"value": value}, result)


def _attention(writer: TraceWriter, node: fx.Node) -> Written:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    given: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    if given.get("enable_gqa"):
        raise Unwritable("with grouped queries")
    sides = [writer.values[given[name]] for name in names[:3]]
    result = writer.shape_of(node)
    if given.get("attn_mask") is not None:
        mask = writer.values[given["attn_mask"]]
        if isinstance(mask, Fixed) and mask.tensor.dtype == torch.bool:
            mask = Fixed(torch.zeros(mask.shape).masked_fill(~mask.tensor, float("-inf")))
        sides.append(mask)
    fields: Fields = {}
    if writer.plain(given.get("is_causal", False)):
        fields["causal"] = True
    if given.get("scale") is not None:
        fields["scale"] = float(writer.plain(given["scale"]))
    return writer.add("attention", writer.aligned(sides, len(result)), fields, result)


def _einsum(writer: TraceWriter, node: fx.Node) -> Written:
    equation, *given = node.args
    listed: list[Any] = list(given[0]) if len(given) == 1 and isinstance(given[0], list | tuple) else given
    sides, _, result = str(equation).replace(" ", "").partition("->")
    terms, values = sides.split(","), [writer.written(writer.values[side]) for side in listed]
    if not "".join((*terms, result)).isalpha() or len(terms) != len(values) or not result:
        raise Unwritable(f"of {equation!r} (only letters can be written, those of the result too)")
    rows = [term if value.shared else term[1:] for term, value in zip(terms, values, strict=True)] + [result[1:]]
    batch = {result[0]} | {term[0] for term, value in zip(terms, values, strict=True) if not value.shared}
    if len(batch) != 1 or batch & set("".join(rows)):
        raise Unwritable(f"of {equation!r}, where the batch is not the first dimension of all that depends on it")
    letters = {letter: chr(ord("a") + place) for place, letter in enumerate(dict.fromkeys("".join(rows)))}
    *read, made = ("".join(letters[letter] for letter in term) for term in rows)
    return writer.add("einsum", values, {"equation": f"{','.join(read)}->{made}"}, writer.shape_of(node))


def _squeeze(writer: TraceWriter, node: fx.Node) -> Any:
    value = writer.values[node.all_input_nodes[0]]
    if isinstance(value, States):
        if value.count != 1 or _argument(node, 1, "dim") not in (0, None):
            raise Unwritable("other than one state of a recurrent layer at a time, as in h[-1]")
        return _state(writer, value, 0)
    return _reshaped(writer, writer.written(value), writer.shape_of(node))


_RENAMES = ("contiguous", "clone", "detach", "float", "to", "type", "type_as", "long", "int")
CALLS: dict[Any, Callable[[TraceWriter, fx.Node], Any]] = {
    operator.getitem: _getitem,
    getattr: _getattr,
    **dict.fromkeys((torch.cat, torch.concat), _cat),
    torch.stack: _stack,
    **dict.fromkeys((torch.flatten, "flatten"), flatten),
    **dict.fromkeys((torch.transpose, "transpose", torch.swapaxes, "swapaxes"), _transpose),
    **dict.fromkeys((torch.permute, "permute"), _permute),
    **dict.fromkeys((torch.t, "t"), _t),
    **dict.fromkeys(("expand", "expand_as", "repeat"), _expand),
    **dict.fromkeys(("chunk", torch.chunk, "split", torch.split, "unbind", torch.unbind), _parts),
    **dict.fromkeys(("max", torch.max), _max),
    **dict.fromkeys(("masked_fill", torch.masked_fill), _masked_fill),
    **dict.fromkeys(("squeeze", torch.squeeze), _squeeze),
    torch.einsum: _einsum,
    torch.nn.functional.scaled_dot_product_attention: _attention,
    **dict.fromkeys(_RENAMES, _first),
}
"""Functions by themselves, methods by their name."""
