"""The canonical form: what does not depend on the hyperparameters, and what does, at theta.

z_b ~ N(mu_b(theta), K_b(theta))      one prior block for each latent
s_k = B_k(theta) z + c_k(theta)       one site block for each observe and potential
C z = e                               exact constraints
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.blocks.events import event_rows
from lgmdsl.canonical.blocks.latents import NOTHING, LatentBlock
from lgmdsl.canonical.blocks.rewrites import Rewrite
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.coefficient import Coefficient, Theta
from lgmdsl.canonical.expressions.named import expand
from lgmdsl.canonical.grounding.ground import GroundedModel
from lgmdsl.canonical.lowering import flatten
from lgmdsl.canonical.lowering.bym2 import owner
from lgmdsl.canonical.lowering.derived import Derived
from lgmdsl.canonical.lowering.flatten import Over, PlacedEntries, placed
from lgmdsl.canonical.lowering.hypers import HyperSpace
from lgmdsl.canonical.lowering.lower import distinct
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor
from lgmdsl.contract.row_source import RowSource
from lgmdsl.contract.site import Site
from lgmdsl.errors import DataError
from lgmdsl.memory import TooLarge, check
from lgmdsl.operators.base import Operator
from lgmdsl.operators.compose import product
from lgmdsl.operators.explicit import Dense, Identity, Sparse
from lgmdsl.operators.select import Select

if TYPE_CHECKING:
    from lgmdsl.structures.splines import Smooth

IN_BLOCKS = RowSource()


@dataclass(frozen=True, eq=False)
class Equation:
    """form = value for every row of `dims`."""

    form: Affine
    value: Coefficient
    dims: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class CanonicalModel:
    """See the module. `named` holds every let and report by name with its declared indices, and
    the latents that are maps of blocks; `rows`: where the rows of the blocks are. `positions`:
    where the members of latents that are curves of a basis lie, (n, d); `smooths`: these bases."""

    grounded: GroundedModel
    latents: tuple[LatentBlock, ...]
    blocks: tuple[SiteBlock, ...]
    equations: tuple[Equation, ...]
    hypers: HyperSpace
    named: Mapping[str, tuple[tuple[str, ...], Derived]]
    rewrites: tuple[Rewrite, ...]
    sizes: Mapping[str, int]
    layout: Layout
    rows: RowSource = IN_BLOCKS
    positions: Mapping[str, Array] = field(default_factory=dict)
    smooths: Mapping[str, Smooth] = field(default_factory=dict)

    def predictor(
        self,
        form: Affine,
        dims: tuple[str, ...],
        theta: Theta,
        rows: IntArray | None = None,
        known: dict[str, Operator | PlacedEntries] | None = None,
    ) -> Predictor:
        """An affine form as operators and an offset over `dims`, or over some of its rows. `known`
        keeps, by latent, what is the same at every theta."""
        sizes = {**self.sizes, **form.sizes}
        columns: dict[str, Operator] = {}
        for name in form.latents:
            terms = [t for t in form.terms if t.latent == name]
            over = Over(dims, self.latent(name).sizes, sizes)
            column = None if known is None else known.get(name)
            if column is None:
                still = not any(t.depends for t in terms)
                if known is not None and not still:
                    column = placed(terms, over, theta, rows)
                if column is None:
                    column = take_rows(flatten.operator(terms, over, theta), rows)
                if known is not None and (still or isinstance(column, PlacedEntries)):
                    column = known.setdefault(name, column)
            columns[name] = column.at(theta) if isinstance(column, PlacedEntries) else column
        offset = expand(form.offset.evaluate(theta), dims, sizes).reshape(-1)
        return Predictor(columns, np.array(offset if rows is None else offset[rows]))

    def as_written(self, block: SiteBlock, theta: Theta, every: bool = True) -> Predictor:
        """The predictor that a block's family takes, for every entry or for the observed data."""
        data = block.data
        every = every or len(data.rows) == math.prod(block.data_shape)
        rows = None if every else event_rows(data.rows, data.event)
        predictor = self.predictor(block.written, block.predictor_dims, theta, rows)
        return replace(predictor, event=data.event)

    def site_predictor(
        self,
        block: SiteBlock,
        form: Affine,
        theta: Theta,
        known: dict[str, Operator | PlacedEntries] | None = None,
    ) -> Predictor:
        """A form as the predictor of the observed rows of a block's sites; `known` as for
        `predictor`."""
        rows = None if block.complete else block.predictor_rows()
        try:
            predictor = self.predictor(form, block.predictor_dims, theta, rows, known)
        except TooLarge as large:
            raise large.named(f"the predictor of `{block.name}`", block.span) from None
        return replace(predictor, event=block.predictors)

    def linear(self, theta: Theta) -> LinearGaussian:
        """Prior blocks, predictors of the observed rows, constraints.

        Operators without hypers are the same objects at every theta, so that engines recognise
        them. Raises DataError E303 for a predictor or an argument of a prior that is not
        finite.
        """
        predictors = tuple(self.observed(k, theta) for k in range(len(self.blocks)))
        return LinearGaussian(
            tuple(b.at(theta) for b in self.latents),
            (*predictors, *self.rows.beyond),
            self._constraints(theta),
        )

    def observed(self, k: int, theta: Theta) -> Predictor:
        """The predictor of the sites of a block."""
        return self.rows.observed(self, k, theta)

    def own_predictor(self, k: int, theta: Theta) -> Predictor:
        """The predictor of the observed rows that a site block holds."""
        block, known = self.blocks[k], self._still.get(k)
        if known is None:
            columns = self._columns.setdefault(k, {})
            predictor = self.site_predictor(block, block.form, theta, columns)
            check_finite(block, predictor)
            if not any(term.depends for term in block.form.terms):
                self._still[k] = predictor
            return predictor
        if not block.form.offset.depends:
            return known
        offset_form = Affine((), block.form.offset, block.form.sizes)
        offset = self.site_predictor(block, offset_form, theta).offset
        check_finite(block, Predictor({}, offset))
        return Predictor(known.columns, offset, known.event)

    def sites(self, theta: Theta) -> tuple[Site, ...]:
        """The bound sites of every block, the same objects where no parameter has a hyper."""
        return tuple(self.bound(k, theta) for k in range(len(self.blocks)))

    def bound(self, k: int, theta: Theta) -> Site:
        """The sites of a block at theta."""
        return self.rows.bound(self, k, theta)

    def own_sites(self, k: int, theta: Theta) -> Site:
        """The sites at theta of the rows that a block holds."""
        block, known = self.blocks[k], self._sites.get(k)
        if known is None:
            known = block.bind(theta)
            if not any(p.depends for p in block.parameters.values()):
                self._sites[k] = known
        return known

    @cached_property
    def _still(self) -> dict[int, Predictor]:
        return {}

    @cached_property
    def _columns(self) -> dict[int, dict[str, Operator | PlacedEntries]]:
        """Operators or their places that are the same at every theta, by site block, then by
        latent."""
        return {}

    def placed(self, k: int, latent: str) -> PlacedEntries | None:
        """Where the entries of a site block's operator stand, if it was asked for and that is
        known."""
        found = self._columns.get(k, {}).get(latent)
        return found if isinstance(found, PlacedEntries) else None

    @cached_property
    def _sites(self) -> dict[int, Site]:
        return {}

    @property
    def declared(self) -> CanonicalModel:
        """The model with every latent, of some of the rows where blocks hold no more: what says how
        hyperparameters enter."""
        return self.rows.declared(self)

    @property
    def observations(self) -> int:
        """How many data are observed."""
        each = [(b, self.rows.held(k)) for k, b in enumerate(self.blocks)]
        own = sum(len(b.data.rows) for b, h in each if h is None and not b.family.spec.potential)
        return own + sum(h.rows for _, h in each if h is not None)

    def given(self, block: SiteBlock) -> tuple[IntArray, Array]:
        """The flat positions and values of the entries of a datum that were given: what is observed
        of it, but for entries that are known by their ends alone. No entries where y is not at
        hand."""
        data, gone = block.data, self.grounded.missing.get(block.name)
        if data.y is None:
            return data.rows[:0], np.zeros(0)
        if gone is None or gone.size != math.prod(block.data_shape):  # counts of classes
            return data.rows, data.y
        there = ~gone.reshape(-1)[data.rows]
        return data.rows[there], data.y[there]

    @property
    def total_weight(self) -> float:
        """The sum of the weights of all sites: their number, where they have none."""
        each = [(b, self.rows.held(k)) for k, b in enumerate(self.blocks)]
        return sum(float(b.row_weights.sum()) if h is None else h.weight for b, h in each)

    @property
    def size(self) -> int:
        """How many latents, all blocks together."""
        return sum(b.size for b in self.latents)

    def latent(self, name: str) -> LatentBlock:
        """The block of one latent."""
        return next(b for b in self.latents if b.name == name)

    @property
    def latent_names(self) -> tuple[str, ...]:
        """The latents as the user declared them."""
        return tuple(dict.fromkeys(owner(b.name) for b in self.reported))

    @property
    def shown_names(self) -> tuple[str, ...]:
        """The names of the reported blocks as the user knows them."""
        return tuple(dict.fromkeys(self.shown(b.name) for b in self.reported))

    def shown(self, block: str) -> str:
        """The name by which the user knows a block: coefficients of a basis are shown as the latent
        that is made of them."""
        return owner(block) if owner(block) in self.smooths else block

    @property
    def reported(self) -> tuple[LatentBlock, ...]:
        """The blocks of the latents that the model declares: none where it has hypers alone."""
        return tuple(b for b in self.latents if b.name != NOTHING)

    def _constraints(self, theta: Theta) -> Constraints | None:
        if not self.equations:
            return None
        try:
            predictors = [self.predictor(e.form, e.dims, theta) for e in self.equations]
        except TooLarge as large:
            raise large.named("what `constrain` holds fixed") from None
        values = [
            expand(e.value.evaluate(theta), e.dims, {**self.sizes, **e.form.sizes}).reshape(-1)
            - p.offset
            for e, p in zip(self.equations, predictors, strict=True)
        ]
        columns: dict[str, Operator] = {}
        latents, count = sum(b.size for b in self.latents), sum(len(v) for v in values)
        check(
            "what `constrain` holds fixed",
            f"{count:,} equations of {latents:,} latents",
            8.0 * latents * count,
            help="fewer equations",
        )
        for block in self.latents:
            if any(block.name in p.columns for p in predictors):
                columns[block.name] = Dense(
                    np.vstack(
                        [
                            p.columns[block.name].dense()
                            if block.name in p.columns
                            else np.zeros((p.rows, block.size))
                            for p in predictors
                        ]
                    )
                )
        return Constraints(columns, np.concatenate(values))


