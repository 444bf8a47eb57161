"""The one name of everything that can be downloaded: the run it is of, then what it is."""

from __future__ import annotations

import re
import unicodedata

_LONGEST = 40


def file_name(run_name: str, run_digest: str, what: str, ending: str) -> str:
    """A name that any file system takes and that no other run shares: its name in plain letters, digest, what.

    >>> file_name("Digits, 8 clients", "409cc87e8605e8af", "totals", "csv")
    'digits-8-clients-409cc87e-totals.csv'
    """
    return (
        "-".join(part for part in (plain_letters(run_name), run_digest[:8], plain_letters(what)) if part) + f".{ending}"
    )


def extract_name(run_digest: str, client: str, ending: str) -> str:
    """An extract's name: it never carries the run's descriptive name.

    >>> extract_name("409cc87e8605e8af", "Klinik Süd", "html")
    '409cc87e-extract-klinik-sud.html'
    """
    return file_name("", run_digest, f"extract-{client}", ending)


def plain_letters(text: str) -> str:
    """The text as lower-case ASCII letters, digits and hyphens; empty where nothing of it is left."""
    flat = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", flat).strip("-")[:_LONGEST].strip("-")
