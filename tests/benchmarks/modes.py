"""Whether searches end at the highest mode of the hyperparameters: simulated mixed models.

500 data sets: one-way, crossed, nested, slopes x normal, Poisson, binary x five priors of the sds.
Normal data: the evidence by dense algebra of this file, over a grid of sds with polished ends.
Others: the same Laplace evidence that the search climbs, over a grid and from its ends.

    python tests/benchmarks/modes.py FIRST END OUT.csv [EARLIER.csv]

An earlier file's column `top`, the highest value known, saves the search for it.
"""

from __future__ import annotations

import csv
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import linalg, optimize

import lgmdsl as lgm
from lgmdsl.arrays import Array

DESIGNS = ("one-way", "crossed", "nested", "slopes")
FAMILIES = ("normal", "poisson", "binary")
PRIORS = ("Ga(1, 5e-5)", "Ga(1e-3, 1e-3)", "half-Cauchy", "uniform", "pc_sd")
WITHIN = 0.2  # nats
HEADINGS = (
    "number",
    "design",
    "family",
    "prior",
    "fits",
    "top",
    "below",
    "status",
    "warnings",
    "seconds",
)
# Logs of sds relative to the data, and of noise sds, in the grid.
GRID, NOISES = np.linspace(-7.0, 1.5, 9), (-2.0, -1.0, 0.0)
POLISHED, EVALUATIONS = 3, 80


@dataclass(frozen=True, eq=False)
class Case:
    """`groups`: (k, n) members of each random term; `slopes`: (k, n) what multiplies them."""

    design: str
    family: str
    prior: str
    y: Array
    groups: Array
    slopes: Array

    @property
    def terms(self) -> int:
        return len(self.groups)


def case(number: int) -> Case:
    """One of the data sets, by its number."""
    rng = np.random.default_rng(1000 + number)
    design = DESIGNS[number % 4]
    family = FAMILIES[number // 4 % 3]
    prior = PRIORS[number // 12 % 5]
    a = int(rng.integers(5, 15))
    b = int(rng.integers(4, 10))
    if design == "one-way":
        g = np.repeat(np.arange(a), b)
        groups, x = np.array([g]), np.ones((1, len(g)))
    elif design == "crossed":
        g, h = (m.ravel() for m in np.meshgrid(np.arange(a), np.arange(b), indexing="ij"))
        groups, x = np.array([g, h]), np.ones((2, len(g)))
    elif design == "nested":
        c = int(rng.integers(2, 5))
        g = np.repeat(np.arange(a), c * 3)
        groups, x = np.array([g, np.repeat(np.arange(a * c), 3)]), np.ones((2, a * c * 3))
    else:
        g = np.repeat(np.arange(a), b + 2)
        groups, x = np.array([g, g]), np.ones((2, len(g)))
        x[1] = rng.normal(size=len(g))
    scale = float(np.exp(rng.uniform(np.log(0.03), np.log(100.0)))) if family == "normal" else 1.0
    sds = np.exp(rng.uniform(np.log(0.05), np.log(3.0), len(groups)))
    if family != "normal":
        sds = np.minimum(sds, 2.0)
    sds[rng.random(len(groups)) < 0.15] = 0.0
    eta = sum(
        s * z * rng.normal(size=g.max() + 1)[g] for s, z, g in zip(sds, x, groups, strict=True)
    )
    if family == "normal":
        y = scale * (eta + rng.normal() + rng.normal(size=len(eta)))
    elif family == "poisson":
        y = rng.poisson(np.exp(np.minimum(eta + rng.normal(1.0, 0.5), 8.0))).astype(float)
    else:
        y = (rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta - rng.normal(0.0, 0.5)))).astype(float)
    return Case(design, family, prior, y, groups, x)


def _typical(c: Case) -> float:
    return float(np.std(c.y)) or 1.0 if c.family == "normal" else 1.0


