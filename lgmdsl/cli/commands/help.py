"""`lgm help`: what an error code, a command or any other word of lgmdsl means."""

from __future__ import annotations

import textwrap

import click

from lgmdsl.cli.group import COMMANDS
from lgmdsl.cli.options import json_option
from lgmdsl.cli.output import show, show_json
from lgmdsl.errors import listed

WIDTH = 88


@click.command("help")
@click.argument("topic", metavar="[TOPIC]", required=False)
@json_option
@click.pass_context
def command(context: click.Context, topic: str | None, as_json: bool) -> None:
    """Explain an error code, a command, or a word: of models, methods, options, outcomes, topics.

    \b
    lgm help E203
    lgm help fit
    lgm help besag
    lgm help choosing-a-method
    lgm help            lists all words and codes
    """
    from lgmdsl.language.catalogue.codes import CATALOGUE, explain_code

    if topic is None:
        _list(as_json)
        return
    code = topic.strip("[]").upper()
    if code in CATALOGUE:
        text = explain_code(code)
        if as_json:
            show_json({"topic": code, "text": text})
        else:
            show(text.rstrip("\n"))
        return
    from lgmdsl.api.help.pages import pages

    entries = pages(topic)
    texts = [*map(str, entries), *([_of_command(context, topic)] if topic in COMMANDS else [])]
    if not texts:
        raise click.UsageError(_unknown(topic), context)
    text = "\n".join(texts)
    if as_json:
        show_json({"topic": topic, "pages": [p.as_json() for p in entries], "text": text})
    else:
        show(text.rstrip("\n"))


def _of_command(context: click.Context, name: str) -> str:
    """The help of a command, as `lgm NAME --help` has it."""
    parent = context.parent
    if parent is None or not isinstance(parent.command, click.Group):
        return ""
    subcommand = parent.command.get_command(parent, name)
    if subcommand is None:
        return ""
    with click.Context(subcommand, info_name=name, parent=parent) as inner:
        return subcommand.get_help(inner)


def _unknown(topic: str) -> str:
    """That nothing is called so, and what is called nearly so or begins with it."""
    from lgmdsl.api.help.pages import known_names, near
    from lgmdsl.language.catalogue.codes import CATALOGUE

    close = near(topic, (*known_names(), *COMMANDS)) or near(topic.upper(), tuple(CATALOGUE))
    hint = f"did you mean {listed(close, last='or')}?" if close else "lgm help lists them"
    return f"there is no code, no command and no word `{topic}`; {hint}"


def _list(as_json: bool) -> None:
    """Every word under its kind, the commands, and the codes."""
    from lgmdsl.api.help.pages import by_kind
    from lgmdsl.language.catalogue.codes import CATALOGUE

    words = by_kind()
    if as_json:
        show_json(
            {
                "words": {kind: dict(rows) for kind, rows in words.items()},
                "commands": dict(COMMANDS),
                "codes": {e.code: e.title for e in CATALOGUE.values()},
            }
        )
        return
    sections = [_section(kind, [name for name, _ in rows]) for kind, rows in words.items()]
    sections += [_section("command", list(COMMANDS)), every_code()]
    show("\n\n".join([*sections, "lgm help NAME explains one; --json gives its fields as data."]))


def _section(kind: str, names: list[str]) -> str:
    text = " ".join(dict.fromkeys(names))
    filled = textwrap.fill(
        text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )
    return f"{kind}\n{filled}"


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
