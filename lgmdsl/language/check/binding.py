"""Match the arguments of a distribution with its signature: E103 and E104."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lgmdsl.errors import Span, meant
from lgmdsl.language.shapes.other_names import ARGUMENTS, INVERSES
from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import quoted, text_of
from lgmdsl.vocabulary.lookup import (
    HYPER_TYPES,
    IN_WORDS,
    elsewhere,
    kin,
    links,
    lookup,
    names,
    observing,
    suited,
    translations,
)
from lgmdsl.vocabulary.plugins import fault_of
from lgmdsl.vocabulary.signature import Category, Parameter, Signature, literal

SQUARED = {"var": "sqrt({})", "variance": "sqrt({})", "sigma2": "sqrt({})",
           "precision": "1/sqrt({})", "prec": "1/sqrt({})", "tau": "1/sqrt({})"}  # fmt: skip


@dataclass(frozen=True)
class BoundDistribution:
    """A distribution with its arguments matched, those of unknown names left out. `complete` is
    False after a complaint about them."""

    dist: ast.Dist
    signature: Signature
    matched: dict[str, tuple[Parameter, ast.Argument]]
    complete: bool

    def value(self, name: str) -> ast.Value | None:
        match = self.matched.get(name)
        return match[1].value if match else None


def find(dist: ast.Dist, category: Category, scope: Scope, data_type: str = "") -> Signature | None:
    """The signature that a distribution's name stands for; complains E103."""
    name = dist.name.id
    signature = lookup(category, name)
    if signature is not None:
        return signature.form(frozenset(a.name for a in dist.arguments))
    word = IN_WORDS[category]
    known = names(category)
    translated = translations(name, category)
    close = translated[0].signature.name if translated else scope.closest(name, known)
    other = elsewhere(category, name)
    group = kin(category, close or "")
    if category == "family" and observing(data_type):
        kind = "categorical" if data_type == "index" else data_type
        group = f"Families for {kind} data: {' '.join(observing(data_type))}"
    if category == "prior" and suited(data_type):
        group = f"Hyperpriors for `{data_type}`: {' '.join(suited(data_type))}"
    if category == "structure" and lookup("potential", name):
        group = (
            "a prior that is not normal is a potential on a flat block: latent w[feat] ~ flat, "
            f"then potential w ~ {name}(...)"
        )
    if other:
        article = "an" if IN_WORDS[other][0] in "aeiou" else "a"
        message = f"`{name}` is {article} {IN_WORDS[other]}, and {_wanted(category)} is wanted"
        help = group
        if category == "structure" and other == "prior" and scope.current:
            fitting = [t for t in HYPER_TYPES if name in suited(t)]
            kind = "positive" if "positive" in fitting else fitting[0]
            written = f"hyper {scope.current} : {kind} ~ {text_of(dist)}"
            help = f"a parameter with such a prior is a hyper: {written}"
    else:
        message = f"unknown {word} `{name}`"
        help = f"{translated[0]}. {group}" if translated else meant(close, then=group)
    scope.findings.error("E103", message, dist.name.span, note=_left_out(name), help=help)
    return None


def _left_out(name: str) -> str:
    """A note on the plug-in that would have declared the name but cannot be used."""
    fault = fault_of(name)
    return f"the {fault.point} is left out: {fault.reason}" if fault else ""


