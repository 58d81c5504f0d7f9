"""Blocks of latents for random models: how each is written, and its design and moments in numpy.

A block adds `factor * (design @ z)` to the predictors of the rows, z ~ N(mean, covariance). Design
and moments are computed here from the definitions of the language, not by the compiler, so that a
model's text can be held against them. A new kind of block is one more function here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray


@dataclass(frozen=True)
class Pinned:
    """A number in the text: `hyper name : type = value`, which goes with z to a power."""

    value: float
    type: str = "positive"
    power: int = 1


@dataclass(frozen=True, eq=False)
class Block:
    """A latent over some rows.

    `design` (rows, n), `mean` (n,) and `covariance` (n, n), possibly singular; None for a flat
    prior. `lines` declare indices, data and the latent, `expression` is its term without the
    factor. `over_obs` are its data with a first axis over the rows, `fixed` its other data, of
    which those in `squared` are covariances of z. `each_row` says that it has one latent for each
    row.
    """

    name: str
    design: Array
    mean: Array
    covariance: Array | None
    lines: tuple[str, ...]
    expression: str
    pinned: Mapping[str, Pinned] = field(default_factory=dict)
    over_obs: Mapping[str, AnyArray] = field(default_factory=dict)
    squared: Mapping[str, Array] = field(default_factory=dict)
    factor: float = 1.0
    each_row: bool = False

    @property
    def size(self) -> int:
        """How many latents it has."""
        return len(self.mean)

    @property
    def columns(self) -> Array:
        """(rows, n): its part of B."""
        return np.asarray(self.factor * self.design)

    @property
    def text(self) -> str:
        """The block's statements."""
        pinned = [f"hyper {n} : {p.type} = {p.value!r}" for n, p in self.pinned.items()]
        return "\n".join([*pinned, *self.lines])

    @property
    def term(self) -> str:
        """The term that the block adds to the predictor."""
        return self.expression if self.factor == 1.0 else f"{self.factor!r} * {self.expression}"

    @property
    def data(self) -> dict[str, AnyArray]:
        """What its statements want."""
        return {**self.over_obs, **self.squared}

    def take(self, rows: IntArray) -> Block:
        """The block over some rows, in their order; a row may come again."""
        over_obs = {name: array[rows] for name, array in self.over_obs.items()}
        if not self.each_row:
            return replace(self, design=self.design[rows], over_obs=over_obs)
        covariance = None if self.covariance is None else self.covariance[np.ix_(rows, rows)]
        return replace(
            self,
            design=np.eye(len(rows)),
            mean=self.mean[rows],
            covariance=covariance,
            over_obs=over_obs,
        )

    def rescaled(self, by: float) -> Block:
        """The block of z / by, its factor multiplied by `by`: the same predictors."""
        return replace(
            self,
            factor=self.factor * by,
            mean=self.mean / by,
            covariance=None if self.covariance is None else self.covariance / by**2,
            pinned={n: replace(p, value=p.value / by**p.power) for n, p in self.pinned.items()},
            squared={n: s / by**2 for n, s in self.squared.items()},
        )

    def shifted(self, by: float) -> Block:
        """The block of z + by; only where its mean is pinned as one number."""
        name = f"m_{self.name}"
        mean = replace(self.pinned[name], value=self.pinned[name].value + by)
        return replace(self, mean=self.mean + by, pinned={**self.pinned, name: mean})


def scalar(name: str, rows: int, mean: float, sd: float) -> Block:
    """`latent c ~ normal(mean, sd)`, the same for every row; `flat` where sd is infinite."""
    if math.isinf(sd):
        flat = (f"latent {name} ~ flat",)
        return Block(name, np.ones((rows, 1)), np.zeros(1), None, flat, name)
    return Block(
        name,
        np.ones((rows, 1)),
        np.array([mean]),
        np.array([[sd**2]]),
        (f"latent {name} ~ normal(mean = m_{name}, sd = s_{name})",),
        name,
        {f"m_{name}": Pinned(mean, "real"), f"s_{name}": Pinned(sd)},
    )


