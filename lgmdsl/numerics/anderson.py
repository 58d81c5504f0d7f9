"""Anderson acceleration of a fixed-point map x -> G(x) (Walker and Ni 2011, type II)."""

from __future__ import annotations

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

    def candidate(self) -> Array:
        """x + F - (dX + dF) c with c = argmin |F - dF c|; the plain image after one pair."""
        x, f = self.points[-1], self.residuals[-1]
        if len(self.points) < 2:
            return x + f
        df = np.diff(np.stack(self.residuals, axis=1), axis=1)
        dx = np.diff(np.stack(self.points, axis=1), axis=1)
        c, *_ = np.linalg.lstsq(df, f, rcond=1e-10)
        return np.asarray(x + f - (dx + df) @ c)
