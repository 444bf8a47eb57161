"""The model census: how many of the networks that federated learning uses can a run log declare, to the bit?

Every network is traced, read back from JSON and run beside the live module with jittered parameters; only equal bits
count. The others are listed with the word they were refused with.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import census_glue as glue
from benchmarks import census_images as images
from benchmarks import census_others as others
from benchmarks import census_patches as patches
from benchmarks.measurement import Measurement
from flcontrib_core.errors import FLContribError
from flcontrib_core.games.architecture import Architecture
from flcontrib_core.runs.trace import flat_parameters, parameters_of, trace_module

GOAL = 34
IMAGE, SMALL, VOLUME, CLIP, FRAMES = (3, 16, 16), (1, 28, 28), (1, 8, 8, 8), (3, 4, 8, 8), (4, 1, 8, 8)
WORDS = (10,)

CENSUS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], bool]] = {
    "logistic regression": (lambda: nn.Linear(12, 3), (12,), False),
    "MLP": (lambda: nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3)), (12,), False),
    "LeNet-5": (images.LeNet, SMALL, False),
    "AlexNet": (images.alexnet, IMAGE, False),
    "VGG": (lambda: images.vgg(norm=False), IMAGE, False),
    "VGG with BatchNorm": (lambda: images.vgg(norm=True), IMAGE, False),
    "ResNet-18": (images.ResNet, IMAGE, False),
    "ResNet with GroupNorm": (lambda: images.ResNet(lambda c: nn.GroupNorm(2, c)), IMAGE, False),
    "ResNet-50": (lambda: images.ResNet(bottleneck=True), IMAGE, False),
    "Wide ResNet": (lambda: images.ResNet(width=16), IMAGE, False),
    "ResNeXt": (lambda: images.ResNet(bottleneck=True, groups=4), IMAGE, False),
    "DenseNet": (images.DenseNet, IMAGE, False),
    "SqueezeNet": (images.squeezenet, (3, 33, 33), False),
    "GoogLeNet": (images.Inception, IMAGE, False),
    "MobileNetV2": (lambda: images.mobile(nn.ReLU6), IMAGE, False),
    "MobileNetV3": (lambda: images.mobile(nn.Hardswish, nn.ReLU(), nn.Hardsigmoid()), IMAGE, False),
    "EfficientNet": (lambda: images.mobile(nn.SiLU, nn.SiLU(), nn.Sigmoid()), IMAGE, False),
    "ShuffleNetV2": (images.shufflenet, IMAGE, False),
    "ConvNeXt": (patches.convnext, IMAGE, False),
    "ViT": (lambda: patches.ViT(patches.MultiHeadBlock), IMAGE, False),
    "Swin": (patches.Swin, IMAGE, False),
    "MLP-Mixer": (patches.Mixer, IMAGE, False),
    "U-Net": (others.UNet, (1, 16, 16), False),
    "MONAI U-Net": (others.UNet3d, VOLUME, False),
    "DeepLab": (others.DeepLab, IMAGE, False),
    "Conv3d video": (others.VideoNet, CLIP, False),
    "frames and a GRU": (others.FrameNet, FRAMES, False),
    "Conv1d audio": (others.AudioNet, (1, 128), False),
    "temporal convolutions": (others.TemporalConv, (3, 20), False),
    "character LSTM": (others.CharLSTM, WORDS, True),
    "GRU": (others.GRUNet, (7, 4), False),
    "TextCNN": (others.TextCNN, WORDS, True),
    "transformer encoder": (others.TextTransformer, WORDS, True),
    "GPT": (others.GPT, WORDS, True),
    "LoRA adapters": (others.LoRANet, (12,), False),
    "LSTM with time in front": (others.TimeFirstLSTM, (7, 4), False),
    "mixture of experts": (others.Experts, (12,), False),
}
FURTHER: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], bool]] = {
    "sentiment LSTM": (others.SentimentLSTM, WORDS, True),
    "fastText": (others.fasttext, WORDS, True),
    "autoencoder": (others.Autoencoder, (12,), False),
    "gated table": (others.GatedTable, (12,), False),
    "ViT with one layer for all": (glue.QkvViT, IMAGE, False),
    "EEGNet": (glue.EEGNet, (6, 64), False),
    "attentive LSTM": (glue.AttentiveLSTM, WORDS, True),
    "x-vector": (glue.XVector, (8, 30), False),
    "N-BEATS": (glue.Forecast, (12,), False),
    "rotary decoder": (glue.RotaryDecoder, WORDS, True),
}
"""Beside the census: what the tests look at too."""


def rows_for(shape: tuple[int, ...], tokens: bool, rows: int, rng: np.random.Generator) -> Tensor:
    """Validation rows of this shape."""
    if tokens:
        return torch.from_numpy(rng.integers(0, 30, (rows, *shape)))
    return torch.from_numpy(rng.standard_normal((rows, *shape), dtype=np.float32))


def jittered(module: nn.Module, rng: np.random.Generator) -> np.ndarray:
    """(P,) parameters near the module's; BatchNorm's variances stay positive."""
    parts, vector, at = [], flat_parameters(module), 0
    for spec in parameters_of(module):
        own = vector[at : at + spec.count] + 0.1 * rng.standard_normal(spec.count, dtype=np.float32)
        parts.append(0.5 + np.abs(own) if spec.name.endswith("running_var") else own)
        at += spec.count
    return np.concatenate(parts)


def load(module: nn.Module, vector: np.ndarray) -> nn.Module:
    """The naive way: a state dict from the vector, loaded into the module."""
    state, at = module.state_dict(), 0
    for spec in parameters_of(module):
        state[spec.name] = torch.from_numpy(vector[at : at + spec.count].copy()).reshape(spec.shape)
        at += spec.count
    module.load_state_dict(state)
    return module.eval()


def refusal_of(name: str) -> str | None:
    """Why this network cannot be declared; None when it can, and has the module's bits."""
    make, shape, tokens = {**CENSUS, **FURTHER}[name]
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    module = make()
    rows = rows_for(shape, tokens, 21, rng)
    try:
        spec = json.loads(json.dumps(trace_module(module, rows[:2])))
        architecture = Architecture.from_spec(spec, parameters_of(module), None)
    except FLContribError as refused:
        return str(refused)
    with torch.inference_mode():
        for _ in range(2):
            vector = jittered(module, rng)
            expected = load(module, vector)(rows)
            if not torch.equal(architecture.forward(torch.from_numpy(vector), rows), expected):
                return "other bits than the module's"
    return None


def run(scale: str) -> list[Measurement]:
    """The census."""
    refused = {name: why for name in CENSUS if (why := refusal_of(name)) is not None}
    for name, why in refused.items():
        print(f"  {name}: {why.split(': no such operation')[0].split('. docs/run-log.md')[0]}")
    declared = len(CENSUS) - len(refused)
    return [Measurement("networks declared, with the module's bits", declared, GOAL, note=f"of {len(CENSUS)}")]
