"""The groups of a shard, eliminated: their latents u at the mode given the shared ones, beta.

    h(beta) = max_u sum_i l_i(z_i'u + x_i'beta + c_i) - 1/2 (u - mu)'Q(u - mu)
    e(beta) = -1/2 log|I + K_u H|                          H = Z'WZ at that mode, W = -l''

A shard is one site of the shared latents: value h, slope h' = X'l', and curvature of the mode

    -h'' = X'WX - C'D^-1 C,   C = Z'WX, D = Q + H,

and h + e, with the prior of beta and -1/2 log|S|, S = Q_beta - sum h'', is Laplace's evidence of
the whole model: log|A| of all latents is log|S| + sum log|D|. Along the path of the modes a row's
predictor moves by q_i = x_i - C'D^-1 z_i, so that with v_i = z_i'D^-1 z_i + q_i'V q_i, V the
covariance of beta, the slope of the log determinants is -1/2 sum l''' v q.

Where groups with a wide prior absorb a direction of beta, X'WX and C'D^-1 C agree in their digits.
With M = -D^-1 C and J = X + ZM, the move of the rows' latents, the same are

    -h'' = J'WJ + M'QM,   h' = J'l' - M'Q(u - mu)

(from DM = -C and Z'l' = Q(u - mu)), of which J is next to nothing there and M'QM has all digits.

What rows know of the hyperparameters is in the sums of their places, L_g(z; theta): parameters of
sites, and coefficients a_ik = x_ik f_gk(theta), of u as of beta. The mode is stationary, and moves
by s for the log determinants' sake, so that the slope of Laplace's evidence is, at fixed z, s and
v, the covariance of z,

    sum_g d(L_g + 1/2 tr v_g L_g'' + s_g'L_g')/dtheta

next to what priors give (`Eliminated.slopes`). With L(z) = M(f z), and t_i = l_i''',

    d/df_k = M'_k (z_k + s_k) + sum_j v_kj f_j M''_kj
             + z_k ((M'' f s)_k + 1/2 sum_i t_i (a_i'v a_i) x_ik)

are the slopes of the value, of the log determinants through the coefficients and of the log
determinants through W (all derived; checked against differences in `tests/shards`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from lgmdsl.arrays import Array, IntArray, Matrix
from lgmdsl.canonical.expressions.coefficient import Gradient, Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.reverse import pull
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend
from lgmdsl.contract.engine import Adjoints, Conditioned, Engine, Failed
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Pointwise, PointwiseAnswer
from lgmdsl.contract.site import Site, SiteSpec
from lgmdsl.contract.status import Status
from lgmdsl.contract.structure import Shape
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.shards.split_places import SplitPlaces
from lgmdsl.streams.collective import Places
from lgmdsl.streams.multipliers import Multipliers

# The mode is found until a Newton step moves a group by no more than SMALL sds (root mean square),
# or until steps of up to ROUGH do not change the evidence any more.
SMALL, ROUGH, ROUNDING = 1e-10, 1e-7, 1e-13
STEPS = 200
# A mode from which one more step leads farther than this, in sds, was not reached: slopes of h
# there are off by as much.
REACHED = 1e-5
# Of X'WX in some direction: where the groups leave less of it, a difference loses its digits. Up to
# MANY shared latents directions are all combinations of them.
ABSORBED, MANY = 1e-6, 64


@dataclass(frozen=True, eq=False)
class Given(Site, Pointwise):
    """The sites of the places as functions of the groups' latents, (G, r), at given shared ones.
    `at`, (G, K): these in their places; `answered`: where the rows were last asked, and what they
    said."""

    spec: SiteSpec  # type: ignore[misc]
    sums: Places
    own: IntArray
    at: Array
    answered: list[Mode] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.sums)

    def whole(self, s: Array) -> Array:
        """(G, K): all latents of the places."""
        z = self.at.copy()
        z[:, self.own] = s
        return z

    def log_density(self, s: Array) -> Array:
        return self.sums.log_density(self.whole(s))

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """No third derivatives."""
        z = self.whole(s)
        a = self.sums.pointwise(z)
        passes = 1 + sum(m.passes for m in self.answered)
        self.answered[:] = [Mode(z, a, passes)]
        own = self.own
        bend = np.ascontiguousarray(a.curvature[:, own[:, None], own])
        slope = np.ascontiguousarray(a.slope[:, own])
        return PointwiseAnswer(a.value, slope, bend, np.full_like(slope, np.nan))


@dataclass(frozen=True, eq=False)
class Mode:
    """z, (G, K), all latents of the places with those of the groups at their mode; the places'
    answer there; `passes` over the rows that it took to find."""

    z: Array
    answer: PointwiseAnswer
    passes: int

    @property
    def weight(self) -> Array:
        """(G, K, K)."""
        return -self.answer.curvature


class NoMode(Exception):
    """The groups' latents have no mode that could be found at these shared latents."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of a shard at theta: `canonical` holds their latents alone and the block of the
    rows; `places` are its sites, `engine` conditions the groups' latents; `multipliers`: of the
    rows' coefficients, where these have hypers in them."""

    canonical: CanonicalModel
    theta: Theta
    places: Places
    split: SplitPlaces
    engine: Engine
    backend: Backend[Any]
    multipliers: Multipliers | None = None

    def eliminated(self, beta: Array, near: Mode | None = None) -> Eliminated:
        """The groups at beta, (p,), their mode found from that at another theta or beta. Raises
        NoMode."""
        split = self.split
        at = split.at(beta)
        site = Given(self.places.spec, self.places, split.own, at)
        problem = Problem((site,), (site,), self.engine)
        root = math.sqrt(max(1, self.engine.linear.size))
        # The driver stops at once where a residual is 1e-3 of its tolerance.
        exact = Tolerances(evidence=ROUNDING, mean=min(ROUGH, 1e3 * SMALL) * root)
        found = None
        if near is not None:
            warm = self._expected(near, at)
            if warm is not None:
                found = run(self.backend, problem, exact, STEPS, warm)
        if found is None or found.posterior is None or found.status is Status.diverged:
            found = run(self.backend, problem, exact, STEPS)
        if found.posterior is None or found.status is Status.diverged:
            raise NoMode(found.reason or found.status.value)
        mode, reached = site.answered[0], found.posterior.conditioned
        own = split.own
        if np.array_equal(reached.weight[0], mode.weight[:, own[:, None], own]):
            out = self.at_mode(mode)
            if out.left <= REACHED:
                return out
        site.pointwise(reached.mean[0])
        out = self.at_mode(site.answered[0])
        if not out.left <= REACHED:
            raise NoMode("the mode of the groups was not reached")
        return out

    def at_mode(self, mode: Mode) -> Eliminated:
        """The groups at a mode that is known. Raises NoMode."""
        own = self.split.own
        weight = mode.weight
        q = self._conditioned(weight, mode.answer.slope[:, own], mode.z[:, own])
        if isinstance(q, Failed):
            raise NoMode("the curvature at the mode of the groups is not positive")
        return Eliminated(self, mode.z, mode.answer, weight, q, mode.passes)

    def _expected(self, near: Mode, at: Array) -> GaussianPosterior | None:
        """Where the mode is to the first order, from that at another theta and beta: the mode of
        the sites' quadratics there, moved along with the shared latents (`at`, (G, K)), next to
        the groups' prior here. At one theta, u - D^-1 C (beta - beta_near)."""
        own, others = self.split.own, self.split.others
        weight = np.ascontiguousarray(near.weight[:, own[:, None], own])
        shift = near.answer.slope[:, own] + rows.times(weight, near.z[:, own])
        move = at[:, others] - near.z[:, others]
        shift -= np.einsum("grc,gc->gr", near.weight[:, own[:, None], others], move)
        q = self.engine.condition((weight,), (np.ascontiguousarray(shift),))
        if isinstance(q, Failed):
            return None
        return GaussianPosterior(q.weight, q.shift, q, math.nan, self.backend.spec.guarantee)

    def _conditioned(self, weight: Array, slope: Array, mean: Array) -> Conditioned | Failed:
        own = self.split.own
        inner = np.ascontiguousarray(weight[:, own[:, None], own])
        shift = slope + rows.times(inner, mean)
        return self.engine.condition((inner,), (np.ascontiguousarray(shift),))

    @property
    def learned(self) -> bool:
        """Whether their priors depend on hyperparameters."""
        factors = (f for b in self.canonical.latents for f in b.factors)
        return any(c.depends for f in factors for c in f.coefficients().values())

    def information(self, weight: Array) -> Array:
        """X'WX - C'D^-1 C for any weights of the places, (G, K, K), laid out as
        `Eliminated.information`. Raises NoMode."""
        count, size = weight.shape[:2]
        none = np.zeros((count, size))
        q = self._conditioned(weight, none[:, self.split.own], none[:, self.split.own])
        if isinstance(q, Failed):
            raise NoMode("the groups' latents are not determined")
        answer = PointwiseAnswer(np.zeros(count), none, -weight, none)
        return Eliminated(self, none, answer, weight, q).information

    @property
    def unit_information(self) -> Array:
        """The information of weights of one size about the shared latents, in units of the
        weights. Next to groups whose prior sd is 1e8, weights of 1 would leave rounding of it:
        X'WX and C'D^-1 C agree in all digits. So they are of the size of the groups' precision.
        Raises NoMode."""
        weight = self.places.unit_weights()
        own = self.split.own
        none = np.zeros((len(weight), weight.shape[1]))
        prior = self._conditioned(0.0 * weight, none[:, own], none[:, own])
        if isinstance(prior, Failed):
            raise NoMode("the groups' latents have no prior")
        sizes = rows.diagonal(prior.variance[0])
        level = 1.0 / float(np.median(sizes[sizes > 0.0])) if (sizes > 0.0).any() else 1.0
        return self.information(level * weight) / level


