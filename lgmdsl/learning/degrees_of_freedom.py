"""Degrees of freedom of coefficients of a Gaussian model whose variances are maximised.

Coefficients are the latents with a `flat` prior, integrated out, so that the maximum is that of the
restricted likelihood (REML), with C = Cov(beta) = (X'V^-1 X)^-1 at given variances. For c'beta

    nu = 2 (c'Cc)^2 / (g'A^-1 g)

with g the gradient of c'Cc in the parameters of V and A their information (Satterthwaite 1946;
Giesbrecht and Burns 1985): minus the Hessian of the log posterior at its maximum, where nu is the
same in whatever coordinates. Kenward and Roger (1997) take the expected information in the variance
components s_i, in which V = sum_i s_i G_i is linear, with the covariance

    C_A = C + 2 C [sum_ij W_ij (Q_ij - P_i C P_j)] C,   W = A^-1
    P_i = -X'V^-1 G_i V^-1 X,   Q_ij = X'V^-1 G_i V^-1 G_j V^-1 X
    A_ij = 1/2 tr(V^-1 G_i V^-1 G_j) - tr(C Q_ij) + 1/2 tr(C P_i C P_j)

(their equations 1 to 5, the second derivatives of V being 0). For a single c'beta their scale is 1
and their degrees of freedom are nu with this A, from C, not C_A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import scipy.linalg as sla

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering.hypers import HyperBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.scales import scales
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.stacked import StackedPredictors, flatten
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.errors import MethodError, listed
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.profile import EDGE_CURVATURE
from lgmdsl.memory import check
from lgmdsl.remedies import either

SATTERTHWAITE, KENWARD_ROGER = "satterthwaite", "kenward-roger"
WAYS = (SATTERTHWAITE, KENWARD_ROGER)
# Sds of a coordinate to both sides of the maximum over which gradients and covariances are taken:
# differences are off by a few 1e-6 of themselves.
STEP = 2e-3
# Of V: by how much it may depart from being linear, and the least by which a component moves it.
LINEAR, MOVES = 1e-7, 1e-3
# Of X or of the mean: rounding; so are eigenvalues of correlations, and of information in units of
# its components, that are less than SINGULAR.
SAME, SINGULAR = 1e-12, 1e-10
MATRICES = 4  # N x N, held besides one for each variance component


@dataclass(frozen=True, eq=False)
class CoefficientCovariance:
    """`where`: (p,) the coefficients among all latents; `covariance`: (p, p) what standard errors
    are of, and `plain` C, from which degrees of freedom are; `slopes`: (d, p, p) of C in the
    parameters of V; `spread`: (d, d) the inverse of their information."""

    where: IntArray
    covariance: Array
    plain: Array
    slopes: Array
    spread: Array

    def of(self, contrasts: Array) -> tuple[Array, Array]:
        """Standard errors and degrees of freedom (m,) of c'beta, for `contrasts` (m, p); infinite
        where no parameter of V that is estimated enters."""
        variance = np.einsum("mi,ij,mj->m", contrasts, self.covariance, contrasts)
        plain = np.einsum("mi,ij,mj->m", contrasts, self.plain, contrasts)
        slopes = np.einsum("mi,dij,mj->md", contrasts, self.slopes, contrasts)
        below = np.einsum("md,de,me->m", slopes, self.spread, slopes)
        with np.errstate(divide="ignore", invalid="ignore"):
            df = np.where(below > 0.0, 2.0 * plain**2 / below, np.inf)
        return np.sqrt(np.maximum(variance, 0.0)), np.asarray(df)


def coefficient_covariance(
    objective: Objective, top: Evaluation, way: str
) -> CoefficientCovariance:
    """The coefficients' covariance and what their degrees of freedom follow from, at the fit `top`
    at the maximum; `way`: one of WAYS.

    Raises MethodError E501 where responses are not Gaussian, no latent has a flat prior,
    hyperparameters move the mean (coefficients among them: maximum likelihood), the curvature is
    not known, and for Kenward-Roger where V is not linear in variance components; E505 where the
    matrices of Kenward-Roger do not fit.
    """
    if not top.problem.gaussian:
        names = listed([f"`{b.name}`" for b in objective.planned.canonical.blocks])
        raise _refused(
            f"they are of Gaussian responses, and {names} is not",
            "leave `df` out: intervals are those of the posterior; or profile coefficients that "
            f"are hypers: {either('lgm summary --profile', 'fit.profile()')}",
        )
    coefficients = _Coefficients.of(top.problem.engine.linear)
    if not len(coefficients.where):
        raise _refused(
            "no latent of the model has a flat prior",
            "declare the coefficients so: latent b ~ flat",
        )
    coefficients.check(objective, top)
    return (_kenward_roger if way == KENWARD_ROGER else _satterthwaite)(
        objective, top, coefficients
    )


def _refused(reason: str, help: str) -> MethodError:
    message = "degrees of freedom of coefficients cannot be had"
    return MethodError.of("E501", message, details=(reason,), help=help)


@dataclass(frozen=True, eq=False)
class _Coefficients:
    """The latents with a flat prior: their places (p,) and blocks, their columns X (P, p), and the
    mean (P,) that all else gives the predictors."""

    where: IntArray
    names: tuple[str, ...]
    columns: Array
    mean: Array

    @classmethod
    def of(cls, linear: LinearGaussian) -> _Coefficients:
        """The coefficients of a model at given hyperparameters."""
        blocks = [BlockPrior(b, linear.starts[b.name]) for b in linear.blocks]
        stacked = StackedPredictors(linear)
        flat = [b for b in blocks if b.flat]
        none, empty = np.zeros(0, dtype=np.int64), np.zeros((stacked.rows, 0))
        where = np.concatenate([none, *(np.arange(b.where.start, b.where.stop) for b in flat)])
        columns = np.hstack([empty, *(stacked.block_dense(b.name) for b in flat)])
        means = np.concatenate([np.zeros(0), *(b.mean for b in blocks)])
        mean = stacked.offset + stacked.lifted(means)
        return cls(where, tuple(b.name for b in flat), columns, mean)

    def check(self, objective: Objective, top: Evaluation) -> None:
        """Raise MethodError E501 where hyperparameters move X or the mean: of correlated residuals
        those of a row by itself, which is written as one given others."""
        coordinates, canonical = objective.coordinates, objective.planned.canonical
        if any(b.residual is not None for b in canonical.blocks):
            blocks = (
                b if b.residual is None else replace(b, form=b.residual.mean)
                for b in canonical.blocks
            )
            alone = replace(canonical, blocks=tuple(blocks))
            at = alone.linear(coordinates.unpack(top.x))
            _Coefficients.of(at)._unmoved(alone, objective, top)
        else:
            self._unmoved(canonical, objective, top)

    def _unmoved(self, canonical: CanonicalModel, objective: Objective, top: Evaluation) -> None:
        size = SAME * max(1.0, float(np.abs(self.mean).max(initial=0.0)))
        coordinates = objective.coordinates
        for name, step in zip(coordinates.names, np.diag(objective.units(top.x)), strict=True):
            other = _Coefficients.of(canonical.linear(coordinates.unpack(top.x + STEP * step)))
            moved = np.abs(other.mean - self.mean).max(initial=0.0) > size
            if moved or not np.allclose(other.columns, self.columns, rtol=SAME, atol=0.0):
                raise _refused(
                    f"hyper `{name}` moves the mean: this is maximum likelihood, and they are of "
                    "restricted likelihood",
                    "declare coefficients as latents, which are integrated out: latent b ~ flat",
                )


def _covariance(fit: Evaluation, where: IntArray) -> Array:
    """(p, p) of the coefficients, given the hyperparameters."""
    q = fit.posterior.conditioned
    unit = np.zeros((q.latent_mean.size, len(where)))
    unit[where, np.arange(len(where))] = 1.0
    out = np.asarray(q.solve(unit))[where]
    return 0.5 * (out + out.T)


def _satterthwaite(
    objective: Objective, top: Evaluation, coefficients: _Coefficients
) -> CoefficientCovariance:
    """By central differences of the exact gradient and of C, two fits for each coordinate."""
    where, names = coefficients.where, objective.coordinates.names
    units, size = objective.units(top.x), len(top.x)
    hessian, slopes = np.zeros((size, size)), np.zeros((size, len(where), len(where)))
    for pilot in (True, False):  # the first says how long the sds are
        curvature = np.abs(np.diag(hessian))
        sds = units if pilot else np.where(curvature > 0.0, curvature, 1.0) ** -0.5
        steps = STEP * np.minimum(sds, units)
        for j, step in enumerate(steps):
            move = step * (np.arange(size) == j)
            ends = [objective.at(top.x + side * move, top.posterior) for side in (1.0, -1.0)]
            above, below = ends
            if above is None or below is None:
                raise _refused(
                    f"there is no fit next to the maximum, where hyper `{names[j]}` is another",
                    "look at the warnings of the fit",
                )
            hessian[j] = (above.gradient - below.gradient) / (2.0 * step)
            slopes[j] = (_covariance(above, where) - _covariance(below, where)) / (2.0 * step)
    information = -0.5 * (hessian + hessian.T)
    inside = ~(objective.coordinates.scaled & (np.diag(information) < EDGE_CURVATURE))
    information = information[np.ix_(inside, inside)]
    try:
        root = sla.cho_factor(information)
    except np.linalg.LinAlgError:
        raise _refused(
            "the information about the variances is not positive definite at the maximum",
            "look at the warnings of the fit",
        ) from None
    spread = sla.cho_solve(root, np.eye(len(information)))
    plain = _covariance(top, where)
    return CoefficientCovariance(where, plain, plain, slopes[inside], spread)


# ---- Kenward and Roger ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Component:
    """One variance component: the hyperparameters with so much added to it."""

    name: str
    size: float
    moved: Callable[[float], Theta]


def _kenward_roger(
    objective: Objective, top: Evaluation, coefficients: _Coefficients
) -> CoefficientCovariance:
    """With dense V, (N, N), and its derivatives."""
    working = _Working(objective, top)
    components = list(working.components())
    rows = coefficients.columns.shape[0]
    check(
        "the covariance of the responses, for Kenward-Roger",
        f"{rows:,} rows and {len(components)} variance components",
        8.0 * rows**2 * (MATRICES + len(components)),
        help=f'take df="{SATTERTHWAITE}"',
    )
    v, parts = working.covariance(top.theta), working.parts(components)
    root = sla.cho_factor(v, lower=True)
    basis = working.basis(coefficients)
    x = coefficients.columns @ basis
    inverse_x = sla.cho_solve(root, x)  # V^-1 X
    inner: Array = np.asarray(np.linalg.inv(x.T @ inverse_x))  # C, in the basis
    turned = [g @ inverse_x for g in parts]  # G_i V^-1 X
    p = [-inverse_x.T @ t for t in turned]
    solved = [sla.cho_solve(root, t) for t in turned]
    inverse_g = [sla.cho_solve(root, g) for g in parts]
    size = len(parts)
    information, q = np.zeros((size, size)), {}
    for i in range(size):
        for j in range(i + 1):
            q[i, j] = turned[i].T @ solved[j]
            expected = 0.5 * np.einsum("ab,ba->", inverse_g[i], inverse_g[j])
            expected -= np.einsum("ab,ba->", inner, q[i, j])
            expected += 0.5 * np.einsum("ab,ba->", inner @ p[i], inner @ p[j])
            information[i, j] = information[j, i] = expected
    unit = np.sqrt(np.where(np.diag(information) > 0.0, np.diag(information), 1.0))
    scaled = information / np.outer(unit, unit)  # components have units of their own
    inverse = np.linalg.pinv(scaled, rcond=SINGULAR, hermitian=True)
    spread: Array = np.asarray(inverse / np.outer(unit, unit))
    total = np.zeros_like(inner)
    for i in range(size):
        for j in range(size):
            qij = q[i, j] if j <= i else q[j, i].T
            total += spread[i, j] * (qij - p[i] @ inner @ p[j])
    adjusted = inner + inner @ (total + total.T) @ inner

    def whole(m: Array) -> Array:
        return np.asarray(basis @ m @ basis.T)

    slopes = np.array([whole(inner @ m @ inner) for m in p]).reshape(size, *2 * (len(basis),))
    return CoefficientCovariance(coefficients.where, whole(adjusted), whole(inner), slopes, spread)


class _Working:
    """V as a function of the hyperparameters, at those of a fit."""

    def __init__(self, objective: Objective, top: Evaluation) -> None:
        self.objective, self.top = objective, top
        self.canonical = objective.planned.canonical

    def covariance(self, theta: Theta) -> Array:
        """(N, N) of the responses, given the coefficients. Raises MethodError E501 for priors
        without a covariance and for responses of several predictors."""
        linear = self.canonical.linear(theta)
        stacked = StackedPredictors(linear)
        if any(p.event for p in linear.predictors):
            raise self._unfit("a response has several predictors")
        v = np.diag(1.0 / self._weights(theta))
        for block in linear.blocks:
            prior = BlockPrior(block, linear.starts[block.name])
            if prior.flat or block.name not in stacked.parts:
                continue
            if Shape.COVARIANCE not in block.shape and not prior.diagonal:
                raise self._unfit(f"the prior of `{block.name}` is intrinsic")
            if self._tied(block.name):
                raise self._unfit(f"`{block.name}` is constrained")
            z = stacked.block_dense(block.name)
            v += z @ prior.times(np.ascontiguousarray(z.T))
        return np.asarray(v)

    def components(self) -> Iterator[_Component]:
        """The variance components: h^2k of a scale h of Gaussians, whose sds are h^k; the entries
        of a covariance, along its own axes and between them, whatever units covariates have."""
        pinned = self.objective.pinned.keys()
        known = scales(self.canonical, pinned).exponents
        for block in self.objective.coordinates.blocks:
            value = np.asarray(self.top.theta[block.name])
            if block.name in known:
                yield from self._of_scale(block, value, 2.0 * known[block.name])
            elif block.type == "covariance":
                yield from self._of_covariance(block, value)
            else:
                raise self._unfit(f"hyper `{block.name}` is no sd and no covariance")

    def parts(self, components: list[_Component]) -> list[Array]:
        """G_i of each component. Raises MethodError E501 where V is not linear in them."""
        v = self.covariance(self.top.theta)
        out = []
        for component in components:
            size = component.size
            g = (self.covariance(component.moved(size)) - v) / size
            if size * np.trace(g) < MOVES * np.trace(v):  # at an edge: rounding
                size = float(np.trace(v) / np.trace(g))
                g = (self.covariance(component.moved(size)) - v) / size
            half = (self.covariance(component.moved(0.5 * size)) - v) / (0.5 * size)
            if np.abs(half - g).max() > LINEAR * np.abs(g).max():
                raise self._unfit(f"the covariance is not linear in `{component.name}`")
            out.append(g)
        return out

    def basis(self, coefficients: _Coefficients) -> Array:
        """(p, r) the directions of the coefficients that constraints leave."""
        linear = self.top.problem.engine.linear
        if linear.constraints is None:
            return np.eye(len(coefficients.where))
        tied, count = linear.constraints.columns, len(linear.constraints.values)
        rows = []
        for name in coefficients.names:
            place = linear.slices[name]
            none = np.zeros((count, place.stop - place.start))
            rows.append(tied[name].dense() if name in tied else none)
        return np.asarray(sla.null_space(np.hstack(rows)))

    def _tied(self, name: str) -> bool:
        constraints = self.top.problem.engine.linear.constraints
        return constraints is not None and name in constraints.columns

    def _of_scale(self, block: HyperBlock, value: Array, power: float) -> Iterator[_Component]:
        for place in np.ndindex(*value.shape):
            variance = float(value[place] ** power)

            def moved(more: float, place: tuple[int, ...] = place, old: float = variance) -> Theta:
                new = value.copy()
                new[place] = (old + more) ** (1.0 / power)
                return self._theta(block, new)

            yield _Component(block.name, variance, moved)

    def _of_covariance(self, block: HyperBlock, value: Array) -> Iterator[_Component]:
        k = value.shape[-1]
        for outer in np.ndindex(*value.shape[:-2]):
            sds = np.sqrt(np.diag(value[outer]))
            values, vectors = np.linalg.eigh(value[outer] / np.outer(sds, sds))
            axes = sds[:, None] * vectors * np.sqrt(np.maximum(values, SINGULAR))
            for i in range(k):
                for j in range(i + 1):
                    direction = axes[:, [i, j]].sum(axis=1)
                    matrix = np.outer(direction, direction)

                    def moved(
                        more: float, outer: tuple[int, ...] = outer, matrix: Array = matrix
                    ) -> Theta:
                        new = value.copy()
                        new[outer] += more * matrix
                        return self._theta(block, new)

                    yield _Component(block.name, 1.0, moved)

    def _theta(self, block: HyperBlock, value: Array) -> Theta:
        """All hyperparameters, with those that are computed from this one."""
        free = {b.name: self.top.theta[b.name] for b in self.objective.coordinates.blocks}
        return self.canonical.hypers.theta({**free, **self.objective.pinned, block.name: value})

    def _weights(self, theta: Theta) -> Array:
        """(N,) precisions of the responses given their predictors."""
        means = self.top.posterior.conditioned.mean
        pairs = zip(self.canonical.sites(theta), means, strict=True)
        return flatten(tuple(-cast(Pointwise, s).pointwise(m).curvature for s, m in pairs))

    def _unfit(self, reason: str) -> MethodError:
        return _refused(
            f"Kenward-Roger is for covariances that are sums of variance components, and {reason}",
            f'take df="{SATTERTHWAITE}"',
        )
