"""The log evidence from draws of q and of the posterior (Meng, Wong 1996, Simulating ratios of
normalizing constants via a simple identity).

With w = p(y, z) / q(z), Z = E_q[w / (a w + b Z)] / E_p[1 / (a w + b Z)], a and b the shares of the
draws of p and of q. It asks of q and p no more than that they overlap.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array

ROUNDS = 200


def bridged(of_q: Array, of_p: Array, effective: float) -> tuple[float, float]:
    """log Z and its standard error from the log w of draws of q and of `effective` independent
    ones of p. (-inf, inf) where either has none that is finite."""
    of_p = of_p[np.isfinite(of_p)]
    if not len(of_p) or not np.isfinite(of_q).any():
        return -np.inf, np.inf
    centre = float(np.median(of_p))
    q, p = np.exp(np.clip(of_q - centre, -700.0, 300.0)), np.exp(np.clip(of_p - centre, -300, 300))
    a = effective / (effective + len(q))
    b, z = 1.0 - a, 1.0
    for _ in range(ROUNDS):
        before = z
        z = float(np.mean(q / (a * q + b * z)) / np.mean(1.0 / (a * p + b * z)))
        if abs(z - before) <= 1e-10 * z:
            break
    upper, lower = q / (a * q + b * z), 1.0 / (a * p + b * z)
    noise = upper.var() / (len(q) * upper.mean() ** 2) + lower.var() / (
        effective * lower.mean() ** 2
    )
    return centre + float(np.log(z)), float(np.sqrt(noise))
