"""Time stamps of the log by an outside party: OpenSSL plays the authority."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from flcontrib_core.cli import flcontrib
from flcontrib_core.errors import WorkspaceError
from flcontrib_core.workspace import ChainHead, Workspace, check_log, read_stamp, request_stamp
from tests.workspace.recorded import bundle_run

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="OpenSSL, the authority here, is not installed")

CONFIGURATION = """
[tsa]
default_tsa = here
[here]
serial = serial
crypto_device = builtin
signer_cert = tsa.pem
signer_key = tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
[extensions]
extendedKeyUsage = critical,timeStamping
keyUsage = critical,digitalSignature
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a root certificate and a time-stamping certificate that it signed."""
    folder = tmp_path_factory.mktemp("authority")
    (folder / "tsa.cnf").write_text(CONFIGURATION)
    (folder / "serial").write_text("01\n")
    _openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "root.key", "-out", "root.pem",
             "-subj", "/CN=Root", "-days", "3650")  # fmt: skip
    _openssl(
        folder, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", "tsa.key", "-out", "tsa.csr", "-subj", "/CN=TSA"
    )
    _openssl(folder, "x509", "-req", "-in", "tsa.csr", "-CA", "root.pem", "-CAkey", "root.key", "-CAcreateserial",
             "-out", "tsa.pem", "-days", "3650", "-extfile", "tsa.cnf", "-extensions", "extensions")  # fmt: skip
    return folder


def _openssl(folder: Path, *arguments: str) -> None:
    told = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr


def stamped(authority: Path, request: Path, answer: Path) -> Path:
    _openssl(authority, "ts", "-reply", "-queryfile", str(request), "-config", "tsa.cnf", "-out", str(answer))
    return answer


def test_a_head_is_stamped_and_read_again_from_a_longer_chain(authority: Path, tmp_path: Path) -> None:
    place = tmp_path / "workspace"
    with Workspace(place) as workspace:
        workspace.add_run(bundle_run(tmp_path / "first"))
    runner = CliRunner()
    made = runner.invoke(flcontrib, ["log", "stamp", "--workspace", str(place), "-o", str(tmp_path / "head.tsq")])
    assert made.exit_code == 0, made.output
    head = check_log(place).head
    answer = stamped(authority, tmp_path / "head.tsq", tmp_path / "head.tsr")
    with Workspace(place) as workspace:
        workspace.add_run(bundle_run(tmp_path / "second", seed=1))
    assert check_log(place).head != head
    look = ["log", "verify", "--workspace", str(place), "--stamp", str(answer), "--json"]
    told = runner.invoke(flcontrib, [*look, "--roots", str(authority / "root.pem")], standalone_mode=False)
    assert told.exception is None, told.output
    assert json.loads(told.stdout)["stamp"] == {
        "head": str(head),
        "at": json.loads(told.stdout)["stamp"]["at"],
        "authority_checked": True,
    }


def test_what_is_no_stamp_of_this_chain_is_refused(authority: Path, tmp_path: Path) -> None:
    ours, theirs = ChainHead(3, "a" * 64), ChainHead(3, "b" * 64)
    (tmp_path / "head.tsq").write_bytes(request_stamp(ours))
    answer = stamped(authority, tmp_path / "head.tsq", tmp_path / "head.tsr")
    assert read_stamp(answer, [theirs, ours], authority / "root.pem").head == ours
    with pytest.raises(WorkspaceError, match="about something else"):
        read_stamp(answer, [theirs])
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    _openssl(stranger, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key", "-out", "root.pem", "-subj",
             "/CN=Stranger")  # fmt: skip
    with pytest.raises(WorkspaceError, match="does not hold"):
        read_stamp(answer, [ours], stranger / "root.pem")
    content = answer.read_bytes()
    (tmp_path / "cut.tsr").write_bytes(content[: len(content) // 2])
    with pytest.raises(WorkspaceError, match="no answer"):
        read_stamp(tmp_path / "cut.tsr", [ours])
