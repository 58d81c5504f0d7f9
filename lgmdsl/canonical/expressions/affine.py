"""Expressions affine in the latents, in a normal form that keeps its index names.

    s[dims] = offset[dims] + sum_terms  sum_{summed}  prod factors[...]  z[slots]

Adding, scaling, summing, contracting and gathering all stay within the form, so a predictor is
never an opaque matrix: plates and loadings can be read off it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import count

import numpy as np
import scipy.sparse as sp

from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.canonical.expressions.named import Axis, Slot, compose, slot_dims
from lgmdsl.canonical.expressions.operators import Transform, Transformed

_fresh = count()


@dataclass(frozen=True, eq=False)
class Term:
    """One latent, how each of its axes is addressed, its factors and the indices summed over.

    Summed indices have names of their own (`feat~3`), so no outer index captures them. Where
    `applied` is given, the slots address the value of an operator on the latent, not the latent.
    `row`, an index and a position of it, is where alone the term stands along an index that nothing
    else of it has: one of the predictors of a vector site (`stack`).
    """

    latent: str
    slots: tuple[Slot, ...]
    factors: tuple[Coefficient, ...] = ()
    summed: tuple[str, ...] = ()
    applied: Applied | None = None
    row: tuple[str, int] | None = None

    @property
    def joint(self) -> tuple[str, ...]:
        """All index names of the term, the summed ones included."""
        return co.union(slot_dims(self.slots), *(f.dims for f in self.factors))

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(d for d in self.joint if d not in self.summed)

    @property
    def depends(self) -> frozenset[str]:
        """The hyperparameters in it, those inside an operator too."""
        inner = () if self.applied is None else self.applied.terms
        return frozenset[str]().union(
            *(f.depends for f in self.factors), *(t.depends for t in inner)
        )


@dataclass(frozen=True, eq=False)
class Applied:
    """transform(sum of terms): the value of an operator on terms of one latent."""

    transform: Transform
    terms: tuple[Term, ...]


@dataclass(frozen=True, eq=False)
class Affine:
    """offset + terms; `sizes` knows every index name in it, the summed ones too."""

    terms: tuple[Term, ...]
    offset: Coefficient
    sizes: Mapping[str, int]

    @property
    def dims(self) -> tuple[str, ...]:
        return co.union(self.offset.dims, *(t.dims for t in self.terms))

    @property
    def latents(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(t.latent for t in self.terms))

    @property
    def depends(self) -> frozenset[str]:
        """The hyperparameters in it."""
        return self.offset.depends.union(*(t.depends for t in self.terms))


def latent(name: str, dims: tuple[str, ...], sizes: Mapping[str, int]) -> Affine:
    """A latent by itself."""
    return Affine((Term(name, tuple(Axis(d) for d in dims)),), co.number(0.0), sizes)


def add(parts: tuple[Affine, ...]) -> Affine:
    """The sum."""
    sizes = {d: n for p in parts for d, n in p.sizes.items()}
    offsets = tuple(p.offset for p in parts if not _is_zero(p.offset))
    offset = co.add(*offsets) if offsets else co.number(0.0)
    return Affine(_collected([t for p in parts for t in p.terms]), offset, sizes)


def _collected(terms: list[Term]) -> tuple[Term, ...]:
    """The terms with equal ones counted. A latent at one place has few terms: where there are
    more, they become one whose factor is their sum (but for those with a sparse factor), so that
    a sum of shared sums does not grow with the number of ways through it."""
    times: Counter[object] = Counter()
    each: dict[object, Term] = {}
    for t in terms:
        key = (_place(t), tuple(id(f) for f in t.factors))
        times[key] += 1
        each.setdefault(key, t)
    counted = [
        t if times[key] == 1 else replace(t, factors=(co.number(times[key]), *t.factors))
        for key, t in each.items()
    ]
    groups: dict[object, list[Term]] = {}
    for t in counted:
        if not any(f.sparse for f in t.factors):
            groups.setdefault(_place(t), []).append(t)
    long = {place: group for place, group in groups.items() if len(group) > co.LONGEST}
    if not long:
        return tuple(counted)
    merged = {id(t) for group in long.values() for t in group}
    sums = [
        replace(group[0], factors=(co.add(*(_product(t) for t in group)),))
        for group in long.values()
    ]
    return (*(t for t in counted if id(t) not in merged), *sums)


def _place(term: Term) -> object:
    return term.latent, term.slots, term.summed, id(term.applied), term.row


def _product(term: Term) -> Coefficient:
    return co.multiply(*term.factors) if term.factors else co.number(1.0)


def scale(affine: Affine, by: Coefficient) -> Affine:
    """by * affine."""
    factors = co.factors_of(by)
    terms = tuple(replace(t, factors=_short((*factors, *t.factors))) for t in affine.terms)
    offset = affine.offset if _is_zero(affine.offset) else co.multiply(by, affine.offset)
    return Affine(terms, offset, affine.sizes)


def _short(factors: tuple[Coefficient, ...]) -> tuple[Coefficient, ...]:
    """Many factors as one (but for sparse ones)."""
    if len(factors) <= co.LONGEST:
        return factors
    alone = tuple(f for f in factors if f.sparse)
    rest = tuple(f for f in factors if not f.sparse)
    return (co.multiply(*rest), *alone) if len(rest) > 1 else factors


def total(affine: Affine, over: str) -> Affine:
    """sum(affine, over); a term without the index counts size times."""
    size = affine.sizes[over]
    fresh = f"{over}~{next(_fresh)}"
    sizes = {**affine.sizes, fresh: size}
    terms = []
    for term in affine.terms:
        if over in term.dims:
            renamed = substitute(term, {over: Axis(fresh)}, sizes)
            terms.append(replace(renamed, summed=(*renamed.summed, fresh)))
        else:
            terms.append(replace(term, factors=(co.number(size), *term.factors)))
    offset = affine.offset
    if over in offset.dims:
        remaining = tuple(d for d in offset.dims if d != over)
        offset = co.Contraction(remaining, (offset,))
    elif not _is_zero(offset):
        offset = co.multiply(co.number(size), offset)
    return Affine(tuple(terms), offset, sizes)


def apply(affine: Affine, transform: Transform) -> Affine:
    """transform(affine): each latent's terms go through the operator together."""
    slots = tuple(Axis(d) for d in transform.after)
    terms = []
    for name in affine.latents:
        inner = tuple(t for t in affine.terms if t.latent == name)
        terms.append(Term(name, slots, applied=Applied(transform, inner)))
    offset = affine.offset
    if not _is_zero(offset):
        offset = Transformed(transform.after, transform, offset)
    sizes = {**affine.sizes, **dict(zip(transform.after, transform.result, strict=True))}
    return Affine(tuple(terms), offset, sizes)


