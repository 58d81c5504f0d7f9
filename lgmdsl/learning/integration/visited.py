"""Fits at places around the mode, each made once, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.status import Status
from lgmdsl.learning.coordinates.standardised import Standardised
from lgmdsl.learning.integration.surrogate import squares
from lgmdsl.learning.objective.blend import Blend, Sites
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective

LOOSEST = 100.0  # times the tolerances of the mode: those of a fit of little weight


@dataclass(frozen=True, eq=False)
class Fitted:
    """What is kept of a fit at one point: not its factorisation, which a mixture of large models
    has no room for."""

    theta: Theta
    density: float
    density_gradient: Array
    log_evidence: float
    weight: Rows
    shift: Rows
    converged: bool

    @property
    def sites(self) -> Sites:
        """W and b."""
        return self.weight, self.shift

    @classmethod
    def of(cls, at: Evaluation) -> Fitted:
        """The evaluation without its posterior."""
        q = at.posterior
        return cls(
            at.theta,
            at.density,
            at.density_gradient,
            q.log_evidence,
            q.weight,
            q.shift,
            at.run.status is Status.converged,
        )


@dataclass
class Known:
    """What was made so far, each as soon as it is there, for whoever goes on after an interrupt:
    `fits`, the modes' among them, and `hessians` at modes that no search has one of, by the bytes
    of their coordinates x."""

    fits: dict[bytes, Fitted] = field(default_factory=dict)
    hessians: dict[bytes, Array] = field(default_factory=dict)


@dataclass
class Visited:
    """The fits made so far, by their places u in standardised coordinates; `made`: those of
    all regions, and of an integration that was interrupted."""

    objective: Objective
    mode: Evaluation
    frame: Standardised
    stretch: Array = field(default_factory=lambda: np.ones((1, 2)))
    known: dict[tuple[float, ...], Fitted | None] = field(default_factory=dict)
    made: Known = field(default_factory=Known)

    @property
    def u(self) -> Array:
        """(n, d) places that have a fit."""
        return np.array([u for u, _ in self.fits])

    @property
    def fits(self) -> Iterator[tuple[tuple[float, ...], Fitted]]:
        """Places u that have a fit, and the fits."""
        return ((u, f) for u, f in self.known.items() if f is not None)

    def sides(self, u: Array) -> Array:
        """The half-axes of the sides that u, (..., d), are on."""
        return np.where(u < 0.0, self.stretch[:, 0], self.stretch[:, 1])

    def moved(self, z: Array) -> Array:
        """(n, d) the places u of z."""
        return np.asarray(z * self.sides(z))

    def fit(self, z: Array) -> Fitted:
        """The fit at one place z, (d,), which there is."""
        found = self.known[_key(self.moved(z[None])[0])]
        assert found is not None
        return found

    def known_at(self, u: Array) -> Fitted | None:
        """The fit at one place u, (d,), that was asked for; None where there is none."""
        return self.known[_key(u)]

    def at(self, z: Array) -> list[float]:
        """The log densities at z, (n, d), with the stretches; -inf where there is no fit."""
        return self.at_u(self.moved(z))

    def at_u(self, places: Array) -> list[float]:
        """The log densities at u, (n, d): places that are new are fitted, in parallel."""
        keys = [_key(u) for u in places]
        new = [u for u in dict.fromkeys(keys) if u not in self.known]
        self.known.update(zip(new, self._fits(new), strict=True))
        found = [self.known[u] for u in keys]
        return [-np.inf if f is None else f.density for f in found]

    def start(self) -> Callable[[Array], Blend] | None:
        """Where a fit at x, (d,), starts, by the fits that there are now; None: at the mode."""
        scale = self.stretch.mean(axis=1)
        fits = [f for _, f in self.fits]
        if not fits:
            return None
        surface = SiteSurface(self.u / scale, [f.sites for f in fits])
        return lambda x: surface.at(self.frame.u(x) / scale)

    def rough(self) -> Callable[[Array], float]:
        """The relative tolerance of a fit at x, (d,), that goes with its weight: the objective's
        times e to the nats below the mode, LOOSEST at most. Tangents at the fits that there are
        bound the density where it is log-concave."""
        fits = [f for _, f in self.fits]
        if not fits:
            return lambda x: 0.0
        places = np.array([self.frame.x(u) for u in self.u])
        values = np.array([f.density for f in fits])
        slopes = np.array([f.density_gradient for f in fits])

        def at(x: Array) -> float:
            tangents = values + np.einsum("nd,nd->n", slopes, x - places)
            fall = np.clip(self.mode.density - tangents.min(), 0.0, np.log(LOOSEST))
            return float(self.objective.tolerances.evidence * np.exp(fall))

        return at

    def _fits(self, places: list[tuple[float, ...]]) -> list[Fitted | None]:
        x = [self.frame.x(np.array(u)) for u in places if any(u)]
        made = self.made.fits
        new = [v for v in x if v.tobytes() not in made]
        self.objective.many(
            new, self.mode, Fitted.of, self.rough(), self.start(), arrived=self._keep
        )
        fits = iter([made.get(v.tobytes()) for v in x])
        top = self.mode.x.tobytes()
        if top not in made:
            self._keep(self.mode.x, Fitted.of(self.mode))
        return [next(fits) if any(u) else made[top] for u in places]

    def _keep(self, x: Array, fitted: Fitted) -> None:
        self.made.fits[x.tobytes()] = fitted


def _key(u: Array) -> tuple[float, ...]:
    return tuple(float(v) + 0.0 for v in u)  # -0.0 is 0.0


# ---- site surface ------------------------------------------------------------------------------
# Where a further fit starts: site parameters (W, b) at a place, through those of fits made.
#
#     log w(u) = sum_k c_k(u) log w_k,   b(u) = sum_k c_k(u) b_k
#
# c(u) are the coefficients of universal kriging with a linear trend and a squared exponential
# covariance (Cressie 1993, section 3.4), the same for all rows. The sites' parameters are smooth in
# the hyperparameters, so that a fit that starts there has little left to do; it is iterated to the
# same tolerances from there as from anywhere.


LENGTH = 3.0  # of the covariance, in half-axes
NOISE = 1e-6  # of it: what the fits' tolerances leave of the parameters
NEAREST = 24  # fits that count
MET = 1e-3  # to what the conditions of a linear trend hold
WILD = 20.0  # sum of |c| from which the nearest fit is a better start


@dataclass(frozen=True, eq=False)
class SiteSurface:
    """`places` (n, d), in half-axes, of fits with `sites` (W, b)."""

    places: Array
    sites: Sequence[Sites]

    def at(self, place: Array) -> Blend:
        """Blend of the sites at a place (d,); the nearest fit's sites where coefficients are
        WILD."""
        away = np.linalg.norm(self.places - place, axis=1)
        near = np.argsort(away, kind="stable")[:NEAREST]
        share = coefficients(self.places[near], place)
        if not np.abs(share).sum() <= WILD:
            return Blend((self.sites[near[0]],), None)
        return Blend(tuple(self.sites[k] for k in near), share)


def coefficients(places: Array, place: Array) -> Array:
    """(n,) c at a place (d,), which sum to 1, from places (n, d): exact for what is linear; inf
    where the places leave a trend open."""
    n, d = places.shape
    scaled, here = places / LENGTH, place / LENGTH
    system = np.zeros((n + 1 + d, n + 1 + d))
    system[:n, :n] = np.exp(-0.5 * squares(scaled, scaled)) + NOISE * np.eye(n)
    system[:n, n] = system[n, :n] = 1.0
    system[:n, n + 1 :] = scaled - here
    system[n + 1 :, :n] = (scaled - here).T
    wanted = np.zeros(n + 1 + d)
    wanted[:n] = np.exp(-0.5 * squares(here[None], scaled))[0]
    wanted[n] = 1.0
    found = np.linalg.lstsq(system, wanted, rcond=1e-12)[0][:n]
    met = np.concatenate([[found.sum() - 1.0], system[n + 1 :, :n] @ found])
    return np.asarray(found if np.abs(met).max() < MET else np.full(n, np.inf))
