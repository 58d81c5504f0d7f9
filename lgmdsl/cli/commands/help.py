"""`lgm help`: what an error code, a command or a name of the language means."""

from __future__ import annotations

import click

from lgmdsl.cli.group import COMMANDS
from lgmdsl.cli.options import json_option
from lgmdsl.cli.output import show, show_json
from lgmdsl.errors import meant, nearest


@click.command("help")
@click.argument("topic", metavar="[TOPIC]", required=False)
@json_option
@click.pass_context
def command(context: click.Context, topic: str | None, as_json: bool) -> None:
    """Explain an error code with an example and its remedy, a command, or a name of the language.

    \b
    lgm help E203
    lgm help fit
    lgm help besag
    lgm help            lists all codes
    """
    from lgmdsl.language.catalogue.codes import CATALOGUE, explain_code
    from lgmdsl.vocabulary.page import every_name, page_of

    parent = context.parent
    if topic in COMMANDS and parent is not None and isinstance(parent.command, click.Group):
        subcommand = parent.command.get_command(parent, topic)
        if subcommand is not None:
            with click.Context(subcommand, info_name=topic, parent=parent) as inner:
                page = subcommand.get_help(inner)
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
    word = "" if code in CATALOGUE else page_of(topic)
    if word:
        if as_json:
            show_json({"topic": topic, "text": word})
        else:
            show(word.rstrip("\n"))
        return
    if code not in CATALOGUE:
        close = nearest(code, CATALOGUE) or nearest(topic, (*COMMANDS, *every_name()))
        hint = f"; {meant(close, quote='')}" if close else ", lgm help lists them"
        raise click.UsageError(f"there is no code, no command and no name `{topic}`{hint}", context)
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
