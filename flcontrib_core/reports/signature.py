"""Signed reports: whoever holds the operator's public key can tell who published a report, and that it is whole.

A signature is a small file beside the JSON (``report.json.sig``): Ed25519 over the sha256 of the JSON's bytes. It says
who vouches for the report; whether its numbers follow from the log is what ``verify`` computes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.files import write_atomic

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_CONTEXT = b"flcontrib report signature 1\n"
"""Stands before what is signed, so that a signature made for something else never fits a report."""
_LARGEST = 1 << 16
_NOBODYS_KEYS = frozenset(
    bytes.fromhex(text)
    for text in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)
"""Points of the curve whose order is 1, 2, 4 or 8, without sign: with such a key one signature fits everything."""
KEY_FILE = "operator-key.pem"
"""The operator's private key in a workspace."""


@dataclass(frozen=True)
class SignatureCheck:
    """What the signature beside a report says."""

    state: Literal["absent", "valid", "invalid", "another key"]
    public_key: str | None = None
    """Base64; None where there is no readable signature."""


class OperatorKey:
    """A private key that signs reports."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> OperatorKey:
        """A new key in a file that only its owner may read. Raises SettingsError where the file exists."""
        _needs_cryptography()
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.generate()
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        try:
            place = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise SettingsError(f"{os.fspath(path)} exists; a key is never overwritten") from None
        except OSError as fault:
            raise SettingsError(f"{os.fspath(path)} cannot be written: {fault.strerror}") from fault
        with os.fdopen(place, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        return cls(key)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> OperatorKey:
        """The key in a PEM file. Raises SettingsError where there is none."""
        _needs_cryptography()
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        try:
            key = serialization.load_pem_private_key(Path(path).read_bytes(), password=None)
        except OSError as fault:
            raise SettingsError(
                f"no key at {os.fspath(path)} ({fault.strerror}); make one with: flcontrib key new"
            ) from fault
        except (ValueError, TypeError) as fault:
            raise SettingsError(f"{os.fspath(path)} holds no unencrypted private key in PEM") from fault
        if not isinstance(key, Ed25519PrivateKey):
            raise SettingsError(f"{os.fspath(path)} holds another kind of key; reports are signed with Ed25519")
        return cls(key)

    @property
    def public_key(self) -> str:
        """What readers of a report are given, by another way than the report itself: base64 of 32 bytes."""
        return base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    def sign(self, twin: Path) -> Path:
        """Signs a report's JSON; returns the signature's file, which lies beside it."""
        digest = hashlib.sha256(twin.read_bytes())
        record = {
            "flcontrib_signature": 1,
            "algorithm": "Ed25519",
            "public_key": self.public_key,
            "sha256": digest.hexdigest(),
            "signature": base64.b64encode(self._key.sign(_CONTEXT + digest.digest())).decode(),
        }
        place = signature_of(twin)
        write_atomic(place, (json.dumps(record, indent=1) + "\n").encode())
        return place


def signature_of(twin: Path) -> Path:
    """Where the signature of a report's JSON lies."""
    return twin.with_name(f"{twin.name}.sig")


def check_signature(twin: Path, public_key: str | None = None) -> SignatureCheck:
    """Is the report signed, by the key of whoever it names, and is that the key the reader trusts?"""
    trusted = None if public_key is None else _key_bytes(public_key)
    place = signature_of(twin)
    if not place.is_file():
        return SignatureCheck("absent")
    record = _record(place)
    if record is None:
        return SignatureCheck("invalid")
    _needs_cryptography()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    named, signed = record
    digest = hashlib.sha256(twin.read_bytes()).digest()
    shown = base64.b64encode(named).decode()
    try:
        Ed25519PublicKey.from_public_bytes(named).verify(signed, _CONTEXT + digest)
    except (InvalidSignature, ValueError):
        return SignatureCheck("invalid", shown)
    return SignatureCheck("valid" if trusted in (None, named) else "another key", shown)


def _record(place: Path) -> tuple[bytes, bytes] | None:
    """Key and signature of a file that may hold anything."""
    with place.open("rb") as file:
        content = file.read(_LARGEST)
    try:
        record: Any = json.loads(content)
        key, signature = (base64.b64decode(record[name], validate=True) for name in ("public_key", "signature"))
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error):
        return None
    sound = len(key) == 32 and len(signature) == 64 and not _is_nobodys(key)
    return (key, signature) if sound else None


def _is_nobodys(key: bytes) -> bool:
    return bytes((*key[:-1], key[-1] & 0x7F)) in _NOBODYS_KEYS


def _key_bytes(text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32 or _is_nobodys(key):
        raise SettingsError(f"{text[:60]!r} is no public key; `flcontrib key show` prints it, 44 characters of base64")
    return key


def _needs_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise MissingPart("signatures need the package cryptography (pip install 'flcontrib[audit]')") from error
