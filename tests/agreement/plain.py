"""The methods once more, in the plainest way: dense matrices, differences, grids, nothing shared
with the project. What a method is to give is computed from its definition alone.

    s = B z + c,   z ~ N(mu, K),   evidence = log int p(z) exp(sum l(s)) dz
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla
from scipy import special

from lgmdsl.arrays import Array

Density = Callable[[Array], Array]  # l of all sites at s, (N,) or (nodes, N); or (N, K, nodes)
Average = Callable[[Array, Array], Array]  # f, (N,), at m (N, K) and V (N, K, K)
STEP = 1e-4  # of differences


@dataclass(frozen=True)
class Plain:
    """B (P, n), c, mu and K; sites see `width` predictors each. q(z) has independent `blocks` of
    latents where they are given; `extra`, (P,), is variance of s that no q changes. `latents` and
    `seen`: what a text calls z and s, in order."""

    design: Array
    offset: Array
    mean: Array
    covariance: Array
    width: int = 1
    blocks: tuple[slice, ...] = ()
    extra: Array | float = 0.0
    latents: tuple[str, ...] = ("b", "u")
    seen: tuple[str, ...] = ("eta",)

    @property
    def events(self) -> int:
        return len(self.design) // self.width

    def split(self, s: Array) -> Array:
        return s.reshape(self.events, self.width)

    def within(self, cov: Array) -> Array:
        """(N, K, K) of (P, P): what a site sees of it."""
        k = self.width
        return np.stack([cov[i * k : i * k + k, i * k : i * k + k] for i in range(self.events)])


@dataclass(frozen=True)
class Answer:
    """q(z) = N(mean, covariance), and the evidence that a method reports with it."""

    model: Plain
    mean: Array
    covariance: Array
    evidence: float

    @property
    def predictor(self) -> tuple[Array, Array]:
        """(P,) means and sds of s."""
        b = self.model.design
        variance = np.einsum("ij,jk,ik->i", b, self.covariance, b) + self.model.extra
        return b @ self.mean + self.model.offset, np.sqrt(variance)


def conditioned(model: Plain, weight: Array, shift: Array) -> Answer:
    """N(z; mu, K) exp(-1/2 s'Ws + b's), W (P, P); `evidence`: the logarithm of its integral."""
    b, c = model.design, model.offset
    prior = _inverse(model.covariance)
    precision = prior + b.T @ weight @ b
    if model.blocks:
        confined = sla.block_diag(*(precision[at, at] for at in model.blocks))
    else:
        confined = precision
    mean = np.linalg.solve(precision, prior @ model.mean + b.T @ (shift - weight @ c))
    s, away = b @ mean + c, mean - model.mean
    value = shift @ s - 0.5 * s @ weight @ s - 0.5 * away @ prior @ away
    value -= 0.5 * (np.linalg.slogdet(precision)[1] + np.linalg.slogdet(model.covariance)[1])
    return Answer(model, np.asarray(mean, np.float64), _inverse(confined), float(value))


def divergence(model: Plain, mean: Array, covariance: Array) -> float:
    """KL(N(mean, covariance) || N(mu, K))."""
    away = mean - model.mean
    inner = np.trace(np.linalg.solve(model.covariance, covariance)) - len(away)
    inner += away @ np.linalg.solve(model.covariance, away)
    inner += np.linalg.slogdet(model.covariance)[1] - np.linalg.slogdet(covariance)[1]
    return 0.5 * float(inner)


def gaps(f: Average, m: Array, v: Array) -> tuple[Array, Array]:
    """df/dm, (N, K), and df/dV, (N, K, K) symmetric, by central differences."""
    k = m.shape[1]
    slope, bend = np.empty_like(m), np.empty_like(v)
    for i in range(k):
        slope[:, i] = _quotient(f, m, v, np.eye(k)[i], np.zeros((k, k)))
        for j in range(i + 1):
            turn = np.zeros((k, k))
            turn[i, j] = turn[j, i] = 1.0 if i == j else 0.5
            bend[:, i, j] = bend[:, j, i] = _quotient(f, m, v, np.zeros(k), turn)
    return slope, bend


def _quotient(
    f: Callable[[Array, Array], Array], m: Array, v: Array, dm: Array, dv: Array
) -> Array:
    """df along (dm, dv), of the fourth order."""
    ends = [f(m + k * STEP * dm, v + k * STEP * dv) for k in (-2, -1, 1, 2)]
    return np.asarray((8.0 * (ends[2] - ends[1]) - (ends[3] - ends[0])) / (12.0 * STEP))


def variational(
    model: Plain,
    f: Average,
    begin: tuple[Array, Array] | None = None,
    close: float = 1e-10,
    steps: int = 2000,
) -> Answer:
    """The maximum of sum f(m, V) - KL(q || p) over q: W <- -2 f_V, b <- f_m + W m, halfway where
    it would not settle, until both hold to `close`. `begin`: W (N, K, K) and b (P,)."""
    rows, k = len(model.design), model.width
    weight, shift = np.eye(rows), model.design @ model.mean + model.offset
    if begin is not None:
        weight, shift = np.asarray(sla.block_diag(*begin[0])), begin[1]
    share, last = 1.0, np.inf
    for _ in range(steps):
        q = conditioned(model, weight, shift)
        s = model.design @ q.mean + model.offset
        whole = model.design @ q.covariance @ model.design.T + np.diag(model.extra + np.zeros(rows))
        m, v = model.split(s), model.within(whole)
        slope, bend = gaps(f, m, v)
        target = sla.block_diag(*(-2.0 * bend)) if k > 1 else np.diag(-2.0 * bend[:, 0, 0])
        wanted = slope.reshape(-1) + target @ s
        away = max(float(np.abs(target - weight).max()), float(np.abs(wanted - shift).max()))
        if away < close:
            break
        share = max(0.5 * share, 0.1) if away > 0.9 * last else share
        last = away
        weight, shift = weight + share * (target - weight), shift + share * (wanted - shift)
    else:
        assert away < 100.0 * close, f"the plain iteration is {away:.1e} from its end"
    value = float(f(m, v).sum()) - divergence(model, q.mean, q.covariance)
    return Answer(model, q.mean, q.covariance, value)


def by_quadrature(density: Density, nodes: int = 120, reach: float = 11.0) -> Average:
    """E[l(s)], s ~ N(m, V), by a trapezoidal rule in each direction: of smooth l it converges
    faster than any power of its step."""
    axis = np.linspace(-reach, reach, nodes)
    bell = np.exp(-0.5 * axis * axis)
    bell /= bell.sum()

    def f(m: Array, v: Array) -> Array:
        k = m.shape[1]
        x = np.stack([g.ravel() for g in np.meshgrid(*[axis] * k, indexing="ij")])  # (K, nodes^K)
        weight = np.prod(np.stack([g.ravel() for g in np.meshgrid(*[bell] * k)]), axis=0)
        return np.asarray(averaged(density, m[:, :, None] + np.linalg.cholesky(v) @ x) @ weight)

    return f


def laplace(model: Plain, density: Density) -> Answer:
    """Newton to the mode; the evidence with the curvature there."""
    prior, z = _inverse(model.covariance), model.mean.copy()
    b = model.design
    for _ in range(200):
        s = b @ z + model.offset
        slope, curve = _derivatives(density, s)
        precision = prior - (b.T * curve) @ b
        step = np.linalg.solve(precision, b.T @ slope - prior @ (z - model.mean))
        z = z + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-11:
            break
    away = z - model.mean
    value = float(density(b @ z + model.offset).sum()) - 0.5 * away @ prior @ away
    value -= 0.5 * (np.linalg.slogdet(precision)[1] + np.linalg.slogdet(model.covariance)[1])
    return Answer(model, z, _inverse(precision), float(value))


def _derivatives(density: Density, s: Array, h: float = 1e-3) -> tuple[Array, Array]:
    """l' and l'', (P,), by differences of the sixth order."""
    d = [density(s + k * h) for k in range(-3, 4)]
    slope = (45.0 * (d[4] - d[2]) - 9.0 * (d[5] - d[1]) + d[6] - d[0]) / (60.0 * h)
    curve = 270.0 * (d[4] + d[2]) - 27.0 * (d[5] + d[1]) + 2.0 * (d[6] + d[0]) - 490.0 * d[3]
    return slope, curve / (180.0 * h * h)


