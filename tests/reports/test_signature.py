"""Signed reports: made here, checked here and by OpenSSL; everything that was changed is noticed."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from flcontrib_core.cli import flcontrib
from flcontrib_core.errors import SettingsError
from flcontrib_core.reports.signature import OperatorKey, check_signature, signature_of


@pytest.fixture
def twin(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_text('{"alerts": []}\n')
    return path


@pytest.fixture
def key(tmp_path: Path) -> OperatorKey:
    return OperatorKey.create(tmp_path / "key.pem")


def test_a_signed_report_is_valid_for_its_key_and_for_no_other(twin: Path, key: OperatorKey, tmp_path: Path) -> None:
    assert check_signature(twin).state == "absent"
    assert key.sign(twin) == signature_of(twin)
    assert check_signature(twin).state == "valid"
    assert check_signature(twin, key.public_key).state == "valid"
    other = OperatorKey.create(tmp_path / "other.pem")
    assert check_signature(twin, other.public_key).state == "another key"
    assert OperatorKey.read(tmp_path / "key.pem").public_key == key.public_key


def test_every_changed_byte_is_noticed(twin: Path, key: OperatorKey) -> None:
    content = twin.read_bytes()
    signature = key.sign(twin)
    for place in range(len(content)):
        twin.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert check_signature(twin, key.public_key).state == "invalid"
    twin.write_bytes(content)
    record = json.loads(signature.read_text())
    for name in ("public_key", "signature"):
        raw = bytearray(base64.b64decode(record[name]))
        raw[0] ^= 1
        signature.write_text(json.dumps({**record, name: base64.b64encode(raw).decode()}))
        assert check_signature(twin, key.public_key).state == "invalid"
    for text in ("", "{", "[]", "null", '{"public_key": 3, "signature": []}', "[" * 60000, "\udc80"):
        signature.write_text(text, errors="surrogateescape")
        assert check_signature(twin, key.public_key).state == "invalid"


@pytest.mark.parametrize(
    "key", [bytes([1]) + bytes(31), bytes([1]) + bytes(30) + b"\x80", b"\xee" + b"\xff" * 30 + b"\x7f"]
)
def test_a_key_that_fits_every_report_is_nobodys(twin: Path, key: bytes) -> None:
    """The neutral point of the curve: whoever writes its own bytes as a signature has signed everything."""
    named, signed = (base64.b64encode(raw).decode() for raw in (key, key + bytes(32)))
    signature_of(twin).write_text(json.dumps({"public_key": named, "signature": signed}))
    assert check_signature(twin).state == "invalid"
    with pytest.raises(SettingsError, match="no public key"):
        check_signature(twin, named)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="OpenSSL is not installed")
def test_openssl_agrees(twin: Path, key: OperatorKey, tmp_path: Path) -> None:
    record = json.loads(key.sign(twin).read_text())
    (tmp_path / "signed").write_bytes(b"flcontrib report signature 1\n" + hashlib.sha256(twin.read_bytes()).digest())
    (tmp_path / "sig").write_bytes(base64.b64decode(record["signature"]))
    check = ["openssl", "pkeyutl", "-verify", "-inkey", "key.pem", "-rawin", "-in", "signed", "-sigfile", "sig"]
    told = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr


def test_a_key_is_private_never_overwritten_and_refused_in_words(tmp_path: Path) -> None:
    place = tmp_path / "key.pem"
    OperatorKey.create(place)
    assert place.stat().st_mode & 0o077 == 0
    with pytest.raises(SettingsError, match="never overwritten"):
        OperatorKey.create(place)
    with pytest.raises(SettingsError, match="no key at"):
        OperatorKey.read(tmp_path / "none.pem")
    place.write_text("not a key")
    with pytest.raises(SettingsError, match="no unencrypted private key"):
        OperatorKey.read(place)
    twin = tmp_path / "report.json"
    twin.write_text("{}")
    with pytest.raises(SettingsError, match="no public key"):
        check_signature(twin, "abc")


def test_the_command_signs_and_verify_asks_for_the_key(tmp_path: Path) -> None:
    table = Path(__file__).parents[2] / "sample_runs" / "contributions-table.csv"
    report = tmp_path / "report.html"
    place, runner = str(tmp_path / "audits"), CliRunner()

    def run(*arguments: str) -> tuple[int, dict[str, object]]:
        told = runner.invoke(flcontrib, [*arguments, "--json"], standalone_mode=False, catch_exceptions=False)
        return told.return_value or 0, json.loads(told.stdout)

    runner.invoke(flcontrib, ["key", "new", "--workspace", place], catch_exceptions=False)
    _, made = run("report", str(table), "-o", str(report), "--sign", "--workspace", place)
    public = str(made["public_key"])
    for shown in (report, tmp_path / "report.json"):
        code, told = run("verify", str(shown), str(table), "--public-key", public)
        assert (code, told["equal"], told["signature"]) == (0, True, {"state": "valid", "public_key": public})
    Path(str(made["signature"])).unlink()
    assert run("verify", str(report), str(table))[0] == 0
    code, told = run("verify", str(report), str(table), "--public-key", public)
    assert (code, told["equal"]) == (1, True)
