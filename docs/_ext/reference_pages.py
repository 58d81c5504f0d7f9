"""Pages of the reference, made from declarations when the build begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from extend_page import extend
from sphinx.application import Sphinx

from lgmdsl.api.explain.methods import MethodTable, methods
from lgmdsl.api.help.pages import every_page
from lgmdsl.cli.group import COMMANDS
from lgmdsl.cli.main import lgm
from lgmdsl.language.catalogue.codes import CATALOGUE, codes, kind_of
from lgmdsl.vocabulary.page import FIELDS, Argument, Page

# The page of the manual for each kind of word, in the order of the reference.
FILES = {
    "statement": "statements",
    "reserved word": "reserved",
    "type": "types",
    "observation family": "families",
    "structure": "structures",
    "kernel": "kernels",
    "hyperprior": "priors",
    "potential": "potentials",
    "operator": "operators",
    "function": "functions",
    "method": "methods",
    "bound": "bounds",
    "engine": "engines",
    "option": "options",
    "treatment of hyperparameters": "ways",
    "status": "statuses",
    "guarantee": "guarantees",
    "topic": "topics",
    "concept": "concepts",
    "argument": "arguments",
}
PLURALS = {
    "observation family": "Observation families",
    "treatment of hyperparameters": "Treatments of hyperparameters",
    "status": "Statuses",
}


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}


def write(app: Sphinx) -> None:
    """Every generated page; files that did not change are left alone."""
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    everything = every_page()
    pages = {}
    for kind in FIELDS:
        of_kind = [page for page in everything if page.kind == kind]
        pages[FILES[kind]] = "\n".join(words(kind, of_kind, everything))
    pages |= {"cli": "\n".join(commands()), "messages": "\n".join(messages())}
    pages["extend"] = "\n".join(extend())
    table = methods()
    assert isinstance(table, MethodTable)
    pages["methods-table"] = table.markdown().rstrip()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text + "\n":
            path.write_text(text + "\n", encoding="utf-8")


def words(kind: str, of_kind: Sequence[Page], everything: Sequence[Page]) -> Iterator[str]:
    """All words of a kind."""
    yield f"# {PLURALS.get(kind, kind.capitalize() + 's')}\n"
    yield "`lgm help NAME` prints the same.\n"
    for page in of_kind:
        yield from word(page, everything)


def word(page: Page, everything: Sequence[Page]) -> Iterator[str]:
    """One word: how it is written, its arguments, and what else it says of itself."""
    yield f"({anchor(page)})=\n## `{page.name}`\n\n{sentence(page.summary)}\n"
    if page.call:
        yield f"```none\n{page.call}\n```\n"
    if page.arguments:
        yield "| argument | type | default | meaning |\n|---|---|---|---|"
        yield from map(argument, page.arguments)
        yield ""
    if page.text:
        yield f"```none\n{page.text.rstrip()}\n```\n"
    facts = (
        ("For", ", ".join(page.takes)),
        *((f"Formula, `{form}`" if form else "Formula", code(f)) for form, f in page.formulas),
        ("Scale", page.scale),
        ("Support", page.support),
        ("Guarantee", page.guarantee),
        *((f"Methods, `{form}`" if form else "Methods", text) for form, text in page.methods),
        ("Hyperparameters by", ", ".join(page.ways)),
        ("Advice", page.advice),
        ("Also called", ", ".join(page.also_called)),
        ("See also", ", ".join(link(other, page.kind, everything) for other in page.see_also)),
        ("Source", page.source),
    )
    for name, text in facts:
        if text:
            yield f"{name}\n: {text}\n"
    if page.example:
        language = "lgm" if page.example.startswith("lgm 1") else "none"
        yield f"```{language}\n{page.example.rstrip()}\n```\n"


def anchor(page: Page) -> str:
    """What other pages link to: `structure-rw2`."""
    return f"{page.kind}-{page.name}".replace(" ", "-").lower()


def link(name: str, kind: str, everything: Sequence[Page]) -> str:
    """To the word of that name: of the same kind where there are several."""
    named = [page for page in everything if page.name == name]
    if not named:
        return f"`{name}`"
    target = next((page for page in named if page.kind == kind), named[0])
    return f"[`{name}`](#{anchor(target)})"


def code(text: str) -> str:
    """A formula as it is typed."""
    return f"`{text}`" if "`" not in text else text


def argument(of: Argument) -> str:
    """A row of the table of arguments."""
    default = f"`{of.default}`" if of.default else ("" if of.required else "left out")
    choices = " or ".join(f"`{c}`" for c in of.choices)
    meaning = "; ".join(part for part in (of.meaning, choices) if part)
    cells = (f"`{of.name}`", of.type, default, meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def commands() -> Iterator[str]:
    """The help of every command, as the command prints it."""
    yield "# Commands\n"
    for name in COMMANDS:
        with click.Context(lgm, info_name="lgm") as parent:
            command = lgm.get_command(parent, name)
            assert command is not None
            with click.Context(command, info_name=name, parent=parent) as context:
                text = command.get_help(context)
        yield f"## `lgm {name}`\n\n```none\n{text}\n```\n"


def messages() -> Iterator[str]:
    """Every error and warning, by chapter."""
    yield "# Errors and warnings\n"
    yield "`lgm help E203` prints the same. Codes never change their meaning.\n"
    chapter = ""
    for code in codes():
        if kind_of(code) != chapter:
            chapter = kind_of(code)
            yield f"## {sentence(chapter)[:-1]}\n"
        entry = CATALOGUE[code]
        yield f"({code})=\n### {code}: {entry.title}\n\n{entry.meaning}\n"
        yield f"Wrong:\n\n```none\n{entry.wrong}\n```\n"
        yield f"Right:\n\n```none\n{entry.corrected}\n```\n"