def check_finite(block: SiteBlock, predictor: Predictor) -> None:
    """Raise E303 for a coefficient or an offset that is not finite: x / 0, log(0), an overflow."""
    bad = ~np.isfinite(predictor.offset)
    for operator in predictor.columns.values():
        if isinstance(operator, Dense):
            bad |= ~np.isfinite(operator.array).all(axis=1)
        elif not operator.in_memory:
            bad |= ~np.isfinite(operator.matvec(np.ones(operator.shape[1])))
        elif not isinstance(operator, Identity):
            stored = operator.sparse()
            wrong = np.flatnonzero(~np.isfinite(stored.data))
            bad[np.searchsorted(stored.indptr, wrong, side="right") - 1] = True
    if bad.any():
        bad = np.asarray(bad.reshape(len(block.rows), -1).any(axis=1))
        first = block.rows[np.flatnonzero(bad)[0]]
        rows = f"{int(bad.sum())} row{'s' if bad.sum() > 1 else ''}"
        raise DataError.of(
            "E303",
            f"the predictor of `{block.name}` is not finite in {rows}",
            block.span,
            f"first at {block.place(int(first))}",
            help="`lgm check MODEL DATA` shows what was read: look for a missing covariate, a "
            "division by zero, the log of 0, or numbers too large",
        )


