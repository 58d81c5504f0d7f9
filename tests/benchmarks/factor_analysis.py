"""One fit of binary factor analysis, timed: 20 items, 3 factors, N persons.

    python -m tests.benchmarks.factor_analysis N BOUND     (BOUND: jaakkola, bohning, ...; exact)

Prints one JSON object: seconds (of wall and of CPU) and seconds of an EM iteration (after the
first, which finds the pattern), peak memory in MB (of the whole process), iterations, the objective
and the path to it: CPU seconds (the fits so far take their share of all), iterations, objective.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import Array

ITEMS, FACTORS = 20, 3
TEXT = f"""lgm 1
index person
index item
index factor = {FACTORS}
data y[person, item] : binary?
hyper c[item]         : real ~ normal(sd = 3)
hyper L[item, factor] : real ~ normal(sd = 1)
latent z[person, factor] ~ normal(sd = 1)
let eta[person, item] = c + L @ z
observe y ~ bernoulli(logit = eta)
"""


def responses(persons: int) -> Array:
    """(persons, items) from loadings and offsets that are standard normal."""
    rng = np.random.default_rng(0)
    loadings, c = rng.normal(size=(ITEMS, FACTORS)), rng.normal(size=ITEMS)
    eta = c + rng.normal(size=(persons, FACTORS)) @ loadings.T
    return (rng.random(eta.shape) < 1.0 / (1.0 + np.exp(-eta))).astype(float)


def timed(persons: int, bound: str) -> dict[str, object]:
    """See the module."""
    y, model = responses(persons), lgm.loads(TEXT)
    chosen = None if bound == "exact" else bound
    lgm.fit(model, {"y": y[:200]}, hyper="em", bound=chosen)  # imports
    begin, started = time.perf_counter(), time.process_time()
    fit = lgm.fit(model, {"y": y}, hyper="em", bound=chosen)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - started
    assert fit.learning is not None
    fits, steps = fit.learning.fits, [s.objective for s in fit.learning.steps]
    return {
        "persons": persons, "bound": bound, "seconds": seconds, "cpu": cpu,
        "iteration": seconds / len(steps), "iterations": len(steps), "fits": fits,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
        "path": [[cpu * s.calls / fits, s.step, s.objective] for s in fit.learning.steps],
        "objective": steps[-1], "evidence": fit.log_evidence, "status": fit.status.name,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(timed(int(sys.argv[1]), sys.argv[2])))
