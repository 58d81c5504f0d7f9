"""Groups of a potential's entries: `group = task` (an index) or `group = of` (a map).

An index: the groups run over the other indices of the expression, each along that index. A map: the
entries of one label are a group, and the groups run over the labels; groups of unequal sizes are
filled up by entries that are zero, which no norm sees. Labels without entries have no group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import IntArray
from lgmdsl.canonical.expressions import affine as af
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.canonical.expressions.named import Slot, Through, slot_indices
from lgmdsl.canonical.grounding.errors import count_of
from lgmdsl.canonical.grounding.limits import check_rows
from lgmdsl.canonical.lowering.lower import Lowering
from lgmdsl.contract.questions import Normed
from lgmdsl.contract.site import Property, Site
from lgmdsl.errors import DataError, Diagnostic, MethodError
from lgmdsl.language.tree import ast
from lgmdsl.sites.combined.normed import of_norms

MEMBER = "member~"  # the index of a group's entries; no user's index can have this name


@dataclass(frozen=True, eq=False)
class Groups:
    """`form` over `dims` and the `member` of each group; `counts`, (groups,): how many each has, of
    the label where a map gives them."""

    form: Affine
    dims: tuple[str, ...]
    member: str
    counts: Coefficient
    sizes: IntArray

    @property
    def most(self) -> int:
        """Entries of the largest group."""
        return self.form.sizes[self.member]


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """The site of a potential of groups, its form, and which rows it has."""

    site: type[Site]
    form: Affine
    dims: tuple[str, ...]
    event: str
    rows: IntArray
    given: dict[str, Coefficient]
    note: str


def grouped(
    site: type[Site], form: Affine, argument: ast.Value, name: str, lowering: Lowering
) -> GroupedRows:
    """The sites of the groups of an expression. Groups of one entry, and normal potentials, whose
    norm says what the entries do, are sites of the entries themselves.

    Raises MethodError E501 for a potential that has no form for a norm.
    """
    if not issubclass(site, Normed) and Property.GAUSSIAN not in site.spec.properties:
        raise MethodError(_no_norm(site, argument))
    assert isinstance(argument, ast.Name), "the checker lets names through alone"
    groups = _groups(form, argument, lowering)
    sizes = groups.form.sizes
    outer = [sizes[d] for d in groups.dims]
    if groups.most <= 1 or Property.GAUSSIAN in site.spec.properties:
        present = np.arange(groups.most)[None, :] < groups.sizes[:, None]
        dims = (*groups.dims, groups.member)
        said = f"{site.spec.name} of the norm of a group is {site.spec.name} of each entry"
        note = "groups of one entry each" if groups.most <= 1 else said
        return GroupedRows(site, groups.form, dims, "", np.flatnonzero(present), {}, note)
    check_rows(name, [*outer, groups.most, groups.most], argument.span)
    rows = np.flatnonzero(groups.sizes > 0)
    given = {"members": groups.counts}
    return GroupedRows(
        of_norms(site), groups.form, groups.dims, groups.member, rows, given, _note(groups)
    )


def _note(groups: Groups) -> str:
    """How many groups there are, and of how many entries."""
    known = groups.sizes[groups.sizes > 0]
    least, most = int(known.min(initial=groups.most)), groups.most
    each = f"{most}" if least == most else f"{least} to {most}"
    empty = len(groups.sizes) - len(known)
    without = f"; {count_of(empty, 'label')} of `{groups.dims[0]}` without entries" if empty else ""
    return f"the norms of {count_of(len(known), 'group')} of {each} entries{without}"


def _groups(form: Affine, argument: ast.Name, lowering: Lowering) -> Groups:
    symbol = lowering.grounded.model.symbols[argument.id]
    if symbol.kind == "index":
        along = argument.id
        if along not in form.dims:  # constant along it, as a product with zero is
            zeros = co.Constant((along,), np.zeros(lowering.sizes[along]))
            form = af.add((form, Affine((), zeros, lowering.sizes)))
        dims = tuple(d for d in form.dims if d != along)
        count = form.sizes[along]
        groups = int(np.prod([form.sizes[d] for d in dims], dtype=np.int64))
        return Groups(form, dims, along, co.number(float(count)), np.full(groups, count))
    if argument.id in lowering.grounded.missing:
        raise DataError(_without_label(argument))
    slot = lowering.slot(argument, symbol.target or "")
    assert isinstance(slot, Through), "a map of groups has an index"
    return _by_label(form, slot, symbol.target or "", lowering)


def _by_label(form: Affine, labels: Through, target: str, lowering: Lowering) -> Groups:
    """The entries of each label next to one another, in their order."""
    dims = co.union(form.dims, labels.dims)
    shape = tuple(lowering.sizes[d] if d in lowering.sizes else form.sizes[d] for d in dims)
    sizes = dict(zip(dims, shape, strict=True))
    (index,) = slot_indices((labels,), dims, sizes)
    label = np.broadcast_to(index, shape).reshape(-1)
    number = lowering.sizes[target]
    counts = np.bincount(label, minlength=number)
    most = int(counts.max(initial=0))
    order = np.argsort(label, kind="stable")
    place = np.arange(most)[None, :]
    real = place < counts[:, None]
    taken = np.zeros((number, most), dtype=np.int64)
    taken[real] = order
    positions = np.unravel_index(taken, shape) if most else [taken] * len(shape)
    slots: tuple[Slot, ...] = tuple(Through(p, (target, MEMBER)) for p in positions)
    inner = replace(form, sizes={**form.sizes, **lowering.sizes, target: number, MEMBER: most})
    gathered = af.gather(inner, dims, slots)
    if not real.all():
        gathered = af.scale(gathered, co.Constant((target, MEMBER), real.astype(np.float64)))
    each = co.Constant((target,), counts.astype(np.float64))
    return Groups(gathered, (target,), MEMBER, each, counts)


def _without_label(argument: ast.Name) -> Diagnostic:
    return Diagnostic(
        "E304",
        f"`{argument.id}` has missing entries, and an entry without a label has no group",
        argument.span,
        help="give each of them a label: one of its own makes a group of one entry",
    )


def _no_norm(site: type[Site], argument: ast.Value) -> Diagnostic:
    return Diagnostic(
        "E501",
        f"the potential `{site.spec.name}` has no form for the norm of a group",
        argument.span,
        "its class is no `lgmdsl.extend.Normed`",
        help="leave `group` out, or take one that has: laplace, student_t, exp_power",
    )
