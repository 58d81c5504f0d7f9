"""Mixed models with data made without random numbers, which R was given as well.

Each is written with its coefficients as hyperparameters, by maximum likelihood; `restricted` has
them as latents.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from lgmdsl.arrays import Array


def normals(size: int, step: int) -> Array:
    """(size,) normal quantiles at equal distances, in the order of multiples of a `step`."""
    places = (step * np.arange(size) + step // 2) % size
    return np.round(special.ndtri((places + 0.5) / size), 4)


def restricted(text: str) -> str:
    """The model with coefficients as latents: restricted likelihood."""
    return (
        text.replace(": real ~ flat", "~ flat")
        .replace("hyper a", "latent a")
        .replace("hyper b", "latent b")
    )


SLOPES = """lgm 1
index obs
index subject
index term = {"level", "slope"}
data y[obs]   : real
data x[obs]   : real
data who[obs] : subject
hyper a : real ~ flat
hyper b : real ~ flat
hyper S[term, term] : covariance ~ flat
hyper noise         : positive ~ flat
latent d[subject, term] ~ iid * dense(cov = S)
let mu[obs] = a + b * x + d[who, "level"] + d[who, "slope"] * x
observe y ~ normal(mean = mu, sd = noise)
"""


def slopes() -> dict[str, Array]:
    """18 subjects of 7 days each; those of the last are incomplete."""
    who, x = np.repeat(np.arange(18), 7), np.tile(np.arange(7.0), 18)
    level, slope = 25.0 * normals(18, 5), 6.0 * normals(18, 13)
    y = 250.0 + 10.0 * x + level[who] + slope[who] * x + 14.0 * normals(126, 41)
    kept = np.arange(126) % 11 != 4
    return {"y": y[kept], "x": x[kept], "who": who[kept]}


CROSSED = """lgm 1
index obs
index plate
index sample
data y[obs]  : real
data x[obs]  : real
data on[obs] : plate
data of[obs] : sample
hyper a : real ~ flat
hyper b : real ~ flat
hyper s : positive ~ flat
hyper t : positive ~ flat
hyper noise : positive ~ flat
latent u[plate]  ~ normal(sd = s)
latent v[sample] ~ normal(sd = t)
observe y ~ normal(mean = a + b * x + u[on] + v[of], sd = noise)
"""


def crossed() -> dict[str, Array]:
    """Nine plates by six samples, in 24 of the 54 cells."""
    on, of = np.repeat(np.arange(9), 6), np.tile(np.arange(6), 9)
    x = normals(54, 7)
    y = 20.0 + 0.5 * x + 0.9 * normals(9, 2)[on] + 1.5 * normals(6, 5)[of] + 0.6 * normals(54, 13)
    kept = (on + 2 * of + on * of) % 3 != 1
    return {"y": y[kept], "x": x[kept], "on": on[kept], "of": of[kept]}


HERDS = """lgm 1
index obs
index herd
data y[obs]    : count
data size[obs] : count
data x[obs]    : real
data in[obs]   : herd
hyper a : real ~ flat
hyper b : real ~ flat
hyper s : positive ~ flat
latent u[herd] ~ normal(sd = s)
observe y ~ binomial(n = size, logit = a + b * x + u[in])
"""


def herds() -> dict[str, Array]:
    """Twelve herds in four periods: cases among 4 to 15 animals."""
    herd, x = np.repeat(np.arange(12), 4), np.tile(np.arange(4.0), 12)
    size = 4 + (5 * np.arange(48)) % 12
    rate = special.expit(-0.8 - 0.45 * x + 0.9 * normals(12, 5)[herd] + 0.5 * normals(48, 13))
    return {"y": np.round(size * rate), "size": size, "x": x, "in": herd}
