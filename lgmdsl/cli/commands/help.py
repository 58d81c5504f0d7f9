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
@click.argument("words", metavar="[TOPIC]", nargs=-1)
@json_option
@click.pass_context
def command(context: click.Context, words: tuple[str, ...], as_json: bool) -> None:
    """Explain an error code, a command, or a word: of models, methods, options, outcomes, topics.

    \b
    lgm help E203
    lgm help fit
    lgm help besag
    lgm help choosing-a-method
    lgm help random effect
    lgm help structures    all words of a kind
    lgm help nbinom2       a name of other software
    lgm help               lists all words and codes
    """
    from lgmdsl.language.catalogue.codes import CATALOGUE, explain_code

    if not words:
        _list(as_json)
        return
    topic = " ".join(words)
    code = topic.strip("[]").upper()
    if code in CATALOGUE:
        text = explain_code(code)
        if as_json:
            show_json({"topic": code, "text": text})
        else:
            show(text.rstrip("\n"))
        return
    from lgmdsl.api.help.pages import look_up, pages

    entries, others, kinds = look_up(topic)
    further = not entries
    if further:
        entries = tuple(p for name in dict.fromkeys(o.name for o in others) for p in pages(name))
    texts = [*map(str, entries), *([_of_command(context, topic)] if topic in COMMANDS else [])]
    texts += [_of_kind(kind, rows) for kind, rows in kinds.items()]
    if not texts and (flags := _of_flag(context, topic)):
        texts = [flags]
    if not texts:
        raise click.UsageError(_unknown(topic), context)
    said = [o.sentence if further else f"{o.sentence}: lgm help {o.name}" for o in others]
    sentences = "\n".join(line for o, line in zip(others, said, strict=True) if o.sentence)
    text = "\n".join([*([f"{sentences}\n"] if sentences else []), *texts])
    if as_json:
        fields = {"topic": topic, "pages": [p.as_json() for p in entries], "text": text}
        words_of = {kind: dict(rows) for kind, rows in kinds.items()}
        show_json(fields | {"elsewhere": [o._asdict() for o in others], "words": words_of})
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


def _of_kind(kind: str, rows: tuple[tuple[str, str], ...]) -> str:
    """The words of a kind, each with its summary."""
    lines = [
        textwrap.fill(f"{name}  {summary}", WIDTH, initial_indent="  ", subsequent_indent="      ")
        for name, summary in rows
    ]
    return "\n".join([f"words of the kind `{kind}` (lgm help NAME explains one)", "", *lines, ""])


def _of_flag(context: click.Context, name: str) -> str:
    """The commands that take `--name`, and what it does there."""
    parent, flag = context.parent, f"--{name.lstrip('-').replace('_', '-')}"
    if parent is None or not isinstance(parent.command, click.Group):
        return ""
    rows = []
    for command in COMMANDS:
        subcommand = parent.command.get_command(parent, command)
        options = [] if subcommand is None else subcommand.params
        rows += [
            f"    lgm {command} {flag}  {option.help or ''}".rstrip()
            for option in options
            if isinstance(option, click.Option) and flag in option.opts
        ]
    return "\n".join([f"option `{flag}` of commands", "", *rows]) if rows else ""


def _unknown(topic: str) -> str:
    """Message that nothing is called `topic`, with what is called nearly so or begins with it."""
    from lgmdsl.api.help.pages import known_names, names_elsewhere, near
    from lgmdsl.language.catalogue.codes import CATALOGUE
    from lgmdsl.vocabulary.page import FIELDS

    close = (
        near(topic, (*known_names(), *FIELDS, *COMMANDS))
        or near(topic.upper(), tuple(CATALOGUE))
        or near(topic, names_elsewhere())
    )
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
