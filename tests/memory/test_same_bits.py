"""The same seed and data give the same bits in every process, fork and thread."""

from __future__ import annotations

import json
import sys

import pytest

from tests.memory.processes import told

FITS = '''
import json, os, sys, threading
import numpy as np, lgmdsl as lgm

HEAD = "lgm 1\\nindex obs\\ndata y[obs] : %s\\n"
MIXED = HEAD + """index g
data who[obs] : g
data x[obs] : real
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent b ~ normal(sd = 5)
latent u[g] ~ normal(sd = s)
"""

def case(name):
    rng = np.random.default_rng(0)
    n = 300
    given = {"who": rng.integers(0, 30, n), "x": rng.normal(size=n)}
    count, real = rng.poisson(2, n), rng.normal(size=n)
    if name == "glmm":
        text = MIXED % "count" + "observe y ~ poisson(log_rate = b + u[who])\\n"
        return text, {**given, "y": count}, {}
    if name == "lmm":
        text = MIXED % "real" + "hyper e : positive ~ pc_sd(u = 1, alpha = 0.05)\\n"
        return text + "observe y ~ normal(mean = b + u[who], sd = e)\\n", {**given, "y": real}, {}
    if name == "ep":
        text = MIXED % "binary" + "observe y ~ bernoulli(logit = b + u[who])\\n"
        return text, {**given, "y": count > 1}, {"method": "ep"}
    if name == "gp":
        text = HEAD % "real" + """data x[obs] : real
hyper l : positive ~ inv_gamma(shape = 3, scale = 1)
latent f[obs] ~ gp(at = x, kernel = se(sd = 1, length = l))
observe y ~ normal(mean = f, sd = 0.5)
"""
        return text, {"x": given["x"], "y": real}, {"hyper": "map"}
    import scipy.sparse as sp
    rows, cols = 1200, 600
    X = sp.csr_array((rng.normal(size=3 * rows), (np.repeat(np.arange(rows), 3),
                     rng.integers(0, cols, 3 * rows))), shape=(rows, cols))
    X.sum_duplicates()
    text = HEAD % "count" + """index k
data X[obs, k] : real
latent w[k] ~ normal(sd = 0.5)
observe y ~ poisson(log_rate = X @ w)
"""
    return text, {"X": X, "y": rng.poisson(1, rows)}, {"options": {"engine": name}}

def values(name):
    text, given, more = case(name)
    given = {k: v for k, v in given.items() if f"data {k}[" in text}
    fit = lgm.fit(lgm.loads(text), given, seed=3, **more)
    assert fit.converged, fit.status
    parts = [np.array([fit.log_evidence])]
    parts += [np.ravel(np.asarray(f(v))) for v in ("b", "u", "f", "w", "s") if f" {v}" in text
              and ("latent " + v in text or "hyper " + v in text) for f in (fit.mean, fit.sd)]
    first = next(v for v in ("u", "f", "w") if "latent " + v in text)
    parts.append(np.ravel(fit.sample(2, seed=1)[first])[:50])
    return [float(x).hex() for x in np.concatenate(parts)]

def in_fork(name):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(write, "w") as out:
            json.dump(values(name), out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as text:
        out = json.load(text)
    os.waitpid(child, 0)
    return out

def in_threads(name):
    found = [None, None]
    def work(k):
        found[k] = values(name)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return found
'''
NAMES = ("glmm", "lmm", "gp", "ep", "sparse", "iterative")
ONE = "\nprint(json.dumps({n: values(n) for n in sys.argv[1:] or NAMES}))\n"


def ran(last: str, threads: str = "1", hashes: str = "0") -> dict[str, list[str]]:
    script = FITS + f"NAMES = {NAMES!r}\n" + last
    said = told(
        script, OPENBLAS_NUM_THREADS=threads, OMP_NUM_THREADS=threads, PYTHONHASHSEED=hashes
    )
    out: dict[str, list[str]] = json.loads(said)
    return out


@pytest.fixture(scope="module")
def plain() -> dict[str, list[str]]:
    return ran(ONE)


def test_every_process_has_the_same_bits(plain: dict[str, list[str]]) -> None:
    assert ran(ONE, hashes="77") == plain


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_so_have_forks_and_threads(plain: dict[str, list[str]]) -> None:
    forks = "\nprint(json.dumps({n: in_fork(n) for n in NAMES}))\n"
    assert ran(forks) == plain
    threads = "\nprint(json.dumps({n: in_threads(n) for n in NAMES}))\n"
    twice = json.loads(json.dumps({n: [v, v] for n, v in plain.items()}))
    assert json.dumps(ran(threads), sort_keys=True) == json.dumps(twice, sort_keys=True)
