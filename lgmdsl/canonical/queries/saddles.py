"""Hyperparameters that a model's predictors multiply by something that may be 0 with them.

    L z, L a loading:  d/dL = 0 at L = 0, for E[z] = 0 there;      a b:  d/da = d/db = 0 at 0

Where all of them are 0, the middle of their priors, the evidence is flat without being high.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine, Term
from lgmdsl.canonical.expressions.coefficient import Coefficient, Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import terms_of, unbounded
from lgmdsl.canonical.queries.scales import roots


def multiplied(
    canonical: CanonicalModel, theta: Theta, pinned: Collection[str] = ()
) -> tuple[str, ...]:
    """The free hypers without bounds, in order, that multiply a latent or one another in some
    predictor, those behind hypers given by a value included."""
    space = canonical.hypers
    found: set[str] = set()
    for block in canonical.blocks:
        for term in _every_term(block.form):
            moving = [f for f in term.factors if f.depends]
            names = {n for f in moving for n in f.depends}
            if term.latent or len(moving) > 1 or any(_product(canonical, f) for f in moving):
                found |= roots(names, space, pinned)
    free = unbounded(canonical, theta, pinned)
    return tuple(b.name for b in space.blocks if b.name in found & free)


def _every_term(form: Affine) -> Iterator[Term]:
    """Elementary terms, those that go through an operator, and those in it."""
    yield from terms_of(form)
    for term in form.terms:
        if term.applied:
            yield term
            inner = term.applied.terms
            yield from _every_term(Affine(inner, co.number(0.0), form.sizes))


def _product(canonical: CanonicalModel, node: Coefficient) -> bool:
    """Whether two moving factors are multiplied somewhere in a node."""
    waiting, seen, visited = [node], set(node.depends), set[str]()
    while waiting:
        for part in waiting.pop().order:
            if isinstance(part, co.Contraction) and sum(bool(f.depends) for f in part.factors) > 1:
                return True
            if isinstance(part, co.Power) and part.base.depends:
                return True
        for name in [n for n in seen if n not in visited]:
            visited.add(name)
            block = canonical.hypers.block(name)
            if block is not None and block.value is not None:
                waiting.append(block.value)
                seen |= block.value.depends
    return False
