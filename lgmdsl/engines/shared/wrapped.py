"""A posterior seen otherwise: what it answers of the latents' spread is that of the one inside."""

from __future__ import annotations

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned, Confinement, Leftover


class WrappedConditioned(Conditioned):
    """`inner` in other units, or at other rows; means, sites and rows are the subclass's."""

    inner: Conditioned

    @property
    def confinement(self) -> Confinement | None:
        return self.inner.confinement

    @property
    def centred(self) -> float:
        return self.inner.centred

    @property
    def lost(self) -> float:
        return self.inner.lost

    @property
    def latent_variance(self) -> Array:
        return self.inner.latent_variance

    @property
    def latent_variance_error(self) -> Array | None:
        return self.inner.latent_variance_error

    @property
    def remark(self) -> str:
        return self.inner.remark

    def solve(self, rhs: Array) -> Array:
        return self.inner.solve(rhs)

    def squared_length(self, slope: Array) -> float:
        return self.inner.squared_length(slope)

    @property
    def leftover(self) -> Leftover | None:
        return self.inner.leftover
