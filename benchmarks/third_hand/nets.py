"""Small nets as torch modules, and the same nets run for many clients at once, each with its own weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.third_hand.chance import Generator, pick

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}


def build(rng: Generator, shape: tuple[int, ...], classes: int, seed: int) -> tuple[str, nn.Sequential]:
    """A net for rows of this shape, and its name."""
    torch.manual_seed(seed)
    word = pick(rng, list(ACTIVATIONS), [3, 1, 1])
    act = ACTIVATIONS[word]
    if len(shape) == 3 and rng.random() < 0.6:
        return _convolutional(rng, shape, classes, word)
    inputs = int(torch.tensor(shape).prod())
    layers: list[nn.Module] = [nn.Flatten()] if len(shape) == 3 else []
    widths = pick(
        rng,
        [(), (16,), (32,), (64,), (128,), (32, 16), (64, 32), (48, 48, 24), (256,), (256, 128)],
        [3, 2, 3, 3, 2, 2, 2, 1, 1, 1],
    )
    if not widths and inputs * classes < 120:
        widths = (32,)
    norm = len(widths) > 1 and rng.random() < 0.2
    for width in widths:
        layers += [nn.Linear(inputs, width), *([nn.LayerNorm(width)] if norm else []), act()]
        inputs = width
    name = "-".join(["mlp", *map(str, widths), word, *(["layernorm"] if norm else [])]) if widths else "logistic"
    return name, nn.Sequential(*layers, nn.Linear(inputs, classes))


def _convolutional(rng: Generator, shape: tuple[int, ...], classes: int, word: str) -> tuple[str, nn.Sequential]:
    act, side = ACTIVATIONS[word], shape[1]
    channels, norm = pick(rng, [(6,), (8,), (6, 12), (8, 16)]), pick(rng, ["plain", "groupnorm"], [2, 1])
    pool = pick(rng, [nn.MaxPool2d, nn.AvgPool2d], [3, 1])
    layers: list[nn.Module] = []
    before = shape[0]
    for width in channels:
        layers += [nn.Conv2d(before, width, 3, padding=1)]
        layers += [nn.GroupNorm(2, width)] if norm == "groupnorm" else []
        layers += [act(), pool(2)]
        before, side = width, side // 2
    hidden = pick(rng, [0, 32, 64])
    layers += [nn.Flatten()]
    inputs = before * side * side
    if hidden:
        layers += [nn.Linear(inputs, hidden), act()]
        inputs = hidden
    name = "-".join(["cnn", *map(str, channels), word, norm, *([str(hidden)] if hidden else [])])
    return name, nn.Sequential(*layers, nn.Linear(inputs, classes))


def flat(net: nn.Module) -> Tensor:
    """All parameters as one vector."""
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def logits(net: nn.Sequential, weights: Tensor, x: Tensor) -> Tensor:
    """(m, B, classes) from weights (m, P) and rows (m, B, …): every client's rows through its own copy of the net.

    Pictures travel as (B, m · channels, H, W), so that one grouped convolution serves all clients.
    """
    m, batch = x.shape[:2]
    shapes = [p.shape for p in net.parameters()]
    pieces = iter(weights.split([s.numel() for s in shapes], dim=1))
    sizes = iter(shapes)
    if x.dim() == 5:
        x = x.transpose(0, 1).reshape(batch, -1, *x.shape[3:])
    for layer in net:
        own = [next(pieces).reshape(m, *next(sizes)) for _ in layer.parameters()]
        if isinstance(layer, nn.Linear):
            x = torch.baddbmm(own[1].unsqueeze(1), x, own[0].transpose(1, 2))
        elif isinstance(layer, nn.LayerNorm):
            x = F.layer_norm(x, x.shape[-1:]) * own[0].unsqueeze(1) + own[1].unsqueeze(1)
        elif isinstance(layer, nn.Conv2d):
            x = F.conv2d(x, own[0].flatten(0, 1), own[1].flatten(), padding=1, groups=m)
        elif isinstance(layer, nn.GroupNorm):
            x = F.group_norm(x, m * layer.num_groups, own[0].flatten(), own[1].flatten())
        elif isinstance(layer, nn.Flatten):
            x = x.reshape(batch, m, -1).transpose(0, 1) if x.dim() == 4 else x.flatten(2)
        else:
            x = layer(x)
    return x
