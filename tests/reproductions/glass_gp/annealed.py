"""Annealed importance sampling with HMC: log evidence and predictions of a softmax GP.

A yardstick in plain numpy, apart from lgmdsl: Neal 2001 for the weights, Neal 2011 for the moves.
f = sd R u with RR' the kernel of unit variance, so that the prior of u is standard. The path goes
along sd itself, from 0, where p(y) = K^-N, through all the values that are asked for, one run for
each length. (Along powers of the likelihood at a large sd the particles never catch up: 50 nats
short at sd = e^5.) The leap's length follows the acceptance so far, which biases a little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lgmdsl.arrays import Array, IntArray

WANTED = 0.8  # acceptance
FIRST = 0.02  # sd of the first step from 0
LEAPS = 100  # at most so many a move


@dataclass(frozen=True)
class Chains:
    """Particles, steps of the path for each factor e of sd, largest length of a move (in sds of u's
    prior), and moves at each sd that is asked for, to predict there."""

    particles: int
    steps: int
    length: float
    moves: int


@dataclass(frozen=True)
class Annealed:
    """At one sd. `se`: nats, of the log of the weights' mean; `probability`: (M, K) of new cases;
    `accepted`: share of the moves there."""

    evidence: float
    se: float
    probability: Array
    accepted: float


Energy = tuple[Array, Array]  # log p(y | f) of each particle, its gradient in u


@dataclass
class Particles:
    """(N, P, K) all of them at once, with their log likelihood and its slope at the present sd."""

    u: Array
    likelihood: Callable[[Array], Energy]
    rng: np.random.Generator
    length: float
    step: float = 0.3
    now: Energy = field(init=False)

    def __post_init__(self) -> None:
        self.now = self.likelihood(self.u)

    def at(self, likelihood: Callable[[Array], Energy]) -> Array:
        """Change to another sd; (P,) by how much log p(y | f) rose."""
        before, self.likelihood = self.now[0], likelihood
        self.now = likelihood(self.u)
        return self.now[0] - before

    def move(self) -> float:
        """One HMC move of each; the share that was accepted."""
        momentum = self.rng.standard_normal(self.u.shape)
        most = min(LEAPS, round(self.length / self.step))
        steps = 1 + int(self.rng.integers(max(most, 1)))
        leap = self.step * self.rng.uniform(0.8, 1.2)
        energy = 0.5 * (self.u**2 + momentum**2).sum(axis=(0, 2)) - self.now[0]
        u, now, p = self.u, self.now, momentum - 0.5 * leap * (self.u - self.now[1])
        for k in range(steps):
            u = u + leap * p
            now = self.likelihood(u)
            p = p - (1.0 if k < steps - 1 else 0.5) * leap * (u - now[1])
        rise = 0.5 * (u**2 + p**2).sum(axis=(0, 2)) - now[0] - energy
        took = np.log(self.rng.uniform(size=len(rise))) < -rise
        self.u = np.where(took[None, :, None], u, self.u)
        self.now = (
            np.where(took, now[0], self.now[0]),
            np.where(took[None, :, None], now[1], self.now[1]),
        )
        share = float(took.mean())
        self.step = min(self.step * (1.02 if share > WANTED else 0.98), 1.0)
        return share


def annealed(
    x: Array,
    y: IntArray,
    new_x: Array,
    length: float,
    sds: Sequence[float],
    chains: Chains,
    seed: int = 0,
) -> list[Annealed]:
    """y[i] in 0..K-1; a GP for each class, kernel sd² exp(-|x - x'|² / 2 length²), at each of the
    ascending `sds`."""
    rng = np.random.default_rng(seed)
    count, classes = len(y), int(y.max()) + 1
    values, vectors = np.linalg.eigh(_kernel(x, x, length))
    values = np.maximum(values, 0.0)
    root = vectors * np.sqrt(values)
    hot = np.eye(classes)[y][:, None, :]

    def likelihood(sd: float) -> Callable[[Array], Energy]:
        def of(u: Array) -> Energy:
            f = sd * (root @ u.reshape(count, -1)).reshape(u.shape)
            f -= f.max(axis=2, keepdims=True)
            p = np.exp(f)
            total = p.sum(axis=2, keepdims=True)
            value = ((f * hot).sum(axis=2) - np.log(total[..., 0])).sum(axis=0)
            slope = sd * (root.T @ (hot - p / total).reshape(count, -1)).reshape(u.shape)
            return value, slope

        return of

    # f* given u: its mean sd e*'u, e* the row of the new case in the kernel's eigenbasis.
    kept = values > 1e-10 * values[-1]
    inverse = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    rows = _kernel(new_x, x, length) @ vectors * inverse
    left = np.sqrt(np.maximum(1.0 - (rows**2).sum(axis=1), 0.0))[:, None, None]

    def predicted(u: Array, sd: float) -> Array:
        f = (rows @ u.reshape(count, -1)).reshape(len(new_x), *u.shape[1:])
        f = sd * (f + left * rng.standard_normal(f.shape))
        p = np.exp(f - f.max(axis=2, keepdims=True))
        return np.asarray((p / p.sum(axis=2, keepdims=True)).mean(axis=1))

    u = rng.standard_normal((count, chains.particles, classes))
    cloud = Particles(u, likelihood(0.0), rng, chains.length)
    weight, sd, out = cloud.now[0].copy(), 0.0, []
    for wanted in sds:
        for following in _path(sd, wanted, chains.steps):
            weight += cloud.at(likelihood(following))
            cloud.move()
        sd = wanted
        total, shares = np.zeros((len(new_x), classes)), []
        for _ in range(chains.moves):
            shares.append(cloud.move())
            total += predicted(cloud.u, sd) / chains.moves
        top = float(weight.max())
        share = np.exp(weight - top)
        error = float(share.std(ddof=1) / np.sqrt(len(share)) / share.mean())
        evidence = top + float(np.log(share.mean()))
        out.append(Annealed(evidence, error, total, float(np.mean(shares))))
    return out


def _path(sd: float, wanted: float, steps: int) -> list[float]:
    """Geometric, but for the first step from 0."""
    first = [FIRST] if sd == 0.0 else []
    begin = FIRST if sd == 0.0 else sd
    count = max(1, round(steps * np.log(wanted / begin)))
    return [*first, *np.geomspace(begin, wanted, count + 1)[1:].tolist()]


def _kernel(a: Array, b: Array, length: float) -> Array:
    square = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
    return np.asarray(np.exp(-0.5 * square / length**2))
