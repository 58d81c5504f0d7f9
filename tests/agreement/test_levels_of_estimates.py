"""Responses at a level through engines that the models of `test_levels` do not reach: `iterative`,
and `batched` and `wide`, which take separate groups alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.registry import backends
from tests.agreement.test_levels import KINDS, LEVELS, leveled, truth

METHODS = ("natural-gradient", "ep", "double-loop", "laplace")


@pytest.mark.few(14)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", LEVELS)
def test_no_estimate_is_converged_and_wrong(level: float, kind: str) -> None:
    """Within its error, or not converged: priors as wide as 1e12 units leave conjugate gradients no
    digits, and the latents' place must be found all the same."""
    case = leveled(level, kind)
    wanted, converged = truth(case), 0
    for method in METHODS:
        problem = case.problem(method)
        assert problem.remade is not None
        engine = IterativeEngine(problem.engine.linear)
        found = run(backends()[method](), problem.remade(problem.sites, engine), Tolerances())
        if found.status.name != "converged":
            continue
        assert found.posterior is not None and found.posterior.conditioned.errors is not None
        error = found.posterior.conditioned.errors.log_normaliser
        assert abs(found.posterior.log_evidence - wanted) < 4.0 * error, method
        converged += 1
    assert converged == len(METHODS) or (level == 1e12 and kind == "wide")


PERSONS = """lgm 1
index obs
index person
index item
data y[obs] : real
data off[obs] : real
data who[obs] : person
data what[obs] : item
data S[item, item] : real
latent z[person, item] ~ iid * dense(cov = S)
observe y ~ normal(mean = off + z[who, what], sd = 0.5)
"""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("engine", "items"), [("batched", 4), ("wide", 30)])
def test_engines_of_groups_keep_their_digits(engine: str, items: int, method: str) -> None:
    persons, seen = 60, 3
    rng = np.random.default_rng(5)
    root = rng.normal(size=(items, items))
    residual = 0.25 * np.round(4.0 * rng.normal(size=persons * seen))
    what = np.concatenate([rng.choice(items, seen, replace=False) for _ in range(persons)])

    def evidence(level: float) -> float:
        data = {
            "y": level + residual, "off": np.full(persons * seen, level), "what": what,
            "who": np.repeat(np.arange(persons), seen), "person": np.arange(persons),
            "item": np.arange(items), "S": root @ root.T / items + 0.3 * np.eye(items),
        }  # fmt: skip
        fit = lgm.fit(lgm.loads(PERSONS), data, method, options={"engine": engine})
        assert fit.converged and fit.engine == engine
        return fit.log_evidence

    values = [evidence(level) for level in (0.0, *LEVELS)]
    for one, other in pairwise(values):
        assert other == pytest.approx(one, rel=1e-7)