def model_text(c: Case) -> str:
    """The model of a case; hypers h0, h1, ... and hn (noise) are sds or variances."""
    wide = _typical(c)
    prior = {
        "Ga(1, 5e-5)": "inv_gamma(shape = 1, scale = 5e-5)",
        "Ga(1e-3, 1e-3)": "inv_gamma(shape = 0.001, scale = 0.001)",
        "half-Cauchy": f"half_cauchy(scale = {2.5 * wide!r})",
        "uniform": f"uniform(lower = 0, upper = {10.0 * wide!r})",
        "pc_sd": f"pc_sd(u = {3.0 * wide!r}, alpha = 0.01)",
    }[c.prior]
    sd = (lambda h: f"sqrt({h})") if c.prior.startswith("Ga") else (lambda h: h)
    kind = {"normal": "real", "poisson": "count", "binary": "binary"}[c.family]
    lines = ["lgm 1", "index obs"]
    lines += [f"index g{k}" for k in range(c.terms)]
    lines += [f"data y[obs] : {kind}"]
    lines += [f"data a{k}[obs] : g{k}" for k in range(c.terms)]
    lines += [f"data x{k}[obs] : real" for k in range(c.terms)]
    names = [f"h{k}" for k in range(c.terms)] + ["hn"] * (c.family == "normal")
    lines += [f"hyper {n} : positive ~ {prior}" for n in names]
    lines += ["latent m ~ flat"] + (["latent m1 ~ flat"] if c.design == "slopes" else [])
    lines += [f"latent u{k}[g{k}] ~ normal(sd = {sd(f'h{k}')})" for k in range(c.terms)]
    fixed = "m + m1 * x1" if c.design == "slopes" else "m"
    parts = " + ".join(f"x{k} * u{k}[a{k}]" for k in range(c.terms))
    lines += [f"let eta[obs] = {fixed} + {parts}"]
    site = {
        "normal": f"normal(mean = eta, sd = {sd('hn')})",
        "poisson": "poisson(log_rate = eta)",
        "binary": "bernoulli(logit = eta)",
    }[c.family]
    return "\n".join([*lines, f"observe y ~ {site}", ""])


def data_of(c: Case) -> dict[str, Any]:
    """The data of a case by name."""
    out: dict[str, Any] = {"y": c.y}
    for k in range(c.terms):
        out[f"a{k}"], out[f"x{k}"] = c.groups[k], c.slopes[k]
    return out


def log_prior(c: Case, sd: Array) -> float:
    """Log density of the coordinates (logs, logits under a uniform prior), less a constant."""
    wide = _typical(c)
    if c.prior.startswith("Ga"):
        shape, rate = (1.0, 5e-5) if c.prior == PRIORS[0] else (1e-3, 1e-3)
        v = sd**2
        return float(np.sum(-shape * np.log(v) - rate / v))
    if c.prior == "half-Cauchy":
        return float(np.sum(np.log(sd) - np.log1p((sd / (2.5 * wide)) ** 2)))
    if c.prior == "uniform":
        share = sd / (10.0 * wide)
        return float(np.sum(np.log(share) + np.log1p(-share))) if (share < 1.0).all() else -np.inf
    return float(np.sum(np.log(sd) + np.log(0.01) / (3.0 * wide) * sd))


def dense_density(c: Case) -> Callable[[Array], float]:
    """Log density of the coordinates at log sds, by dense algebra; normal data."""
    n = len(c.y)
    kernels = [z[:, None] * z * (g[:, None] == g) for z, g in zip(c.slopes, c.groups, strict=True)]
    x = np.ones((n, 1))
    if c.design == "slopes":
        x = np.column_stack([x, c.slopes[1]])

    def density(logs: Array) -> float:
        sd = np.exp(logs)
        prior = log_prior(c, sd)
        if not np.isfinite(prior):
            return -np.inf
        v = sum(
            (s**2 * k for s, k in zip(sd, kernels, strict=False)), np.diag(np.full(n, sd[-1] ** 2))
        )
        try:
            root = linalg.cholesky(v, lower=True, check_finite=False)
            solved = linalg.solve_triangular(root, np.column_stack([x, c.y]), lower=True)
            gram = linalg.cholesky(solved[:, :-1].T @ solved[:, :-1], lower=True)
        except linalg.LinAlgError:
            return -np.inf
        part = linalg.solve_triangular(gram, solved[:, :-1].T @ solved[:, -1], lower=True)
        square = solved[:, -1] @ solved[:, -1] - part @ part
        halves = np.log(np.diag(root)).sum() + np.log(np.diag(gram)).sum()
        return float(prior - halves - 0.5 * square)

    return density


