"""Every page of the manual that is made from declarations: by name, by kind, and all of them.

`lgm help` prints them, editors read them as JSON, the manual's reference is made from them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from lgmdsl.api.help import parts
from lgmdsl.api.help.concepts import CONCEPTS, concepts, concepts_called
from lgmdsl.api.help.topics import topics
from lgmdsl.api.help.words import arguments, arguments_called, word_pages
from lgmdsl.bounds.catalogue import series as series_of_bounds
from lgmdsl.vocabulary.lookup import CATEGORIES, signatures, translations
from lgmdsl.vocabulary.page import FIELDS, KIND_OF, Page, every_name, page_of
from lgmdsl.vocabulary.signature import singulars, spelling

# What gives the pages of the kinds that models do not name, in the order of the manual.
_OTHERS: tuple[Callable[[], Iterator[Page]], ...] = (
    parts.statements,
    parts.types,
    parts.methods,
    parts.bounds,
    parts.engines,
    parts.options,
    parts.ways,
    parts.statuses,
    parts.guarantees,
    topics,
    concepts,
    arguments,
)


def pages(name: str) -> tuple[Page, ...]:
    """Every page of a name, one for each of its meanings; none for an unknown one."""
    stem = _stem(name)
    others = (p for make in _OTHERS for p in make() if p.name == stem)
    return tuple(sorted((*word_pages(name), *others), key=_place))


class ForeignName(NamedTuple):
    """What a name of other software is here: a sentence ("" where the page is of that name, spelt
    otherwise), and the name of the page."""

    sentence: str
    name: str


def elsewhere(name: str) -> tuple[ForeignName, ...]:
    """What other software means by a name, and where that is found here."""
    words = [ForeignName(str(t), t.signature.name) for t in translations(name)]
    named = [
        ForeignName("" if spelling(c) == spelling(name) else f"`{name}` is under `{c}`", c)
        for c in concepts_called(name)
        if c != name
    ]
    options = [ForeignName(sentence, part) for sentence, part in parts.called(name)]
    given = [
        ForeignName(f"`{name}` of other software is the argument `{a}` here", a)
        for a in arguments_called(name)
    ]
    return (*words, *named, *options, *given)


class Described(NamedTuple):
    """What a name is: its pages, what other software means by it, and the kinds of words that are
    called so, with the names and summaries of their words."""

    pages: tuple[Page, ...]
    elsewhere: tuple[ForeignName, ...]
    kinds: dict[str, tuple[tuple[str, str], ...]]


def look_up(name: str) -> Described:
    """All that a name leads to; that of the singular where it is no name itself."""
    words = (name, *singulars(name))
    named = ((pages(word), elsewhere(word)) for word in words)
    kinds = {kind: rows for kind, rows in by_kind().items() if _is_kind(words, kind)}
    return Described(*next((found for found in named if any(found)), ((), ())), kinds)


def _is_kind(words: tuple[str, ...], kind: str) -> bool:
    """Whether a kind has one of some names: `observation family`, in short `family`."""
    names = {kind, kind.split()[-1], kind.split()[0]} | {c for c, k in KIND_OF.items() if k == kind}
    return bool(set(map(spelling, words)) & set(map(spelling, names)))


def every_page() -> tuple[Page, ...]:
    """All pages, by kind in the order of the manual."""
    words = (p for name in every_name() for p in word_pages(name))
    others = (p for make in _OTHERS for p in make())
    return tuple(sorted((*words, *others), key=_place))


def by_kind() -> dict[str, tuple[tuple[str, str], ...]]:
    """Names and summaries under each kind."""
    table: dict[str, list[tuple[str, str]]] = {kind: [] for kind in FIELDS}
    words = (page_of(s) for category in CATEGORIES for s in signatures(category))
    for page in (*words, *(p for make in _OTHERS for p in make())):
        table[page.kind].append((page.name, page.summary))
    return {kind: tuple(rows) for kind, rows in table.items() if rows}


def known_names() -> tuple[str, ...]:
    """Every name that has a page."""
    others = (p.name for make in _OTHERS for p in make())
    return tuple(dict.fromkeys((*every_name(), *others)))


def names_elsewhere() -> tuple[str, ...]:
    """Every name of other software, and of concepts, that leads to a page."""
    aliases = (a.name for c in CATEGORIES for s in signatures(c) for a in s.also_called)
    return tuple(dict.fromkeys((*aliases, *(n for c in CONCEPTS for n in c.names))))


def near(name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The names that begin with `name`, and those that are spelt nearly so."""
    word = name.casefold()
    begun = [k for k in known if word and k.casefold().startswith(word)]
    close = difflib.get_close_matches(word, known, n=4, cutoff=0.6)
    return tuple(dict.fromkeys((*begun, *close)))


def _stem(name: str) -> str:
    """`piecewise-linear-R` of `piecewise-linear-12`; other names as they are."""
    series = next((s for s in series_of_bounds() if s.member(name) is not None), None)
    return f"{series.stem}-R" if series else name


def _place(page: Page) -> int:
    return list(FIELDS).index(page.kind)
