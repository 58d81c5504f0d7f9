"""Random Gaussian-process problems of any hardness, shared by tests and measurements of EP."""

from __future__ import annotations

from typing import Any

import numpy as np

from lgmdsl.arrays import AnyArray

SITES = {
    "logit": ("binary", "bernoulli(logit = f)"),
    "probit": ("binary", "bernoulli(probit = f)"),
    "poisson": ("count", "poisson(log_rate = f)"),
    "student_t": ("real", "student_t(mean = f, scale = 0.5, df = 4)"),
}


def random_gp(rng: np.random.Generator, family: str, most: int = 300) -> tuple[str, dict[str, Any]]:
    """20 to `most` points in the plane; log sd of the kernel from -1 to 5, log length from -1 to
    1.5; a tenth of real responses are outliers."""
    n = int(rng.integers(20, most + 1))
    log_sd, log_length = rng.uniform(-1.0, 5.0), rng.uniform(-1.0, 1.5)
    x = rng.standard_normal((n, 2))
    g = np.sin(2 * x[:, 0]) + x[:, 1] ** 2 - 1 + 0.5 * rng.standard_normal(n)
    type_, site = SITES[family]
    y: AnyArray
    if type_ == "binary":
        y = (g > 0).astype(np.int64)
    elif type_ == "count":
        y = rng.poisson(np.exp(np.clip(g, -3, 3)))
    else:
        far = rng.random(n) < 0.1
        y = g + np.where(far, 5.0 * rng.standard_normal(n), 0.0)
    text = (
        f"lgm 1\nindex obs\nindex dim\ndata x[obs, dim] : real\ndata y[obs] : {type_}\n"
        f"latent f[obs] ~ gp(at = x, kernel = se(sd = {float(np.exp(log_sd))!r}, "
        f"length = {float(np.exp(log_length))!r}))\nobserve y ~ {site}\n"
    )
    return text, {"x": x, "y": y}