@dataclass(frozen=True, eq=False)
class Eliminated:
    """The groups at their mode: z, (G, K), all latents of the places; the places' answer there;
    W, (G, K, K); q of the groups' latents given the shared ones; `passes` over the rows that it
    took to find the mode."""

    groups: Groups
    z: Array
    answer: PointwiseAnswer
    weight: Array
    q: Conditioned
    passes: int = 0

    @property
    def mode(self) -> Mode:
        """What is kept of it: all else is made again from this."""
        return Mode(self.z, self.answer, self.passes)

    @cached_property
    def gap(self) -> Array:
        """(G, r): how far one more Newton step leads."""
        return np.asarray(self.q.mean[0] - self.z[:, self.split.own])

    @property
    def left(self) -> float:
        """How far one more Newton step leads all groups together, in sds."""
        alpha = rows.slope_of(self.q.shift, self.q.weight, self.q.mean)[0]
        away = self.answer.slope[:, self.split.own] - alpha
        return math.sqrt(abs(float(np.sum(rows.inner(self.gap, away)))))

    @property
    def split(self) -> SplitPlaces:
        return self.groups.split

    @cached_property
    def value(self) -> tuple[float, float]:
        """h and e, to the second order of what a Newton step would still change."""
        alpha = rows.slope_of(self.q.shift, self.q.weight, self.q.mean)
        prior = rows.total(
            tuple(
                (m - s) * a
                for m, s, a in zip(self.q.mean, self.groups.engine.prior_mean, alpha, strict=True)
            )
        )
        likelihood = float(np.sum(self.answer.value))
        gap, slope = self.gap, self.answer.slope[:, self.split.own]
        likelihood += float(np.sum(rows.inner(slope - 0.5 * rows.times(self._inner, gap), gap)))
        return likelihood - 0.5 * prior, self.q.centred + 0.5 * prior

    @property
    def slope(self) -> Array:
        """(p,) h'."""
        own, others = self.split.own, self.split.others
        cross = self.weight[:, others[:, None], own]
        if self._squares is None:
            return self.split.gathered(
                self.answer.slope[:, others] - np.einsum("gjr,gr->gj", cross, self.gap)
            )
        # J'l' - M'Q(u - mu), which is the same: of what the groups absorb nothing is left in J.
        moved = self.answer.slope - np.einsum("gkr,gr->gk", self.weight[:, :, own], self.gap)
        along = np.einsum("gkm,gk->m", self._paths, moved)
        mean = np.concatenate([b.mean for b in self.groups.engine.linear.blocks])
        pull = self._precise(self.q.latent_mean - mean)
        assert pull is not None, "it was asked of the moves"
        return np.asarray(along - np.einsum("nm,n->m", self.moved, pull))

    @cached_property
    def _inner(self) -> Array:
        """(G, r, r): W of the groups' latents."""
        own = self.split.own
        return np.ascontiguousarray(self.weight[:, own[:, None], own])

    @cached_property
    def crossed(self) -> Array:
        """(G, r, m): WX at the groups' entries of each place, of which C is Z' times; columns over
        the shared latents that the place's group touches (`SplitPlaces`), here and below."""
        own, others = self.split.own, self.split.others
        return self.split.spread(self.weight[:, own[:, None], others])

    @cached_property
    def moved(self) -> Array:
        """(n, m): -D^-1 C, how the groups' latents move with the shared ones: D is of blocks of
        groups, so that each column may be of another shared latent in each group."""
        return -self.q.solve(self._pulled(self.crossed))

    @cached_property
    def path(self) -> Array:
        """(G, r, m): how the groups' latents at the places move with the shared ones."""
        return self._lifted(self.moved)

    @cached_property
    def _difference(self) -> Array:
        """X'WX - C'D^-1 C, as `information`."""
        own, others = self.split.own, self.split.others
        # C'D^-1 C = -(WX)'path, place by place.
        mixed = np.einsum("gjr,grm->gjm", self.weight[:, others[:, None], own], self.path)
        return self.split.squares(self.weight[:, others[:, None], others], mixed)

    @property
    def information(self) -> Array:
        """-h'', (p, p), or its entries at the pairs that groups touch (`SplitPlaces.squares`)."""
        return self._difference if self._squares is None else self._squares

    @cached_property
    def _squares(self) -> Array | None:
        """-h'' as a sum of squares, J'WJ + M'QM, M = -D^-1 C and J the path of all latents; None
        where `_difference` keeps its digits or is taken at some pairs alone, and where Q is not
        known."""
        if self.split.touched is not None or not self._absorbed(self._difference):
            return None
        inner = self._precise(self.moved)
        if inner is None:
            return None
        half = np.einsum("gkl,gkm->glm", self._root, self._paths)
        squares = np.einsum("glm,gln->mn", half, half) + np.einsum("km,kn->mn", self.moved, inner)
        return np.asarray(squares)

    @cached_property
    def _paths(self) -> Array:
        """(G, K, p): J, how all latents of the places move with the shared ones."""
        split, out = self.split, np.zeros((*self.z.shape, self.split.size))
        out[:, split.own] = self.path
        for j, place in enumerate(split.others):
            out[np.arange(split.count), place, split.columns[:, j]] += 1.0
        return out

    def _precise(self, x: Array) -> Array | None:
        """Q x, of x (n,) or (n, k), factor by factor; None where a factor has no precision."""
        out, start = np.empty_like(x), 0
        for block in self.groups.engine.linear.blocks:
            part = slice(start, start + block.size)
            y = x[part].reshape(*(f.size for f in block.factors), *x.shape[1:])
            for axis, factor in enumerate(block.factors):
                turned = np.moveaxis(y, axis, -1)
                if Shape.DIAGONAL in factor.shape:
                    turned = turned / factor.variance()
                elif Shape.PRECISION in factor.shape:
                    turned = turned @ _dense(factor.precision())
                else:
                    return None
                y = np.moveaxis(turned, -1, axis)
            out[part] = y.reshape(block.size, *x.shape[1:])
            start += block.size
        return out if np.isfinite(out).all() else None

    def _absorbed(self, information: Array) -> bool:
        """Whether the groups absorb a direction of the shared latents so far that X'WX - C'D^-1 C
        has few digits of it left, as a wide prior of theirs does."""
        others = self.split.others
        size = self.split.gathered(rows.diagonal(self.weight)[:, others])
        known = size > 0.0
        scale = np.sqrt(size[known])
        relative = information[known][:, known] / np.outer(scale, scale)
        if not np.isfinite(relative).all():
            return False
        least = relative.diagonal() if len(scale) > MANY else np.linalg.eigvalsh(relative)
        return bool(least.min(initial=1.0) < ABSORBED)

    @property
    def _root(self) -> Array:
        """(G, K, K) R with W = RR', eigenvalues that are rounding being 0."""
        sd = np.sqrt(np.maximum(rows.diagonal(self.weight), 0.0))
        scale = np.where(sd > 0.0, sd, 1.0)
        values, vectors = np.linalg.eigh(self.weight / (scale[:, :, None] * scale[:, None]))
        floor = 4e-15 * values.shape[1]
        values = np.where(values > floor, values, 0.0)
        return np.asarray(scale[:, :, None] * vectors * np.sqrt(values)[:, None])

    def spread(self, covariance: Array) -> Array:
        """(n,): what V = `covariance` of the shared latents, laid out as `information`, adds to the
        variances of the groups'."""
        along = self.split.along(self.moved, covariance)
        return np.asarray(np.sum(along * self.moved, axis=1))

    def variance(self, covariance: Array) -> Array:
        """(G, K, K): of the places' latents, V = `covariance`, laid out as `information`, being
        that of the shared."""
        split, own, others = self.split, self.split.own, self.split.others
        out = np.zeros_like(self.weight)
        out[:, others[:, None], others] = split.at_places(covariance)
        along = self._lifted(split.along(self.moved, covariance))
        for j, place in enumerate(others):
            cross = along[np.arange(split.count), :, split.slots[:, j]]
            out[:, own, place] = cross
            out[:, place, own] = cross
        inner = self.q.variance[0] + along @ self.path.transpose(0, 2, 1)
        out[:, own[:, None], own] = inner
        return out

    def third(self, covariance: Array) -> Array:
        """(p,): sum l''' v q, twice the slope of all log determinants."""
        return self._along(self._bend(covariance))

    def _bend(self, covariance: Array) -> Array:
        """(G, K): sum l''' v a over the rows of a place."""
        return self.places.multiplied(self._plain(covariance).third)

    def _plain(self, covariance: Array) -> PointwiseAnswer:
        """What the places say as functions of f z (`Places.plain`) with the third derivatives that
        a covariance of the shared latents asks for, the last kept."""
        key = covariance.tobytes()
        if key not in self._asked:
            places = self.places
            variance = places.multiplied_squares(self.variance(covariance))
            answer = places.plain.pointwise(places.multiplied(self.z), variance)
            self._asked.clear()
            self._asked[key] = answer
        return self._asked[key]

    @cached_property
    def _asked(self) -> dict[bytes, PointwiseAnswer]:
        return {}

    def slopes(self, covariance: Array, move: Array) -> Gradient:
        """d(h + e + 1/2 tr V h'' + m'h')/dhyper at fixed beta, V and m = `move`, (p,), of every
        hyper that the rows' sites, their predictors and the groups' priors depend on.

        What a place's L depends on it does at fixed z, whether a parameter of its sites or the
        multipliers of its coefficients: d(L + 1/2 tr v L'' + s'L'), v the covariance of z and s
        the move of z along with m, where the groups' latents also go D^-1 Z' (sum l3 v a)/2, which
        is what the log determinants ask of the mode."""
        split, own = self.split, self.split.own
        variance = self.variance(covariance)
        model = self.groups.canonical
        free, of_rows = bool(self.groups.places.rows.own), self.groups.multipliers
        pulls = self.groups.learned
        if not free and not pulls and of_rows is None:
            return {}
        bend = 0.5 * self._bend(covariance)
        # The groups' latents move by D^-1 (Z'bend - C m).
        tilt = bend[:, own] - split.times(self.crossed, move)
        step = split.along_shared(move)
        step[:, own] = self._lifted(self.q.solve(self._pulled(tilt)))
        slopes: Mapping[str, Array] = {}
        if free:
            slopes = self.places.moved_slopes(self.z, variance, step)
        first = self.q.adjoints((np.ascontiguousarray(tilt),))
        out = pull(model, first, (slopes,), self.groups.theta)
        if of_rows is not None:
            plain = self._plain(covariance)
            by_place = self.places.multiplier_slopes(self.z, variance, step, plain)
            of_rows.pull(by_place, self.groups.theta, out)
        if pulls:
            self._spreads(covariance, out)
        return out

    def _spreads(self, covariance: Array, out: Gradient) -> None:
        """Add what the spread of beta gives to the covariance of u, sum_k e_k e_k' with
        e_k = -D^-1 C l_k, V = sum l_k l_k': the adjoints are those of q with its mean e_k off the
        prior's, less those of one at the prior's mean. They are sums over groups, so that each may
        have roots of its own."""
        level = rows.times(self.q.weight[0], self.groups.engine.prior_mean[0])
        level_pull = self._prior_pull(level)
        for step in self.split.times_roots(self.crossed, covariance):
            pulled = self._prior_pull(level - step)
            for name, slope in pulled.items():
                out[name] = out.get(name, np.zeros(())) + (slope - level_pull.get(name, 0.0))

    def _prior_pull(self, shift: Array) -> Gradient:
        """What the prior's covariance gives at other shifts of the groups."""
        q = self.q.with_shift((np.ascontiguousarray(shift),))
        assert not isinstance(q, Failed), "the weights are those of a posterior"
        a = q.adjoints()
        still = {name: np.zeros_like(m) for name, m in a.mean.items()}
        changed: Adjoints = replace(a, mean=still)
        return pull(self.groups.canonical, changed, ({},), self.groups.theta)

    @property
    def places(self) -> Places:
        return self.groups.places

    def _along(self, x: Array) -> Array:
        """(p,): J'x of x, (G, K), J the slope of the places' latents in beta along the modes."""
        split = self.split
        inner = split.pulled(self.moved, self._pulled(x[:, split.own]))
        return np.asarray(split.gathered(x[:, split.others]) + inner)

    def _pulled(self, x: Array) -> Array:
        """Z'x, (n,) or (n, m), of x, (G, r) or (G, r, m)."""
        linear = self.groups.engine.linear
        flat = np.ascontiguousarray(x.reshape(-1, *x.shape[2:]))
        out = np.zeros((linear.size, *x.shape[2:]))
        self.split.inner.add_transposed(flat, linear.slices, out)
        return out

    def _lifted(self, u: Array) -> Array:
        """Z u, (G, r) or (G, r, m), of u, (n,) or (n, m)."""
        linear = self.groups.engine.linear
        flat = self.split.inner.times(u, linear.slices)
        return flat.reshape(self.split.count, len(self.split.own), *u.shape[1:])


def finite(value: float) -> float:
    """-inf for what is not finite."""
    return value if math.isfinite(value) else -math.inf


def _dense(matrix: Matrix) -> Array:
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())
