"""The joint posterior of the fitted latents and those that new data bring in.

New rows and levels extend the prior: their latents are jointly Gaussian with the fitted ones, and
the fitted sites, with their weights and shifts, condition both. Nothing is refitted. New members of
an ordered structure follow its conditional given the fitted ones, whose posterior is unchanged
(`extended_gaussian`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from lgmdsl.accuracy.density_ratio import DensityRatio
from lgmdsl.arrays import AnyArray, Array, IntArray, SparseMatrix
from lgmdsl.canonical.blocks.latents import LatentBlock, latent_blocks
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.grounding.ground import GroundedModel, IndexSet
from lgmdsl.canonical.lowering.lower import Lowering
from lgmdsl.canonical.model import CanonicalModel, some_rows
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor
from lgmdsl.contract.rows import diagonal
from lgmdsl.contract.site import Property, Site
from lgmdsl.contract.structure import Members
from lgmdsl.engines.choose import Terms, choose
from lgmdsl.errors import NumericalError
from lgmdsl.inference.plan import within
from lgmdsl.inference.proper import labels_of
from lgmdsl.numerics.expectations.normal_product import product_rule, sampled_rule
from lgmdsl.operators.base import Operator
from lgmdsl.operators.compose import hstack
from lgmdsl.operators.explicit import Sparse
from lgmdsl.posterior.extended_gaussian import Extended, Gaussian
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.posterior.new_axes import axes_of, counterpart, pieces_of
from lgmdsl.structures.catalogue import members_of

NEAREST = 64  # fitted sites that a row is compared with
# Nodes of the rules that average sites of so many predictors given the value of a row; points of
# the rule for more of them; sites of a smaller correlation with a row do not change its density.
NODES, SAMPLED, TIED = {1: 5, 2: 3, 3: 3}, 64, 1e-3


class Fitted(NamedTuple):
    """The blocks of a fit's sites: numbers of those that are not Gaussian, or of no known family;
    their predictors in a frame's z; the sites, None where responses are not held, as by a result
    file, or sites stand for what shards hold."""

    curved: Sequence[int]
    predictors: Sequence[Predictor]
    sites: Sequence[Site] | None


@dataclass(frozen=True, eq=False)
class Frame:
    """A conditioned Gaussian over z, and the positions in it of the latents of a canonical form.

    `places[name]` are positions in the block of z called `name`, or None for all of them in order.
    `pieces[name]` are the blocks of z that these positions run through, one after the other, where
    there are several or where they have other names: those of new members, by their structures'
    conditionals given the fitted ones, and those of places that members share. `fitted`: where
    the latents of the fit are in z, in order. `fit`: what was fitted, where it is known.
    """

    conditioned: Gaussian
    starts: Mapping[str, int]
    sizes: Mapping[str, int]
    places: Mapping[str, IntArray | None]
    pieces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fitted: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    fit: Callable[[], Fitted] | None = None

    def embed(self, predictor: Predictor) -> Predictor:
        """The predictor, its columns moved to the latents of the conditioned Gaussian."""
        columns: dict[str, Operator] = {}
        for name, operator in predictor.columns.items():
            pieces = self.pieces.get(name, (name,))
            whole = _relocated(operator, self.places[name], sum(self.sizes[p] for p in pieces))
            if len(pieces) == 1:
                columns[pieces[0]] = whole
            else:
                columns |= self._divided(whole, pieces)
        return replace(predictor, columns=columns)

    @cached_property
    def approximate(self) -> bool:
        """Whether the Gaussian is an approximation: some fitted site is not Gaussian in its
        predictor, or is not known."""
        return self.fit is None or bool(self.fit().curved)

    def tied(self, predictor: Predictor) -> Array:
        """The largest correlation of each row of an embedded predictor with the predictor of a
        fitted site that is not Gaussian: how far the row is approximate. Of the sites that share
        latents with a row, the NEAREST ones; 1 where the sites are not known."""
        if self.fit is None:
            return np.ones(predictor.rows)
        on_base, fit = self._on_base(predictor), self.fit()
        variance = self.conditioned.latent_variance
        theirs = [self._matrix(fit.predictors[k]) for k in fit.curved]
        every = sp.csr_array(sp.vstack(theirs)) if theirs else sp.csr_array((0, len(variance)))
        reach, on = abs(every), self._matrix(on_base)
        out = np.zeros(predictor.rows)
        for i in range(predictor.rows):
            shared = reach @ (np.abs(on[[i]].toarray()[0]) * variance)
            near = np.argsort(-shared)[:NEAREST]
            both = self._predictor(sp.vstack([on[[i]], every[near[shared[near] > 0.0]]]))
            covariance = self.conditioned.project(both, full=True)[1]
            whole = self.conditioned.project(some_rows(predictor, np.array([i])))[1][0]
            with np.errstate(all="ignore"):
                each = np.abs(covariance[0, 1:]) / np.sqrt(whole * np.diag(covariance)[1:])
            out[i] = min(np.nan_to_num(each).max(initial=0.0), 1.0)
        return out

    def log_ratios(self, predictor: Predictor, nodes: Array) -> Array | None:
        """log p(s) / q(s) of each row s of an embedded predictor at its mean + nodes x sd, up to a
        constant, (T, rows): the sites less their Gaussians, averaged over q(z | s) one by one, of
        each row the NEAREST of them. None where the sites are not known, or q is confined."""
        base = self.conditioned.base if isinstance(self.conditioned, Extended) else self.conditioned
        fit = None if self.fit is None else self.fit()
        if not isinstance(base, Conditioned) or base.confinement is not None or fit is None:
            return None
        if fit.sites is None or base.errors is not None:
            return None
        ratio, size = DensityRatio(fit.sites, base), len(base.latent_mean)
        variance = np.maximum(self.conditioned.project(predictor)[1], 0.0)
        on = self._matrix(self._on_base(predictor)).toarray()[:, :size]
        shared = np.asarray(base.solve(np.ascontiguousarray(on.T))).reshape(size, -1)
        out = np.zeros((len(nodes), predictor.rows))
        for k in fit.curved:
            moves = fit.predictors[k].times(shared, self.slices)
            for i in np.flatnonzero(variance > 0.0):
                along = moves[:, i].reshape(base.mean[k].shape) / np.sqrt(variance[i])
                out[:, i] += _expected(ratio, k, along, base.variance[k], nodes)
        return out

    def _on_base(self, predictor: Predictor) -> Predictor:
        """What is expected of an embedded predictor given the Gaussian without new members."""
        if isinstance(self.conditioned, Extended):
            return self.conditioned.on_base(predictor)
        return predictor

    def _matrix(self, predictor: Predictor) -> SparseMatrix:
        """The columns of a predictor side by side, as those of z."""
        names = sorted(self.sizes, key=self.starts.__getitem__)
        columns = [predictor.columns.get(name) for name in names]
        widths = [self.sizes[name] for name in names]
        return sp.csr_array(hstack(columns, widths, predictor.rows).sparse())

    def _predictor(self, matrix: SparseMatrix) -> Predictor:
        whole = sp.csc_array(matrix)
        columns = {
            n: Sparse(sp.csr_array(whole[:, self.starts[n] : self.starts[n] + size]))
            for n, size in self.sizes.items()
        }
        return Predictor(columns, np.zeros(whole.shape[0]))

    def _divided(self, operator: Operator, pieces: tuple[str, ...]) -> dict[str, Operator]:
        matrix, start = sp.csc_array(operator.sparse()), 0
        out: dict[str, Operator] = {}
        for piece in pieces:
            part = matrix[:, start : start + self.sizes[piece]]
            start += self.sizes[piece]
            if part.nnz:
                out[piece] = Sparse(sp.csr_array(part))
        return out or {pieces[0]: Sparse(sp.csr_array((operator.shape[0], self.sizes[pieces[0]])))}

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each block is among all latents."""
        return {
            name: slice(start, start + self.sizes[name])
            for name, start in self.starts.items()
            if name in self.sizes
        }