def _wanted(category: Category) -> str:
    word = IN_WORDS[category]
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def bind(
    dist: ast.Dist, signature: Signature, scope: Scope, *, optional: Sequence[str] = ()
) -> BoundDistribution:
    """Match arguments by name; complains E104 of unknown, repeated, missing and conflicting ones.

    `optional` are required arguments that may be left out here (`sd` of a factor in a product).
    """
    matched: dict[str, tuple[Parameter, ast.Argument]] = {}
    valid = True
    renamed: set[str] = set()
    strays = 0  # unknown arguments whose intended parameter is unknown
    for argument in dist.arguments:
        parameter = signature.parameter(argument.name)
        if parameter is None:
            meant = _unknown(dist, signature, argument, scope)
            strays += not meant
            renamed |= meant
            valid = False
        elif argument.name in matched:
            scope.findings.error(
                "E104",
                f"`{argument.name}` is given twice",
                _place(argument),
                note=signature.show(),
                help=f"keep one `{argument.name}`",
            )
            valid = False
        else:
            matched[argument.name] = (parameter, argument)
    for parameter in signature.parameters:
        if parameter.one_of or parameter.name in matched or parameter.name in optional:
            continue
        if parameter.required and parameter.name not in renamed:
            if strays:  # one mistake, reported already
                strays -= 1
                continue
            _missing(dist, signature, (parameter,), scope)
            valid = False
    for group in dict.fromkeys(p.one_of for p in signature.parameters if p.one_of):
        members = [p for p in signature.parameters if p.one_of == group]
        present = [matched[p.name][1] for p in members if p.name in matched]
        if not present and not renamed & {p.name for p in members}:
            if strays:
                strays -= 1
                continue
            _missing(dist, signature, members, scope)
            valid = False
        elif len(present) > 1:
            chosen = quoted([a.name for a in present])
            scope.findings.error(
                "E104",
                f"`{dist.name.id}` takes one of {chosen}",
                _place(present[1]),
                "a second one",
                note=signature.show(),
                help=f"leave out `{present[1].name}`",
            )
            valid = False
    return BoundDistribution(dist, signature, matched, valid)


def _place(argument: ast.Argument) -> Span:
    return argument.name_span if argument.name_span.known else argument.span


def _unknown(
    dist: ast.Dist, signature: Signature, argument: ast.Argument, scope: Scope
) -> set[str]:
    """Complain of an unknown argument; returns the names that were probably meant."""
    name, value = dist.name.id, text_of(argument.value)
    links = [p for p in signature.parameters if p.linking]
    meant: set[str] = set()
    if argument.name == "offset" and links:
        written = next((a for a in dist.arguments if signature.parameter(a.name) in links), None)
        link = written.name if written else links[0].name
        eta = text_of(written.value) if written else "eta"
        help = f"an offset is a term of the predictor: {link} = {eta} + {value}"
        meant = {""}
    elif argument.name == "link" and links:
        linked = [f"{name}({p.name} = {_affine(dist, value)})" for p in links]
        help = f"the argument's name is the link: {' or '.join(linked)}"
        meant = {p.name for p in links}
    else:
        parameter = _meant(dist, signature, argument.name, scope)
        help = _rename_help(name, argument, value, parameter) if parameter else ""
        meant = {parameter.name} if parameter else set()
        if parameter and parameter.one_of:
            meant = {p.name for p in signature.parameters if p.one_of == parameter.one_of}
    if not help:
        help = _elsewhere(dist, signature, argument)
    if not help:
        takes = [p.name for p in signature.accepted]
        help = f"it takes {quoted(takes)}" if takes else f"write {name}, without arguments"
    scope.findings.error(
        "E104",
        f"`{name}` has no argument `{argument.name}`",
        _place(argument),
        note=signature.show(),
        help=help,
    )
    return meant


def _elsewhere(dist: ast.Dist, signature: Signature, argument: ast.Argument) -> str:
    """The distribution that other software calls so, if that has the argument."""
    for translated in translations(dist.name.id, signature.category):
        other = translated.signature
        if other is not signature and other.parameter(argument.name):
            written = ", ".join(f"{a.name} = {text_of(a.value)}" for a in dist.arguments)
            return f"{translated}: {other.name}({written})"
    return ""


def _affine(dist: ast.Dist, value: str) -> str:
    """What the user probably meant as the predictor: the first argument that is an expression."""
    for argument in dist.arguments:
        if not isinstance(argument.value, ast.String | ast.Bool):
            return text_of(argument.value)
    return "eta"


