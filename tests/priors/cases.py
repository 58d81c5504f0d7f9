"""Arguments for every prior, and integrals of densities over their whole range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from lgmdsl.arrays import Array
from lgmdsl.priors.catalogue import prior
from lgmdsl.priors.prior import Elementwise, Prior

Case = tuple[str, str, Mapping[str, Any]]

SPECTRUM = 1.0 / (2.2 * (1.0 - np.cos(2 * np.pi * np.arange(1, 40) / 40)))
RING = np.sort(np.concatenate([[0.0, 1.0], SPECTRUM]))  # near that of a ring of 40 and an island

ELEMENTWISE: tuple[Case, ...] = (
    ("pc_sd", "positive", {"u": 1.3, "alpha": 0.05}),
    ("pc_sd", "positive", {"u": 0.01, "alpha": 0.9}),
    ("pc_range", "positive", {"u": 0.3, "alpha": 0.1}),
    ("pc_cor0", "correlation", {"u": 0.5, "alpha": 0.1}),
    ("pc_cor0", "correlation", {"u": 0.3, "alpha": 0.01}),
    ("pc_cor1", "correlation", {"u": 0.7, "alpha": 0.9}),
    ("pc_cor1", "correlation", {"u": 0.5, "alpha": 0.5001}),
    ("pc_cor1", "correlation", {"u": -0.4, "alpha": 0.99}),
    ("pc_df", "positive", {"u": 10.0, "alpha": 0.3}),
    ("pc_df", "positive", {"u": 3.0, "alpha": 0.01}),
    ("pc_mix", "unit", {"graph": RING, "u": 0.05, "alpha": 0.99}),
    ("exponential", "positive", {"rate": 2.0}),
    ("half_normal", "positive", {"sd": 2.0}),
    ("half_cauchy", "positive", {"scale": 0.3}),
    ("half_student_t", "positive", {"scale": 2.5, "df": 3.0}),
    ("half_student_t", "positive", {"scale": 0.4, "df": 0.8}),
    ("half_student_t", "positive", {"scale": 0.4, "df": 300.0}),
    ("student_t", "real", {"location": 1.0, "scale": 2.5, "df": 4.0}),
    ("student_t", "real", {"location": -0.5, "scale": 0.6, "df": 1.5}),
    ("cauchy", "real", {"location": 1.0, "scale": 0.7}),
    ("logistic", "real", {"location": -2.0, "scale": 1.3}),
    ("lognormal", "positive", {"mean": 1.0, "sd": 0.5}),
    ("gamma", "positive", {"shape": 0.6, "rate": 2.5}),
    ("gamma", "positive", {"shape": 4.0, "rate": 0.5}),
    ("inv_gamma", "positive", {"shape": 2.3, "scale": 0.5}),
    ("normal", "real", {"mean": 1.0, "sd": 2.0}),
    ("beta", "unit", {"a": 2.0, "b": 0.7}),
    ("uniform", "real", {"lower": -1.0, "upper": 0.7}),
    ("uniform", "positive", {"lower": -1.0, "upper": 0.7}),
    ("uniform", "unit", {"lower": 0.2, "upper": 1.5}),
    ("uniform", "correlation", {"lower": -3.0, "upper": 0.5}),
)
NAMES = [f"{n}-{t}-{k}" for k, (n, t, _) in enumerate(ELEMENTWISE)]


def made(case: Case) -> Prior:
    name, type_, arguments = case
    return prior(name, type_, **arguments)


def moved(case: Case, argument: str, step: float) -> Prior:
    """The prior with one number changed."""
    name, type_, arguments = case
    return prior(name, type_, **{**arguments, argument: arguments[argument] + step})


def distribution(found: Elementwise) -> tuple[float, CubicHermiteSpline]:
    """The whole mass by panels of Gauss-Legendre in unbounded coordinates, and the
    distribution function in those coordinates."""
    edges = np.linspace(-36.0, 36.0, 1441)
    t, w = np.polynomial.legendre.leggauss(6)
    half = 0.5 * np.diff(edges)
    x = (edges[:-1, None] + half[:, None] * (t + 1.0)).reshape(-1)
    shares = (density(found, x).reshape(-1, 6) * (half[:, None] * w)).sum(axis=1)
    below = np.concatenate([[0.0], np.cumsum(shares)])
    return float(below[-1]), CubicHermiteSpline(edges, below, density(found, edges))


def density(found: Elementwise, x: Array) -> Array:
    """The density in unbounded coordinates; 0 where rounding puts the value on an edge."""
    value, jacobian = natural(found, x)
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.exp(found.terms(value).log_density) * jacobian)


def natural(found: Elementwise, x: Array) -> tuple[Array, Array]:
    """The value at an unbounded coordinate, and its slope."""
    lower, upper = found.bounds
    if np.isinf(lower):  # a Cauchy has 1e-16 of its mass beyond sinh(36)
        return np.sinh(x), np.cosh(x)
    if np.isinf(upper):
        return lower + np.exp(x), np.exp(x)
    up, down = 1.0 / (1.0 + np.exp(-x)), 1.0 / (1.0 + np.exp(x))
    width = upper - lower
    return np.where(x < 0, lower + width * up, upper - width * down), width * up * down


def coordinate(found: Elementwise, value: Array) -> Array:
    """The inverse of `natural`."""
    lower, upper = found.bounds
    if np.isinf(lower):
        return np.asarray(np.arcsinh(value))
    if np.isinf(upper):
        return np.asarray(np.log(value - lower))
    return np.asarray(np.log(value - lower) - np.log(upper - value))
