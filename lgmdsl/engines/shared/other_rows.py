"""One Gaussian q(z) seen at other rows: those of a model in which rows that are alike are one, or
the other way round. All that concerns latents is the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Adjoints, Conditioned, Draws, Errors, Failed, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.engines.shared.wrapped import WrappedConditioned

if TYPE_CHECKING:
    from numpy.random import Generator


class OtherRows(WrappedConditioned):
    """`inner` at other rows, whose sites are `weight` and `shift`; `outward` gives variances of
    predictors at these rows from those at inner's, `lifted` means (None: in the same way), `inward`
    the shifts of inner's rows whose sum is that of shifts at these.

    `log_normaliser` and `centred` are inner's: the sums of the sites are the same functions.
    """

    def __init__(
        self,
        inner: Conditioned,
        weight: Rows,
        shift: Rows,
        outward: Callable[[Rows], Rows],
        inward: Callable[[Rows], Rows],
        lifted: Callable[[Rows], Rows] | None = None,
    ) -> None:
        self.inner, self.weight, self.shift = inner, weight, shift
        self.outward, self.inward, self.lifted = outward, inward, lifted or outward
        self.log_normaliser = inner.log_normaliser

    @property
    def unconfined(self) -> Conditioned:
        inner = self.inner.unconfined
        if inner is self.inner:
            return self
        return self._about(inner, self.shift)

    def with_shift(self, shift: Rows) -> Conditioned | Failed:
        moved = self.inner.with_shift(self.inward(shift))
        if isinstance(moved, Failed):
            return moved
        return self._about(moved, shift)

    def _about(self, inner: Conditioned, shift: Rows) -> OtherRows:
        return OtherRows(inner, self.weight, shift, self.outward, self.inward, self.lifted)

    @cached_property
    def mean(self) -> Rows:
        return self.lifted(self.inner.mean)

    @cached_property
    def variance(self) -> Rows:
        return self.outward(self.inner.variance)

    @property
    def latent_mean(self) -> Array:
        return self.inner.latent_mean

    def project(self, predictor: Predictor, full: bool = False) -> tuple[Array, Array]:
        return self.inner.project(predictor, full)

    def sample(self, rng: Generator, size: int) -> Array:
        return self.inner.sample(rng, size)

    def draw(self, rng: Generator, size: int) -> Draws:
        return self.inner.draw(rng, size)

    def adjoints(self, tilt: Rows | None = None) -> Adjoints:
        """Raise NotImplementedError: learning asks the inner model, which has its rows."""
        raise NotImplementedError("adjoints are those of the model that was conditioned")

    @property
    def errors(self) -> Errors | None:
        errors = self.inner.errors
        return errors and Errors(errors.log_normaliser, self.outward(errors.variance))
