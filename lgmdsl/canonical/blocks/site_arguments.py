"""Arguments of observe and potential statements: groups, weights, predictors, choice sets.

Groups of a potential's entries: `group = task` (an index) or `group = of` (a map).

An index: the groups run over the other indices of the expression, each along that index. A map: the
entries of one label are a group, and the groups run over the labels; groups of unequal sizes are
filled up by entries that are zero, which no norm sees. Labels without entries have no group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.expressions import affine as af
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.canonical.expressions.named import Slot, Through, expand, slot_indices
from lgmdsl.canonical.grounding.errors import count_of
from lgmdsl.canonical.grounding.limits import check_rows
from lgmdsl.canonical.lowering.lower import Lowering
from lgmdsl.contract.questions import Normed
from lgmdsl.contract.site import Property, Site
from lgmdsl.errors import DataError, Diagnostic, MethodError, Span
from lgmdsl.language.tree import ast
from lgmdsl.sites.combined.normed import of_norms
from lgmdsl.sites.combined.predictors import Second, with_predictors
from lgmdsl.sites.formula import Formula
from lgmdsl.vocabulary.lookup import lookup

if TYPE_CHECKING:
    from lgmdsl.canonical.blocks.sites import SiteBlock

MEMBER = "member~"  # the index of a group's entries; no user's index can have this name


@dataclass(frozen=True, eq=False)
class PotentialGroups:
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


def _note(groups: PotentialGroups) -> str:
    """How many groups there are, and of how many entries."""
    known = groups.sizes[groups.sizes > 0]
    least, most = int(known.min(initial=groups.most)), groups.most
    each = f"{most}" if least == most else f"{least} to {most}"
    empty = len(groups.sizes) - len(known)
    without = f"; {count_of(empty, 'label')} of `{groups.dims[0]}` without entries" if empty else ""
    return f"the norms of {count_of(len(known), 'group')} of {each} entries{without}"


def _groups(form: Affine, argument: ast.Name, lowering: Lowering) -> PotentialGroups:
    symbol = lowering.grounded.model.symbols[argument.id]
    if symbol.kind == "index":
        along = argument.id
        if along not in form.dims:  # constant along it, as a product with zero is
            zeros = co.Constant((along,), np.zeros(lowering.sizes[along]))
            form = af.add((form, Affine((), zeros, lowering.sizes)))
        dims = tuple(d for d in form.dims if d != along)
        count = form.sizes[along]
        groups = int(np.prod([form.sizes[d] for d in dims], dtype=np.int64))
        return PotentialGroups(form, dims, along, co.number(float(count)), np.full(groups, count))
    if argument.id in lowering.grounded.missing:
        raise DataError(_without_label(argument))
    slot = lowering.slot(argument, symbol.target or "")
    assert isinstance(slot, Through), "a map of groups has an index"
    return _by_label(form, slot, symbol.target or "", lowering)


def _by_label(form: Affine, labels: Through, target: str, lowering: Lowering) -> PotentialGroups:
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
    # of one axis: numpy 2.4 loses the entries beyond 8192 of an array (n, 1)
    flat = np.unravel_index(taken.reshape(-1), shape) if most else [taken] * len(shape)
    slots: tuple[Slot, ...] = tuple(
        Through(p.reshape(number, most), (target, MEMBER)) for p in flat
    )
    inner = replace(form, sizes={**form.sizes, **lowering.sizes, target: number, MEMBER: most})
    gathered = af.gather(inner, dims, slots)
    if not real.all():
        gathered = af.scale(gathered, co.Constant((target, MEMBER), real.astype(np.float64)))
    each = co.Constant((target,), counts.astype(np.float64))
    return PotentialGroups(gathered, (target,), MEMBER, each, counts)


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


# ---- weights -----------------------------------------------------------------------------------
# `weight` of an observe statement: one number for each row, known before the fit.


def weights_of(
    weight: Coefficient | None, dims: tuple[str, ...], sizes: Mapping[str, int], rows: IntArray
) -> Array:
    """The weight of each of some rows, 1 where none is given."""
    if weight is None:
        return np.ones(len(rows))
    return np.array(expand(weight.evaluate({}), dims, sizes).reshape(-1)[rows], dtype=np.float64)


def with_weights(block: SiteBlock, weight: Coefficient) -> SiteBlock:
    """The block with a weight for each row, without the rows of weight 0: they are left out as
    those without a response are. Raises DataError E303 (a negative weight) and E304 (none)."""
    if not weight.depends and not weight.dims and float(weight.evaluate({}).dense()) == 1.0:
        return block
    if block.y is None:
        return replace(block, weight=weight)
    values = weights_of(weight, block.dims, block.sizes, block.rows)
    for code, wrong, says in (
        ("E304", np.isnan(values), "missing"),
        ("E303", ~(values >= 0.0) & ~np.isnan(values), "negative"),
        ("E303", np.isinf(values), "infinite"),
    ):
        if wrong.any():
            rows = count_of(int(wrong.sum()), "row")
            place = block.place(int(block.rows[np.flatnonzero(wrong)[0]]))
            raise DataError.of(
                code,
                f"the weight of `{block.name}` is {says} in {rows}",
                block.span,
                f"first at {place}",
                help="a weight is a number from 0: 1 counts a row once, 0 leaves it out",
            )
    kept = values > 0.0
    return replace(block, weight=weight, rows=block.rows[kept], y=block.y[kept])


# ---- predictors --------------------------------------------------------------------------------
# Arguments of a family that are predictors of its parameters: `log_sd = zeta` in place of `sd`.
#
# One that has latents makes a vector site, whose predictors stand next to one another along a
# synthetic index; one without is the number exp(zeta), and the family is the plain one.


EVENT = "predictor~"  # the index of a site's predictors; no user's index can have this name


@dataclass(frozen=True, eq=False)
class Predictors:
    """`plain` is the family with the parameters themselves in place of their predictors; `values`
    are those parameters that are numbers after all; `forms` the predictors of the others."""

    plain: ast.Dist
    values: Mapping[str, Coefficient]
    seconds: tuple[Second, ...]
    forms: tuple[Affine, ...]

    def site(self, base: type[Site]) -> type[Site]:
        """The family with these predictors, of the one that `plain` names. Raises MethodError E501
        for one that gives no formula."""
        if not self.seconds:
            return base
        if not issubclass(base, Formula):
            raise MethodError.of(
                "E501",
                f"`{base.spec.family}` as it is observed here takes no predictor for its "
                f"{self.seconds[0].parameter}",
                self.plain.span,
                f"{base.spec.name} gives no formula",
                help=f"give `{self.seconds[0].parameter}` as a number or a hyper",
            )
        return with_predictors(base, self.seconds)

    def form(self, first: Affine) -> Affine:
        """All predictors in one form, the first one's given."""
        return af.stack((first, *self.forms), EVENT) if self.seconds else first

    @property
    def event(self) -> str:
        """The index of the predictors; empty where there is one alone."""
        return EVENT if self.seconds else ""