def coefficients(name: str, X: Array, mean: float, sd: float) -> Block:
    """`latent b[k] ~ normal(mean, sd)` on covariates X, (rows, k)."""
    size = X.shape[1]
    lines = (
        f"index k_{name} = {size}",
        f"data X_{name}[obs, k_{name}] : real",
        f"latent {name}[k_{name}] ~ normal(mean = m_{name}, sd = s_{name})",
    )
    pinned = {f"m_{name}": Pinned(mean, "real"), f"s_{name}": Pinned(sd)}
    return Block(
        name,
        X,
        np.full(size, mean),
        sd**2 * np.eye(size),
        lines,
        f"X_{name} @ {name}",
        pinned,
        {f"X_{name}": X},
    )


def levels(name: str, who: IntArray, size: int, sd: float) -> Block:
    """`latent u[g] ~ normal(sd)`, gathered by `who`, (rows,)."""
    lines = (
        f"index g_{name} = {size}",
        f"data who_{name}[obs] : g_{name}",
        f"latent {name}[g_{name}] ~ normal(sd = s_{name})",
    )
    return Block(
        name,
        np.eye(size)[who],
        np.zeros(size),
        sd**2 * np.eye(size),
        lines,
        f"{name}[who_{name}]",
        {f"s_{name}": Pinned(sd)},
        {f"who_{name}": who},
    )


def correlated(name: str, who: IntArray, covariance: Array) -> Block:
    """`latent e[g] ~ dense(cov)`, gathered by `who`, (rows,)."""
    size = len(covariance)
    lines = (
        f"index g_{name} = {size}",
        f"data who_{name}[obs] : g_{name}",
        f"data S_{name}[g_{name}, g_{name}] : real",
        f"latent {name}[g_{name}] ~ dense(cov = S_{name})",
    )
    return Block(
        name,
        np.eye(size)[who],
        np.zeros(size),
        covariance,
        lines,
        f"{name}[who_{name}]",
        {},
        {f"who_{name}": who},
        {f"S_{name}": covariance},
    )


def slopes(name: str, X: Array, who: IntArray, groups: int, covariance: Array) -> Block:
    """`latent d[g, k] ~ iid * dense(cov)`: coefficients of X, (rows, k), in each group of `who`."""
    g, k, size = f"g_{name}", f"k_{name}", X.shape[1]
    lines = (
        f"index {g} = {groups}",
        f"index {k} = {size}",
        f"data who_{name}[obs] : {g}",
        f"data X_{name}[obs, {k}] : real",
        f"data S_{name}[{k}, {k}] : real",
        f"latent {name}[{g}, {k}] ~ iid * dense(cov = S_{name})",
    )
    design = np.zeros((len(who), groups, size))
    design[np.arange(len(who)), who] = X
    return Block(
        name,
        design.reshape(len(who), -1),
        np.zeros(groups * size),
        np.asarray(np.kron(np.eye(groups), covariance)),
        lines,
        f"sum(X_{name} * {name}[who_{name}, {k}], {k})",
        {},
        {f"who_{name}": who, f"X_{name}": X},
        {f"S_{name}": covariance},
    )


def process(name: str, at: Array, sd: float, length: float) -> Block:
    """`latent f[obs] ~ gp(at, se(sd, length))`; equal rows of `at`, (rows, dims), make its
    covariance singular."""
    lines = (
        f"index k_{name} = {at.shape[1]}",
        f"data at_{name}[obs, k_{name}] : real",
        f"latent {name}[obs] ~ gp(at = at_{name}, kernel = se(sd = s_{name}, length = l_{name}))",
    )
    gaps = ((at[:, None, :] - at[None, :, :]) ** 2).sum(axis=2)
    pinned = {f"s_{name}": Pinned(sd), f"l_{name}": Pinned(length, power=0)}
    return Block(
        name,
        np.eye(len(at)),
        np.zeros(len(at)),
        sd**2 * np.exp(-0.5 * gaps / length**2),
        lines,
        name,
        pinned,
        {f"at_{name}": at},
        each_row=True,
    )
