"""The reference of the commands, from the commands themselves: options that many of them share stand once."""

from __future__ import annotations

import inspect
import re

import click

from flcontrib_core.cli import SECTIONS, flcontrib
from flcontrib_core.commands.options import SECTIONS as SHARED
from flcontrib_core.commands.options import SectionedCommand, shared_options, with_options


def command_reference() -> list[str]:
    """The whole page after its first paragraph, in the pages' own language."""
    context = click.Context(flcontrib, info_name="flcontrib")
    lines = ["(flcontrib)=", "", "## Before any command", "", *_options(flcontrib, context)]
    for title, commands in SECTIONS.items():
        lines += [f"## {title}", ""]
        for name in commands:
            command = flcontrib.get_command(context, name)
            assert command is not None
            lines += _command(command, click.Context(command, info_name=name, parent=context), 3)
    lines += ["## Options that commands share", ""]
    for title, group in SHARED.items():
        holder = click.command()(with_options(group)(lambda: None))
        lines += [f"({anchor(title)})=", "", f"### {title}", "", *_options(holder, click.Context(holder), own=False)]
    return lines


def anchor(title: str) -> str:
    """Where a group of shared options stands."""
    return "options-" + re.sub(r"\W+", "-", title.lower())


def _command(command: click.Command, context: click.Context, depth: int) -> list[str]:
    path = context.command_path
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    lines = [f"({path.replace(' ', '-')})=", "", f"{'#' * depth} {path}", ""]
    lines += [*_words(inspect.cleandoc(command.help or "")), "", "```text", usage, "```", ""]
    lines += _options(command, context)
    if isinstance(command, SectionedCommand) and (shared := _shared(command)):
        links = ", ".join(f"[{title}](#{anchor(title)})" for title in shared)
        lines += [f"and the options of {links}.", ""]
    if command.epilog:
        example = command.epilog.removeprefix("Example: ")
        lines += [
            "```console",
            *(f"$ {one}" for one in re.split(r"   or   |   \(then: ", example.rstrip(")"))),
            "```",
            "",
        ]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            lines += _command(inner, click.Context(inner, info_name=name, parent=context), depth + 1)
    return lines


def _shared(command: SectionedCommand) -> list[str]:
    """The groups whose options the command takes as they are."""
    given = [shared_options().get(flag.lstrip("-")) for param in command.params for flag in param.opts]
    return [title for title in SHARED if title in given and command.titles() is shared_options()]


def _options(command: click.Command, context: click.Context, own: bool = True) -> list[str]:
    """A definition of each option; with ``own`` those that other commands share are left out."""
    lines = []
    shared = shared_options() if own and isinstance(command, SectionedCommand) and _shared(command) else {}
    for param in command.params:
        record = param.get_help_record(context) if isinstance(param, click.Option) else None
        if record is not None and not any(flag.lstrip("-") in shared for flag in param.opts):
            flags, text = record
            lines += [f"`{flags}`", f": {' '.join(_words(text))}", ""]
    return lines


def _words(text: str) -> list[str]:
    """Help as Markdown: what it means literally stays so."""
    return [re.sub(r"(?<!`)([*<>\[\]_])(?!`)", r"\\\1", line) for line in text.splitlines()]
