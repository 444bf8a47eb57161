"""Embeddings, recurrent layers and attention. Rows are sequences; the batch is in front."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from flcontrib_core.runs.operations.arithmetic import together
from flcontrib_core.runs.operations.convolutions import bounded
from flcontrib_core.runs.operations.record import (
    OPTIONAL,
    SEVERAL_WEIGHTS,
    WEIGHT,
    DoesNotFit,
    Field,
    Fields,
    Operation,
    Shape,
    Site,
    Traced,
    Unwritable,
    integer,
    number,
    one_of,
    or_none,
    truth,
)


def _embedding_write(call: Any) -> Fields:
    if call.settings.get("max_norm") is not None:
        raise Unwritable("with max_norm (it changes its weights while it reads them)")
    return {}


EMBEDDING = Operation(
    "embedding",
    run=lambda torch, inputs, f: torch.nn.functional.embedding(inputs[0], f["weight"]),
    fields={"weight": WEIGHT},
    shape=lambda site: (*site.shape, site.parameters.of_rank(site.fields["weight"], 2, "weight")[1]),
    reads_tokens=True,
    as_documented="reads whole numbers",
    traced=(
        Traced(layers=("Embedding",), settings=("max_norm",), write=_embedding_write, parameters={"weight": "weight"}),
        Traced(
            functions=("torch.nn.functional.embedding",),
            settings=("weight", "padding_idx", "max_norm"),
            write=_embedding_write,
            parameters={"weight": "weight"},
        ),
    ),
)


def _bag_shape(site: Site) -> Shape:
    if len(site.shape) != 1:
        raise DoesNotFit(f"input of shape {list(site.shape)}", "one sequence of tokens per row")
    width = site.parameters.of_rank(site.fields["weight"], 2, "weight")[1]
    bounded(site.shape[0] * width, f"{site.shape[0]} tokens of {width} numbers")
    return (width,)


def _bag_write(call: Any) -> Fields:
    if call.settings.get("padding_idx") is not None:
        raise Unwritable("with padding_idx (its tokens are left out of the mean)")
    return {**_embedding_write(call), "mode": call.settings["mode"]}


EMBEDDING_BAG = Operation(
    "embedding_bag",
    run=lambda torch, inputs, f: torch.nn.functional.embedding_bag(inputs[0], f["weight"], mode=f["mode"]),
    fields={"weight": WEIGHT, "mode": Field(one_of("mean", "sum", "max"), "mean")},
    shape=_bag_shape,
    cost=lambda site, result: site.shape[0] * result[0],
    reads_tokens=True,
    traced=(
        Traced(
            layers=("EmbeddingBag",),
            settings=("max_norm", "padding_idx", "mode"),
            write=_bag_write,
            parameters={"weight": "weight"},
        ),
    ),
)

_GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def _recurrent_shape(site: Site) -> Shape:
    fields = site.fields
    if len(site.shape) != 2:
        raise DoesNotFit(f"input of shape {list(site.shape)}", "steps and features")
    names, layers, directions = fields["weights"], fields["layers"], 2 if fields["bidirectional"] else 1
    each = 4 if fields["biased"] else 2
    if layers * directions * each != len(names):
        raise DoesNotFit(f"{len(names)} weights", f"{each} for each of {layers} layers and {directions} directions")
    rows, hidden = site.parameters.of_rank(names[1], 2, "weights")
    gates = _GATES[site.node.op]
    if rows != gates * hidden:
        raise DoesNotFit(f"a weight of {rows}×{hidden}", f"{gates} times as many rows as columns")
    for position in range(layers * directions):
        width = site.shape[1] if position < directions else hidden * directions
        own = names[position * each : (position + 1) * each]
        for name, shape in zip(own, ((rows, width), (rows, hidden), (rows,), (rows,)), strict=False):
            site.parameters.exactly(name, shape, "weights")
    bounded(site.shape[0] * gates * hidden * directions, f"{site.shape[0]} steps of {gates * hidden} gates")
    if fields["output"] == "sequence":
        return site.shape[0], hidden * directions
    if fields["output"] == "cell" and site.node.op != "lstm":
        raise DoesNotFit("the cell state", "sequence or hidden", "E_MODEL")
    if not -layers * directions <= fields["position"] < layers * directions:
        raise DoesNotFit(f"position {fields['position']}", f"one of {layers * directions} states")
    return (hidden,)


def _recurrent_cost(site: Site, result: Shape) -> int:
    return site.shape[0] * sum(math.prod(site.parameters.shape(name)) for name in site.fields["weights"])


def _recurrent(torch: Any, inputs: list[Any], f: Fields, apply: Any, cell: bool) -> Any:
    x = inputs[0]
    # torch chooses its routine by what kind of tensors the weights are; a module's own give these last bits
    with torch.inference_mode(mode=False):
        weights = [weight.clone().requires_grad_() for weight in f["weights"]]
    states = f["layers"] * (2 if f["bidirectional"] else 1)
    start = x.new_zeros(states, len(x), weights[1].shape[1])
    given = (start, start) if cell else start
    found = apply(x, given, weights, f["biased"], f["layers"], 0.0, False, f["bidirectional"], True)
    if f["output"] == "sequence":
        return found[0]
    return found[2 if f["output"] == "cell" else 1][f["position"]]


def _rnn(torch: Any, inputs: list[Any], f: Fields) -> Any:
    return _recurrent(torch, inputs, f, torch.rnn_relu if f["activation"] == "relu" else torch.rnn_tanh, False)


_RECURRENT = {
    "weights": SEVERAL_WEIGHTS,
    "layers": Field(integer(1), 1),
    "bidirectional": Field(truth, False),
    "biased": Field(truth, True),
    "output": Field(one_of("sequence", "hidden", "cell"), "sequence"),
    "position": Field(integer(-4096), -1),
}
_SHAPED: dict[str, Any] = {"shape": _recurrent_shape, "cost": _recurrent_cost}
LSTM = Operation(
    "lstm",
    run=lambda torch, inputs, f: _recurrent(torch, inputs, f, torch.lstm, True),
    fields=_RECURRENT,
    as_documented="weights as torch lists them; `hidden` and `cell` give the last state of one layer and direction",
    **_SHAPED,
)
GRU = Operation(
    "gru", run=lambda torch, inputs, f: _recurrent(torch, inputs, f, torch.gru, False), fields=_RECURRENT, **_SHAPED
)
RNN = Operation("rnn", run=_rnn, fields={**_RECURRENT, "activation": Field(one_of("tanh", "relu"), "tanh")}, **_SHAPED)


def _attention_shape(site: Site) -> Shape:
    query, key, value = site.arriving[:3]
    if len(query) < 2 or not len(query) == len(key) == len(value) or query[-1] != key[-1] or key[-2] != value[-2]:
        raise DoesNotFit(f"shapes {[list(s) for s in site.arriving[:3]]}", "queries, keys and values that fit")
    batch = together([query[:-2], key[:-2], value[:-2]])
    scores = (*batch, query[-2], key[-2])
    bounded(math.prod(scores), f"{query[-2]} × {key[-2]} scores")
    if len(site.arriving) == 4 and (site.fields["causal"] or together([scores, site.arriving[3]]) != scores):
        raise DoesNotFit(f"a mask of shape {list(site.arriving[3])}", f"one for scores of shape {list(scores)}")
    return (*batch, query[-2], value[-1])


def _attention_cost(site: Site, result: Shape) -> int:
    return math.prod(result[:-1]) * site.arriving[1][-2] * (site.shape[-1] + result[-1])


ATTENTION = Operation(
    "attention",
    run=lambda torch, inputs, f: torch.nn.functional.scaled_dot_product_attention(
        *inputs[:3], attn_mask=inputs[3] if len(inputs) == 4 else None, is_causal=f["causal"], scale=f["scale"]
    ),
    fields={"causal": Field(truth, False), "scale": Field(or_none(number()), None)},
    shape=_attention_shape,
    cost=_attention_cost,
    inputs=(3, 4),
    graph_only=True,
    as_documented="of queries, keys and values, with a mask that is added to the scores",
)


def _causal_mask(torch: Any, x: Any, mask: str) -> Any:
    if mask == "none":
        return None
    steps = x.shape[1]
    return torch.full((steps, steps), float("-inf"), device=x.device).triu(1)


def _heads_fit(site: Site, width: int) -> None:
    if any(len(shape) != 2 or shape[1] != width for shape in site.arriving) or width % site.fields["heads"]:
        raise DoesNotFit(
            f"shapes {[list(s) for s in site.arriving]} for {site.fields['heads']} heads", f"steps of {width} numbers"
        )
    longest = max(shape[0] for shape in site.arriving)
    bounded(site.fields["heads"] * longest * longest, f"{longest} × {longest} scores in each head")


def _multi_head_shape(site: Site) -> Shape:
    width = site.parameters.of_rank(site.fields["weight"], 2, "weight")[1]
    _heads_fit(site, width)
    if len(site.arriving) not in (1, 3) or (len(site.arriving) == 3 and site.arriving[1] != site.arriving[2]):
        raise DoesNotFit(f"{len(site.arriving)} inputs", "one, or query, key and value", "E_MODEL")
    if site.fields["mask"] != "none" and len({shape[0] for shape in site.arriving}) != 1:
        raise DoesNotFit("a causal mask over two lengths", "queries as long as keys")
    for name, shape in (
        ("weight", (3 * width, width)),
        ("bias", (3 * width,)),
        ("out_weight", (width, width)),
        ("out_bias", (width,)),
    ):
        site.expect(name, shape)
    return site.shape


@lru_cache(maxsize=64)
def _multi_head_skeleton(torch: Any, width: int, heads: int, biased: bool) -> Any:
    return torch.nn.MultiheadAttention(width, heads, bias=biased, batch_first=True, device="meta").eval()


def _multi_head(torch: Any, inputs: list[Any], f: Fields) -> Any:
    # torch's own layer: which routine it takes depends on what it is given, and with it the last bits
    query, key, value = inputs if len(inputs) == 3 else inputs * 3
    layer = _multi_head_skeleton(torch, query.shape[2], f["heads"], f["bias"] is not None)
    named = {"in_proj_weight": f["weight"], "out_proj.weight": f["out_weight"]}
    if f["bias"] is not None:
        named |= {"in_proj_bias": f["bias"], "out_proj.bias": f["out_bias"]}
    options = {
        "need_weights": f["with_scores"],
        "attn_mask": _causal_mask(torch, query, f["mask"]),
        "is_causal": f["causal_hint"],
    }
    return torch.func.functional_call(layer, named, (query, key, value), options)[0]


MULTI_HEAD_ATTENTION = Operation(
    "multi_head_attention",
    run=_multi_head,
    fields={
        "heads": Field(integer(1)),
        "weight": WEIGHT,
        "bias": OPTIONAL,
        "out_weight": WEIGHT,
        "out_bias": OPTIONAL,
        "mask": Field(one_of("none", "causal"), "none"),
        "causal_hint": Field(truth, False),
        "with_scores": Field(truth, True),
    },
    shape=_multi_head_shape,
    cost=lambda site, result: site.shape[0] * site.shape[1] * (4 * site.shape[1] + 2 * site.arriving[-1][0]),
    inputs=(1, 3),
    graph_only=True,
    as_documented="one input, or query, key and value",
)

ENCODER_WEIGHTS = (
    *("self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight", "self_attn.out_proj.bias"),
    *("linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"),
    *("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"),
)
"""The order of ``weights`` of a transformer_encoder_layer, by torch's names."""


