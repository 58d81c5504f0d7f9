"""The input of every assessment: the Gaussian at each hyperparameter point, and its weight.

A posterior over hyperparameters is a mixture of Gaussians; a fit at fixed hyperparameters is one of
a single component of weight 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.model import some_rows
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.site import Site
from lgmdsl.sites.combined.weighted import weighted

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Component:
    """One hyperparameter point of a posterior, its observed rows alone (no potentials).

    `weight`: the point's posterior weight; the weights of all components sum to 1.
    `sites`: the families as the model writes them, bound at this point with their responses.
    `mean`, `variance`: of the predictors that `sites` take, under q; `site_weight`, `site_shift`:
    the W and b of their Gaussian sites. One array for each observed datum, (N,) or (N, K) and
    (N, K, K). `predict` gives the predictors themselves as maps of z, whose latent blocks are at
    `slices` of the `conditioned` Gaussian. `theta`: the hyperparameters of q(z) by name, those of
    `sites` too unless these have a separate factor. `row_weights`, (N,) for each datum: q was
    made with t to this power, which `sites` are without.
    """

    weight: float
    sites: tuple[Site, ...]
    mean: Rows
    variance: Rows
    site_weight: Rows
    site_shift: Rows
    condition: Callable[[], Conditioned]
    predict: Callable[[], tuple[Predictor, ...]]
    slices: Mapping[str, slice]
    theta: Mapping[str, Array]
    row_weights: Rows

    def removed(self, block: int, rows: IntArray) -> Site:
        """What leaves the posterior with some sites of one datum: t^weight."""
        site, weight = self.sites[block].take(rows), self.row_weights[block][rows]
        if np.all(weight == 1.0):
            return site
        made: Any = weighted(type(site))
        values = {f.name: getattr(site, f.name) for f in dataclasses.fields(site)}
        return cast(Site, made(**values, weight=weight))

    def same_latents(self, other: Component) -> bool:
        """Whether both are of the same q(z), and differ by their sites' parameters alone."""
        return self.theta is other.theta

    @property
    def conditioned(self) -> Conditioned:
        """q(z) at this point; large ones are conditioned again at every call."""
        return self.condition()

    @cached_property
    def predictors(self) -> tuple[Predictor, ...]:
        """The predictors of the observed rows of each datum."""
        return self.predict()

    def rows(self, block: int, sites: IntArray) -> Predictor:
        """The predictor rows of some sites of one datum."""
        whole = self.predictors[block]
        event = max(whole.event, 1)
        flat = (sites[:, None] * event + np.arange(event)).reshape(-1)
        return replace(some_rows(whole, flat), event=whole.event)

    def at(self, z: Array) -> Rows:
        """The predictors at draws z, (size, n): (size, N) or (size, N, K) for each datum."""
        out = []
        for predictor, mean in zip(self.predictors, self.mean, strict=True):
            s = predictor.values(z.T, self.slices)
            out.append(s.T.reshape(len(z), *mean.shape))
        return tuple(out)


def of_each(components: Sequence[Component], make: Callable[[Component], Result]) -> list[Result]:
    """`make` of each component, once where neighbours share q(z)."""
    out: list[Result] = []
    for k, c in enumerate(components):
        shared = k > 0 and c.same_latents(components[k - 1])
        out.append(out[-1] if shared else make(c))
    return out


def of_each_once(components: Sequence[Component]) -> list[Component]:
    """Components that `of_each` makes something of."""
    return [c for k, c in enumerate(components) if k == 0 or not c.same_latents(components[k - 1])]


def only(components: Sequence[Component], block: int, row: int) -> tuple[IntArray, ...]:
    """One row of one datum, and none of the others."""
    none = np.arange(0)
    count = len(components[0].sites)
    return tuple(np.array([row]) if k == block else none for k in range(count))


def factored(components: Sequence[Component]) -> bool:
    """Whether the sites' parameters have a separate factor, next to one q(z)."""
    return len(components) > 1 and components[0].same_latents(components[1])