def _expected(
    ratio: DensityRatio, block: int, along: Array, variance: Array, nodes: Array
) -> Array:
    """Sum over a block's sites of E[log t - log t~] where their predictors have moved by a node
    times `along`, (N,) or (N, K), the covariance that they share with what moves them: (T,)."""
    if along.ndim == 1:
        left = np.maximum(variance - along**2, 0.0)
        reach, root = along**2 / np.maximum(variance, 1e-300), np.sqrt(left)[:, None, None]
        lines = along[:, None]
    else:
        left = variance - along[:, :, None] * along[:, None, :]
        values, vectors = np.linalg.eigh(left)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        reach = np.max(along**2 / np.maximum(diagonal(variance), 1e-300), axis=1)
        lines = along
    near = np.argsort(-reach, kind="stable")[:NEAREST]
    near = near[reach[near] > TIED**2]
    if not near.size:
        return np.zeros(len(nodes))
    width = lines.shape[1]
    rule = product_rule(NODES[width], width) if width in NODES else sampled_rule(SAMPLED, width)
    away = np.einsum("nij,pj->pni", root[near], rule.points)
    moves = nodes[:, None, None, None] * lines[near] + away  # (T, points, N, K)
    moves = moves.reshape(-1, near.size, *along.shape[1:])
    chosen = [near if k == block else near[:0] for k in range(len(ratio.sites))]
    terms = ratio.part(chosen).term(block, moves).reshape(len(nodes), len(rule.weight), -1)
    return np.asarray(np.einsum("tpn,p->t", terms, rule.weight))


