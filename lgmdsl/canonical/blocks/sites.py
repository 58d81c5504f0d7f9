"""Observe and potential statements to site blocks: predictor, data, parameters, rows kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.blocks.censoring import as_observed, check_censoring, with_bounded_rows
from lgmdsl.canonical.blocks.events import Event, event_of, event_rows, whole_rows
from lgmdsl.canonical.blocks.family import FindSite, family_of, parameters_of
from lgmdsl.canonical.blocks.latents import LatentBlock
from lgmdsl.canonical.blocks.residuals import Residual, conditional, members_at
from lgmdsl.canonical.blocks.site_arguments import (
    grouped,
    left_out,
    predictors_of,
    weights_of,
    with_weights,
)
from lgmdsl.canonical.expressions import affine as af
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.coefficient import Coefficient, Theta
from lgmdsl.canonical.expressions.named import expand
from lgmdsl.canonical.grounding.errors import count_of
from lgmdsl.canonical.grounding.limits import check_rows
from lgmdsl.canonical.lowering import bym2
from lgmdsl.canonical.lowering.lower import Lowering
from lgmdsl.contract.censoring import CENSORING
from lgmdsl.contract.site import Property, Site
from lgmdsl.errors import DataError, Diagnostic, MethodError, Span
from lgmdsl.graph.model_graph import SITES, Node
from lgmdsl.language.check.sites import residual_of
from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast
from lgmdsl.sites.combined.choose import written

# Responses in a unit, and the sizes of the largest of them that fits take: of normal noise, squares
# of precisions are fourth powers; at 1e-150 models with groups end nowhere, at 1e-100 they do not.
MEASURED, RANGE = (("real",), ("positive",), ("nonnegative",)), (1e-120, 1e120)


@dataclass(frozen=True, eq=False)
class SiteBlock(Event):
    """N sites of one family: one statement of the model, after the compiler's rewrites.

    `name` is the observed datum or `potential k`; `dims` the indices of the rows; `rows` the flat
    positions of the entries that are observed; `y` their values (None for potentials).
    `family` on `written` is the site as written, `site` on `form` the one that the back ends see;
    `whole` the data as written, where they have other rows than the sites, and `given` the
    parameters of those sites; `labels` those of the classes; `weight` what log t of each row is
    multiplied by for the back ends, in `site`: `family` has none, as draws and predictions have
    none.
    """

    name: str
    dims: tuple[str, ...]
    family: type[Site]
    site: type[Site]
    form: Affine
    written: Affine
    parameters: Mapping[str, Coefficient]
    y: Array | None
    rows: IntArray
    span: Span
    sizes: Mapping[str, int]
    whole: RewrittenData | None = None
    given: Mapping[str, Array] | None = None
    classes: str = ""
    event: str = ""
    labels: AnyArray | None = None
    weight: Coefficient | None = None
    note: str = ""  # how a potential's groups were formed, as `lgm explain` shows it
    residual: Residual | None = None  # all that y differs by from its mean

    @property
    def data(self) -> RewrittenData:
        """The data as the model writes them."""
        if self.whole is not None:
            return self.whole
        return RewrittenData(
            self.dims, self.rows, self.y, self.predictors, np.arange(len(self.rows))
        )

    @property
    def family_dims(self) -> tuple[str, ...]:
        return self.dims if self.whole is None else self.whole.dims

    @property
    def data_shape(self) -> tuple[int, ...]:
        """Sizes of all rows of the observed datum."""
        return tuple(self.sizes[d] for d in self.data.dims)

    @property
    def each(self) -> tuple[str, ...]:
        """The index of the classes where every row of the datum counts them, none otherwise."""
        return (self.classes,) if "y" in self.family.spec.wide else ()

    def entries(self) -> IntArray:
        """Flat positions of what was observed: of each count, where a row counts classes."""
        return event_rows(self.data.rows, self.sizes[self.classes] if self.each else 0)

    @property
    def own_trials(self) -> bool:
        """Whether counts over classes alone say how many trials there were."""
        counted = bool(self.each) and self.family.spec.discrete
        return counted and "n" not in self.parameters

    def blank(self) -> Array:
        """A y for every row, where its value does not matter: 0, but the counts that are known
        where they alone say how many trials there were."""
        out = np.zeros((math.prod(self.data_shape), *(self.sizes[d] for d in self.each)))
        if self.own_trials and self.data.y is not None:
            out[self.data.rows] = self.data.y
        return out

    def remaining(self, data: IntArray) -> IntArray:
        """The sites that are left without some of its data, by their places among all."""
        return np.flatnonzero(~np.isin(self.data.owner, data))

    def without(self, data: IntArray) -> SiteBlock:
        """The block without some of its data, by their places among those observed."""
        fit_rows = self.remaining(data)
        if self.residual is not None:
            self.residual.check_whole(self.rows[data], self.rows)
        whole = self.whole
        if whole is not None:
            data_rows = np.delete(np.arange(len(whole.rows)), data)
            place = np.zeros(len(whole.rows), dtype=np.int64)
            place[data_rows] = np.arange(len(data_rows))
            y = None if whole.y is None else whole.y[data_rows]
            owner = place[whole.owner[fit_rows]]
            whole = RewrittenData(whole.dims, whole.rows[data_rows], y, whole.event, owner)
        y = None if self.y is None else self.y[fit_rows]
        given = self.given and {name: value[fit_rows] for name, value in self.given.items()}
        return replace(self, rows=self.rows[fit_rows], y=y, whole=whole, given=given)

    def parameter_values(self, theta: Theta, all_rows: bool = False) -> dict[str, Array]:
        """Each parameter at theta, one value (or one row, over classes or an index of its own) for
        each kept row, or for every entry; without rows for those that all share."""
        out = {}
        for name, node in self.parameters.items():
            full = expand(node.evaluate(theta), self.dims_of(name), self.sizes)
            if name in self.family.spec.shared:
                out[name] = np.array(full, dtype=np.float64)
                continue
            size = math.prod(self.sizes[d] for d in self.family_dims)
            full = full.reshape(size, *full.shape[len(self.family_dims) :])
            rows = self.rows if self.whole is None else self.whole.rows
            out[name] = np.array(full if all_rows else full[rows], dtype=np.float64)
        return out

    def _site_parameters(self, theta: Theta) -> dict[str, Array]:
        """Parameters at theta of the sites that the back ends see: those of the datum that each
        site stands for, and what the rewrite gave them."""
        if self.whole is None:
            return self.parameter_values(theta)
        given = {} if self.given is None else dict(self.given)
        if given.keys() >= self.site.spec.parameters.keys() - {"weight"}:
            return given
        own = self.parameter_values(theta)
        wanted = [n for n in self.site.spec.parameters if n in own and n not in given]
        return {**{n: own[n][self.whole.owner] for n in wanted}, **given}

    @property
    def row_weights(self) -> Array:
        """The weight of each site, (N,)."""
        return weights_of(self.weight, self.dims, self.sizes, self.rows)

    @property
    def data_weights(self) -> Array:
        """The weight of each datum that is observed."""
        data = self.data
        return weights_of(self.weight, data.dims, self.sizes, data.rows)

    def bind(self, theta: Theta) -> Site:
        """The sites at theta. Raises DataError E303 for an observation that cannot occur."""
        values: dict[str, Any] = self._site_parameters(theta)
        if self.weight is not None:
            values["weight"] = self.row_weights
        if self.y is not None and not self.site.spec.potential:
            values["y"] = self.y
            if not self._in_range:
                raise DataError(self._out_of_range())
        site = self.site(**values)
        with np.errstate(all="ignore"):
            impossible = ~np.isfinite(site.log_density(self._anywhere(site)))
        if impossible.any():
            raise DataError(self._impossible(site, values, np.flatnonzero(impossible)))
        return site

    @cached_property
    def _in_range(self) -> bool:
        """Whether products of squares of the responses stay within double precision."""
        if self.y is None or self.family.spec.observed[:1] not in MEASURED:
            return True
        low, high = RANGE
        largest = _largest(self.y)
        return largest == 0.0 or low <= largest <= high

    def _out_of_range(self) -> Diagnostic:
        """E303 for responses in a unit that double precision does not take."""
        assert self.y is not None
        low, high = RANGE
        return Diagnostic(
            "E303",
            f"`{self.name}` is out of range: its largest entry is {_largest(self.y):.3g}",
            self.span,
            details=(f"wanted {low:g} to {high:g}, whose squares do not under- or overflow",),
            help=f"change the unit of `{self.name}`: divide it by a power of ten",
        )

    def check_offered(self, site: Site, known: Mapping[str, Array]) -> None:
        """Raise DataError E303 for classes that `available` excludes, before a rewrite loses it."""
        impossible = ~np.isfinite(site.log_density(np.zeros(self.predictor_shape)))
        if impossible.any():
            assert self.y is not None
            values = {"y": self.y, **known}
            raise DataError(self._impossible(site, values, np.flatnonzero(impossible)))

    def _anywhere(self, site: Site) -> Array:
        """Predictors at which every y that can occur at all is possible."""
        s = np.zeros(self.predictor_shape)
        landmark = site.landmark() if Property.LIMITED in site.spec.properties else None
        return s if landmark is None else s + landmark[0]

    def _impossible(self, site: Site, values: Mapping[str, Array], bad: IntArray) -> Diagnostic:
        """E303: k successes of fewer trials, a parameter that is not positive, an overflow."""
        place = self.place(int(self.rows[bad[0]]))
        if "available" in values and self.labels is not None:
            diagnostic = left_out(self.name, values, self.labels, bad, place, self.span)
            if diagnostic is not None:
                return diagnostic
        shared = self.family.spec.shared
        shown = ", ".join(
            f"{k} = {_shown(v[bad[0]])}" for k, v in values.items() if k not in shared
        )
        reason, _, remedy = site.reason(int(bad[0])).partition(": ")
        return Diagnostic(
            "E303",
            f"`{self.name}` cannot occur under {written(self.family)} in "
            f"{count_of(len(bad), 'row')}",
            self.span,
            f"first at {place}: {reason}"
            if reason
            else f"the density is zero or undefined, first at {place}: {shown}",
            help=remedy or "correct these rows, or leave them out",
        )

    def place(self, row: int) -> str:
        """Where a flat position lies, for messages: `obs 3, item 0`."""
        position = np.unravel_index(row, self.shape) if self.shape else ()
        names = (d.partition("~")[0] for d in self.dims)
        return (
            ", ".join(f"{d} {i}" for d, i in zip(names, position, strict=True)) or "its only entry"
        )

    def bind_family(self, theta: Theta, y: Array | None = None) -> Site:
        """Sites of the family as written for every entry, for simulation and prediction."""
        values: dict[str, Any] = self.parameter_values(theta, all_rows=True)
        if not self.family.spec.potential:
            values["y"] = self.blank() if y is None else y
        return self.family(**values)


def _largest(y: Array) -> float:
    """The largest size of the entries that are numbers, 0 of none."""
    return float(np.abs(y[np.isfinite(y)]).max(initial=0.0))


def _shown(value: Array) -> str:
    return f"{value:g}" if not np.ndim(value) else f"[{', '.join(f'{v:g}' for v in value)}]"


def site_blocks(
    lowering: Lowering, find: FindSite, latents: tuple[LatentBlock, ...]
) -> tuple[SiteBlock, ...]:
    """Lower every observe and potential statement; `latents`: every block, of residuals too.

    Raises MethodError E501 for families that no back end takes yet, all of them in one pass.
    """
    blocks: list[SiteBlock] = []
    refused: list[Diagnostic] = []
    for node in lowering.grounded.graph.of_kind(*SITES):
        try:
            blocks.append(site_block(node, lowering, find, latents))
        except MethodError as error:
            refused += error.diagnostics
    if refused:
        raise MethodError(refused)
    return tuple(blocks)


def site_block(
    node: Node, lowering: Lowering, find: FindSite, latents: tuple[LatentBlock, ...] = ()
) -> SiteBlock:
    """Lower one site of the graph. Raises MethodError E501 for a family that no back end takes."""
    statement = node.statement
    if isinstance(statement, ast.Observe):
        return _observed(statement, lowering, find, latents)
    assert isinstance(statement, ast.Potential)
    number = 1 + lowering.grounded.graph.of_kind("potential").index(node)
    return _potential(statement, number, lowering, find)


def _observed(
    statement: ast.Observe, lowering: Lowering, find: FindSite, latents: tuple[LatentBlock, ...]
) -> SiteBlock:
    noise, family = residual_of(statement), as_observed(statement.family, lowering.grounded)
    if noise is not None:
        kept = (a for a in family.arguments if a.value is not noise)
        family = replace(family, arguments=tuple(kept))
    predictors = predictors_of(family, lowering)
    site, arguments = family_of(predictors.plain, find)
    weighing = arguments.pop("weight", None)
    symbol = lowering.grounded.model.symbols[statement.name.id]
    form = predictors.form(lowering.affine(arguments.pop(site.spec.argument)))
    y = cast("AnyArray | None", lowering.grounded.values.get(symbol.name))
    wide = "y" in site.spec.wide
    dims = symbol.dims[:-1] if wide else symbol.dims
    missing = lowering.grounded.missing.get(symbol.name)
    if missing is not None and wide:
        missing = whole_rows(missing, symbol)
    rows, observed = _rows(y, missing, dims, lowering)
    classes = symbol.dims[-1] if wide else symbol.target or ""
    for second in predictors.seconds:
        del arguments[second.parameter]
    site = predictors.site(site)
    known = dict(predictors.values)
    residual = None
    if noise is not None:
        residual = _residual(noise, form, symbol, lowering, latents)
        _, known[site.spec.gaussian_scale] = conditional(residual, rows, None)
    parameters = parameters_of(site, arguments, lowering, statement.span, known)
    block = SiteBlock(
        residual=residual,
        name=symbol.name,
        dims=dims,
        family=site,
        site=site,
        form=form,
        written=form,
        parameters=parameters,
        y=observed,
        rows=rows,
        span=statement.span,
        sizes={**lowering.sizes, **form.sizes},
        classes=classes,
        event=predictors.event
        or (event_of(form, dims, classes, lowering.grounded) if site.spec.vector else ""),
        labels=lowering.grounded.indices[classes].labels if classes else None,
    )
    if observed is not None and arguments.keys() & {*CENSORING, "entry"}:
        block = with_bounded_rows(block, arguments, symbol)
        check_censoring(block, arguments)
    if weighing is None:
        return block
    return with_weights(block, lowering.coefficient(weighing))


def _residual(
    value: ast.Value,
    mean: Affine,
    symbol: Symbol,
    lowering: Lowering,
    latents: tuple[LatentBlock, ...],
) -> Residual:
    """The entries of a latent that are the residuals of the rows. Raises MethodError E501 for more
    than a latent times a number, and for a latent that is a map of others."""
    form, dims = lowering.affine(value), symbol.dims
    term = form.terms[0]
    block = next((b for b in latents if b.name == term.latent), None)
    product = len(form.terms) == 1 and not (term.summed or term.applied or af.has_offset(form))
    if not product:
        raise MethodError.of(
            "E501",
            "a residual is a latent times a positive number, and this is more",
            value.span,
            help="s * e[who, when], or a positive number of each row times it",
        )
    if block is None:
        raise MethodError.of(
            "E501",
            f"`{bym2.owner(term.latent)}` cannot be a residual: the compiler makes it of others",
            value.span,
            help="a proper structure: ar1, ou, toeplitz, compound, dense, gp, normal",
        )
    sizes = {**lowering.sizes, **form.sizes}
    shape = tuple(sizes[d] for d in dims)
    members = tuple(members_at(block, term.slots, dims, sizes))
    scale = co.multiply(*term.factors) if term.factors else co.number(1.0)
    return Residual(block, mean, scale, dims, shape, members, value.span)


def _potential(
    statement: ast.Potential, number: int, lowering: Lowering, find: FindSite
) -> SiteBlock:
    site, arguments = family_of(statement.family, find, potential=True)
    form, name = lowering.affine(statement.value), f"potential {number}"
    if "group" in arguments and "group" not in site.spec.parameters:
        return _of_groups(statement, name, site, arguments, lowering)
    parameters = parameters_of(site, arguments, lowering, statement.span)
    dims = co.union(form.dims, *(p.dims for p in parameters.values()))
    size = check_rows(name, [form.sizes[d] for d in dims], statement.span)
    return SiteBlock(
        name=name,
        dims=dims,
        family=site,
        site=site,
        form=form,
        written=form,
        parameters=parameters,
        y=None,
        rows=np.arange(size),
        span=statement.span,
        sizes={**lowering.sizes, **form.sizes},
    )


def _of_groups(
    statement: ast.Potential,
    name: str,
    base: type[Site],
    arguments: dict[str, ast.Value],
    lowering: Lowering,
) -> SiteBlock:
    """A potential of the norms of groups of its expression."""

    form = lowering.affine(statement.value)
    of = grouped(base, form, arguments.pop("group"), name, lowering)
    parameters = parameters_of(of.site, arguments, lowering, statement.span, of.given)
    return SiteBlock(
        name=name,
        dims=of.dims,
        family=of.site,
        site=of.site,
        form=of.form,
        written=of.form,
        parameters=parameters,
        y=None,
        rows=of.rows,
        span=statement.span,
        sizes={**lowering.sizes, **of.form.sizes},
        event=of.event,
        note=of.note,
    )


def _rows(
    y: AnyArray | None, missing: AnyArray | None, dims: tuple[str, ...], lowering: Lowering
) -> tuple[IntArray, Array | None]:
    """Positions of the observed entries, and their values (None where the datum is not given)."""
    size = int(np.prod([lowering.sizes[d] for d in dims], dtype=np.int64))
    if y is None:
        return np.arange(0), None
    flat = np.asarray(y, dtype=np.float64)
    flat = flat.reshape(size, *flat.shape[len(dims) :])
    rows = np.arange(size) if missing is None else np.flatnonzero(~missing.reshape(-1))
    return rows, flat[rows]


# ---- observed ----------------------------------------------------------------------------------
# Which entries of a datum a site block stands for.


@dataclass(frozen=True, eq=False)
class Observed:
    """What a stored fit keeps of a block's data: the rows, and y where a rewrite needs it."""

    rows: IntArray
    y: Array | None


@dataclass(frozen=True, eq=False)
class RewrittenData:
    """The data of a block whose rewrite makes several scalar sites of each datum: `dims`, `rows`
    and `y` as the model writes them; the family takes `event` predictors, over one more index (0
    for a scalar family);
    `owner` is the datum, by its place in `rows`, of each of the block's sites."""

    dims: tuple[str, ...]
    rows: IntArray
    y: Array | None
    event: int
    owner: IntArray
