"""Small fits: CPU seconds of a fit in a process that has already made one, the median of five.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.small_fits [NAME ...]

`glmm`, `walk` and `map` integrate over hyperparameters of a few hundred rows; `map` is a grid of
regions, `lip` Scotland's (`../shared/data`). `ard` is the data of `test_relevance.py`, beside
scikit-learn's ARDRegression; `topics` a text of five topics, beside its
LatentDirichletAllocation. The others are the examples of `models/`, as a user fits them who says
nothing; `factored` are relevance vectors as their README fits them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lgmdsl as lgm

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
MODELS = ("discrete_choice", "ordinal_ratings", "relevance_vectors", "correlated_topics")
RUNS = 5

Case = tuple[str | Path, Any, dict[str, Any]]

GLMM = """lgm 1
index obs
index group
data y[obs] : count
data x[obs] : real
data who[obs] : group
hyper s : positive ~ half_normal(sd = 2)
latent a ~ normal(sd = 5)
latent b ~ normal(sd = 5)
latent u[group] ~ normal(sd = s)
let eta[obs] = a + b * x + u[who]
observe y ~ poisson(log_rate = eta)
"""
WALK = """lgm 1
index t
data y[t] : count
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent a ~ normal(sd = 5)
latent f[t] ~ rw2(sd = s)
let eta[t] = a + f
observe y ~ poisson(log_rate = eta)
"""
MAP = """lgm 1
index region
data y[region] : count
data E[region] : positive
data x[region] : real
data edges[region, region] : graph
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper mix : unit ~ pc_mix(graph = edges, u = 0.5, alpha = 0.67)
latent b0 ~ normal(sd = 5)
latent b ~ normal(sd = 1)
latent v[region] ~ bym2(graph = edges, sd = s, mix = mix)
let eta[region] = b0 + b * x / 10 + v
observe y ~ poisson(log_rate = eta, exposure = E)
"""


def glmm() -> Case:
    """300 counts of 20 groups."""
    rng = np.random.default_rng(0)
    who, x = np.repeat(np.arange(20), 15), rng.standard_normal(300)
    eta = 0.3 + 0.4 * x + 0.6 * rng.standard_normal(20)[who]
    return GLMM, {"y": rng.poisson(np.exp(eta)), "x": x, "who": who}, {}


def walk() -> Case:
    """200 counts along a smooth curve."""
    rng = np.random.default_rng(1)
    t = np.arange(200)
    return WALK, {"y": rng.poisson(np.exp(1.0 + np.sin(t / 25.0))), "t": t}, {}


def regions() -> Case:
    """144 regions on a grid."""
    rng = np.random.default_rng(2)
    number = np.arange(144).reshape(12, 12)
    pairs = [*zip(number[:, :-1].ravel(), number[:, 1:].ravel(), strict=True)]
    pairs += [*zip(number[:-1].ravel(), number[1:].ravel(), strict=True)]
    row, column = np.divmod(np.arange(144), 12)
    x, expected = rng.uniform(0.0, 24.0, 144), rng.gamma(3.0, 5.0, 144) + 2.0
    v = 0.4 * np.sin(row / 3.0) + 0.3 * np.cos(column / 2.5) + 0.2 * rng.standard_normal(144)
    y = rng.poisson(expected * np.exp(-0.2 + 0.03 * x + v))
    return MAP, {"y": y, "E": expected, "x": x, "edges": np.array(pairs)}, {}


def lip() -> Case:
    """56 districts of Scotland."""
    found = np.load(SHARED / "data" / "scotland_lip.npz")
    return MAP, {k: found[k] for k in ("y", "E", "x", "edges")}, {}


def example(name: str) -> Case:
    """One of `models/`."""
    folder = ROOT / "models" / name
    return folder / "model.lgm", folder / "data.npz", {}


def factored() -> Case:
    """Relevance vectors, as their README fits them."""
    path, data, _ = example("relevance_vectors")
    return path, data, {"method": "px-vb", "hyper": "vb"}


def ard() -> tuple[Case, Callable[[], object]]:
    """442 cases, ten measurements."""
    from sklearn.linear_model import ARDRegression

    from tests.benchmarks.test_relevance import ARD, diabetes

    whole, y = diabetes(SHARED)
    X = whole[:, :10]
    return (ARD, {"X": X, "y": y}, {"method": "px-vb", "hyper": "vb"}), lambda: ARDRegression().fit(
        X, y
    )


def topics() -> tuple[Case, Callable[[], object]]:
    """SciPy's documentation by five topics, four fifths of the words."""
    from sklearn.decomposition import LatentDirichletAllocation

    from tests.realdata.docstrings import MODULES, texts
    from tests.reproductions.correlated_topics.test_correlated_topics import split

    seen, _ = split(texts(MODULES, 25, rare=10, common=0.3).counts)
    text = (SHARED / "examples" / "11_ctm.lgm").read_text(encoding="utf-8")
    text = text.replace("topic = 20", "topic = 5")
    text += "\nreport share[doc, topic] = softmax(eta, topic)\n"
    peer = LatentDirichletAllocation(5, topic_word_prior=0.1, max_iter=200, random_state=0)
    return (text, {"n": seen}, {"tol": 1e-5}), lambda: peer.fit(seen)


CASES: dict[str, Callable[[], Case]] = {
    "glmm": glmm,
    "walk": walk,
    "map": regions,
    "lip": lip,
    **{name: (lambda name=name: example(name)) for name in MODELS},  # type: ignore[misc]
    "factored": factored,
}
BESIDE: dict[str, Callable[[], tuple[Case, Callable[[], object]]]] = {"ard": ard, "topics": topics}


def fit_of(case: Case) -> lgm.Fit:
    """One fit, its text read as well."""
    model, data, settings = case
    read = lgm.load(model) if isinstance(model, Path) else lgm.loads(model)
    return lgm.fit(read, data, **settings)


def seconds(run: Callable[[], object], runs: int) -> float:
    """The median CPU seconds of a run."""
    spent = []
    for _ in range(runs):
        began = time.process_time()
        run()
        spent.append(time.process_time() - began)
    return float(np.median(spent))


def main(chosen: list[str]) -> None:
    """A line for each."""
    for name in chosen or [*CASES, *BESIDE]:
        case, peer = BESIDE[name]() if name in BESIDE else (CASES[name](), None)
        began = time.process_time()
        fit = fit_of(case)
        first = time.process_time() - began
        runs = RUNS if first < 20.0 else 1
        line = f"{name}: {seconds(lambda case=case: fit_of(case), runs):.3f} CPU s"  # type: ignore[misc]
        if peer is not None:
            peer()
            line += f", peer {seconds(peer, runs):.3f}"
        print(
            f"{line} (first {first:.2f}); {fit.method}, {fit.hyper}, {fit.engine}, "
            f"{fit.status.name}, log evidence {fit.log_evidence:.9f}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
