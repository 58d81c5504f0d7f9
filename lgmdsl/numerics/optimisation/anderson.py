"""Anderson acceleration of a fixed-point map x -> G(x) (Walker and Ni 2011, type II)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array


@dataclass(frozen=True)
class Anderson:
    """The last `memory` pairs (x, F = G(x) - x), newest last."""

    memory: int = 6
    points: tuple[Array, ...] = ()
    residuals: tuple[Array, ...] = ()

    def seen(self, x: Array, image: Array) -> Anderson:
        """The history with the pair (x, G(x)) added."""
        keep = self.memory + 1
        return replace(
            self,
            points=(*self.points, x)[-keep:],
            residuals=(*self.residuals, image - x)[-keep:],
        )

    def candidate(
        self, measure: Callable[[Array], Array] | None = None, share: float = 1.0
    ) -> Array:
        """x + r F - (dX + r dF) c, r the `share`, c = argmin |measure(F - dF c)|; after one pair
        x + r F. `measure` is linear, of residuals (n,) or columns of them (n, k)."""
        x, f = self.points[-1], self.residuals[-1]
        if len(self.points) < 2:
            return x + share * f
        df = np.diff(np.stack(self.residuals, axis=1), axis=1)
        dx = np.diff(np.stack(self.points, axis=1), axis=1)
        left, right = (df, f) if measure is None else (measure(df), measure(f))
        c, *_ = np.linalg.lstsq(left, right, rcond=1e-10)
        return np.asarray(x + share * f - (dx + share * df) @ c)
