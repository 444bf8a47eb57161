"""The child that opens other people's tensor files: ``.pt``, ``.npz`` and ``.safetensors`` in, safetensors out.

``.pt`` files are pickles. They are read with ``weights_only=True``, which builds tensors and nothing else, in a process
that has ceilings of memory and time, and that ends when anything in it reaches for the network, a program or a file
to write. Nothing of a ``.pt`` file is ever opened in the parent.
"""

from __future__ import annotations

import logging
import math
import os
import re
import signal
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

WRAPPERS = ("model", "state_dict", "model_state_dict", "params", "weights", "model_weights", "net")
"""Keys under which training scripts put the state dict among other things."""
COUNTS = ("num_examples", "num-examples", "num_samples", "n_samples", "sample_num", "data_size")
"""Keys under which they put the number of examples; never those that mean other things too, such as "n"."""
ADDED = ("module.", "_orig_mod.")
_FORBIDDEN = ("socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "shutil.", "ftplib.")
ENOUGH_FAULTS = 20
"""After so many files that cannot be read the others are not opened."""
_EXPANSION, _SMALL = 200, 1 << 20
"""A file may become so many times its own size, or a megabyte."""
_SECONDS, _BYTES_PER_SECOND = 2.0, 20 << 20
"""Processor time for one file: a moment, and more for a large one."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def convert(argument: Mapping[str, Any], say: Callable[[Any], None]) -> dict[str, Any]:
    """Writes each file of ``argument["files"]`` as safetensors into ``argument["target"]``.

    Returns per file its tensors' names and shapes and the number of examples it tells, or why it could not be read;
    nothing of what comes after too many of these.
    """
    import torch  # before the door is shut: it reads and writes what it likes while it loads
    from safetensors.numpy import save

    told: dict[str, Any] = {}
    target = Path(argument["target"])
    allowed: set[str] = set()
    _shut(allowed)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    faults = 0
    for number, name in enumerate(argument["files"]):
        try:
            # The default action ends the process, whatever C code is at work; no handler would be asked inside it.
            signal.setitimer(signal.ITIMER_PROF, _SECONDS + os.path.getsize(name) / _BYTES_PER_SECOND)
            arrays, count = _read(Path(name), torch)
        except Exception as fault:  # broad: any byte may be wrong in somebody's file; the parent says what and where
            logging.getLogger(__name__).exception("%s cannot be read", name)
            told[name] = {"fault": _in_words(fault)}
            faults += 1
            if faults == ENOUGH_FAULTS:
                break
            continue
        written = target / f"{number}.safetensors"
        allowed.add(str(written))
        written.write_bytes(save(arrays))
        signal.setitimer(signal.ITIMER_PROF, 0)
        shapes = {key: list(array.shape) for key, array in arrays.items()}
        told[name] = {"file": written.name, "shapes": shapes, "count": count}
        say(number)
    return told


def _in_words(fault: Exception) -> str:
    """What is wrong with a file; of torch's long advice on pickles the name of what it would not load."""
    unloaded = re.search(r"Unsupported (?:global|class|operand): ?(?:GLOBAL )?([\w.]+)", str(fault))
    said = f"it holds a pickled {unloaded[1]}, which is code" if unloaded else str(fault)
    return f"{type(fault).__name__}: {said}".splitlines()[0][:300]


def _shut(allowed: set[str]) -> None:
    """From now on only reading, and writing of what is allowed."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(_FORBIDDEN):
            raise PermissionError(f"a tensor file asked for {event}")
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
        if writes and str(arguments[0]) not in allowed:
            raise PermissionError(f"a tensor file asked to write {arguments[0]}")

    sys.addaudithook(watch)


def _read(path: Path, torch: Any) -> tuple[dict[str, np.ndarray], int | None]:
    """The float tensors of a file by name, as float32, and how many examples it says they were trained on."""
    kind, room = path.suffix.lower(), max(_SMALL, _EXPANSION * path.stat().st_size)
    count: int | None = None
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            _bound(sum(entry.file_size for entry in archive.infolist()), room)
    if kind == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            named: Mapping[str, Any] = {name: arrays[name] for name in arrays.files}
    elif kind == ".safetensors":
        from safetensors.torch import load_file

        named = load_file(path)
    else:
        content = torch.load(path, map_location="cpu", weights_only=True)
        named, count = _state_dict(content), _count(content)
    # A tensor may repeat one number as often as it likes without holding more than that one.
    _bound(4 * sum(math.prod(getattr(value, "shape", ())) for value in named.values()), room)
    floats = {}
    for name, value in named.items():
        array = value.detach().float().numpy() if hasattr(value, "detach") and value.is_floating_point() else value
        array = np.asarray(array)
        if array.dtype.kind == "f" and array.size:
            floats[str(name)] = np.ascontiguousarray(array, dtype=np.float32)
    if not floats:
        raise ValueError("no tensor of numbers in it")
    return _bare(floats), count


def _bare(named: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Names without what DataParallel and torch.compile put in front of all of them."""
    for added in ADDED:
        if all(name.startswith(added) for name in named):
            named = {name.removeprefix(added): array for name, array in named.items()}
    return named


def _count(content: Any) -> int | None:
    """The number of examples that a script saved beside its state dict."""
    found = [content.get(key) for key in COUNTS] if isinstance(content, Mapping) else []
    return next((n for n in found if isinstance(n, int) and not isinstance(n, bool) and n >= 1), None)


def _bound(size: int, room: int) -> None:
    if size > room:
        raise ValueError(f"it becomes {size} bytes, more than {room}")


def _state_dict(content: Any) -> Mapping[str, Any]:
    """The named tensors of what a script saved: a state dict, a list of arrays, or one of these inside a dict."""
    if isinstance(content, list | tuple):
        return {str(place): tensor for place, tensor in enumerate(content)}
    if not isinstance(content, Mapping):
        raise ValueError(f"a {type(content).__name__}, not named tensors")
    for key in WRAPPERS:
        if isinstance(content.get(key), Mapping):
            return _state_dict(content[key])
    return content