def some_rows(predictor: Predictor, rows: IntArray) -> Predictor:
    """Some rows of a predictor."""
    columns = {name: take_rows(op, rows) for name, op in predictor.columns.items()}
    return Predictor(columns, predictor.offset[rows])


def take_rows(operator: Operator, rows: IntArray | None) -> Operator:
    """Some rows of an operator."""
    if rows is None:
        return operator
    if isinstance(operator, Dense):
        return Dense(operator.array[rows])
    if operator.in_memory:
        return Sparse(operator.sparse()[rows])
    return product(Select(rows, operator.shape[0]), operator)


# ---- layout ------------------------------------------------------------------------------------
# The way back: names, indices and labels of everything a result is asked for.


@dataclass(frozen=True, eq=False)
class Layout:
    """Labels of every index, and where each latent starts in z."""

    labels: Mapping[str, AnyArray]
    starts: Mapping[str, int]
    dims: Mapping[str, tuple[str, ...]]

    def shape(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        """Sizes of the named axes."""
        return tuple(len(self.labels[d]) for d in dims)

    def coords(self, dims: tuple[str, ...]) -> dict[str, AnyArray]:
        """Labels of each axis; a repeated index's second axis is `term_2`."""
        return dict(zip(distinct(dims), (self.labels[d] for d in dims), strict=True))

    def latent(self, name: str) -> slice:
        """The positions of a latent in z."""
        start = self.starts[name]
        return slice(start, start + int(np.prod(self.shape(self.dims[name]), dtype=np.int64)))

    def entry(self, name: str, dims: tuple[str, ...], place: int) -> str:
        """One entry of something over `dims` by its labels: `w[dose, 3]`; `w` of a scalar."""
        if not dims:
            return name
        indices = np.unravel_index(place, self.shape(dims))
        if dims[-1] == name:  # of a basis
            member = self.entry(owner(name), dims[:-1], place // len(self.labels[name]))
            return f"coefficient {self.labels[name][indices[-1]]} of {member}"
        labels = [str(self.labels[d][i]) for d, i in zip(dims, indices, strict=True)]
        return f"{name}[{', '.join(labels)}]"
