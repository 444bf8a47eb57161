"""``demo`` and ``serve``: the dashboard."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NoReturn

import click

from flcontrib_core.bundled_files import bundled
from flcontrib_core.errors import MissingPart, SettingsError, WorkspaceError
from flcontrib_core.execution.children import child_environment, python_command

HOST = click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
PORT = click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True, help="Port.")


@click.command(epilog="Example: flcontrib demo --port 8600")
@PORT
@click.option("--host", default="127.0.0.1", hidden=True)
def demo(port: int, host: str) -> None:
    """Open the dashboard on the sample runs, in a workspace of its own."""
    require_dashboard()
    folder = own_folder(demo_path())
    click.echo(f"what you bring in and decide here stays in {folder}", err=True)
    prepare_samples(folder)
    run_dashboard(folder, host, port, samples=True)


@click.command(epilog="Example: flcontrib serve --workspace audits")
@click.option("--workspace", type=click.Path(path_type=Path), help="Folder of runs and results.")
@PORT
@HOST
@click.option("--allow-host", multiple=True, metavar="NAME", help="A further name that browsers reach this server by.")
@click.option(
    "--sign-in", type=click.Path(path_type=Path), metavar="FILE",
    help="TOML with [auth] (your OpenID Connect provider) and [accounts] (who is operator, auditor or client).",
)  # fmt: skip
def serve(workspace: Path | None, port: int, host: str, allow_host: tuple[str, ...], sign_in: Path | None) -> None:
    """Open the dashboard on a workspace.

    Without --sign-in it has no accounts and answers on this machine only: everybody who reaches it is its operator.
    """
    if sign_in is None and host not in ("127.0.0.1", "localhost", "::1"):
        raise SettingsError(
            f"--host {host}: without --sign-in the server stays on this machine, for everybody who reaches it sees all "
            "runs. Give --sign-in FILE, or keep it on loopback behind a proxy that signs people in"
        )
    require_dashboard()
    if sign_in is not None:
        require_sign_in(sign_in)
    prepare_samples(workspace)
    run_dashboard(workspace, host, port, samples=True, names=allow_host, sign_in=sign_in)


def require_sign_in(file: Path) -> None:
    """Says before the server starts what is wrong with the sign-in file, or that its package is missing."""
    import importlib.util
    import tomllib

    for module in ("authlib", "httpx"):
        if importlib.util.find_spec(module) is None:
            raise MissingPart(f"--sign-in needs {module}, which is not installed: pip install 'flcontrib[dashboard]'")
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as fault:
        raise SettingsError(f"--sign-in {file}: {fault.strerror}; docs/serving.md shows such a file") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
        raise SettingsError(f"--sign-in {file}: {fault}") from None
    for part, holds in (("auth", "your OpenID Connect provider"), ("accounts", "who is what")):
        if not isinstance(content.get(part), dict) or not content[part]:
            raise SettingsError(f"--sign-in {file}: [{part}] is missing; it says {holds}")


def demo_path() -> Path:
    """The demonstration's workspace: in the platform's data folder, where it survives."""
    import platformdirs

    return Path(platformdirs.user_data_dir("flcontrib", appauthor=False)) / "demo"


def own_folder(folder: Path) -> Path:
    """The folder, made where it is not there; refused where somebody else owns it or may write into it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as fault:
        raise WorkspaceError(
            f"{folder} cannot be used: {fault.strerror}; set XDG_DATA_HOME to another place"
        ) from fault
    shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or shared:
        raise WorkspaceError(
            f"{folder} is not a folder of yours alone: a demonstration would trust what others put there. Remove it, "
            "or set XDG_DATA_HOME to another place"
        )
    return folder


def require_dashboard() -> None:
    """Says at once, not after the first audit, that the page's own packages are not installed."""
    import importlib.util

    for module in ("streamlit", "plotly"):
        if importlib.util.find_spec(module) is None:
            advice = "pip install 'flcontrib[dashboard]'"
            raise MissingPart(f"this command needs {module}, which is not installed: {advice}")


def prepare_samples(folder: Path | None) -> None:
    """Audits the first sample run where a newcomer will see it, so that the first page shows a computed run at once.

    A workspace whose first run is somebody's own is left as it is.
    """
    from flcontrib_core.auditing import AuditSettings
    from flcontrib_core.commands.printing import ProgressLine
    from flcontrib_core.workspace import Workspace, audit_in_workspace, sample_digests, take_in_samples

    with Workspace(folder) as workspace:
        first = take_in_samples(workspace)
        hidden = not workspace.preferences.display().samples
        if first is None or hidden or first.digest not in sample_digests():
            return
        if workspace.latest_result(first.digest, "audit", also_stale=False) is None:
            click.echo("auditing the first sample run …", err=True)
            progress = ProgressLine()
            audit_in_workspace(workspace, first.digest, AuditSettings().record(), progress)
            progress.close()


def host_names(host: str) -> tuple[str, ...]:
    """The names by which browsers may reach a server that listens on this address."""
    import socket

    import psutil

    own = ("localhost", "127.0.0.1", "[::1]")
    if host in ("127.0.0.1", "localhost", "::1"):
        return own
    if host not in ("0.0.0.0", "::"):
        return (*own, f"[{host}]" if ":" in host else host)
    addresses = [a.address.partition("%")[0] for group in psutil.net_if_addrs().values() for a in group
                 if a.family in (socket.AF_INET, socket.AF_INET6)]  # fmt: skip
    names = [socket.gethostname(), socket.getfqdn(), *(f"[{a}]" if ":" in a else a for a in addresses)]
    return tuple(dict.fromkeys((*own, *names)))


def run_dashboard(
    workspace: Path | None,
    host: str,
    port: int,
    samples: bool,
    names: tuple[str, ...] = (),
    sign_in: Path | None = None,
) -> NoReturn:
    """Becomes the dashboard's server: one process, so that whoever ends it ends it all."""
    import importlib.util

    server = importlib.util.find_spec("flcontrib_dashboard.server")
    if server is None or server.origin is None:
        raise MissingPart("the dashboard (package flcontrib_dashboard) is not installed; install FLContrib again")
    environment = child_environment()
    if workspace is not None:
        environment["FLCONTRIB_WORKSPACE"] = str(workspace.resolve())
    environment["FLCONTRIB_SAMPLES"] = "1" if samples else "0"
    shown = "localhost" if host == "127.0.0.1" else host
    who = "for this machine only, without sign-in" if sign_in is None else "with sign-in"
    click.echo(f"FLContrib is on http://{shown}:{port} ({who}) – stop it with Ctrl-C", err=True)
    command = python_command("-m", "streamlit", "run", server.origin, "--server.port", str(port))
    command += ["--server.address", host, "--browser.serverPort", str(port)]
    for name in (*host_names(host), *names):
        command += ["--server.allowedHosts", name]
    environment.pop("FLCONTRIB_SIGN_IN", None)
    if sign_in is not None:
        environment["FLCONTRIB_SIGN_IN"] = str(sign_in.resolve())
        command += ["--secrets.files", str(sign_in.resolve())]  # Streamlit finds [auth] there
    os.chdir(bundled(".streamlit").parent)  # its configuration is found there
    os.execve(command[0], command, environment)
