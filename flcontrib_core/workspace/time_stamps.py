"""Time stamps of the audit log by an outside party (RFC 3161): nobody can claim later that an entry is older.

FLContrib makes no network call. It writes a request for the chain's head, which somebody carries to a time-stamping
authority, and reads the authority's answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from flcontrib_core.errors import MissingPart, WorkspaceError
from flcontrib_core.workspace.audit_log import ChainHead

_LARGEST = 1 << 20


@dataclass(frozen=True)
class TimeStamp:
    """An authority's word that the chain ended at ``head`` no later than ``at``."""

    head: ChainHead
    at: datetime
    authority_checked: bool
    """Was the authority's signature checked against a root certificate the reader trusts?"""


def request_stamp(head: ChainHead) -> bytes:
    """The request (.tsq) to send to a time-stamping authority; it holds a hash and nothing of the log."""
    _needs_client()
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    request = TimestampRequestBuilder().data(str(head).encode()).hash_algorithm(HashAlgorithm.SHA256).nonce(nonce=False)
    return request.build().as_bytes()


def read_stamp(answer: Path, heads: Iterable[ChainHead], roots: Path | None = None) -> TimeStamp:
    """What an authority's answer (.tsr) says about this chain. ``roots``: trusted certificates in PEM.

    Raises WorkspaceError where it is no answer, refuses, is about something else, or its signature does not hold.
    """
    _needs_client()
    from rfc3161_client import PKIStatus, VerificationError, decode_timestamp_response

    try:
        response = decode_timestamp_response(answer.read_bytes()[:_LARGEST])
        if PKIStatus(response.status) not in (PKIStatus.GRANTED, PKIStatus.GRANTED_WITH_MODS):
            raise WorkspaceError(f"{answer}: the authority did not grant a time stamp")
        info = response.tst_info
    except (OSError, ValueError) as fault:
        raise WorkspaceError(f"{answer} is no answer of a time-stamping authority ({fault})") from fault
    imprint = bytes(info.message_imprint.message)
    stamped = next((head for head in heads if hashlib.sha256(str(head).encode()).digest() == imprint), None)
    if stamped is None:
        raise WorkspaceError(f"{answer}: the time stamp is about something else, not about an end of this chain")
    if roots is not None:
        try:
            _verifier(roots).verify_message(response, str(stamped).encode())
        except VerificationError as fault:
            raise WorkspaceError(f"{answer}: the authority's signature does not hold ({fault})") from fault
    return TimeStamp(stamped, info.gen_time, roots is not None)


def _verifier(roots: Path) -> Any:
    from cryptography.x509 import load_pem_x509_certificates
    from rfc3161_client import VerifierBuilder

    try:
        certificates = load_pem_x509_certificates(roots.read_bytes())
    except (OSError, ValueError) as fault:
        raise WorkspaceError(f"{roots} holds no certificates in PEM ({fault})") from fault
    builder = VerifierBuilder()
    for certificate in certificates:
        builder = builder.add_root_certificate(certificate)
    return builder.build()


def _needs_client() -> None:
    try:
        import rfc3161_client  # noqa: F401
    except ImportError as error:
        raise MissingPart("time stamps need the package rfc3161-client (pip install 'flcontrib[audit]')") from error
