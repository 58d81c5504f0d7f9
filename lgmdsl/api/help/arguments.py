"""Pages of arguments: by name, with every word that takes one of that name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lgmdsl.language.shapes.other_names import ARGUMENTS
from lgmdsl.vocabulary.examples import OF_ARGUMENTS
from lgmdsl.vocabulary.lookup import CATEGORIES, IN_WORDS, signatures
from lgmdsl.vocabulary.page import Argument, Page
from lgmdsl.vocabulary.signature import Signature


def arguments() -> Iterator[Page]:
    """The page of every name that some argument has."""
    takers: dict[str, list[tuple[Signature, Argument]]] = {}
    for category in CATEGORIES:
        for signature in signatures(category):
            for form in (signature, signature.other):
                for parameter in form.accepted if form else ():
                    takers.setdefault(parameter.name, []).append(
                        (signature, Argument.of(parameter))
                    )
    for name, rows in takers.items():
        yield _page(name, rows)


def _page(name: str, rows: list[tuple[Signature, Argument]]) -> Page:
    """Words whose arguments are alike share a row."""
    owners: dict[Argument, list[str]] = {}
    for signature, argument in rows:
        of = owners.setdefault(argument, [])
        if signature.name not in of:
            of.append(signature.name)
    takers = tuple(dict.fromkeys(signature.name for signature, _ in rows))
    kinds = dict.fromkeys(IN_WORDS[signature.category] for signature, _ in rows)
    written = (s.example for s, _ in rows if f"{name} = " in s.example)
    return Page(
        "argument",
        name,
        f"an argument of {len(takers)} words ({', '.join(kinds)})"
        if len(takers) > 1
        else f"an argument of `{takers[0]}` ({', '.join(kinds)})",
        arguments=tuple(
            replace(a, meaning=f"{a.meaning} ({', '.join(of)})") for a, of in owners.items()
        ),
        example=next(written, OF_ARGUMENTS.get(name, rows[0][0].example)),
        see_also=takers,
    )


def arguments_called(name: str) -> tuple[str, ...]:
    """The arguments that other software calls so."""
    known = {p.name for c in CATEGORIES for s in signatures(c) for p in s.accepted}
    return tuple(a for a in ARGUMENTS.get(name.casefold(), ()) if a in known)