def stack(forms: tuple[Affine, ...], index: str) -> Affine:
    """The forms next to one another along a new index, of which each has one position."""
    sizes = {d: n for form in forms for d, n in form.sizes.items()} | {index: len(forms)}
    terms = [replace(t, row=(index, k)) for k, form in enumerate(forms) for t in form.terms]
    places = np.eye(len(forms))
    offsets = [
        co.multiply(form.offset, co.Constant((index,), place))
        for form, place in zip(forms, places, strict=True)
        if not _is_zero(form.offset)
    ]
    return Affine(tuple(terms), co.add(*offsets) if offsets else co.number(0.0), sizes)


def gather(affine: Affine, dims: tuple[str, ...], slots: tuple[Slot, ...]) -> Affine:
    """affine[slots], `dims` being the declared indices of the affine value, one for each slot."""
    places = dict(zip(dims, slots, strict=True))
    terms = tuple(substitute(t, places, affine.sizes) for t in affine.terms)
    offset = substitute_coefficient(affine.offset, places, affine.sizes)
    return Affine(terms, offset, affine.sizes)


def substitute(term: Term, places: Mapping[str, Slot], sizes: Mapping[str, int]) -> Term:
    """The term with index names replaced by slots."""
    return replace(
        term,
        slots=tuple(compose(s, places, sizes) for s in term.slots),
        factors=tuple(substitute_coefficient(f, places, sizes) for f in term.factors),
    )


def substitute_coefficient(
    node: Coefficient, places: Mapping[str, Slot], sizes: Mapping[str, int]
) -> Coefficient:
    """The node with index names replaced by slots."""
    if not any(d in places and places[d] != Axis(d) for d in node.dims):
        return node
    if isinstance(node, co.Constant) and all(
        isinstance(places.get(d, Axis(d)), Axis) for d in node.dims
    ):  # a mere renaming keeps a sparse matrix as it is
        names = tuple(places[d].dim if d in places else d for d in node.dims)  # type: ignore[union-attr]
        return co.Constant(names, node.values)
    return co.gather(node, tuple(places.get(d, Axis(d)) for d in node.dims), sizes)


def has_offset(affine: Affine) -> bool:
    """Whether there is more than terms."""
    return not _is_zero(affine.offset)


def _is_zero(node: Coefficient) -> bool:
    return (
        isinstance(node, co.Constant) and not node.dims and float(node.values) == 0.0  # type: ignore[arg-type]
    )


def same(a: object, b: object) -> bool:
    """Whether two forms, or parts of them, are written alike: of equal data, names and operations,
    but for the sizes that they know."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if is_dataclass(a):
        names = (f.name for f in fields(a) if f.name != "sizes")
        return all(same(getattr(a, name), getattr(b, name)) for name in names)
    return not sp.issparse(a) and bool(a == b)