def _encoder_shape(site: Site) -> Shape:
    names = site.fields["weights"]
    if len(names) != len(ENCODER_WEIGHTS):
        raise DoesNotFit(f"{len(names)} weights", f"{len(ENCODER_WEIGHTS)}: {', '.join(ENCODER_WEIGHTS)}")
    inner, width = site.parameters.of_rank(names[4], 2, "weights")
    _heads_fit(site, width)
    bounded(site.shape[0] * inner, f"{site.shape[0]} steps of {inner} numbers")
    attention = ((3 * width, width), (3 * width,), (width, width), (width,))
    forward = ((inner, width), (inner,), (width, inner), (width,))
    for name, shape in zip(names, (*attention, *forward, *[(width,)] * 4), strict=True):
        site.parameters.exactly(name, shape, "weights")
    return site.shape


@lru_cache(maxsize=64)
def _encoder_skeleton(
    torch: Any, width: int, heads: int, inner: int, activation: str, eps: float, norm_first: bool
) -> Any:
    return torch.nn.TransformerEncoderLayer(
        width, heads, inner, 0.0, activation, eps, batch_first=True, norm_first=norm_first, device="meta"
    ).eval()


def _encoder(torch: Any, inputs: list[Any], f: Fields) -> Any:
    weights, x = f["weights"], inputs[0]
    inner, width = weights[4].shape
    layer = _encoder_skeleton(torch, width, f["heads"], inner, f["activation"], f["eps"], f["norm_first"])
    options = {"src_mask": _causal_mask(torch, x, f["mask"]), "is_causal": f["causal_hint"]}
    return torch.func.functional_call(layer, dict(zip(ENCODER_WEIGHTS, weights, strict=True)), (x,), options)


def _encoder_cost(site: Site, result: Shape) -> int:
    steps, width = site.shape
    inner = site.parameters.shape(site.fields["weights"][4])[0]
    return steps * width * (4 * width + 2 * steps + 2 * inner)


TRANSFORMER_ENCODER_LAYER = Operation(
    "transformer_encoder_layer",
    run=_encoder,
    fields={
        "heads": Field(integer(1)),
        "weights": SEVERAL_WEIGHTS,
        "activation": Field(one_of("relu", "gelu"), "relu"),
        "eps": Field(number(0.0), 1e-5),
        "norm_first": Field(truth, False),
        "mask": Field(one_of("none", "causal"), "none"),
        "causal_hint": Field(truth, False),
    },
    shape=_encoder_shape,
    cost=_encoder_cost,
    as_documented="the twelve weights of torch's layer, attention first, norms last",
)

SEQUENCES = (
    EMBEDDING,
    EMBEDDING_BAG,
    LSTM,
    GRU,
    RNN,
    ATTENTION,
    MULTI_HEAD_ATTENTION,
    TRANSFORMER_ENCODER_LAYER,
)
