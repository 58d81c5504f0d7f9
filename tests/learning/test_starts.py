"""Where a search for hyperparameters begins, and how long it may be."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from tests.learning.glmm import GLMM, counts

# Two modes: the loading's sign is not determined.
SIGNED = """lgm 1
index p
index i
data y[p, i] : real
hyper l[i] : real ~ normal(sd = 1)
hyper s : positive ~ half_normal(sd = 1)
latent z[p] ~ normal(sd = 1)
let eta[p, i] = l * z
observe y ~ normal(mean = eta, sd = s)
"""

CROSSED = """lgm 1
index obs
index A
index B
data y[obs] : real
data a[obs] : A
data b[obs] : B
hyper sa : positive ~ half_cauchy(scale = 1)
hyper sb : positive ~ half_cauchy(scale = 1)
hyper s : positive ~ half_cauchy(scale = 1)
latent b0 ~ normal(sd = 10)
latent u[A] ~ normal(sd = sa)
latent w[B] ~ normal(sd = sb)
let eta[obs] = b0 + u[a] + w[b]
observe y ~ normal(mean = eta, sd = s)
"""


def _signed() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"y": rng.normal(size=(40, 1)) * [1.0, 0.8, -0.6] + 0.4 * rng.normal(size=(40, 3))}


@pytest.mark.parametrize("hyper", ["map", "em"])
def test_a_search_begins_at_the_values_given(hyper: str) -> None:
    model, data = lgm.loads(SIGNED), _signed()
    found = [
        lgm.fit(model, data, hyper=hyper, start={"l": sign * np.array([1.0, 1.0, -1.0]), "s": 0.4})
        for sign in (1.0, -1.0)
    ]
    assert all(f.converged for f in found)
    assert found[0].log_evidence == pytest.approx(found[1].log_evidence, abs=1e-4)
    if hyper == "map":  # em tells loadings with fixed signs
        assert found[0].theta["l"][0] * found[1].theta["l"][0] < 0.0
    # The first objective is that of the values given.
    pinned = lgm.fit(model, data, fixed={"l": [1.0, 1.0, -1.0], "s": 0.4})
    prior = -0.5 * 3 * (1.0 + np.log(2 * np.pi)) + 0.5 * np.log(2 / np.pi) - 0.5 * 0.4**2
    first = found[0].learning.steps[0].objective
    assert first == pytest.approx(pinned.log_evidence + prior, abs=1e-6)


def test_an_earlier_fit_hands_its_hypers_on() -> None:
    model, data = lgm.loads(SIGNED), _signed()
    fit = lgm.fit(model, data, hyper="em")
    again = lgm.fit(model, data, hyper="em", start_from=fit)
    assert again.learning.steps[-1].step < fit.learning.steps[-1].step
    assert again.learning.steps[0].objective == pytest.approx(fit.learning.steps[-1].objective)
    # What does not fit another model is left out, and a value given comes first.
    other = lgm.loads(SIGNED.replace("half_normal(sd = 1)", "uniform(lower = 5, upper = 9)"))
    assert lgm.fit(other, data, hyper="em", start_from=fit).theta["s"] > 5.0
    moved = lgm.fit(model, data, hyper="em", start_from=fit, start={"s": 2.0})
    assert moved.learning.steps[0].objective < fit.learning.steps[-1].objective - 1.0


def test_the_factors_of_vb_begin_there() -> None:
    model, data = lgm.loads(GLMM), counts(8)
    far = lgm.fit(model, data, hyper="vb", start={"s": 3.0})
    near = lgm.fit(model, data, hyper="vb")
    assert far.converged
    assert far.learning.steps[0].objective != near.learning.steps[0].objective
    assert far.log_evidence == pytest.approx(near.log_evidence, abs=1e-4)


@pytest.mark.parametrize("hyper", ["map", "em", "vb"])
def test_the_limit_of_steps_is_kept_and_told(hyper: str) -> None:
    model, data = (lgm.loads(GLMM), counts(8)) if hyper == "vb" else (lgm.loads(SIGNED), _signed())
    fit = lgm.fit(model, data, hyper=hyper, options={"learning_steps": 2})
    assert fit.status.name == "iteration_limit" and fit.learning.steps[-1].step <= 2
    told = next(w for w in fit.warnings if w.code == "W601")
    assert hyper == "vb" or 'options={"learning_steps": 200}' in told.help
    longer = lgm.fit(model, data, hyper=hyper, options={"learning_steps": 300})
    assert longer.converged


@pytest.mark.parametrize("hyper", ["map", "em"])
def test_a_start_near_zero_does_not_hide_the_data(hyper: str) -> None:
    """Under a prior that is highest at 0 there is an edge there, 7 nats below the mode inside."""
    rng = np.random.default_rng(5)
    a, b = np.repeat(np.arange(6), 5), np.tile(np.arange(5), 6)
    mean = 0.8 * rng.normal(size=6)[a] + 0.4 * rng.normal(size=5)[b]
    data = {"y": mean + 0.6 * rng.normal(size=30), "a": a, "b": b}
    model = lgm.loads(CROSSED)
    fit = lgm.fit(model, data, hyper=hyper)
    low = lgm.fit(model, data, hyper=hyper, start={"sa": 1e-3, "sb": 1e-3})
    assert fit.converged and low.converged and not low.warnings
    assert low.log_evidence == pytest.approx(fit.log_evidence, abs=1e-3)


FAR_OFF = """lgm 1
index p
index i
index k = 1
data y[p, i] : real
hyper c[i] : real ~ normal(sd = 10)
hyper L[i, k] : real ~ normal(sd = 10)
hyper s[i] : positive ~ pc_sd(u = 1, alpha = 0.05)
latent z[p, k] ~ normal(sd = 1)
let eta[p, i] = c + L @ z
observe y ~ normal(mean = eta, sd = s)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("level", [1e6])
def test_em_and_map_end_alike_at_offsets_far_beyond_their_priors(level: float) -> None:
    """They used to end 43 nats (em, converged) and 2,000 nats (map, at its limit) below the top,
    and at 1e6 map ran away."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(80, 1)) * [1.0, 0.8, 0.6, 0.9] + 0.5 * rng.normal(size=(80, 4)) + level
    fits = [lgm.fit(lgm.loads(FAR_OFF), {"y": y}, hyper=hyper) for hyper in ("em", "map")]
    assert all(fit.converged for fit in fits)
    ends = [max(step.objective for step in fit.learning.steps) for fit in fits if fit.learning]
    assert ends[0] == pytest.approx(ends[1], abs=0.05)
