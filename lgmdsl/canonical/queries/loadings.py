"""Where hyperparameters stand in a model, and those that enter its predictors linearly.

Hyperparameters that enter the predictors linearly: loadings, offsets, regression coefficients.

    s_r = rest + sum_e value_e h[place_e] u_e,   u_e a latent, or 1

over the entries e of row r. Read off the terms and their factors, at their index names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine, Term
from lgmdsl.canonical.expressions.coefficient import Coefficient, Gather, HyperValue, Theta
from lgmdsl.canonical.expressions.named import Axis, expand, slot_indices
from lgmdsl.canonical.lowering.flatten import EntryGrid, grid_of
from lgmdsl.canonical.model import CanonicalModel

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class LinearHypers:
    """`names`: real hypers that appear in predictors alone, and there linearly; `loadings`: those
    of them that multiply a latent."""

    names: tuple[str, ...]
    loadings: tuple[str, ...]

    @property
    def coefficients(self) -> tuple[str, ...]:
        """Those that multiply no latent: offsets, and coefficients of covariates."""
        return tuple(n for n in self.names if n not in self.loadings)


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries of one site block's predictors, (E,) each: `rows` count those of the observed
    rows (of a vector site as many as it has predictors, one after the other), `columns` the latents
    of the model (-1: none), `places` those of the hyper `names[hyper]`.
    """

    rows: IntArray
    columns: IntArray
    names: tuple[str, ...]
    hyper: IntArray
    places: IntArray
    values: Array


def linear_hypers(
    canonical: CanonicalModel, theta: Theta, pinned: Collection[str] = ()
) -> LinearHypers:
    """The free hypers without bounds that every predictor is linear in, all of them at once, and
    that nothing else depends on."""
    canonical, space = canonical.declared, canonical.hypers
    free = unbounded(canonical, theta, pinned)
    elsewhere = (*of_sites(canonical), *of_priors(canonical))
    other = {name for depends in elsewhere for name in depends}
    linear: set[str] = set()
    loadings: set[str] = set()
    for block in canonical.blocks:
        for term in terms_of(block.form):
            moving = [f for f in term.factors if f.depends]
            names = {n for f in moving for n in f.depends}
            if len(moving) != 1 or leaf(moving[0]) is None:
                other |= names
                continue
            linear |= names
            loadings |= names if term.latent else set()
        for term in block.form.terms:
            if term.applied:
                other |= term.depends
    hypers = tuple(b.name for b in space.blocks if b.name in (linear & free) - other)
    return LinearHypers(hypers, tuple(n for n in hypers if n in loadings))


def unbounded(canonical: CanonicalModel, theta: Theta, pinned: Collection[str]) -> set[str]:
    """The free hypers that may be any real number."""
    return {
        b.name
        for b in canonical.hypers.unpinned(pinned)
        if b.type == "real" and b.prior and np.isinf(b.prior.at(theta).bounds.lower).all()
    }


def entries(
    canonical: CanonicalModel, block: SiteBlock, names: Collection[str], theta: Theta
) -> Entries:
    """What the hypers `names` do to the predictor of a block. They are of `linear_hypers`."""
    order = tuple(names)
    observed = block.predictor_rows()
    position = np.full(int(np.prod(block.shape, dtype=np.int64)) * max(block.predictors, 1), -1)
    position[observed] = np.arange(len(observed))
    parts: list[tuple[AnyArray, ...]] = []
    for term in terms_of(block.form):
        moving = {n for f in term.factors for n in f.depends}
        if not moving or not moving <= set(order):
            continue
        latent = canonical.latent(term.latent).sizes if term.latent else ()
        start = canonical.layout.starts[term.latent] if term.latent else -1
        grid = grid_of(term, block.predictor_dims, latent, block.sizes, theta)
        rows = position[grid.rows]
        places, values = _places(grid, theta)
        hyper = np.full(len(rows), order.index(next(iter(moving))))
        every: tuple[AnyArray, ...] = (rows, grid.columns + start, hyper, places, values)
        parts.append(tuple(a[rows >= 0] for a in every))
    whole = [np.concatenate(p) for p in zip(*parts, strict=True)] or [np.zeros(0)] * 5
    numbers = [np.asarray(a, dtype=np.int64) for a in whole[:4]]
    return Entries(numbers[0], numbers[1], order, numbers[2], numbers[3], whole[4])


def leaf(node: Coefficient) -> HyperValue | None:
    """The hyper that a node is, as it stands or gathered; None for anything else."""
    if isinstance(node, Gather):
        node = node.operand
    return node if isinstance(node, HyperValue) else None


def leaf_places(
    node: Coefficient, joint: tuple[str, ...], sizes: Sizes, shape: tuple[int, ...]
) -> IntArray:
    """Flat positions of a leaf's entries over `joint` in its hyper of that shape."""
    if isinstance(node, Gather):
        index = slot_indices(node.slots, joint, sizes)
    else:
        axes = tuple(Axis(d) for d in node.dims)
        index = slot_indices(axes, joint, sizes)
    flat = np.zeros((1,) * len(joint), dtype=np.int64)
    for position, size in zip(index, shape, strict=True):
        flat = flat * size + position
    return np.broadcast_to(flat, tuple(sizes[d] for d in joint)).reshape(-1)