def laplace_density(c: Case, model: Any) -> Callable[[Array], float]:
    """The same by the evidence of fits at given values."""

    def density(logs: Array) -> float:
        sd = np.exp(logs)
        prior = log_prior(c, sd)
        if not np.isfinite(prior):
            return -np.inf
        values = sd**2 if c.prior.startswith("Ga") else sd
        fixed = {f"h{k}": float(v) for k, v in enumerate(values)}
        try:
            fit = lgm.fit(model, data_of(c), method="laplace", hyper="fixed", fixed=fixed)
        except lgm.LgmError:
            return -np.inf
        return prior + fit.log_evidence

    return density


def highest(c: Case, density: Callable[[Array], float], starts: Sequence[Array]) -> float:
    """The highest value from the best of a grid and from other starts."""
    log_scale = np.log(_typical(c))
    axes = [log_scale + GRID] * c.terms
    if c.family == "normal":
        axes.append(log_scale + np.array(NOISES))
    places = [np.array(p) for p in itertools.product(*axes)]
    values = np.array([density(p) for p in places])
    order, chosen = np.argsort(-values), list[Array]()
    for k in order:
        if all(np.abs(places[k] - other).max() > 1.5 for other in chosen):
            chosen.append(places[k])
        if len(chosen) == POLISHED:
            break

    def lost(place: Array) -> float:
        return -max(density(place), -1e100)

    ends = [
        optimize.minimize(lost, start, method="Nelder-Mead", options={"maxfev": EVALUATIONS})
        for start in (*chosen, *starts)
    ]
    return max(-float(e.fun) for e in ends)


def examined(number: int, known: float = -np.inf) -> dict[str, Any]:
    """Where the search of one case ends, in nats below the highest mode; `known`: a value that is
    reached somewhere."""
    c = case(number)
    model = lgm.loads(model_text(c))
    began = time.process_time()
    method = "auto" if c.family == "normal" else "laplace"
    fit = lgm.fit(model, data_of(c), method=method, hyper="integrate")
    seconds = time.process_time() - began
    names = [f"h{k}" for k in range(c.terms)] + ["hn"] * (c.family == "normal")
    values = np.array([float(fit.theta[n]) for n in names])
    logs = np.log(values) * (0.5 if c.prior.startswith("Ga") else 1.0)
    density = dense_density(c) if c.family == "normal" else laplace_density(c, model)
    here = density(logs)
    top = max(here, known if np.isfinite(known) else highest(c, density, [logs]))
    codes = " ".join(w.code for w in fit.warnings)
    row = (
        number, c.design, c.family, c.prior, fit.learning.fits, round(top, 4),
        round(top - here, 4), str(fit.status), codes, round(seconds, 2),
    )  # fmt: skip
    return dict(zip(HEADINGS, row, strict=True))


def main(first: int, end: int, out: Path, earlier: Path | None = None) -> None:
    """Examine some of the cases, and write a line for each."""
    tops: dict[int, float] = {}
    if earlier is not None:
        with earlier.open(newline="") as f:
            tops = {int(r["number"]): float(r["top"]) for r in csv.DictReader(f)}
    with out.open("w", newline="") as f:
        writer = csv.DictWriter(f, HEADINGS)
        writer.writeheader()
        for number in range(first, end):
            try:
                writer.writerow(examined(number, tops.get(number, -np.inf)))
            except (lgm.LgmError, ArithmeticError, ValueError, RuntimeError) as error:
                c = case(number)
                told = " ".join(str(error).split())[:80]
                row = (number, c.design, c.family, c.prior, 0, -np.inf, np.inf, "error", told, 0)
                writer.writerow(dict(zip(HEADINGS, row, strict=True)))
            f.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *map(Path, sys.argv[3:5]))