def fitted_sites(canonical: CanonicalModel, theta: Theta) -> Fitted:
    """What was fitted."""
    predictors, blocks = canonical.linear(theta).predictors, canonical.blocks
    if len(predictors) != len(blocks):
        return Fitted(range(len(predictors)), predictors, None)
    curved = [k for k, b in enumerate(blocks) if Property.GAUSSIAN not in b.site.spec.properties]
    lacking = not canonical.rows.kept or any(
        b.y is None and not b.site.spec.potential for b in blocks
    )
    return Fitted(curved, predictors, None if lacking else canonical.sites(theta))


def fitted_frame(
    canonical: CanonicalModel, conditioned: Gaussian, theta: Theta | None = None
) -> Frame:
    """The frame of the fit itself."""
    sizes = {b.name: b.size for b in canonical.latents}
    fit = None if theta is None else partial(fitted_sites, canonical, theta)
    places = dict.fromkeys(sizes)
    return Frame(conditioned, canonical.layout.starts, sizes, places, fit=fit)


def extended_frame(
    fitted: CanonicalModel, new: CanonicalModel, point: HyperPoint, seed: int, budget: int | None
) -> Frame:
    """The frame of new data: the fitted sites condition the old and the new latents jointly, by the
    engine that the fit's memory `budget` allows.

    Raises NumericalError E602 where the joint posterior does not factorise, DataError E302 for new
    members that have no place, or no proper prior.
    """
    changed = {*new.grounded.replaced, *new.grounded.new_levels}
    union = Lowering(_union(fitted.grounded, new.grounded))
    built = {b.name: b for b in latent_blocks(union)}
    partners = {b.name: counterpart(new, b.name).name for b in fitted.latents}
    blocks = tuple(_joined(built[partners[b.name]], b, changed) for b in fitted.latents)
    sizes = {b.name: b.size for b in blocks}
    if all(b.sizes == fitted.latent(b.name).sizes for b in blocks):
        base, starts = point.condition(), dict(fitted.layout.starts)
    else:
        base, starts = _conditioned(fitted, new, blocks, point, seed, budget)
    known = _fitted_places(blocks, fitted, starts)
    axes = {b.name: axes_of(b, fitted, new, point.theta) for b in blocks}
    added = [
        p for b in blocks if axes[b.name].grown for p in pieces_of(b, axes[b.name], point.theta)
    ]
    places = {partners[b.name]: axes[b.name].places(b.sizes) for b in blocks}
    pieces = {
        partners[b.name]: (b.name, *(p.name for p in added if p.block == b.name)) for b in blocks
    }
    olds = {b.name: _within(b.sizes, fitted.latent(b.name).sizes) for b in blocks}

    def fit() -> Fitted:
        theirs = fitted_sites(fitted, point.theta)
        moved = [
            replace(
                p, columns={n: _relocated(op, olds[n], sizes[n]) for n, op in p.columns.items()}
            )
            for p in theirs.predictors
        ]
        return theirs._replace(predictors=moved)

    if not added:
        return Frame(base, starts, sizes, places, pieces, known, fit)
    whole = Extended(base, dict(starts), dict(sizes), tuple(added))
    start = sum(sizes.values())
    for piece in added:
        starts[piece.name], sizes[piece.name] = start, piece.size
        start += piece.size
    return Frame(whole, starts, sizes, places, pieces, known, fit)


def _fitted_places(
    blocks: tuple[LatentBlock, ...], fitted: CanonicalModel, starts: Mapping[str, int]
) -> IntArray:
    """Where the latents of the fit are among joint blocks."""
    out = [np.zeros(0, dtype=np.int64)]
    for b in blocks:
        known = fitted.latent(b.name)
        within = _within(b.sizes, known.sizes)
        out.append(starts[b.name] + (np.arange(known.size) if within is None else within))
    return np.concatenate(out)


