"""Reference values of site expectations and tilted moments, by quadrature in 40 digits (mpmath).

    python -m tests.sites.make_reference            # writes tests/sites/reference.json (minutes)

Independent of the package: densities are written from their definitions, every derivative falls
on the Gaussian as a Hermite polynomial, panels of Gauss-Legendre nodes are graded around the
Gaussian, the site's centre and the tilted mode, and two orders must agree to 1e-16.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

from tests.sites.reference_densities import DENSITIES, GROWTH, Real

# Their log density is -inf for some s: no expectation
LIMITED = ("gev.location", "generalized_pareto.log_scale")
TABLE = Path(__file__).with_name("reference.json")


@lru_cache(maxsize=4)
def _legendre(n: int) -> tuple[list[Real], list[Real]]:
    """Gauss-Legendre nodes and weights on [-1, 1], polished from numpy's by Newton."""
    nodes, weights = [], []
    for x0 in np.polynomial.legendre.leggauss(n)[0]:
        x = mp.mpf(float(x0))
        for _ in range(4):
            a, b = mp.mpf(1), x
            for k in range(2, n + 1):
                a, b = b, ((2 * k - 1) * x * b - (k - 1) * a) / k
            slope = n * (x * b - a) / (x * x - 1)
            x -= b / slope
        nodes.append(x)
        weights.append(2 / ((1 - x * x) * slope**2))
    return nodes, weights


def _panels(breaks: list[Real], low: Real, high: Real) -> list[tuple[Real, Real]]:
    inside = sorted({b for b in breaks if low < b < high} | {low, high})
    return [(a, b) for a, b in pairwise(inside) if b > a]


def _integrate(
    f: Callable[[Real], list[Real]], panels: list[tuple[Real, Real]], order: int
) -> list[Real]:
    nodes, weights = _legendre(order)
    total: list[Real] = []
    for a, b in panels:
        half, middle = (b - a) / 2, (a + b) / 2
        for x, w in zip(nodes, weights, strict=True):
            part = [half * w * value for value in f(middle + half * x)]
            total = part if not total else [t + q for t, q in zip(total, part, strict=True)]
    return total


def _agreed(
    f: Callable[[Real], list[Real]], panels: list[tuple[Real, Real]], order: int = 20
) -> list[Real]:
    low = _integrate(f, panels, order)
    high = _integrate(f, panels, order + 8)
    worst = max(abs(a - b) / max(1, abs(b)) for a, b in zip(low, high, strict=True))
    if worst > 1e-13:
        if order > 60:
            raise ArithmeticError(f"orders differ by {mp.nstr(worst, 3)}")
        return _agreed(f, panels, order + 16)
    return high


def _graded(centre: Real, scale: Real, cusp: bool) -> list[Real]:
    """Breaks around a centre, growing outwards; towards a cusp also shrinking inwards."""
    steps = [mp.mpf(k) for k in (0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)]
    if cusp:
        steps += [mp.mpf(2) ** -k for k in range(2, 90)]
    return [centre] + [centre + q * scale * k for k in steps for q in (1, -1)]


def _cusp(name: str) -> bool:
    return name == "exp_power" or name in LIMITED


def _centre(name: str, y: Real, p: Mapping[str, Real]) -> tuple[Real, Real]:
    scale = p.get("scale", p.get("sd", mp.mpf(1)))
    name = name.removesuffix(".censored")
    if name == "negbinomial.log_mean":
        return mp.log(p["size"]), mp.mpf(1)
    if name == "lognormal.mean":
        return mp.log(y), scale
    if name == "gev.location":  # where the density ends
        return y + (scale / p["shape"] if p["shape"] else 0), scale
    if name == "generalized_pareto.log_scale":
        return (mp.log(-p["shape"] * y) if p["shape"] < 0 else mp.log(y)), mp.mpf(1)
    if name.endswith((".mean", ".quantile")):
        return y, scale
    if name in ("loglogistic.log_scale", "generalized_gamma.location"):
        return mp.log(y), scale
    return mp.mpf(0), scale


def expected(name: str, y: Real, m: Real, v: Real, p: Mapping[str, Real]) -> list[Real]:
    """f, f_m, f_v, f_mv, f_vv."""
    sd = mp.sqrt(v)
    centre, scale = _centre(name, y, p)
    log_t = DENSITIES[name]

    def f(s: Real) -> list[Real]:
        t = (s - m) / sd
        w = mp.exp(-t * t / 2) / (sd * mp.sqrt(2 * mp.pi)) * log_t(s, y, p)
        return [
            w,
            w * t / sd,
            w * (t**2 - 1) / (2 * v),
            w * (t**3 - 3 * t) / (2 * v * sd),
            w * (t**4 - 6 * t**2 + 3) / (4 * v * v),
        ]

    # e^(pace s) moves the mass by pace sd^2; 13 sds beyond leave 1e-38.
    pace = GROWTH[plain](p) if (plain := name.removesuffix(".censored")) in GROWTH else 0
    reach = 13 * sd + pace * v
    most = 24 + int(pace * sd)
    breaks = _graded(centre, scale, _cusp(name)) + [m + k * sd for k in range(-most, most + 1)]
    return _agreed(f, _panels(breaks, m - reach, m + reach))


