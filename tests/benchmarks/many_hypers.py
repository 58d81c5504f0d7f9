"""Models of many hyperparameters: CPU seconds of a fit of the model (an EM step, or a point of the
search, is one) and of all that learning does, each case in a process of its own, and the most
memory that the process held.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.many_hypers CASE SIZE [HYPER [STEPS]]
    OMP_NUM_THREADS=1 python -m tests.benchmarks.many_hypers all

`gaussian`, `binary`, `ordinal`: 20 ratings of each of SIZE users, five factors, and columns that
grow along. `covariance`: 20 ratings of each of 50 SIZE users, SIZE columns whose covariance is the
hyper (Khan 2012, section 6.4.4). `topics`: a vocabulary of SIZE words in 200 texts of 1,000.
`sds`, `cuts`: SIZE items, each with an sd or with cuts of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray

COLUMNS = {1_000: 100, 5_000: 300, 50_000: 1_000}
RATINGS, FACTORS = 20, 5
FACTOR = """lgm 1
index obs
index user
index column
index factor = {factors}
{index}data y[obs] : {type}
data who[obs] : user
data item[obs] : column
hyper c[column] : real ~ normal(sd = 3)
hyper L[column, factor] : real ~ normal(sd = 1)
{hyper}latent z[user, factor] ~ normal(sd = 1)
let eta[obs] = c[item] + sum(L[item, factor] * z[who, factor], factor)
observe y ~ {family}
"""
FAMILIES = {
    "gaussian": (
        "real",
        "",
        "hyper t : positive ~ half_normal(sd = 2)\n",
        "normal(mean = eta, sd = t)",
    ),
    "binary": ("binary", "", "", "bernoulli(logit = eta)"),
    "ordinal": (
        "score",
        'index score = {"1", "2", "3", "4", "5"}\nindex cut = head(score)\n',
        "hyper k[cut] : ordered ~ normal(sd = 3)\n",
        "ordinal(logit = eta, cuts = k)",
    ),
}
COVARIANCE = """lgm 1
index obs
index user
index column
data y[obs] : real
data who[obs] : user
data item[obs] : column
data unit[column, column] : real
hyper S[column, column] : covariance ~ inv_wishart(df = {df}, scale = unit)
hyper c[column] : real ~ normal(sd = 3)
hyper t : positive ~ half_normal(sd = 2)
latent z[user, column] ~ iid * dense(cov = S)
let eta[obs] = c[item] + z[who, item]
observe y ~ normal(mean = eta, sd = t)
"""
TOPICS = """lgm 1
index letter
index word
index topic = 4
data n[letter, word] : count
hyper mu[topic] : real ~ normal(sd = 2)
hyper beta[topic, word] : simplex ~ dirichlet(alpha = 1.1)
latent z[letter, topic] ~ normal(sd = 1)
let eta[letter, topic] = mu + z
observe n ~ admixture(softmax = eta, emission = beta)
"""
SDS = """lgm 1
index obs
index item
index group
data y[obs] : real
data what[obs] : item
data who[obs] : group
hyper s : positive ~ half_normal(sd = 2)
hyper t[item] : positive ~ half_normal(sd = 2)
latent u[group] ~ normal(sd = s)
let eta[obs] = u[who]
observe y ~ normal(mean = eta, sd = t[what])
"""
CUTS = """lgm 1
index person
index item
index obs
index score = {"1", "2", "3"}
index cut = head(score)
data y[obs] : score
data what[obs] : item
data who[obs] : person
hyper k[item, cut] : ordered ~ normal(sd = 3)
hyper s : positive ~ half_normal(sd = 2)
latent u[person] ~ normal(sd = s)
let eta[obs] = u[who]
observe y ~ ordinal(logit = eta, cuts = k[what, cut])
"""
TABLE = [
    *((case, n, way) for case in FAMILIES for way in ("em", "map") for n in COLUMNS),
    *(("covariance", n, way) for way in ("em", "map") for n in (10, 50, 100, 400, 1_000)),
    *(("topics", n, way) for way in ("em", "map") for n in (10**3, 10**4, 10**5)),
    *((case, n, "map") for case in ("sds", "cuts") for n in (10**2, 10**3, 10**4)),
]


def text(case: str, size: int) -> str:
    """The model."""
    if case in FAMILIES:
        kind, index, hyper, family = FAMILIES[case]
        return FACTOR.format(factors=FACTORS, type=kind, index=index, hyper=hyper, family=family)
    if case == "covariance":
        return COVARIANCE.format(df=size + 2)
    return {"topics": TOPICS, "sds": SDS, "cuts": CUTS}[case]


def data(case: str, size: int) -> dict[str, AnyArray]:
    """Simulated rows."""
    rng = np.random.default_rng(0)
    if case in FAMILIES:
        return ratings(case, size, COLUMNS.get(size, max(size // 20, 50)))
    if case == "covariance":
        return {**ratings("gaussian", 50 * size, size), "unit": (2.0 * size + 3.0) * np.eye(size)}
    if case == "topics":
        beta = rng.dirichlet(np.full(size, 0.1), 4)
        shares = np.exp(rng.normal(size=(200, 4)))
        shares /= shares.sum(axis=1, keepdims=True)
        return {"n": np.array([rng.multinomial(1_000, p / p.sum()) for p in shares @ beta])}
    what, groups = np.repeat(np.arange(size), 20), max(size // 10, 20)
    who = rng.integers(0, groups, len(what))
    u = rng.normal(size=groups)[who]
    if case == "sds":
        y = u + np.exp(0.5 * rng.normal(size=size))[what] * rng.normal(size=len(what))
        return {"y": y, "what": what, "who": who}
    level = rng.normal(size=size)[what]
    noisy = u + rng.logistic(size=len(what))
    y = (noisy > level - 1.0).astype(int) + (noisy > level + 1.0)
    return {"y": np.array(list("123"))[y], "what": what, "who": who}


def ratings(case: str, users: int, columns: int) -> dict[str, AnyArray]:
    """RATINGS of each user."""
    rng = np.random.default_rng(0)
    count = min(RATINGS, columns // 2)
    who = np.repeat(np.arange(users), count)
    item = rng.random((users, columns)).argpartition(count, axis=1)[:, :count].reshape(-1)
    loadings, c = 0.7 * rng.normal(size=(columns, FACTORS)), rng.normal(size=columns)
    z = rng.normal(size=(users, FACTORS))
    eta = c[item] + (loadings[item] * z[who]).sum(axis=1)
    out: dict[str, AnyArray] = {"who": who, "item": item}
    if case == "gaussian":
        out["y"] = eta + 0.7 * rng.normal(size=len(who))
    elif case == "binary":
        out["y"] = (rng.random(len(who)) < 1.0 / (1.0 + np.exp(-eta))).astype(np.int64)
    else:
        noisy = eta + rng.logistic(size=len(who))
        out["y"] = np.array(list("12345"))[np.digitize(noisy, [-2.0, -0.7, 0.7, 2.0])]
    return out


def main(arguments: list[str]) -> None:
    """One line for a fit, or for all."""
    if arguments == ["all"]:
        for case, size, hyper in TABLE:
            command = [sys.executable, "-m", "tests.benchmarks.many_hypers", case, str(size), hyper]
            subprocess.run(command, check=False)
        return
    case, size = arguments[0], int(float(arguments[1]))
    hyper = arguments[2] if len(arguments) > 2 else "em"
    options = {"learning_steps": int(arguments[3])} if len(arguments) > 3 else {}
    columns, model = data(case, size), lgm.loads(text(case, size))
    began = time.process_time()
    fit = lgm.fit(model, columns, hyper=hyper, options=options)
    spent = time.process_time() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    assert fit.learning is not None
    fits = fit.learning.fits
    count = sum(np.size(v) for v in fit.theta.values())
    print(
        f"{case} {size} {hyper}: {count} hypers, {spent:.1f} CPU s, {fits} fits, "
        f"{spent / fits:.3g} s a fit, {most:.0f} MB, {fit.method} {fit.engine}, "
        f"{fit.status.name}, objective {fit.learning.steps[-1].objective:.6f}",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
