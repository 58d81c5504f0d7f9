"""Potentials of norms: `potential w ~ laplace(scale = s, group = task)`.

    log t(s) = l_n(||s||),   s (N, K), n = members <= K: predictors beyond n are zero

normalised over R^n, so that its scale can be learned. One factory makes them all from a scalar
potential that is a function of |s| (`Normed`). A scale mixture of normals with one variance for
the whole group where the scalar potential is one with a variance for each entry.
"""

from __future__ import annotations

import dataclasses
from functools import cache, cached_property
from typing import Any, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.questions import (
    Expected,
    ExpectedSlopes,
    Normed,
    Pointwise,
    PointwiseAnswer,
    Radial,
    Tilted,
)
from lgmdsl.contract.site import Property, Site
from lgmdsl.sites.combined.combined import CombinedSite, derived, spec_of

# What holds of a function of |s| holds of the same function of ||s||: log-concavity, as the norm
# is convex and l falls from 0 on.
KEPT = Property.LOG_CONCAVE | Property.SUPER_GAUSSIAN | Property.KINKED | Property.BOUNDED


class NormSite(CombinedSite, Pointwise, Radial):
    """Potentials of norms; `members` is how many of the K predictors each group has."""

    members: Array

    @classmethod
    def never(cls, question: type) -> str:
        if issubclass(question, Expected | ExpectedSlopes):
            return (
                f"the expectation of {cls.spec.name} is an integral over all entries of a group: "
                "double-loop bounds it"
            )
        if cls.spec.properties & Property.KINKED and issubclass(question, Tilted):
            return f"{cls.spec.name} has a kink, which no rule in several dimensions resolves"
        return super().never(question)

    @cached_property
    def radial(self) -> tuple[Normed, Array]:
        """Scalar sites and constants: log t is l(||s||) + c."""
        return cast(Normed, self.plain).of_norm(self.members)

    @property
    def _line(self) -> Any:
        return self.radial[0]

    def log_density(self, s: Array) -> Array:
        """l at s, (..., N, K)."""
        return np.asarray(self._line.log_density(np.linalg.norm(s, axis=-1)) + self.radial[1])

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """With r = ||s||, u = s / r: l' = l_r u, l'' = l_rr uu' + (l_r / r)(I - uu'); the direction
        at r = 0 does not matter where l is smooth, and at a kink the slope is 0."""
        (n, k), length = s.shape, np.linalg.norm(s, axis=-1)
        u = s / np.where(length > 0.0, length, 1.0)[:, None]
        line = self._line.pointwise(length)
        _, g1, g2 = self._line.g(length * length)
        across = 2.0 * g1  # l_r / r, with its digits near 0
        outer = u[:, :, None] * u[:, None, :]
        flat = rows.isotropic(across, s)
        with np.errstate(over="ignore", invalid="ignore"):
            curvature = flat + (line.curvature - across)[:, None, None] * outer
            v = variance * np.eye(k)[None] if np.ndim(variance) == 0 else np.asarray(variance)
            vu = np.einsum("nij,nj->ni", np.broadcast_to(v, (n, k, k)), u)
            trace, along = np.einsum("nii->n", v), rows.inner(u, vu)
            bend = 4.0 * g2 * length
            third = bend[:, None] * (2.0 * vu + trace[:, None] * u)
            third += ((line.third - 3.0 * bend) * along)[:, None] * u
        return PointwiseAnswer(
            line.value + self.radial[1],
            line.slope[:, None] * u,
            np.where(length[:, None, None] > 0.0, curvature, flat),
            np.where(length[:, None] > 0.0, third, 0.0),
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return self._slopes(np.linalg.norm(s, axis=-1))

    def width_slopes(self, s: Array, z: Array) -> dict[str, Array]:
        return self._slopes(np.sqrt(rows.spread(z) + rows.inner(s, s)))

    def _slopes(self, length: Array) -> dict[str, Array]:
        return cast(Normed, self.plain).norm_slopes(length, self.members)

    def g(self, x: Array) -> tuple[Array, Array, Array]:
        value, first, second = self._line.g(x)
        return value + self.radial[1], first, second

    def landmark(self) -> tuple[Array, Array]:
        distance = self._line.landmark()[1]
        return np.zeros_like(distance), distance

    def measured(self, origin: Array, unit: float) -> tuple[Any, float]:
        """The sites in another unit of all predictors: a density of each member."""
        plain, _ = self.plain.measured(np.zeros(len(self)), unit)
        values: dict[str, Any] = {n: getattr(plain, n) for n in self.base.spec.parameters}
        lost = -float(np.sum(self.members)) * float(np.log(unit))
        return dataclasses.replace(self, **values), lost


@cache
def of_norms(base: type[Site]) -> type[Site]:
    """The potentials of norms of a family. Raises TypeError for one that is not `Normed`."""
    if not issubclass(base, Normed):
        raise TypeError(f"{base.spec.name} has no form for the norm of a group")
    spec = spec_of(
        base,
        "group",
        {"members": None},
        properties=base.spec.properties & KEPT,
        vector=True,
        gaussian_scale="",
        summary=f"{base.spec.summary}, of the norm of a group",
    )
    return derived(of_norms, base, [NormSite], spec, ("members",), {})