def predictors_of(family: ast.Dist, lowering: Lowering) -> Predictors:
    """Lower the arguments of a family that are predictors of parameters."""
    signature = lookup("family", family.name.id)
    arguments: list[ast.Argument] = []
    values: dict[str, Coefficient] = {}
    seconds: list[Second] = []
    forms: list[Affine] = []
    for argument in family.arguments:
        parameter = None if signature is None else signature.parameter(argument.name)
        if parameter is None or not parameter.of:
            arguments.append(argument)
            continue
        arguments.append(replace(argument, name=parameter.of))
        form = lowering.affine(argument.value)
        if form.terms:
            seconds.append(Second(parameter.name, parameter.of, parameter.link))
            forms.append(form)
        else:
            values[parameter.of] = _inverse(parameter.link, form.offset)
    plain = replace(family, arguments=tuple(arguments)) if seconds or values else family
    return Predictors(plain, values, tuple(seconds), tuple(forms))


def _inverse(link: str, node: Coefficient) -> Coefficient:
    """The parameter at its predictor: exp, or 1 / (1 + exp(-x))."""
    if link == "log":
        return co.Elementwise(node.dims, "exp", node)
    odds = co.Elementwise(node.dims, "exp", co.multiply(co.number(-1.0), node))
    return co.Power(node.dims, co.add(co.number(1.0), odds), co.number(-1.0))


# ---- choice sets -------------------------------------------------------------------------------
# The diagnostic for a chosen class that `available` excludes, with the labels of the classes.


SHOWN = 6


def left_out(
    name: str, values: Mapping[str, Array], labels: AnyArray, bad: IntArray, place: str, span: Span
) -> Diagnostic | None:
    """E303 for the choices of rows `bad` that are not among their row's available classes, `place`
    being the first of them; None where the fault is another."""
    available, y = values["available"], values["y"].astype(np.int64)
    inside = (y >= 0) & (y < available.shape[1])
    if not inside[bad].all() or (available[bad, y[bad]] != 0.0).any():
        return None
    first = int(bad[0])
    chosen = str(labels[y[first]])
    offered = [str(label) for label in labels[available[first] != 0.0]]
    more = f" and {len(offered) - SHOWN} more" if len(offered) > SHOWN else ""
    choices = (
        f"available: {', '.join(offered[:SHOWN])}{more}"
        if offered
        else "nothing is available there"
    )
    return Diagnostic(
        "E303",
        f"`{name}` chooses a class that is not available in {count_of(len(bad), 'row')}",
        span,
        f"first at {place}: `{chosen}`; {choices}",
        help=f"make `{chosen}` available there, or leave the choice out (a type with `?`)",
    )
