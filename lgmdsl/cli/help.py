"""`lgm help`: what an error code means, or what a command does."""

from __future__ import annotations

import click

from lgmdsl.cli.group import COMMANDS
from lgmdsl.cli.options import json_option
from lgmdsl.cli.output import show, show_json


@click.command("help")
@click.argument("topic", metavar="[CODE]", required=False)
@json_option
@click.pass_context
def command(context: click.Context, topic: str | None, as_json: bool) -> None:
    """Explain an error CODE with an example and its remedy, or a command.

    \b
    lgm help E203
    lgm help fit
    lgm help            lists all codes
    """
    from lgmdsl.language.catalogue import explain_code

    parent = context.parent
    if topic in COMMANDS and parent is not None:
        found = parent.command.get_command(parent, topic)  # type: ignore[attr-defined]
        with click.Context(found, info_name=topic, parent=parent) as inner:
            show(found.get_help(inner))
        return
    text = explain_code(topic.upper()) if topic else explain_all()
    if as_json:
        show_json({"topic": topic, "text": text})
    else:
        show(text.rstrip("\n"))


def explain_all() -> str:
    """One line for each code."""
    raise NotImplementedError
