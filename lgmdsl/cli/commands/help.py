"""`lgm help`: what an error code means, or what a command does."""

from __future__ import annotations

import click

from lgmdsl.cli.group import COMMANDS
from lgmdsl.cli.options import json_option
from lgmdsl.cli.output import show, show_json
from lgmdsl.errors import meant, nearest


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
    from lgmdsl.language.catalogue.codes import CATALOGUE, explain_code

    parent = context.parent
    if topic in COMMANDS and parent is not None and isinstance(parent.command, click.Group):
        found = parent.command.get_command(parent, topic)
        if found is not None:
            with click.Context(found, info_name=topic, parent=parent) as inner:
                page = found.get_help(inner)
                if as_json:
                    show_json({"topic": topic, "text": page})
                else:
                    show(page)
        return
    if topic is None:
        if as_json:
            show_json({"codes": {e.code: e.title for e in CATALOGUE.values()}})
        else:
            show(every_code())
        return
    code = topic.strip("[]").upper()
    if code not in CATALOGUE:
        close = nearest(code, CATALOGUE) or nearest(topic, COMMANDS)
        hint = f"; {meant(close, quote='')}" if close else ", lgm help lists them"
        raise click.UsageError(f"there is no code and no command `{topic}`{hint}", context)
    text = explain_code(code)
    if as_json:
        show_json({"topic": code, "text": text})
    else:
        show(text.rstrip("\n"))


def every_code() -> str:
    """One line for each code, under its chapter."""
    from lgmdsl.language.catalogue.codes import CATALOGUE, codes, kind_of

    lines: list[str] = []
    chapter = ""
    for code in codes():
        if kind_of(code) != chapter:
            chapter = kind_of(code)
            lines += ["", chapter] if lines else [chapter]
        lines.append(f"  {code}  {CATALOGUE[code].title}")
    return "\n".join(lines)
