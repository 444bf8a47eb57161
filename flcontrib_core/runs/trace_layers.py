"""Traced layers of several operations or several results: recurrent layers, attention, transformer encoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn

from flcontrib_core.runs.operations.record import Fields, Unwritable
from flcontrib_core.runs.operations.sequences import ENCODER_WEIGHTS
from flcontrib_core.runs.trace_calls import flatten, rows_of
from flcontrib_core.runs.trace_values import Fixed, FreeParameter, Moved, States, Written
from flcontrib_core.runs.trace_writer import TraceWriter


def _batch_in_front(layer: Any) -> None:
    if not layer.batch_first:
        raise Unwritable("with batch_first=False (every value has the batch in front)")


def _convolution(writer: TraceWriter, node: fx.Node, layer: Any, path: str) -> Written:
    """Padding that a convolution cannot do itself (one side more, not with zeros) becomes a node before it."""
    value, result = writer.operand(node), writer.shape_of(node)
    reach = [2 * p for p in layer.padding] if isinstance(layer.padding, tuple) else [0] * len(layer.kernel_size)
    if layer.padding == "same":
        reach = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
    zeros = layer.padding_mode == "zeros"
    if zeros and not any(r % 2 for r in reach):
        return writer.layer_node(value, layer, path, result)
    inner = [r // 2 if zeros else 0 for r in reach]  # with zeros the layer pads as far as both sides are equal
    left = [r // 2 - own for r, own in zip(reach, inner, strict=True)]
    right = [r - r // 2 - own for r, own in zip(reach, inner, strict=True)]
    grown = [e + a + b for e, a, b in zip(value.shape[2:], left, right, strict=True)]
    sizes: Fields = {"sizes": [side for pair in list(zip(left, right, strict=True))[::-1] for side in pair]}
    sizes |= {} if zeros else {"mode": layer.padding_mode}
    padded = writer.add("pad", [value], sizes, (*value.shape[:2], *grown))
    fields: Fields = {name: list(getattr(layer, name)) for name in ("stride", "dilation")}
    held = {name: f"{path}{name}" for name in ("weight", "bias") if getattr(layer, name) is not None}
    fields |= {"padding": inner, "groups": layer.groups, **held}
    return writer.add(type(layer).__name__.lower(), [padded], fields, result)


def _recurrent(writer: TraceWriter, node: fx.Node, layer: Any, path: str) -> Any:
    """With time in front the layer reads values whose first two dimensions were turned, and gives such values."""
    arriving = writer.values[node.all_input_nodes[0]]
    turned = arriving if isinstance(arriving, Moved) and arriving.order == (1, 0, 2) else None
    if turned is None or layer.batch_first:
        _batch_in_front(layer)
        turned, source = None, writer.operand(node)
    else:
        source = turned.source
    if layer.proj_size:
        raise Unwritable("with proj_size")
    start = node.args[1] if len(node.args) > 1 else node.kwargs.get("hx")
    for given in start if isinstance(start, tuple | list) else [start]:
        state = writer.values.get(given) if isinstance(given, fx.Node) else given
        if state is not None and not (isinstance(state, Fixed) and not state.tensor.any()):
            raise Unwritable("with a first state other than zeros")
    op = type(layer).__name__.lower()
    fields: Fields = {"weights": [f"{path}{name}" for name in layer._flat_weights_names], "layers": layer.num_layers}
    fields |= {"bidirectional": True} if layer.bidirectional else {}
    fields |= {} if layer.bias else {"biased": False}
    if op == "rnn" and layer.nonlinearity != "tanh":
        fields["activation"] = layer.nonlinearity
    steps, last = writer.results[node]
    hidden = last[0] if isinstance(last, tuple) else last
    count, shape = hidden.shape[0], tuple(hidden.shape[1:])
    states = [
        States(op, source, {**fields, "output": kind}, count, shape)
        for kind in (("hidden", "cell") if op == "lstm" else ("hidden",))
    ]
    first, second, width = steps.shape
    rows, length = (first, second) if turned is None else (second, first)
    written = writer.add(op, [source], fields, (rows, length, width))
    sequence = written if turned is None else Moved(written, turned.order)
    return sequence, (states[0], states[1]) if op == "lstm" else states[0]


def _mask_fields(writer: TraceWriter, mask: Any, hint: Any) -> Fields:
    """No mask, or the causal one; any other has no place in model.json."""
    fields: Fields = {"causal_hint": True} if hint else {}
    given = writer.values.get(mask) if isinstance(mask, fx.Node) else mask
    if given is None:
        return fields
    tensor = given.tensor if isinstance(given, Fixed) else None
    if tensor is None or tensor.ndim != 2 or tensor.shape[0] != tensor.shape[1] or not _is_causal(tensor):
        raise Unwritable("with a mask that is not the causal one")
    return {**fields, "mask": "causal"}


def _is_causal(mask: Tensor) -> bool:
    above = torch.ones(mask.shape, dtype=torch.bool).triu(1)
    if mask.dtype == torch.bool:
        return torch.equal(mask, above)
    return torch.equal(mask.float(), torch.zeros(mask.shape).masked_fill(above, float("-inf")))


def _multi_head(writer: TraceWriter, node: fx.Node, layer: nn.MultiheadAttention, path: str) -> Any:
    _batch_in_front(layer)
    if not layer._qkv_same_embed_dim or layer.bias_k is not None or layer.add_zero_attn:
        raise Unwritable("with keys and values of their own width, or further ones")
    names = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights")
    given: dict[str, Any] = {**dict(zip((*names, "is_causal"), node.args, strict=False)), **node.kwargs}
    if given.get("key_padding_mask") is not None:
        raise Unwritable("with a padding mask")
    fields: Fields = {
        "heads": layer.num_heads,
        "weight": f"{path}in_proj_weight",
        "out_weight": f"{path}out_proj.weight",
        **_mask_fields(writer, given.get("attn_mask"), given.get("is_causal", False)),
    }
    if layer.in_proj_bias is not None:
        fields |= {"bias": f"{path}in_proj_bias", "out_bias": f"{path}out_proj.bias"}
    if not given.get("need_weights", True):
        fields["with_scores"] = False
    sides = [given[name] for name in names[:3]]
    same = sides[0] is sides[1] is sides[2]
    values = [writer.written(writer.values[side]) for side in (sides[:1] if same else sides)]
    return writer.add("multi_head_attention", values, fields, tuple(writer.results[node][0].shape)), None


def _encoder_layer_node(writer: TraceWriter, value: Written, layer: Any, path: str, masked: Fields) -> Written:
    _batch_in_front(layer.self_attn)
    held = dict(layer.named_parameters())
    activation = {1: "relu", 2: "gelu"}.get(layer.activation_relu_or_gelu)
    if activation is None or set(held) != set(ENCODER_WEIGHTS) or layer.norm1.eps != layer.norm2.eps:
        raise Unwritable("with another activation than relu or gelu, or without biases")
    fields: Fields = {
        "heads": layer.self_attn.num_heads,
        "weights": [f"{path}{name}" for name in ENCODER_WEIGHTS],
        "activation": activation,
        "eps": layer.norm1.eps,
        "norm_first": layer.norm_first,
        **masked,
    }
    return writer.add("transformer_encoder_layer", [value], fields, value.shape)


def _encoder_layer(writer: TraceWriter, node: fx.Node, layer: Any, path: str) -> Written:
    given = dict(zip(("src", "src_mask", "src_key_padding_mask", "is_causal"), node.args, strict=False))
    given |= dict(node.kwargs)
    if given.get("src_key_padding_mask") is not None:
        raise Unwritable("with a padding mask")
    masked = _mask_fields(writer, given.get("src_mask"), given.get("is_causal", False))
    return _encoder_layer_node(writer, writer.operand(node), layer, path, masked)


def _encoder(writer: TraceWriter, node: fx.Node, layer: nn.TransformerEncoder, path: str) -> Written:
    given = dict(zip(("src", "mask", "src_key_padding_mask", "is_causal"), node.args, strict=False)) | dict(node.kwargs)
    if given.get("src_key_padding_mask") is not None:
        raise Unwritable("with a padding mask")
    masked = _mask_fields(writer, given.get("mask"), False)
    masked |= {"causal_hint": True} if "mask" in masked else {}  # torch recognises the causal mask by itself
    value = writer.operand(node)
    for number, one in enumerate(layer.layers):
        value = _encoder_layer_node(writer, value, one, f"{path}layers.{number}.", masked)
    return value if layer.norm is None else writer.layer_node(value, layer.norm, f"{path}norm.", value.shape)


def _embedding(writer: TraceWriter, node: fx.Node, layer: nn.Embedding, path: str) -> Written:
    """Fixed positions (0, 1, 2, …) choose rows of the table once and for all; tokens are looked up."""
    index = writer.values[node.all_input_nodes[0]]
    if isinstance(index, Fixed):
        return rows_of(writer, FreeParameter(f"{path}weight", tuple(layer.weight.shape)), index)
    return writer.layer_node(writer.written(index), layer, path, writer.shape_of(node))


LAYERS: dict[type[nn.Module], Callable[[TraceWriter, fx.Node, Any, str], Any]] = {
    nn.Identity: lambda writer, node, layer, path: writer.values[node.all_input_nodes[0]],
    nn.Flatten: lambda writer, node, layer, path: flatten(writer, node, layer.start_dim, layer.end_dim),
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), _convolution),
    **dict.fromkeys((nn.LSTM, nn.GRU, nn.RNN), _recurrent),
    nn.MultiheadAttention: _multi_head,
    nn.TransformerEncoderLayer: _encoder_layer,
    nn.TransformerEncoder: _encoder,
    nn.Embedding: _embedding,
}