def _joined(union: LatentBlock, fitted: LatentBlock, changed: set[str]) -> LatentBlock:
    """A fitted block over old and new members along the axes whose structures are, over the old
    ones, what they were; over the fitted members along the others."""
    factors = []
    for built, known in zip(union.factors, fitted.factors, strict=True):
        joins = members_of(known.name) is Members.JOINED and bool(changed & set(built.dims))
        factors.append(built if joins else known)
    sizes = tuple(n for f in factors for n in f.sizes)
    return replace(fitted, sizes=sizes, factors=tuple(factors))


@np.errstate(all="ignore")  # what overflows fails to factorise
def _conditioned(
    fitted: CanonicalModel,
    new: CanonicalModel,
    blocks: tuple[LatentBlock, ...],
    point: HyperPoint,
    seed: int,
    budget: int | None,
) -> tuple[Conditioned, dict[str, int]]:
    """The blocks given the fitted sites, and where each begins."""
    linear = fitted.linear(point.theta)
    sizes = {b.name: b.size for b in blocks}
    olds = {b.name: _within(b.sizes, fitted.latent(b.name).sizes) for b in blocks}

    def placed(columns: Mapping[str, Operator]) -> dict[str, Operator]:
        return {name: _relocated(op, olds[name], sizes[name]) for name, op in columns.items()}

    joint = LinearGaussian(
        tuple(b.at(point.theta) for b in blocks),
        tuple(replace(p, columns=placed(p.columns)) for p in linear.predictors),
        None
        if linear.constraints is None
        else Constraints(placed(linear.constraints.columns), linear.constraints.values),
    )
    terms = None if budget is None else Terms(budget)
    engine, why = choose(joint, terms, seed, sums=not fitted.rows.kept)
    confinement = point.condition().confinement
    if engine is not None and confinement is not None:
        engine = within(confinement, engine, seed)
    outcome = Failed(why) if engine is None else engine.condition(point.weight, point.shift)
    if isinstance(outcome, Failed):
        layout = replace(fitted.layout, labels=_all_labels(fitted.grounded, new.grounded))
        reason = outcome.worded(labels_of(replace(fitted, layout=layout)))
        raise NumericalError.of("E602", f"no prediction: {reason}")
    return outcome, dict(joint.starts)


def _all_labels(old: GroundedModel, new: GroundedModel) -> dict[str, AnyArray]:
    """The labels of the old members of each index set, then of the new ones."""
    out = {}
    for name, index in new.indices.items():
        known = old.indices[name].labels
        both = (known, index.labels) if name in new.replaced else (index.labels,)
        out[name] = np.concatenate([part.astype(object) for part in both])
    return out


def _union(old: GroundedModel, new: GroundedModel) -> GroundedModel:
    """Data of both: replaced index sets hold the old members, then the new ones."""
    indices: dict[str, IndexSet] = dict(new.indices)
    for name in new.replaced:
        count = old.indices[name].size + new.indices[name].size
        parts = (old.indices[name].places, new.indices[name].places)
        known = [p for p in parts if p is not None]
        indices[name] = IndexSet(
            name,
            np.arange(count),
            "the fit and the new data",
            spaced=False,
            placed=np.concatenate(known) if len(known) == len(parts) else None,
        )
    values = dict(new.values)
    for name, value in new.values.items():
        axes = [k for k, d in enumerate(new.dims(name)) if d in new.replaced]
        if not axes or name not in old.values:
            continue
        if len(axes) > 1:
            values.pop(name)  # no cross values: a structure that needs them cannot be extended
        elif isinstance(value, np.ndarray):
            values[name] = np.concatenate([old.values[name], value], axis=axes[0])
        else:
            stack = sp.vstack if axes[0] == 0 else sp.hstack
            pair = [sp.csr_array(old.values[name]), value]
            values[name] = sp.csr_array(stack(pair, format="csr"))
    return replace(new, indices=indices, values=values)


def _within(whole: tuple[int, ...], part: tuple[int, ...]) -> IntArray | None:
    """Positions of the first members along each axis; None where they are all of them."""
    if whole == part:
        return None
    indices = np.indices(part).reshape(len(part), -1)
    return np.asarray(np.ravel_multi_index(tuple(indices), whole), dtype=np.int64)


def _relocated(operator: Operator, places: IntArray | None, size: int) -> Operator:
    if places is None:
        return operator
    matrix = operator.sparse().tocoo()
    shape = (operator.shape[0], size)
    return Sparse(sp.csr_array((matrix.data, (matrix.row, places[matrix.col])), shape=shape))
