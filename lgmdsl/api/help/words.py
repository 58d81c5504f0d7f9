"""Pages of the words of models, with the methods that take each, as sites and methods declare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lgmdsl.api.explain.methods import methods_of
from lgmdsl.api.explain.outline import outline_of
from lgmdsl.api.fit.hyper_ways import WAYS
from lgmdsl.contract.site import Site
from lgmdsl.errors import LgmError
from lgmdsl.inference.registry import BackendClass, backends
from lgmdsl.inference.routes import Refusal, compiled, route
from lgmdsl.language.builder import Model
from lgmdsl.language.load import loads
from lgmdsl.language.shapes.other_names import ARGUMENTS
from lgmdsl.language.tree import ast
from lgmdsl.priors.catalogue import PRIORS
from lgmdsl.sites import catalogue as sites
from lgmdsl.vocabulary.examples import OF_ARGUMENTS
from lgmdsl.vocabulary.lookup import CATEGORIES, IN_WORDS, categories, lookup, signatures
from lgmdsl.vocabulary.page import Argument, Page, page_of
from lgmdsl.vocabulary.signature import Signature

ALL = "all"


def word_pages(name: str) -> tuple[Page, ...]:
    """The page of every declaration of a word, in the order of the manual."""
    known = (lookup(c, name) for c in categories(name))
    return tuple(_completed(s) for s in known if s is not None)


def _completed(signature: Signature) -> Page:
    page = page_of(signature)
    if signature.category in ("family", "potential"):
        return replace(page, methods=_of_sites(signature))
    if signature.category == "prior":
        return replace(page, ways=_ways(signature))
    if signature.category == "function":
        return page
    return replace(page, methods=(("", _of_model(signature.example)),))


# ---- sites -----------------------------------------------------------------------------------


def sites_of(signature: Signature) -> tuple[type[Site], ...]:
    """The sites that a family or potential makes, censored variants too."""
    potential = signature.category == "potential"
    return tuple(
        s
        for s in sites.families()
        if bool(s.spec.potential) is potential and s.spec.name.split(".")[0] == signature.name
    )


def _of_sites(signature: Signature) -> tuple[tuple[str, str], ...]:
    rows = []
    for site in sites_of(signature):
        form = site.spec.name.partition(".")[2]
        rows.append((form, _by_route(site, backends().values())))
    return tuple(rows)


def _by_route(site: type[Site], candidates: Iterable[BackendClass]) -> str:
    """`laplace, map; through quadrature natural-gradient, lcl; not px-vb`."""
    ways: dict[str, list[str]] = {}
    refused: list[str] = []
    for backend in candidates:
        cell = route(compiled(site), backend)
        if isinstance(cell, Refusal):
            refused.append(backend.spec.name)
        else:
            through = "" if cell.bound is None else f"through {cell.bound.spec.name} "
            ways.setdefault(through, []).append(backend.spec.name)
    parts = [through + ", ".join(names) for through, names in sorted(ways.items())]
    if not refused and len(ways) == 1 and "" in ways:
        return ALL
    return "; ".join([*parts, *([f"not {', '.join(refused)}"] if refused else [])])


# ---- parts of the prior ----------------------------------------------------------------------


def _of_model(example: str) -> str:
    """The methods that run a model whose sites are all Gaussian: what other parts leave of them."""
    try:
        verdicts = methods_of(outline_of(_gaussian(loads(example))), "")
    except LgmError:  # a third party's part without an example, or with one that is wrong
        return ""
    return ALL if len(verdicts.able) == len(backends()) else ", ".join(verdicts.able)


def _gaussian(model: Model) -> Model:
    """The model with normal observations and potentials of what is affine in the latents; itself
    where they do not fit its indices."""
    observed = {s.name.id for s in model.tree.statements if isinstance(s, ast.Observe)}
    statements = tuple(_normal(s, observed) for s in model.tree.statements)
    other = Model.from_tree(replace(model.tree, statements=statements))
    try:
        other = loads(other.to_lgm())
    except LgmError:
        return model
    return other


def _normal(statement: ast.AnyStatement, observed: set[str]) -> ast.AnyStatement:
    if isinstance(statement, ast.Data) and statement.name.id in observed:
        return replace(statement, type=ast.Type("real", statement.type.missing))
    if isinstance(statement, ast.Potential):
        return replace(statement, family=_dist("normal", {"sd": ast.Number(1.0)}))
    if isinstance(statement, ast.Observe):
        signature = lookup("family", statement.family.name.id)
        values = {a.name: a.value for a in statement.family.arguments}
        latent = [p.name for p in signature.parameters if p.linking] if signature else []
        mean = next((values[p] for p in latent if p in values), None)
        if mean is not None:
            family = _dist("normal", {"mean": mean, "sd": ast.Number(1.0)})
            return replace(statement, family=family)
    return statement


def _dist(name: str, arguments: dict[str, ast.Value]) -> ast.Dist:
    return ast.Dist(ast.Name(name), tuple(ast.Argument(n, v) for n, v in arguments.items()))


# ---- hyperpriors -----------------------------------------------------------------------------


def _ways(signature: Signature) -> tuple[str, ...]:
    """The treatments of hyperparameters that take a prior: a sparse one is not averaged over, and
    mean-field factors are over positive scales."""
    part = PRIORS.get(signature.name)
    left_out = {"auto", "fixed"}
    if part is not None and part.sparse:
        left_out.add("integrate")
    if "positive" not in signature.observed:
        left_out.add("vb")
    return tuple(way for way in WAYS if way not in left_out)


# ---- arguments ---------------------------------------------------------------------------------
# Pages of arguments: by name, with every word that takes one of that name.


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