def moved(model: Plain, f: Average, q: Answer) -> Answer:
    """q with its mean where sum f(m, v) - 1/2 (z - mu)'K^-1(z - mu) is highest at q's variances."""
    b, prior, z = model.design, _inverse(model.covariance), q.mean
    v = model.within(b @ q.covariance @ b.T)
    for _ in range(100):
        slope, bend = gaps(f, model.split(b @ z + model.offset), v)
        precision = prior - (b.T * (2.0 * bend[:, 0, 0])) @ b
        step = np.linalg.solve(precision, b.T @ slope[:, 0] - prior @ (z - model.mean))
        z = z + step
        if np.abs(step).max() < 1e-11:
            break
    return Answer(model, z, q.covariance, q.evidence)


def propagated(
    model: Plain,
    density: Density,
    power: float = 1.0,
    nodes: int = 1401,
    reach: float = 11.0,
    begin: tuple[Array, Array] | None = None,
    close: float = 1e-11,
) -> Answer:
    """Expectation propagation, all sites at once, each step half of the whole one. With every t~
    scaled to have t's mass against its cavity, the evidence is the integral of p(z) prod t~.
    `begin`, `close`: as `variational` has them."""
    k, n, b = model.width, model.events, model.design
    weight = np.tile(0.5 * np.eye(k), (n, 1, 1))
    shift = 0.5 * model.split(b @ model.mean + model.offset)
    if begin is not None:
        weight, shift = begin[0], model.split(begin[1])
    axis = np.linspace(-reach, reach, nodes)
    grid = np.stack([g.ravel() for g in np.meshgrid(*[axis] * k, indexing="ij")])  # (K, nodes^K)
    bell = -0.5 * (grid**2).sum(axis=0)
    for _ in range(1000):
        q = conditioned(model, np.asarray(sla.block_diag(*weight)), shift.ravel())
        m, v = model.split(b @ q.mean + model.offset), model.within(b @ q.covariance @ b.T)
        inverse = _inverse(v)
        cavity = _inverse(inverse - power * weight)
        centre = _times(cavity, _times(inverse, m) - power * shift)
        s = centre[:, :, None] + np.linalg.cholesky(cavity) @ grid
        logs = bell + power * averaged(density, s)
        total = special.logsumexp(logs, axis=1)
        mass = np.exp(logs - total[:, None])
        mean = np.einsum("np,nkp->nk", mass, s)
        away = s - mean[:, :, None]
        variance = np.einsum("np,nkp,nlp->nkl", mass, away, away)
        there, here = _inverse(variance), _inverse(cavity)
        target, wanted = (
            (there - here) / power,
            (_times(there, mean) - _times(here, centre)) / power,
        )
        gap = max(float(np.abs(target - weight).max()), float(np.abs(wanted - shift).max()))
        if gap < close:
            break
        weight, shift = 0.5 * (weight + target), 0.5 * (shift + wanted)
    assert gap < 100.0 * close, f"the plain iteration is {gap:.1e} from its end"
    flat = np.einsum("nk,nkp->np", shift, s) - 0.5 * np.einsum("nkl,nkp,nlp->np", weight, s, s)
    lacking = total - special.logsumexp(bell + power * flat, axis=1)
    return Answer(model, q.mean, q.covariance, q.evidence + float(lacking.sum()) / power)


