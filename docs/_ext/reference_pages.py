"""Pages of the reference, made from declarations when the build begins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from sphinx.application import Sphinx

from lgmdsl.cli.group import COMMANDS
from lgmdsl.cli.main import lgm
from lgmdsl.language.catalogue.codes import CATALOGUE, codes, kind_of
from lgmdsl.vocabulary.lookup import lookup, names
from lgmdsl.vocabulary.signature import Category, Parameter, Signature, literal

WORDS: dict[str, tuple[Category, str]] = {
    "families": ("family", "Observation families"),
    "structures": ("structure", "Structures"),
    "kernels": ("kernel", "Kernels"),
    "priors": ("prior", "Hyperpriors"),
    "potentials": ("potential", "Potentials"),
    "operators": ("operator", "Operators"),
    "functions": ("function", "Functions"),
}


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}


def write(app: Sphinx) -> None:
    """Every generated page; files that did not change are left alone."""
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    pages = {name: "\n".join(words(*of)) for name, of in WORDS.items()}
    pages |= {"cli": "\n".join(commands()), "messages": "\n".join(messages())}
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text + "\n":
            path.write_text(text + "\n", encoding="utf-8")


def words(category: Category, title: str) -> Iterator[str]:
    """All declarations of a category."""
    yield f"# {title}\n"
    for name in sorted(names(category)):
        declared = lookup(category, name)
        if declared is not None:
            yield from word(declared)


def word(declared: Signature) -> Iterator[str]:
    """One declaration: as it is written, its arguments, and what else it says of itself."""
    yield f"(word-{declared.category}-{declared.name})="
    yield f"## `{declared.name}`\n\n{sentence(declared.summary)}\n"
    forms = [f for f in (declared, declared.other) if f is not None]
    shown = "\n".join(form.show().split(" or ")[0] for form in forms)
    yield f"```lgm-part\n{shown}\n```\n"
    rows = list(dict.fromkeys(argument(p) for form in forms for p in form.parameters))
    if rows:
        yield "| argument | type | default | meaning |\n|---|---|---|---|"
        yield from rows
        yield ""
    facts = (
        ("Observes", ", ".join(declared.observed) if declared.category == "family" else ""),
        (
            "For hypers of type",
            ", ".join(declared.observed) if declared.category == "prior" else "",
        ),
        ("Support", declared.support),
        ("Scale", declared.scale),
        *((f"Formula, `{form}`" if form else "Formula", f"`{f}`") for form, f in declared.formulas),
        ("Example", f"`{declared.example}`" if declared.example else ""),
        ("See also", ", ".join(f"`{other}`" for other in declared.see_also)),
        ("Source", declared.source),
    )
    for name, text in facts:
        if text:
            yield f"{name}\n: {text}\n"


def argument(parameter: Parameter) -> str:
    """A row of the table of arguments."""
    default = "" if parameter.default is None else f"`{literal(parameter.default)}`"
    if parameter.default is None and not parameter.required:
        default = "left out"
    choices = " or ".join(f"`{literal(c)}`" for c in parameter.choices)
    meaning = "; ".join(part for part in (parameter.meaning, choices) if part)
    cells = (f"`{parameter.name}`", parameter.type, default, meaning)
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
