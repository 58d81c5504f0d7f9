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
from lgmdsl.canonical.queries.hyper_uses import made_of, roots
from lgmdsl.canonical.queries.loadings import terms_of, unbounded


def multiplied(
    canonical: CanonicalModel, theta: Theta, pinned: Collection[str] = ()
) -> tuple[str, ...]:
    """The free hypers without bounds, in order, that multiply a latent or one another in some
    predictor, those behind hypers given by a value included."""
    space = canonical.hypers
    factors: set[str] = set()
    for block in canonical.blocks:
        for term in _every_term(block.form):
            moving = [f for f in term.factors if f.depends]
            names = {n for f in moving for n in f.depends}
            if term.latent or len(moving) > 1 or any(_product(canonical, f) for f in moving):
                factors |= roots(canonical, names, pinned)
    free = unbounded(canonical, theta, pinned)
    return tuple(b.name for b in space.blocks if b.name in factors & free)


def _every_term(form: Affine) -> Iterator[Term]:
    """Elementary terms, those that go through an operator, and those in it."""
    yield from terms_of(form)
    for term in form.terms:
        if term.applied:
            yield term
            inner = term.applied.terms
            yield from _every_term(Affine(inner, co.number(0.0), form.sizes))


def _product(canonical: CanonicalModel, node: Coefficient) -> bool:
    """Whether two moving factors are multiplied somewhere in a node, or in the values of the hypers
    in it."""
    names = made_of(canonical, node.depends)
    values = [b.value for b in canonical.hypers.blocks if b.name in names and b.value is not None]
    return any(_multiplied(part) for whole in (node, *values) for part in whole.order)


def _multiplied(part: Coefficient) -> bool:
    if isinstance(part, co.Contraction):
        return sum(bool(f.depends) for f in part.factors) > 1
    return isinstance(part, co.Power) and bool(part.base.depends)
