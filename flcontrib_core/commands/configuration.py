"""Options from a file: ``flcontrib.toml``, or ``[tool.flcontrib]`` in a ``pyproject.toml``.

The command line wins over the environment, which wins over the file, which wins over an option's own default. A file in
the working folder may have come with somebody else's run: what it sets is said aloud, and options that name files,
programs or addresses are not taken from any file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from flcontrib_core.errors import SettingsError

FILE = "flcontrib.toml"
LARGEST = 100_000
MOST_DOTS = 200
LARGEST_NUMBER = 2**53
BY_HAND = {"address", "allow_host", "host", "notify", "on_alert", "out", "webhook"}
"""Where something is sent, written or started; so is every path but the workspace's."""


@dataclass(frozen=True)
class SettingsFile:
    """What a file says, by option and by command."""

    path: Path
    table: Mapping[str, Any]


def find_settings(given: Path | None) -> SettingsFile | None:
    """The file that was named, else the first of the working folder's two and the user's own; None without any."""
    if given is not None:
        return SettingsFile(given, _section(given, _read(given)))
    for path in (Path(FILE), Path("pyproject.toml"), user_file()):
        if path.is_file():
            table = _section(path, _read(path))
            if table:
                return SettingsFile(path, table)
    return None


def user_file() -> Path:
    """Where one's own file lies."""
    import platformdirs

    return Path(platformdirs.user_config_dir("flcontrib", appauthor=False)) / FILE


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise SettingsError(f"{path} is a pipe or a device; give a file of options")
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise SettingsError(f"{path} is larger than {LARGEST} bytes; options do not need that much")
    # The parser takes time and memory with the square of a dotted key's parts.
    if any(line.count(b".") > MOST_DOTS for line in content.splitlines()):
        raise SettingsError(f"{path} has a line with more than {MOST_DOTS} dots; options stand in tables of one level")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except RecursionError:
        raise SettingsError(f"{path} is nested too deeply; options stand in tables of one level") from None
    except ValueError as wrong:  # no TOML, no UTF-8, or a number of thousands of digits
        raise SettingsError(f"{path} is not TOML: {wrong}") from wrong


def _section(path: Path, content: dict[str, Any]) -> Mapping[str, Any]:
    if path.name != "pyproject.toml":
        return content
    tools = content.get("tool", {})
    section = tools.get("flcontrib", {}) if isinstance(tools, dict) else tools
    if not isinstance(section, dict):
        raise SettingsError(f"{path}: tool.flcontrib is not a table of options")
    return section


def defaults_for(settings: SettingsFile, command: click.Command, name: str, command_names: set[str]) -> dict[str, Any]:
    """What the file says to one command, as click takes it; ``known`` are all commands' names.

    Above the tables stand options that commands share; those a command does not have pass it by. A table has the name
    of a command and holds options of that command alone.
    """
    from flcontrib_core.commands.options import shared_options

    general = {key: value for key, value in settings.table.items() if not isinstance(value, dict)}
    strangers = [key for key in general if _plain(key) not in shared_options()]
    strangers += [
        f"[{key}]" for key, value in settings.table.items() if isinstance(value, dict) and key not in command_names
    ]
    if strangers:
        raise SettingsError(
            f"{settings.path}: {strangers[0]} is no option that commands share, and no command; "
            f"an option of one command stands in a table with the command's name"
        )
    return _fitting(settings.path, command, general, settings.table.get(name, {}), name)


def _fitting(
    path: Path, command: click.Command, general: Mapping[str, Any], own: Mapping[str, Any], name: str
) -> dict[str, Any]:
    if isinstance(command, click.Group):
        inner = command.commands
        strangers = [key for key in own if key not in inner or not isinstance(own[key], dict)]
        if strangers:
            raise SettingsError(f"{path}: [{name}] has {strangers[0]}; it takes tables called {', '.join(inner)}")
        return {key: _fitting(path, sub, general, own.get(key, {}), f"{name}.{key}") for key, sub in inner.items()}
    options = {flag[2:]: p for p in command.params for flag in p.opts if flag.startswith("--")}
    taken = {}
    for key, value in [*general.items(), *own.items()]:
        option = options.get(_plain(key))
        if option is None and key in own:
            raise SettingsError(f"{path}: [{name}] has {key}, which is no option of this command")
        if option is None or option.name is None:
            continue
        if option.name in BY_HAND or (isinstance(option.type, click.Path) and option.name != "workspace"):
            raise SettingsError(f"{path}: {key} names a place; it is only taken from the command line")
        several = isinstance(value, list) and isinstance(option, click.Option) and option.multiple
        for one in value if several else [value]:
            _require_plain(f"{path}: {key}", option, one)
        taken[option.name] = value
    return taken


def _require_plain(place: str, option: click.Parameter, value: Any) -> None:
    """Refuses what the line could not hold: dates, lists of one, numbers out of reach, signs that nobody types."""
    if not isinstance(value, str | int | float):
        raise SettingsError(f"{place} is a {type(value).__name__}; give a text, a number, or true or false")
    if isinstance(value, str) and not value.isprintable():
        raise SettingsError(f"{place} holds signs that are not printed; give a plain text")
    if isinstance(value, int | float) and not abs(value) <= LARGEST_NUMBER:
        raise SettingsError(f"{place} is a number above 2^53, or none at all; give one in reach")
    if isinstance(value, float) and isinstance(option.type, type(click.INT)):
        raise SettingsError(f"{place} is {value}; give a whole number")


def _plain(key: str) -> str:
    return key.replace("_", "-")
