"""Limits of every part of an untrusted run log, checked before any memory is taken for it.

Every cap of the reader stands here, so that the promise "at most 256 MB beside the two epochs in use" can be added up
in one place. A cap is chosen well above what a real log needs (10 000 clients × 50 epochs fits everywhere).
"""

from __future__ import annotations

import os

from flcontrib_core.errors import SettingsError

MIB = 1 << 20

MAX_ENTRIES = 20_000
"""Files in an archive or directory."""
MAX_DIRECTORY_BYTES = 16 * MIB
"""A zip's central directory."""
MAX_RATIO = 200
BOMB_FLOOR = MIB
"""Expansion above MAX_RATIO is refused for anything that becomes larger than this."""
SMALL_ARCHIVE = 50 * MIB
MAX_EXPANDED = 384 * MIB
MAX_FURTHER_RATIO = 32
MAX_WRITTEN_RATIO = MAX_EXPANDED // SMALL_ARCHIVE
"""What packs better is stored as it is by the writer of archives: then no archive of ours is taken for a bomb."""


def most_expanded(archive: int) -> int:
    """How much inflating an archive of this size may ask for: what two seconds allow, more for a large one.

    Deflated float32 numbers are seldom less than half as large as plain ones, so no dense log comes near it.
    """
    return MAX_EXPANDED + MAX_FURTHER_RATIO * max(0, archive - SMALL_ARCHIVE)


MAX_JSON_BYTES = 8 * MIB
"""manifest.json, model.json, one line of epochs.jsonl."""
MAX_JSON_DEPTH = 64
MAX_JSON_VALUES = 1_000_000
"""Separators in one JSON text: bounds the Python objects it becomes (about 100 bytes each)."""
MAX_EPOCH_LINES_BYTES = 32 * MIB
MAX_EPOCH_LINES_VALUES = 2_000_000
"""Names and numbers in all lines together: bounds the time that reading them and looking at each update takes."""
MAX_EPOCHS = 20_000
MAX_STRANGERS = 20_000
"""Distinct names in ``asked`` and ``failed`` that the manifest does not list, and distinct reasons."""
MAX_METRICS = 64
"""Per epoch."""

MAX_CLIENTS = 100_000
MAX_ID_CHARACTERS = 200
MAX_TEXT_CHARACTERS = 2_000
"""Names, reasons and other free text."""
MAX_NOTES = 10_000
MAX_DATA_SIZE = 2**53 - 1
"""The largest integer that a float64 weight holds exactly."""
MAX_CLASSES = 1_000_000

MAX_TENSORS = 20_000
MAX_HEADER_BYTES = 8 * MIB
"""The header of initial.safetensors."""
MAX_FEW_HEADER_BYTES = 64 << 10
"""The header of a file of two or three tensors: an epoch's, the validation set's."""
PARAMETERS_VARIABLE = "FLCONTRIB_MAX_PARAMETERS"
EPOCH_BYTES_VARIABLE = "FLCONTRIB_MAX_EPOCH_BYTES"
_FEWEST_PARAMETERS = 50_000_000
_AUDIT_BYTES_PER_PARAMETER = 24
"""What an audit holds at a time beside the updates, which stay on the disk: six vectors of the model's length."""
_UPDATES_PER_EPOCH = 64
WINDOW = 1 << 22
"""Parameters whose weighted mean is rebuilt at a time: bounds the memory of that check to about 100 MB."""
MAX_VALIDATION_BYTES = 2 << 30
MAX_DAMAGE_BYTES = 256 * MIB
"""Of all refused tensor files together, read through to tell damaged bytes from a wrong form."""


def most_parameters() -> int:
    """How large a model this machine records and reads: as its memory allows, or as its operator says."""
    return _told(PARAMETERS_VARIABLE) or max(_FEWEST_PARAMETERS, _memory() // _AUDIT_BYTES_PER_PARAMETER)


def most_epoch_bytes() -> int:
    """How large one epoch's file may be: 64 updates of the largest model, or as the operator says."""
    return _told(EPOCH_BYTES_VARIABLE) or max(4 << 30, 4 * _UPDATES_PER_EPOCH * most_parameters())


def _memory() -> int:
    """The machine's memory in bytes; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0


def _told(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise SettingsError(f"{variable} is {text!r}; it should be a whole number of at least 1")
    return int(text)


MAX_TABLE_BYTES = 256 * MIB
MAX_TABLE_ROWS = 1 << 20
"""5 000 clients × 200 epochs, or all coalitions of twenty clients."""
MAX_TABLE_CELLS = 1 << 22
"""Rows × columns of a table: bounds the time that reading takes."""
MAX_TABLE_UTILITIES = 64
MAX_RECORD_BYTES = 256 << 10
"""One row of a table as text; twenty ids of 200 characters and 64 numbers need less than a sixth of it."""
MAX_NUMBER_CHARACTERS = 400
"""A number in a cell."""
MAX_HISTORY_CELLS = 8_000_000
"""(T + 1) × clients × utilities of a contribution table, absent cells included."""
MAX_EMPTY_EPOCHS = 100
MAX_EMPTY_EPOCHS_PER_EPOCH = 10
"""Epochs of a contribution table without a row: this many, and this many more for each epoch that has one."""
MAX_COALITION_PLAYERS = 20
"""A utility table needs all 2^n coalitions of an epoch."""
MAX_ROW_GROUPS = 4096
MAX_PARQUET_FOOTER = 8 * MIB
MAX_EXPANDED_PARQUET = 128 * MIB
"""What the pages of a Parquet file become, by its own account; never more than MAX_RATIO times its size (or 1 MB)."""
PARQUET_MEMORY = 128 * MIB
PARQUET_MILLISECONDS = 1500
"""What the process that decodes Parquet may take beside its own start: the file's own account may be a lie."""

PIECE_BYTES = MIB
"""How much is read at a time when a file is streamed."""

NORM_ABOVE, NORM_BELOW = 10.0, 0.01
"""An update is worth a word when its norm is outside these multiples of the other participants' median."""
SMALL_VALIDATION = 100
"""Validation rows below which values are coarse."""