def _places(grid: EntryGrid, theta: Theta) -> tuple[IntArray, Array]:
    """The hyper's positions and what it is multiplied by, entry by entry."""
    sizes = dict(zip(grid.joint, grid.extent, strict=True))
    values = np.ones(grid.extent)
    for factor in grid.factors:
        if not factor.depends:
            values *= expand(factor.evaluate(theta), grid.joint, sizes)
    moving = next(f for f in grid.factors if f.depends)
    hyper = leaf(moving)
    assert hyper is not None
    places = leaf_places(moving, grid.joint, sizes, np.shape(theta[hyper.name]))
    return places, values.reshape(-1)


# Nodes of a product written out, beyond which it is not multiplied out: what it holds is then no
# linear hyper. A loading needs some ten.
MOST = 2000


def terms_of(form: Affine) -> Iterator[Term]:
    """Elementary terms: products of factors on one latent, or on none (latent "")."""
    for term in form.terms:
        if not term.applied:
            for factors in _products(term.factors, form.sizes):
                yield replace(term, factors=factors)
    for factors in _products((form.offset,), form.sizes):
        yield Term("", (), factors)


def _products(factors: tuple[Coefficient, ...], sizes: Sizes) -> Iterator[tuple[Coefficient, ...]]:
    """The product of the factors, multiplied out into products of nodes that are no sums; as it is
    where that would be very many."""
    if sum(f.size for f in factors if f.depends) > MOST:
        yield factors
        return
    for choice in product(*(list(_parts(f, sizes)) for f in factors)):
        yield tuple(f for part in choice for f in part)


def _parts(node: Coefficient, sizes: Sizes) -> Iterator[tuple[Coefficient, ...]]:
    if not node.depends:
        yield (node,)
    elif isinstance(node, co.Total):
        for term in node.terms:
            yield from _parts(term, sizes)
    elif isinstance(node, co.Contraction):
        summed = [d for d in co.union(*(f.dims for f in node.factors)) if d not in node.dims]
        for part in _products(node.factors, sizes):
            lacking = [d for d in summed if d not in co.union(*(f.dims for f in part))]
            yield (*part, *(co.Constant((d,), np.ones(sizes[d])) for d in lacking))
    else:
        yield (node,)


# ---- hyper uses --------------------------------------------------------------------------------
# Where hyperparameters appear in the canonical form, after the compiler's rewrites, and which free
# ones are behind them.
#
# The first is read off the nodes of the form, as a rewrite may move an argument of a site into its
# predictor; the second is the model graph's.


def uses(canonical: CanonicalModel) -> list[str]:
    """Every hyper once for each place where it appears: terms and offsets of predictors,
    arguments of priors, of sites, and of other hypers."""
    places = [*of_predictors(canonical), *of_priors(canonical), *of_sites(canonical)]
    return [name for depends in places for name in depends]


def of_predictors(canonical: CanonicalModel) -> Iterator[frozenset[str]]:
    """The hypers in each term and offset of the predictors."""
    for block in canonical.blocks:
        yield block.form.offset.depends
        for term in block.form.terms:
            yield term.depends


def of_sites(canonical: CanonicalModel) -> Iterator[frozenset[str]]:
    """The hypers in each argument of a site that is not its predictor."""
    for block in canonical.blocks:
        for node in block.parameters.values():
            yield node.depends


def of_latents(canonical: CanonicalModel) -> Iterator[frozenset[str]]:
    """The hypers in each argument of a latent's prior, and in each constraint."""
    for latent in canonical.latents:
        for factor in latent.factors:
            for node in factor.coefficients().values():
                yield node.depends
    for equation in canonical.equations:
        yield equation.value.depends | equation.form.offset.depends
        for term in equation.form.terms:
            yield term.depends


def of_priors(canonical: CanonicalModel) -> Iterator[frozenset[str]]:
    """The hypers in each argument of a latent's prior, each constraint, and each value and prior of
    another hyper."""
    yield from of_latents(canonical)
    for hyper in canonical.hypers.blocks:
        if hyper.value is not None:
            yield hyper.value.depends
        if hyper.prior is not None:
            yield hyper.prior.depends


def made_of(
    canonical: CanonicalModel, names: Collection[str], pinned: Collection[str] = ()
) -> frozenset[str]:
    """The names, and the hypers in the values of hypers among them, pinned ones the last."""
    stop = {*canonical.hypers.free, *pinned}
    behind = canonical.grounded.graph.behind(names, through=("hyper",), stop=stop)
    return frozenset((*names, *behind))


def roots(
    canonical: CanonicalModel, names: Collection[str], pinned: Collection[str] = ()
) -> frozenset[str]:
    """The free hypers, neither pinned nor given by a value, behind some names."""
    free = {block.name for block in canonical.hypers.unpinned(pinned)}
    return made_of(canonical, names, pinned) & free


# ---- saddles -----------------------------------------------------------------------------------
# Hyperparameters that a model's predictors multiply by something that may be 0 with them.
#
#     L z, L a loading:  d/dL = 0 at L = 0, for E[z] = 0 there;      a b:  d/da = d/db = 0 at 0
#
# Where all of them are 0, the middle of their priors, the evidence is flat without being high.


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
