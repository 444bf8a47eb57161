"""Records what a module does with a few rows: torch.fx's trace, which knows the value of every node while it goes on.

With the values at hand, code that asks for sizes is traced as it stands (``len(x)``, ``for t in range(x.size(1))``,
``torch.zeros(x.shape[0], 8)``). A choice or a number that depends on the data is still refused. What depends on how
many rows there are stands in the trace with their number here; the comparison with the module then shows it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce, wraps
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_leaves

SHAPE_METHODS = frozenset({"size", "dim", "ndimension", "numel", "nelement", "__len__"})
SHAPE_ATTRIBUTES = frozenset({"shape", "ndim", "device", "dtype"})
_MADE_OF_SIZES = ("zeros", "ones", "full")
"""Functions of torch that do not hand a traced size on by themselves."""
_PATCHING = threading.Lock()


def asks_for_shape(node: fx.Node) -> bool:
    """Does this node ask a value for its shape alone?"""
    if node.target is getattr:
        return node.args[1] in SHAPE_ATTRIBUTES
    return node.target in SHAPE_METHODS or node.target is len


def record(root: nn.Module, rows: Tensor) -> tuple[fx.Graph, dict[fx.Node, Any]]:
    """The graph of what the module does with these rows, and what each node of it gave."""
    tracer = _Tracer(rows)
    with torch.inference_mode(), _sizes_from_values():
        return tracer.trace(root), tracer.values


class _Sized:
    """A traced value that can tell its length, and a size that can be counted with."""

    node: fx.Node
    tracer: _Tracer

    def __len__(self) -> int:
        return len(self.tracer.values[self.node])

    def __index__(self) -> int:
        return int(self.tracer.size(self.node))


class _Proxy(_Sized, fx.Proxy):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return _Attribute(self, name)


class _Attribute(_Sized, fx.proxy.Attribute):  # type: ignore[misc]
    """``x.shape``, which becomes a node when it is used."""


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True
    """Buffers are values of the model too: positions that are cut to the length of the input."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self._rows = rows
        self._running = False
        self._of_data: set[fx.Node] = set()
        self.values: dict[fx.Node, Any] = {}

    def size(self, node: fx.Node) -> Any:
        """The number behind a node, if it tells of shapes alone."""
        if node in self._of_data or isinstance(self.values[node], Tensor):
            raise fx.proxy.TraceError("a number that depends on the data is asked for")
        return self.values[node]

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

    def create_proxy(self, kind: str, target: Any, *args: Any, **named: Any) -> fx.Proxy:
        made = super().create_proxy(kind, target, *args, **named)
        node = made.node
        if node.op in ("placeholder", "get_attr", "call_module") or (
            not asks_for_shape(node) and any(given in self._of_data for given in node.all_input_nodes)
        ):
            self._of_data.add(node)
        self._running = True
        try:
            self.values[node] = self._value(node)
        finally:
            self._running = False
        return made

    def _value(self, node: fx.Node) -> Any:
        args, named = fx.node.map_arg((node.args, node.kwargs), self.values.__getitem__)
        if node.op == "placeholder":
            return self._rows
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **named)
        if node.op == "call_function":
            return node.target(*args, **named)  # type: ignore[operator]
        found: Any = reduce(getattr, str(node.target).split("."), self.root)
        return found if node.op == "get_attr" else found(*args, **named)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        return forward(*args, **kwargs) if self._running else super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        return attr_val if self._running else super().getattr(attr, attr_val, parameter_proxy_cache)

    def iter(self, obj: fx.Proxy) -> Iterator[Any]:
        walked: Any = obj
        return iter([walked[place] for place in range(len(self.values[obj.node]))])

    def to_bool(self, obj: fx.Proxy) -> bool:
        return bool(self.size(obj.node))


@contextmanager
def _sizes_from_values() -> Iterator[None]:
    """While a module is traced, ``torch.zeros(x.shape[0], 8)`` is part of the trace."""

    def traced(make: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(make)
        def of_sizes(*args: Any, **named: Any) -> Any:
            proxy = next((given for given in tree_leaves((args, named)) if isinstance(given, fx.Proxy)), None)
            if proxy is None:
                return make(*args, **named)
            return proxy.tracer.create_proxy("call_function", make, args, named)

        return of_sizes

    with _PATCHING:  # else two threads could put back each other's
        before = {name: getattr(torch, name) for name in _MADE_OF_SIZES}
        try:
            for name, make in before.items():
                setattr(torch, name, traced(make))
            yield
        finally:
            for name, make in before.items():
                setattr(torch, name, make)
