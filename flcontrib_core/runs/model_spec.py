"""Does this architecture fit these parameters, before a byte of memory is taken for it?"""

from __future__ import annotations

from flcontrib_core.runs.model_nodes import INPUT, KNOWN_OPS, Node, normalise_spec, output_name, reads_tokens

__all__ = ["INPUT", "KNOWN_OPS", "Node", "normalise_spec", "output_name", "reads_tokens"]