def _inverse(a: Array) -> Array:
    return np.asarray(np.linalg.inv(a), dtype=np.float64)


def _times(matrices: Array, x: Array) -> Array:
    return np.asarray(np.einsum("nij,nj->ni", matrices, x))


def averaged(density: Density, s: Array) -> Array:
    """l at (N, K, nodes): (N, nodes)."""
    return density(s[:, 0, :].T).T if s.shape[1] == 1 else density(s)


def through_tangents(density: Density, beta: Array | float = 0.0) -> Average:
    """f(m, V) = max over tangents of the super-Gaussian t: l(x) + beta (m - x), x^2 = m^2 + v
    (Jaakkola and Jordan 2000; Nickisch and Seeger 2009; of scale mixtures data augmentation too).
    """

    def f(m: Array, v: Array) -> Array:
        x = np.sqrt(m[:, 0] ** 2 + v[:, 0, 0])
        return np.asarray(density(x) + beta * (m[:, 0] - x))

    return f


def held_by_kinks(model: Plain, scale: float) -> Array:
    """The mode of z under sites -|s| / scale: by its dual, least squares in a box."""
    spread = model.design @ model.covariance @ model.design.T
    start = model.design @ model.mean + model.offset
    alpha = np.zeros(len(start))
    for _ in range(20_000):
        for i in range(len(start)):
            rest = start[i] + spread[i] @ alpha - spread[i, i] * alpha[i]
            alpha[i] = np.clip(-rest / spread[i, i], -1.0 / scale, 1.0 / scale)
        s = start + spread @ alpha
        held = np.abs(alpha) < 1.0 / scale
        loose = np.where(held, s, np.minimum(s * -np.sign(alpha), 0.0))
        if np.abs(loose).max() < 1e-12:
            break
    return np.asarray(model.mean + model.covariance @ model.design.T @ alpha)


def few_directions(covariance: Array, count: int) -> tuple[Array, Array]:
    """K P'L^-T, LL' = PKP', for `count` latents P, each the one that is least known given those
    before it; and the diagonal of what is left of K."""
    picked: list[int] = []
    left = covariance
    for _ in range(count):
        size, length = left.diagonal(), np.linalg.norm(covariance, axis=0)
        most = np.flatnonzero(size >= (1.0 - 1e-9) * size.max())
        picked.append(int(most[np.argmax(length[most])]))
        cross = covariance[:, picked]
        left = covariance - cross @ np.linalg.solve(covariance[np.ix_(picked, picked)], cross.T)
        left[picked] = left[:, picked] = 0.0
    lower = np.linalg.cholesky(covariance[np.ix_(picked, picked)])
    root = np.linalg.solve(lower, covariance[picked]).T
    return root, left.diagonal()


def joined(parts: Sequence[Array]) -> Array:
    """(n, n) of independent blocks."""
    return np.asarray(sla.block_diag(*parts))