def tilted(name: str, y: Real, m: Real, v: Real, power: Real, p: Mapping[str, Real]) -> list[Real]:
    """log mass, mean, variance of N(m, v) t^power."""
    sd = mp.sqrt(v)
    centre, scale = _centre(name, y, p)
    log_t = DENSITIES[name]

    def level(s: Real) -> Real:
        return power * log_t(s, y, p) - (s - m) ** 2 / (2 * v)

    # Coarse to fine scans find every place within e^-90 of the largest value.
    extent = 40 * sd + abs(m - centre) + 10
    around = [centre + q * extent * mp.mpf(2) ** -k for k in range(60) for q in (1, -1)]
    points = sorted({centre, m, *[m + k * sd / 4 for k in range(-100, 101)], *around})
    for _ in range(40):
        values = [level(s) for s in points]
        top = max(values)
        kept = [i for i, value in enumerate(values) if value > top - 90]
        first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, len(points) - 1)
        at = values.index(top)
        a, b = points[max(at - 1, 0)], points[min(at + 1, len(points) - 1)]
        if b - a < mp.mpf("1e-3") * (points[last] - points[first]) + mp.mpf(10) ** -25:
            break
        inner = [a + (b - a) * k / 8 for k in range(9)]
        points = sorted({*points[first : last + 1], *inner})
    mode, top = points[at], values[at]
    narrow = [
        mode + q * (points[last] - points[first]) * mp.mpf(2) ** -k
        for k in range(1, 14)
        for q in (1, -1)
    ]
    breaks = _graded(centre, scale, _cusp(name)) + narrow + [m + k * sd for k in range(-14, 15)]
    panels = _panels([*breaks, mode], points[first], points[last])

    def f(s: Real) -> list[Real]:
        w = mp.exp(level(s) - top)
        return [w, w * (s - mode), w * (s - mode) ** 2]

    mass, first_moment, second_moment = _agreed(f, panels)
    shift = first_moment / mass
    log_mass = mp.log(mass) + top - mp.log(2 * mp.pi * v) / 2
    return [log_mass, mode + shift, second_moment / mass - shift**2]


def _draw(rng: np.random.Generator, name: str, row: int) -> tuple[float | None, dict[str, Any]]:
    """An observation and parameters in a family's range."""
    if name.endswith(".censored"):
        y, p = _draw(rng, name.removesuffix(".censored"), row)
        assert y is not None
        gap = float(np.round(rng.uniform(0.05, 1.5), 3)) * (4.0 if row % 2 else 0.1)
        low = y / (1.0 + gap) if y > 0 else y - gap
        ends = ((None, None), (None, None), (low, y + gap), (low, None), (None, y + gap))[row % 5]
        blank = {"lower": float("nan"), "upper": float("nan")}
        given = {k: v for k, v in zip(blank, ends, strict=True) if v is not None}
        return y, {**p, "event": float(row % 5 != 1), **blank, **given}
    if name.startswith("ordinal"):
        gaps = rng.uniform(0.05, 4.0, 3) if row % 3 else rng.uniform(0.01, 0.3, 3)
        cuts = np.round(np.cumsum(gaps) - 2.0 + rng.uniform(-2.0, 2.0), 3)
        y, given = float(rng.integers(0, 4)), {"cuts": cuts.tolist()}
        if name.endswith("stereotype"):
            given["scores"] = np.round(np.cumsum(rng.uniform(0.2, 2.0, 4)) - 1.0, 3).tolist()
        return y, given
    uniform = {
        "sd": (0.3, 3.0), "scale": (0.2, 3.0), "df": (1.5, 30.0), "size": (0.5, 20.0),
        "concentration": (0.5, 60.0), "shape": (0.5, 9.0), "exposure": (0.3, 4.0),
        "power": (0.4, 1.9), "mean": (-1.0, 1.0), "level": (0.05, 0.95), "skew": (-0.95, 0.95),
        "dispersion": (0.3, 4.0),
    }  # fmt: skip
    wanted = {
        "normal.mean": "sd", "binomial.logit": "n", "binomial.probit": "n",
        "binomial.cloglog": "n", "betabinomial.logit": "n concentration",
        "betabinomial.probit": "n concentration", "tweedie.log_mean": "dispersion power",
        "negbinomial1.log_mean": "dispersion exposure",
        "generalized_poisson.log_mean": "dispersion exposure",
        "poisson.log_rate": "exposure", "negbinomial.log_mean": "size exposure",
        "gamma.log_mean": "shape",
        "student_t.mean": "scale df", "laplace.mean": "scale", "normal.log_var": "mean",
        "lognormal.mean": "sd", "beta.logit_mean": "concentration",
        "weibull.log_scale": "shape event", "exponential.log_rate": "event",
        "normal": "sd", "laplace": "scale", "student_t": "scale df", "sech2": "scale",
        "logistic": "scale", "exp_power": "scale power", "inverse_gaussian.log_mean": "shape",
        "loglogistic.log_scale": "shape", "gompertz.log_rate": "shape event",
        "generalized_gamma.location": "scale shape", "generalized_pareto.log_scale": "shape",
        "gev.location": "scale shape", "skew_normal.mean": "sd skew",
        "asymmetric_laplace.quantile": "scale level", "asymmetric_laplace": "scale level",
        "logistic.mean": "scale",
    }.get(name, "").split()  # fmt: skip
    p = {k: float(np.round(rng.uniform(*uniform[k]), 3)) for k in wanted if k in uniform}
    if name.startswith("weibull"):
        p["shape"] = round(p["shape"] / 4, 3)  # e^(pace^2 v / 2) must be a double
    span = {
        "gompertz.log_rate": (-0.4, 0.6), "generalized_gamma.location": (-0.5, 0.6),
        "generalized_pareto.log_scale": (-0.4, 0.8), "gev.location": (-0.4, 0.4),
    }.get(name)  # fmt: skip
    if span is not None:
        p["shape"] = float(np.round(rng.uniform(*span), 3)) if row % 5 else 0.0
    if name.startswith("generalized_poisson"):
        p["dispersion"] = round(p["dispersion"] + 0.8, 3)
    if name.startswith("tweedie"):
        p["power"] = round(1.1 + 0.4 * p["power"], 3)
    if "event" in wanted:
        p["event"] = float(rng.integers(0, 2))
    if "n" in wanted:
        p["n"] = float(rng.integers(1, 30))
    if "." not in name:
        return None, p
    if name.startswith("bernoulli"):
        return float(rng.integers(0, 2)), p
    if name.startswith("tweedie"):
        return float(np.round(rng.gamma(2.0), 4)) if row % 3 else 0.0, p
    if name.startswith(("binomial", "betabinomial")):
        return float(rng.integers(0, int(p["n"]) + 1)), p
    if name.startswith(("poisson", "negbinomial", "generalized_poisson")):
        return float(rng.integers(0, 12)), p
    if name.startswith("beta"):
        return float(np.round(rng.uniform(0.01, 0.99), 4)), p
    positive = ("gamma", "lognormal", "exponential", "weibull", "inverse", "loglog", "gompertz")
    if name.startswith((*positive, "generalized")):
        return float(np.round(rng.gamma(2.0), 4) + 1e-3), p
    return float(np.round(rng.normal() * 2, 3)), p


