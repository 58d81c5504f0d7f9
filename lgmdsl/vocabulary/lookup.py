"""Find a name of the language, and register one from outside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, get_args

from lgmdsl.errors import ModelError
from lgmdsl.vocabulary import plugins
from lgmdsl.vocabulary.families import FAMILIES
from lgmdsl.vocabulary.operators import FUNCTIONS, OPERATORS
from lgmdsl.vocabulary.potentials import POTENTIALS
from lgmdsl.vocabulary.priors import PRIORS
from lgmdsl.vocabulary.signature import Alias, Category, Signature
from lgmdsl.vocabulary.structures import KERNELS, STRUCTURES
from lgmdsl.vocabulary.types import DATA_TYPES as DATA_TYPES
from lgmdsl.vocabulary.types import HYPER_TYPES as HYPER_TYPES

CATEGORIES: tuple[Category, ...] = get_args(Category)
IN_WORDS: dict[Category, str] = {
    "structure": "structure",
    "kernel": "kernel",
    "family": "observation family",
    "potential": "potential",
    "prior": "hyperprior",
    "operator": "operator",
    "function": "function",
}
# Names called in expressions, and names after `~`: a name is one or the other.
CALLED: tuple[Category, ...] = ("kernel", "operator", "function")
DISTRIBUTED: tuple[Category, ...] = ("structure", "family", "potential", "prior")
EXTENSIBLE: tuple[Category, ...] = (*DISTRIBUTED, "kernel")  # to which plug-ins add names


class Translation(NamedTuple):
    """A word, and what other software calls it."""

    signature: Signature
    alias: Alias

    def __str__(self) -> str:
        """A sentence."""
        return self.alias.means(self.signature.name)


def _table(groups: Iterable[tuple[Signature, ...]]) -> dict[Category, dict[str, Signature]]:
    table: dict[Category, dict[str, Signature]] = {c: {} for c in CATEGORIES}
    for group in groups:
        for signature in group:
            table[signature.category][signature.name] = signature
    return table


_SHIPPED = (STRUCTURES, KERNELS, FAMILIES, POTENTIALS, PRIORS, OPERATORS, FUNCTIONS)
_TABLE = _table(_SHIPPED)


def lookup(category: Category, name: str) -> Signature | None:
    """The signature of a name in a category, or None. A name that is not there yet may be a
    plug-in's."""
    signature = _TABLE[category].get(name)
    if signature is None and category in EXTENSIBLE:
        plugins.load()
        signature = _TABLE[category].get(name)
    return signature


def declared(category: Category, name: str) -> Signature:
    """The declaration of a name that the language ships, for the class that computes it. Raises
    KeyError."""
    return _TABLE[category][name]


def shipped(category: Category) -> tuple[Signature, ...]:
    """The signatures of a category that the language ships."""
    return tuple(s for group in _SHIPPED for s in group if s.category == category)


def names(category: Category) -> tuple[str, ...]:
    """All names of a category, in the order of the manual, registered ones last."""
    plugins.load()
    return tuple(_TABLE[category])


def signatures(category: Category) -> tuple[Signature, ...]:
    """All signatures of a category."""
    plugins.load()
    return tuple(_TABLE[category].values())


def categories(name: str) -> tuple[Category, ...]:
    """The categories that know a name: a plug-in's potential may be called as a hyperprior is."""
    plugins.load()
    return tuple(c for c in CATEGORIES if name in _TABLE[c])


def translations(name: str, category: Category | None = None) -> tuple[Translation, ...]:
    """What a name of other software is here, in one category or in all."""
    within = CATEGORIES if category is None else (category,)
    known = (s for c in within for s in signatures(c))
    return tuple(Translation(s, a) for s in known if (a := s.alias(name)) is not None)


def links() -> dict[str, str]:
    """Links that are the name of an argument (`logit`, not `softmax`, which is a function too), and
    the first family that takes each."""
    out: dict[str, str] = {}
    for family in signatures("family"):
        for p in family.parameters:
            if p.linking and p.one_of and p.name not in _TABLE["function"]:
                out.setdefault(p.name, family.name)
    return out


def elsewhere(category: Category, name: str) -> Category | None:
    """Another category that knows the name, or None."""
    return next((c for c in CATEGORIES if c != category and name in _TABLE[c]), None)


def register(signature: Signature) -> None:
    """Add a third party's name; the same signature twice is no error.

    Raises ModelError E106 where the name already means something else.
    """
    known = _TABLE[signature.category].get(signature.name) or _called_otherwise(signature)
    if known is not None and known != signature:
        raise ModelError.of(
            "E106",
            f"the {IN_WORDS[signature.category]} `{signature.name}` cannot be registered: the "
            f"{IN_WORDS[known.category]} `{known.name}` has the name already",
            note=known.show(),
            help="give the new one another name",
        )
    _TABLE[signature.category][signature.name] = signature


def _called_otherwise(signature: Signature) -> Signature | None:
    """What has the name already and makes another sort of word: `lgm.NAME` of the builder is a
    distribution or an expression, and cannot be both."""
    others = DISTRIBUTED if signature.category in CALLED else CALLED
    return next((s for c in others if (s := _TABLE[c].get(signature.name)) is not None), None)


def unregister(category: Category, name: str) -> None:
    """Take a registered name out again (for tests and notebooks); unknown names are no error."""
    _TABLE[category].pop(name, None)


def summary(category: Category) -> str:
    """One line for messages: `Kernels: se matern rq periodic linear white`."""
    word = IN_WORDS[category]
    plural = word[:-1] + "ies" if word.endswith("y") else word + "s"
    return f"{plural.capitalize()}: {' '.join(names(category))}"


def kin(category: Category, name: str) -> str:
    """The names that could replace `name`, in one line."""
    signature = lookup(category, name)
    if signature is None:
        return summary(category)
    if category == "structure" and signature.ordered_axis:
        alike = [s.name for s in signatures(category) if s.ordered_axis]
        return f"Structures over one ordered axis: {' '.join(alike)}"
    if category == "structure" and signature.parameter("graph"):
        alike = [s.name for s in signatures(category) if s.parameter("graph")]
        return f"Structures over a graph: {' '.join(alike)}"
    if category == "prior":
        support = signature.observed[0]
        return f"Hyperpriors for `{support}`: {' '.join(suited(support))}"
    return summary(category)


def suited(type_name: str) -> tuple[str, ...]:
    """The hyperpriors for a hyper type."""
    return tuple(s.name for s in signatures("prior") if type_name in s.observed)


def observing(type_name: str, arguments: Iterable[str] = ()) -> tuple[str, ...]:
    """The observation families for a data type (`index` for the name of an index set) that take
    these arguments."""
    wanted = tuple(arguments)
    families = [
        s
        for s in signatures("family")
        if type_name in s.observed and all(s.parameter(name) for name in wanted)
    ]
    # Those that are made for this type before those that also take it.
    return tuple(s.name for s in sorted(families, key=lambda s: s.observed[0] != type_name))
