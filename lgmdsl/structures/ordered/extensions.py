"""New members of ordered structures, given the fitted ones: links, recursions, splines.

The answer for a member does not depend on the others asked for: fitted and new members belong to
one process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.contract.structure import Extension
from lgmdsl.structures.shared.refusals import Refused

# How many members a structure extends to at once: their covariance is an array of 0.8 GB.
MOST = 10_000
# Steps are counted in labels that a double holds exactly.
FARTHEST = 2.0**52

Core = Callable[[Array, Array], Extension]


def extended(name: str, places: Array, new: Array, core: Core) -> Extension:
    """`core` at new places alone, sorted and distinct, as are the fitted ones it gets: members at
    one place are one. Raises Refused (E302) for places that are not finite, or too many."""
    if not np.isfinite(new).all():
        raise Refused("E302", f"a new place of `{name}` is not a finite number")
    fitted, first = np.unique(places, return_index=True)
    distinct, back = np.unique(new, return_inverse=True)
    known = np.isin(distinct, fitted)
    if (~known).sum() > MOST:
        raise Refused(
            "E302",
            f"{int((~known).sum())} new members of {{axis}} are asked for at once",
            label=f"at most {MOST} are possible, as all their covariances are stored",
            help="ask for them in several calls",
        )
    extension = core(fitted, distinct[~known])
    weights = sp.lil_array((len(distinct), len(fitted)))
    weights[np.flatnonzero(known), np.searchsorted(fitted, distinct[known])] = 1.0
    whole = sp.csr_array(weights)
    whole = whole + _rows_at(np.flatnonzero(~known), len(distinct)) @ extension.weights
    covariance = np.zeros((len(distinct), len(distinct)))
    covariance[np.ix_(~known, ~known)] = extension.covariance
    spread = sp.csr_array(
        (np.ones(len(first)), (np.arange(len(first)), first)), shape=(len(first), len(places))
    )
    back = back.reshape(-1)
    return Extension(sp.csr_array(whole[back] @ spread), covariance[np.ix_(back, back)])


def _rows_at(rows: IntArray, size: int) -> SparseMatrix:
    """(size, k): the k rows put where they belong."""
    ones = np.ones(len(rows))
    return sp.csr_array((ones, (rows, np.arange(len(rows)))), shape=(size, len(rows)))


def whole_steps(name: str, places: Array, new: Array) -> None:
    """Raise Refused (E302) for places between the steps of an axis."""
    odd = new[(new != np.round(new)) | (np.abs(new) > FARTHEST)]
    if odd.size:
        raise Refused(
            "E302",
            f"`{name}` has no members between the steps of {{axis}}",
            label=f"one is asked for {odd[0]:.12g} steps after the first fitted one",
            help="ask for whole steps, or fit a process in continuous time: ou(at = ...)",
        )


@dataclass(frozen=True)
class Links:
    """A Markov chain: `step(gap)` the slope of a member on the one before it and the variance left,
    `bridge(before, after)` the slopes on both neighbours and the variance left."""

    step: Callable[[float], tuple[float, float]]
    bridge: Callable[[float, float], tuple[float, float, float]]

    def __call__(self, fitted: Array, new: Array) -> Extension:
        """Each new member given its neighbours, fitted ones or the new one before it."""
        m, n = len(new), len(fitted)
        after = np.searchsorted(fitted, new)  # the fitted neighbour after each
        slopes, covariance = np.zeros((m, 2)), np.zeros((m, m))
        columns = np.column_stack([np.maximum(after - 1, 0), np.minimum(after, n - 1)])
        outside = np.flatnonzero(after == 0)[::-1]
        previous = -1
        for k in (*outside, *np.flatnonzero(after > 0)):
            same = previous >= 0 and after[previous] == after[k]
            end = fitted[columns[k, 1 if after[k] == 0 else 0]]
            gap = abs(float(new[k] - (new[previous] if same else end)))
            intercepts = np.zeros(2)
            if after[k] in (0, n):
                slope, innovation = self.step(gap)
            else:
                slope, intercepts[1], innovation = self.bridge(
                    gap, float(fitted[after[k]] - new[k])
                )
            start = np.array([0.0, 1.0] if after[k] == 0 else [1.0, 0.0])
            slopes[k] = intercepts + slope * (slopes[previous] if same else start)
            if same:
                covariance[k] = covariance[:, k] = slope * covariance[previous]
                covariance[k, k] = slope * slope * covariance[previous, previous]
            covariance[k, k] += innovation
            previous = int(k)
        rows = np.repeat(np.arange(m), 2)
        weights = sp.csr_array((slopes.reshape(-1), (rows, columns.reshape(-1))), shape=(m, n))
        weights.eliminate_zeros()
        return Extension(weights, covariance)


@dataclass(frozen=True, eq=False)
class Recursion:
    """A state x_t = F x_{t-1} + g e_t, var e = `variance` (of the first one after the fitted
    members: `first`), whose first entry is the member z_t. `state` (p, n) gives x before the first
    new member by its slopes on the fitted ones."""

    transition: Array  # F, (p, p)
    direction: Array  # g, (p,)
    variance: float
    first: float
    state: SparseMatrix

    def ahead(self, steps: IntArray) -> Extension:
        """The members so many steps after the fitted ones, sorted. Raises Refused (E302) where
        they are too far to be computed."""
        m, (p, n) = len(steps), self.state.shape
        if not p:
            return Extension(sp.csr_array((m, n)), self.variance * np.eye(m))
        noise = np.outer(self.direction, self.direction)
        slopes, covariance = np.zeros((m, p)), np.zeros((m, m))
        power, spread = self.transition, self.first * noise
        together, reached = np.zeros((p, m)), 1
        with np.errstate(over="ignore", invalid="ignore"):
            for k, step in enumerate(steps.tolist()):
                move, added = _after(self.transition, self.variance * noise, step - reached)
                power = move @ power
                spread = move @ spread @ move.T + added
                together[:, :k] = move @ together[:, :k]
                together[:, k] = spread[:, 0]
                slopes[k], reached = power[0], step
                covariance[k, : k + 1] = covariance[: k + 1, k] = together[0, : k + 1]
        if not (np.isfinite(slopes).all() and np.isfinite(covariance).all()):
            raise Refused("E302", "new places are too far from those of {axis} to be computed")
        return Extension(sp.csr_array(sp.csr_array(slopes) @ self.state), covariance)


def autoregression(coefficients: Array, variance: float, size: int) -> Recursion:
    """z_t = sum_k coefficients[k - 1] z_{t - k} + e after `size` fitted members."""
    p = len(coefficients)
    companion = np.vstack([coefficients.reshape(1, -1), np.eye(p)[:-1]]) if p else np.zeros((0, 0))
    latest = sp.csr_array(sp.eye_array(size, format="csr")[::-1][:p])
    return Recursion(companion, np.eye(p, 1).reshape(-1), variance, variance, latest)


def _after(transition: Array, noise: Array, steps: int) -> tuple[Array, Array]:
    """F to a power, and the noise of so many steps, by doubling."""
    power, spread = np.eye(len(transition)), np.zeros_like(noise)
    double, doubled = transition, noise
    while steps:
        if steps & 1:
            power, spread = double @ power, double @ spread @ double.T + doubled
        steps >>= 1
        if steps:
            double, doubled = double @ double, double @ doubled @ double.T + doubled
    return power, spread


def both_ends(before: Extension, after: Extension) -> Extension:
    """Members before all others (the nearest first) and after them, in the order of their places;
    given the fitted ones they are independent."""
    m = before.weights.shape[0]
    weights = sp.vstack([before.weights[::-1], after.weights], format="csr")
    covariance = np.zeros((weights.shape[0],) * 2)
    covariance[:m, :m] = before.covariance[::-1, ::-1]
    covariance[m:, m:] = after.covariance
    return Extension(sp.csr_array(weights), covariance)


def stepped(name: str, places: Array, new: Array, onward: Recursion) -> Extension:
    """A process in whole steps that is the same backwards. Raises Refused (E302) between steps."""
    whole_steps(name, places, new)
    back = replace(onward, state=mirrored(onward.state))

    def core(fitted: Array, asked: Array) -> Extension:
        before = np.round(fitted[0] - asked[asked < fitted[0]])[::-1].astype(np.int64)
        after = np.round(asked[asked > fitted[-1]] - fitted[-1]).astype(np.int64)
        return both_ends(back.ahead(before), onward.ahead(after))

    return extended(name, places, new, core)


def mirrored(matrix: SparseMatrix) -> SparseMatrix:
    """The columns in the opposite order: what holds after the last member, before the first."""
    return sp.csr_array(matrix.tocsc()[:, ::-1])
