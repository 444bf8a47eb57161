"""What is pinned, what is hashed and what is listed is the same; and nothing needs a network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from flcontrib_core.bundled_files import bundled
from flcontrib_core.execution.children import child_environment, python_command
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[1]
LOCK = re.sub(r"^#.*\n", "", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE)
UNPINNED = {"setuptools"}  # every environment brings its own; PyTorch names it as a need
OWN_NETWORK = ["unshare", "--net"]
ONLY_LOOPBACK = """
import fcntl, socket, struct, subprocess, sys
with socket.socket() as probe:  # SIOCSIFFLAGS: loopback up and running
    fcntl.ioctl(probe, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))
    try:
        probe.connect(("192.0.2.1", 80))
        sys.exit("there is a way out of this network")
    except OSError:
        pass
for command in eval(sys.argv[1]):
    subprocess.run(command, check=True)
"""


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    return {plain(name): version for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE)}


def test_every_locked_package_has_a_hash_and_the_version_that_is_tested() -> None:
    tested = pins((ROOT / "constraints.txt").read_text())
    for entry in re.split(r"\n(?=\S)", LOCK.strip()):
        ((name, version),) = pins(entry).items()
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), f"{name} has no hash"
        assert name in UNPINNED or tested.get(name) == version, f"{name}: run make lock"


def test_everything_shipped_is_locked() -> None:
    wanted = subprocess.run(
        python_command(str(ROOT / "docs" / "supply_chain.py"), "requirements"),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {plain(re.split(r"[<>=\[ ]", line)[0]) for line in wanted.split()}
    assert len(names) > 15
    assert names <= pins(LOCK).keys(), "run make lock"


def test_the_bill_of_materials_lists_what_is_locked() -> None:
    bill = json.loads((ROOT / "docs" / "sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    listed = {plain(part["name"]): part["version"].partition("+")[0] for part in bill["components"]}
    assert listed == pins(LOCK), "run make sbom"


@pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run([*OWN_NETWORK, "true"], check=False).returncode != 0,
    reason="this account may not make a network of its own",
)
def test_an_audit_and_its_report_need_no_network(tmp_path: Path) -> None:
    """In a network namespace of its own, in which only loopback exists."""
    run, report = bundled("sample_runs") / "contributions-table.csv", tmp_path / "report.html"
    typed = [["audit", str(run)], ["report", str(run), "-o", str(report)], ["verify", str(report), str(run)]]
    commands = [python_command("-m", "flcontrib_core.cli", *words) for words in typed]
    done = subprocess.run(
        [*OWN_NETWORK, *python_command("-c", ONLY_LOOPBACK, repr(commands))],
        cwd=tmp_path,
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert report.exists()
