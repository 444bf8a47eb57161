"""How large may each part of an untrusted run log be, before any memory is taken for it?

Every cap of the reader stands here, so that the promise "at most 256 MB beside the two epochs in use" can be added up
in one place. A cap is chosen well above what a real log needs (10 000 clients × 50 epochs fits everywhere).
"""

from __future__ import annotations

MIB = 1 << 20

MAX_ENTRIES = 20_000
"""Files in an archive or directory."""
MAX_DIRECTORY_BYTES = 16 * MIB
"""A zip's central directory."""
MAX_RATIO = 200
BOMB_FLOOR = MIB
"""Expansion above MAX_RATIO is refused for anything that becomes larger than this."""

MAX_JSON_BYTES = 8 * MIB
"""manifest.json, model.json, one line of epochs.jsonl."""
MAX_JSON_DEPTH = 64
MAX_JSON_VALUES = 1_000_000
"""Separators in one JSON text: bounds the Python objects it becomes (about 100 bytes each)."""
MAX_EPOCH_LINES_BYTES = 32 * MIB
MAX_EPOCHS = 20_000
MAX_STRANGERS = 20_000
"""Distinct names in ``asked`` and ``failed`` that the manifest does not list, and distinct reasons."""
MAX_METRICS = 64
"""Per epoch."""

MAX_CLIENTS = 100_000
MAX_ID_CHARACTERS = 200
MAX_TEXT_CHARACTERS = 2_000
"""Names, reasons and other free text."""
MAX_DATA_SIZE = 2**53 - 1
"""The largest integer that a float64 weight holds exactly."""
MAX_CLASSES = 1_000_000

MAX_TENSORS = 20_000
MAX_HEADER_BYTES = 8 * MIB
"""A safetensors header."""
MAX_PARAMETERS = 50_000_000
MAX_EPOCH_BYTES = 4 << 30
MAX_VALIDATION_BYTES = 2 << 30

MAX_TABLE_BYTES = 256 * MIB
MAX_TABLE_ROWS = 4_000_000
MAX_TABLE_CELLS = 8_000_000
"""(T + 1) × clients × utilities of a contribution table; rows × utilities of a utility table."""
MAX_TABLE_UTILITIES = 64
MAX_COALITION_PLAYERS = 22
"""A utility table needs all 2^n coalitions of an epoch."""

PIECE_BYTES = MIB
"""How much is read at a time when a file is streamed."""