def case(kind: str, name: str, row: Mapping[str, Any]) -> list[float]:
    """The reference values of one stored row."""
    y = None if row["y"] is None else mp.mpf(row["y"])
    p: dict[str, Any] = {
        k: [mp.mpf(c) for c in x] if isinstance(x, list) else mp.mpf(x)
        for k, x in row["parameters"].items()
    }
    m, v = mp.mpf(row["mean"]), mp.mpf(row["variance"])
    if kind == "expected":
        return [float(x) for x in expected(name, y, m, v, p)]
    return [float(x) for x in tilted(name, y, m, v, mp.mpf(row["power"]), p)]


def rows(name: str, seed: int = 0) -> dict[str, list[dict[str, Any]]]:
    """Cases of a family: the grid's corners and random points, and for tilted the far tails."""
    rng = np.random.default_rng([seed, *name.encode()])
    corners = [(-8.0, 0.1), (8.0, 0.1), (-8.0, 10.0), (8.0, 10.0), (0.0, 0.1), (0.0, 10.0)]
    free = [(float(rng.uniform(-8, 8)), float(np.exp(rng.uniform(-2.3, 2.3)))) for _ in range(16)]
    if name.endswith(".censored"):
        free = free[:9]
    tails = [
        (30.0, 1.0), (-30.0, 1.0), (1e-3, 1e-3), (3e4, 1e3), (-3e4, 1e3), (0.0, 1e3), (3.0, 0.1),
    ]  # fmt: skip
    out: dict[str, list[dict[str, Any]]] = {"expected": [], "tilted": []}
    for kind, points in (("expected", corners + free), ("tilted", corners + free + tails)):
        if kind == "expected" and name in LIMITED:
            continue
        for i, (m, sd) in enumerate(points):
            y, p = _draw(rng, name, i)
            row: dict[str, Any] = {"y": y, "parameters": p, "mean": m, "variance": sd * sd}
            if kind == "tilted":
                row["power"] = 1.0 if i % 3 else float(np.round(rng.uniform(0.2, 1.0), 3))
            out[kind].append(row)
    return out


def main(names: list[str]) -> None:
    """Write (or update) the table for some families, all by default."""
    for name in names or list(DENSITIES):
        made = rows(name)
        for kind, cases in made.items():
            for row in cases:
                row["values"] = case(kind, name, row)
        table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
        table[name] = made
        TABLE.write_text(json.dumps(table, indent=0, sort_keys=True) + "\n")
        print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
