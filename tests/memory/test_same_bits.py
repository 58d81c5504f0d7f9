"""The same seed and data give the same bits in every process, fork and thread, and with any number
of BLAS threads where models are small; where BLAS takes several threads, what is reported changes
by less than 1e-10, relative."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from tests.memory.processes import told

FITS = '''
import json, os, sys, threading
import numpy as np, lgmdsl as lgm

DRAWS = 30
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
    n = 120
    given = {"who": rng.integers(0, 15, n), "x": rng.normal(size=n)}
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
    rows, cols = 500, 200
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
    parts.append(np.ravel(fit.sample(2, seed=1)[first])[:DRAWS])
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
DRAWS = 30  # the last entries of each
ONE = "\nprint(json.dumps({n: values(n) for n in NAMES}))\n"
# Several BLAS threads for small models too.
FREE = "import lgmdsl.numerics.blas_threads\nlgmdsl.numerics.blas_threads.LARGE = 0.0\n"


def ran(script: str, threads: str = "1", hashes: str = "0") -> dict[str, list[str]]:
    said = told(
        FITS + f"NAMES = {NAMES!r}\n" + script,
        OPENBLAS_NUM_THREADS=threads,
        OMP_NUM_THREADS=threads,
        PYTHONHASHSEED=hashes,
    )
    out: dict[str, list[str]] = json.loads(said)
    return out


@pytest.fixture(scope="module")
def plain() -> dict[str, list[str]]:
    return ran(ONE)


@pytest.mark.thorough
def test_every_process_has_the_same_bits_with_any_number_of_threads(
    plain: dict[str, list[str]],
) -> None:
    assert ran(ONE, threads="2", hashes="77") == plain


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_so_have_forks_and_threads(plain: dict[str, list[str]]) -> None:
    both = "\nprint(json.dumps({n: [in_fork(n), *in_threads(n)] for n in NAMES}))\n"
    wanted: object = {n: [v, v, v] for n, v in plain.items()}
    assert ran(both) == wanted


@pytest.mark.thorough
def test_several_threads_of_blas_change_last_digits(plain: dict[str, list[str]]) -> None:
    free = FREE + "NAMES = 'lmm', 'gp'\n" + ONE
    for name, others in ran(free, threads="2").items():
        one = np.array([float.fromhex(v) for v in plain[name]])
        two = np.array([float.fromhex(v) for v in others])
        scale = np.maximum(np.abs(one), 1e-3 * np.abs(one).max())
        change = np.abs(two - one) / scale
        assert change[:-DRAWS].max() < 1e-10, name
        # A draw is a root of a covariance times noise: where that is all but singular (gp), the
        # directions of its smallest sds, sqrt(rounding), are no one's.
        assert change[-DRAWS:].max() < 1e-7, name
