"""Models of real data with Gaussian Markov structures, hyperparameters near their posterior modes.

    python -m tests.agreement.markov_data [NAME...]

fits each by every method through the sparse and the dense engines and prints the log evidences.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Engine
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.status import Status
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.inference.driver import Tolerances, TraceEntry
from lgmdsl.inference.other_starts import run_from_starts
from lgmdsl.inference.plan import plan
from tests.compiled import canonical_form

Data = dict[str, Any]
ENGINES: dict[str, type[SparseEngine | PrecisionEngine | CovarianceEngine]] = {
    "sparse": SparseEngine,
    "precision": PrecisionEngine,
    "covariance": CovarianceEngine,
}
METHODS = (
    "laplace",
    "natural-gradient",
    "opper-archambeau",
    "cholesky",
    "coordinate-ascent",
    "lcl",
    "ep",
)


@dataclass(frozen=True)
class Case:
    """A model and its data. `quick` are the methods that take a second or less a fit; `slow` those
    that take a few; the others are left to the table."""

    text: str
    data: Callable[[Path], Data]
    quick: tuple[str, ...] = METHODS
    slow: tuple[str, ...] = ()

    def compiled(self, folder: Path) -> CanonicalModel:
        return canonical_form(self.text, self.data(folder))


def stored(folder: Path, name: str) -> Data:
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        return dict(file)


TOKYO = """lgm 1
index day
data y[day] : count
data n[day] : count
latent f[day] ~ rw2(sd = 1, cyclic = true)
latent b0 ~ normal(sd = 10)
let eta[day] = b0 + f
observe y ~ binomial(n = n, logit = eta)
"""
DISEASE = """lgm 1
index region
data y[region] : count
data E[region] : positive
data x[region] : real
data edges[region, region] : graph
latent b0 ~ normal(sd = 10)
latent b ~ normal(sd = 10)
{prior}
let eta[region] = b0 + b * x + v
observe y ~ poisson(log_rate = eta, exposure = E)
"""
BESAG = "latent v[region] ~ besag(graph = edges, sd = 0.5)"
BYM2 = "latent v[region] ~ bym2(graph = edges, sd = 0.5, mix = 0.9)"
ORAL = """lgm 1
index region
data y[region] : count
data E[region] : positive
data edges[region, region] : graph
latent b0 ~ normal(sd = 10)
latent v[region] ~ bym2(graph = edges, sd = 0.2, mix = 0.9)
let eta[region] = b0 + v
observe y ~ poisson(log_rate = eta, exposure = E)
"""
LARYNX = """lgm 1
index region
index level
data y[region] : count
data E[region] : positive
data smoking[region] : level
data at[level] : real
data edges[region, region] : graph
latent b0 ~ normal(sd = 10)
latent v[region] ~ bym2(graph = edges, sd = 0.18, mix = 0.9)
latent g[level] ~ rw2(sd = 0.05, at = at)
let eta[region] = b0 + v + g[smoking]
observe y ~ poisson(log_rate = eta, exposure = E)
"""
POUND = """lgm 1
index day
data r[day] : real
latent mu ~ normal(sd = 3)
latent h[day] ~ ar1(sd = 0.8, rho = 0.98)
let v[day] = mu + h
observe r ~ normal(log_var = v)
"""
DRIVERS = """lgm 1
index month
data y[month] : real?
data belt[month] : real
latent b0 ~ normal(sd = 10)
latent b ~ normal(sd = 1)
latent s[month] ~ seasonal(sd = 0.02, period = 12)
latent t[month] ~ {trend}
let m[month] = b0 + b * belt + s + t
observe y ~ normal(mean = m, sd = 0.06)
"""
SALAMANDER = """lgm 1
index obs
index cell = 4
index female
index male
data y[obs] : binary
data cell_of[obs] : cell
data who_f[obs] : female
data who_m[obs] : male
latent b[cell] ~ normal(sd = 10)
latent f[female] ~ normal(sd = 1.1)
latent m[male] ~ normal(sd = 1.05)
let eta[obs] = b[cell_of] + f[who_f] + m[who_m]
observe y ~ bernoulli(logit = eta)
"""


def scotland(folder: Path, edges: str) -> Data:
    """Scotland's lip cancer with one of its three graphs.

    `edges_inla_demodata` numbers the counties in another order than y does: with these data it is
    a model of its own, good for comparing engines and for nothing else.
    """
    d = stored(folder, "scotland_lip")
    return {"y": d["y"], "E": d["E"], "x": d["x"] / 10.0, "edges": d[edges]}


def germany(folder: Path, name: str) -> Data:
    d = stored(folder, name)
    out = {"y": d["y"], "E": d["E"], "edges": d["edges"]}
    if "x" in d:
        at, out["smoking"] = np.unique(d["x"], return_inverse=True)
        out["at"] = at
    return out


def tokyo(folder: Path) -> Data:
    d = stored(folder, "tokyo")
    return {"y": d["y"], "n": d["n"]}


def drivers(folder: Path) -> Data:
    d = stored(folder, "drivers")
    return {"y": np.log(d["y"]), "belt": d["belt"]}


def salamander(folder: Path) -> Data:
    """Crossed effects; each of the three experiments has 20 females and 20 males of its own."""
    d = stored(folder, "salamander")
    cell = 2 * d["long_typef_W"].astype(int) + d["long_typem_W"]
    return {"y": d["long_mate"], "cell_of": cell, "who_f": d["long_female"],
            "who_m": d["long_male"]}  # fmt: skip


def disease(prior: str) -> str:
    return DISEASE.format(prior=prior)


FEW = ("laplace", "natural-gradient", "ep")
GRAPHS = ("edges", "edges_inla_demodata", "edges_stan_connected")
CASES: dict[str, Case] = {
    "tokyo": Case(TOKYO, tokyo, FEW, ("opper-archambeau", "cholesky", "coordinate-ascent", "lcl")),
    **{f"scotland besag {g}": Case(disease(BESAG), partial(scotland, edges=g)) for g in GRAPHS},
    **{f"scotland bym2 {g}": Case(disease(BYM2), partial(scotland, edges=g)) for g in GRAPHS},
    "germany oral": Case(ORAL, partial(germany, name="germany_oral"), FEW,
                         ("opper-archambeau",)),
    "germany larynx": Case(LARYNX, partial(germany, name="germany_larynx"),
                           ("laplace", "ep", "lcl"), ("natural-gradient",)),
    "pound": Case(POUND, lambda d: {"r": stored(d, "svpound")["ret"]},
                  ("laplace", "natural-gradient"), ("ep",)),
    "drivers rw1": Case(DRIVERS.format(trend="rw1(sd = 0.12)"), drivers),
    "drivers ar1": Case(DRIVERS.format(trend="ar1(sd = 0.12, rho = 0.95)"), drivers),
    "salamander": Case(SALAMANDER, salamander, FEW, ("opper-archambeau", "cholesky", "lcl")),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """One fit: `mean` and `sd` of all latents, (n,)."""

    status: Status
    log_evidence: float
    mean: Array
    sd: Array
    steps: int
    seconds: float


def fit(
    canonical: CanonicalModel,
    method: str,
    engine: Callable[[LinearGaussian], Engine],
    tol: float = 1e-8,
    most: int = 1000,
) -> Outcome:
    """The fit with a given engine in place of the chosen one; interrupted after `most` steps."""
    began = time.perf_counter()

    def watch(entry: TraceEntry) -> None:
        if entry.step > most:
            raise KeyboardInterrupt

    planned = plan(canonical, method)
    theta = canonical.hypers.theta()
    problem = replace(planned.at(theta), engine=engine(canonical.linear(theta)))
    found, _ = run_from_starts(planned.backend, problem, Tolerances.scaled(tol), on_step=watch)
    q = found.posterior
    assert isinstance(q, GaussianPosterior), found.reason
    mean, sd = q.conditioned.latent_mean, np.sqrt(q.conditioned.latent_variance)
    return Outcome(found.status, q.log_evidence, mean, sd, found.steps, time.perf_counter() - began)


def main(chosen: list[str]) -> None:
    """Print the table."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "data"
    for name in chosen or list(CASES):
        case = CASES[name]
        canonical = case.compiled(folder)
        linear = canonical.linear(canonical.hypers.theta())
        print(f"\n{name}: {linear.rows} rows, {linear.size} latents", flush=True)
        for method in METHODS:
            line = f"  {method:18s}"
            try:
                for engine, build in ENGINES.items():
                    if build.refuses(linear):
                        continue
                    o = fit(canonical, method, build, most=100)
                    line += f" {engine}: {o.log_evidence:.9f} in {o.steps} steps, {o.seconds:.2f} s"
                    line += ";" if o.status is Status.converged else f" ({o.status.name});"
            except lgm.LgmError as e:
                line += f" refuses: {str(e).splitlines()[1].strip(' |')}"
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