def _meant(dist: ast.Dist, signature: Signature, word: str, scope: Scope) -> Parameter | None:
    present = {a.name for a in dist.arguments} if not scope.findings.full else set()
    free = [p for p in signature.accepted if p.name not in present]
    for p in free:
        if p.type == "latent" and p.name.endswith(f"_{word}"):
            return p
    for other in ARGUMENTS.get(word.lower(), ()):
        for p in free:
            if p.name == other:
                return p
    close = scope.closest(word, [p.name for p in free])
    return next((p for p in free if p.name == close), None)


def _rename_help(name: str, argument: ast.Argument, value: str, parameter: Parameter) -> str:
    link = parameter.name.partition("_")[0]  # of `log_mean` the logarithm
    if parameter.type == "latent" and (link == "log" or link in links()):
        value = _without_inverse(argument.value, link) or value
        return f"`{value}` is on the {link} scale here: {name}({parameter.name} = {value})"
    squared = SQUARED.get(argument.name.lower())
    if parameter.name == "sd" and squared:
        return f"every scale is a standard deviation: sd = {squared.format(value)}"
    return meant(parameter.name, then=f"{name}({parameter.name} = {value})")


def _without_inverse(value: ast.Value, link: str) -> str:
    """`eta` of `exp(eta)` where the link is the log: the argument on the link's scale."""
    if not isinstance(value, ast.Call) or len(value.positional) != 1 or value.named:
        return ""
    undone = value.function.id.lower() in INVERSES.get(link, ())
    return text_of(value.positional[0]) if undone else ""


def _missing(
    dist: ast.Dist, signature: Signature, wanted: Sequence[Parameter], scope: Scope
) -> None:
    named = " or ".join(f"`{p.name}`" for p in wanted)
    first = wanted[0]
    known = [a for a in dist.arguments if signature.parameter(a.name)]
    written = [f"{a.name} = {text_of(a.value)}" for a in known]
    example = ", ".join([*written, f"{first.name} = {_declared(first, scope)}"])
    scope.findings.error(
        "E104",
        f"`{dist.name.id}` wants {named}",
        dist.span,
        f"no {named} is given",
        note=signature.show(),
        help=f"write {dist.name.id}({example})",
    )


def _declared(parameter: Parameter, scope: Scope) -> str:
    """A value of the model that suits a parameter, else an example."""
    fits = [
        s.name
        for s in scope.symbols.values()
        if s.type == parameter.type and s.kind in ("data", "hyper")
    ]
    if parameter.type == "latent":
        fits = [s.name for s in scope.symbols.values() if s.degree == "affine"][-1:]
    wanted = ("latent", "count", "graph", "covariance", "simplex", "ordered")
    return fits[0] if fits and parameter.type in wanted else example_of(parameter)


def example_of(parameter: Parameter) -> str:
    """An example value of an argument, for a help line."""
    if parameter.choices:
        return literal(parameter.choices[0])
    return {
        "latent": "eta", "positive": "1", "unit": "0.5", "correlation": "0.5", "count": "n",
        "graph": "adj", "covariance": "S", "kernel": "se(sd = 1, length = 1)", "matrix": "Q",
        "ordered": "cuts", "simplex": "beta", "real": "x", "nonnegative": "1",
    }.get(parameter.type, "...")  # fmt: skip


# ---- place -------------------------------------------------------------------------------------
# The place of a distribution in its statement: what its arguments may be indexed by.


@dataclass(frozen=True)
class Place:
    """`name` is the distribution's; `dims` the indices of the left side, `shown` that in
    the user's words (`y[obs]`); `axis` the axis of a factor; `observed` the index set of a
    categorical datum; `inputs` the input dimension of a Gaussian process, None where
    it is not known; `entries` the indices of a potential's expression
    where `dims` are those of its groups, `group` the map or index that makes these."""

    name: str
    dims: tuple[str, ...] = ()
    shown: str = ""
    axis: str | None = None
    observed: str | None = None
    inputs: tuple[str, ...] | None = ()
    potential: bool = False
    entries: tuple[str, ...] = ()
    group: str = ""
    product: bool = False
