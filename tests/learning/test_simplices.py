"""Learned topics: the M-step against expected counts, the objective never falls, EM's maximum is
that of L-BFGS."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.api.fit.hyper_ways import chosen_way
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.em import em as em_steps
from lgmdsl.learning.em.closed_steps import probabilities
from lgmdsl.learning.em.em import EM, SLOW, WORTH, Climbed
from lgmdsl.learning.objective.log_posterior import Objective
from tests.compiled import canonical_form

pytest.importorskip("lgmdsl.sites.vector.admixture")
TEXT = """lgm 1
index doc
index word
index topic = 2
data n[doc, word] : count
hyper beta[topic, word] : simplex ~ {}
latent z[doc, topic] ~ normal(sd = 1.5)
observe n ~ admixture(softmax = z, emission = beta)
"""
PRIOR = "dirichlet(alpha = 1.5)"


def texts() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    beta = rng.dirichlet(np.full(8, 0.5), size=2)
    z = 1.5 * rng.normal(size=(40, 2))
    drawn = [rng.multinomial(30, p) for p in special.softmax(z, axis=1) @ beta]
    return {"n": np.array(drawn, dtype=float)}


def test_at_certain_topics_the_step_counts_words() -> None:
    """The latents have next to no spread, so that each word's topic is known by Bayes' rule."""
    data = texts()
    text = TEXT.format(PRIOR).replace("sd = 1.5", "sd = 0.0001")
    canonical = canonical_form(text, data)
    coordinates = Coordinates(canonical.hypers)
    objective = Objective(plan(canonical), coordinates, {}, Tolerances(1e-12, 1e-9))
    beta = np.random.default_rng(0).dirichlet(np.ones(8), size=2)
    at = objective.at(coordinates.pack({"beta": beta}))
    em = EM.of(objective, {"beta": beta}, "none")
    assert at is not None and em is not None and len(em.closed) == 1
    x = em.closed[0].step(canonical, at, at.theta)
    assert x is not None
    counts = data["n"].sum(axis=0) * beta / beta.sum(axis=0) + 0.5
    want = counts / counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(coordinates.unpack(x)["beta"], want, atol=1e-5)


def test_topics_of_two_sites_have_no_closed_step() -> None:
    """Counts are those of one site; shared topics are learned by gradients."""
    text = TEXT.format(PRIOR).replace("hyper beta", "data m[doc, word] : count\nhyper beta")
    shared = text + "observe m ~ admixture(softmax = z, emission = beta)\n"
    for given, known in ((TEXT.format(PRIOR), 1), (shared, 0)):
        data = {**texts(), "m": texts()["n"]} if given is shared else texts()
        canonical = canonical_form(given, data)
        assert len(probabilities(canonical, Coordinates(canonical.hypers))) == known


@pytest.mark.thorough
def test_em_climbs_to_the_maximum() -> None:
    data, model = {"n": texts()["n"][:12]}, lgm.loads(TEXT.format(PRIOR))
    slow = lgm.fit(model, data, hyper="em", options={"acceleration": "none"}, tol=1e-6)
    assert slow.hyper == "em" and slow.learning
    steps = [s.objective for s in slow.learning.steps]
    assert len(steps) > 5
    assert all(b >= a - 1e-6 for a, b in pairwise(steps))
    fast = lgm.fit(model, data, hyper="em")
    assert fast.converged and fast.learning
    assert fast.learning.steps[-1].objective == pytest.approx(steps[-1], abs=0.02)
    np.testing.assert_allclose(fast.theta["beta"].sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.thorough
def test_fewer_digits_are_a_shorter_search() -> None:
    data, model = {"n": texts()["n"][:10]}, lgm.loads(TEXT.format(PRIOR))
    fits = [lgm.fit(model, data, hyper="map", tol=tol) for tol in (1e-7, 1e-3)]
    full, rough = (f.learning.steps for f in fits if f.learning)
    assert all(f.converged for f in fits)
    assert len(rough) < len(full) and rough[-1].gain < 1e-3 * abs(fits[1].log_evidence)
    assert rough[-1].gain > 100.0 * full[-1].gain
    assert abs(full[-1].objective - rough[-1].objective) < 1.0


def test_em_goes_on_while_topics_gain() -> None:
    """A tenth of a nat a step, however slowly gains shrink; and `auto` takes it."""
    data = {"n": texts()["n"][:20]}
    canonical = canonical_form(TEXT.format("flat"), data)
    coordinates = Coordinates(canonical.hypers, closed=True)
    objective = Objective(plan(canonical), coordinates, {}, Tolerances())
    beta = np.random.default_rng(0).dirichlet(np.full(8, 20.0), size=2)
    first = objective.at(coordinates.pack({"beta": beta}))
    em = EM.of(objective, {"beta": beta}, "l-bfgs")
    assert first is not None and em is not None
    gains = np.diff([s.objective for s in em.run(first).steps])
    assert gains[-1] <= WORTH and (gains[:-1] > WORTH).all()
    assert (gains[1:-1] > SLOW * gains[:-2])[1:].any()  # where loadings would have left off
    assert chosen_way(canonical, FitSettings(), plan(canonical).backend.spec, "auto") == "em"


@pytest.mark.thorough
def test_e_steps_are_short_and_m_steps_long_until_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As high as by whole steps, in fewer steps; the point that is left is a fit to
    its end, also where short E-steps hide what a step gains."""
    data = {"n": texts()["n"]}
    canonical = canonical_form(TEXT.format(PRIOR), data)
    coordinates = Coordinates(canonical.hypers, closed=True)
    beta = np.random.default_rng(0).dirichlet(np.full(8, 20.0), size=2)

    def climbed(partial: int, longer: float) -> tuple[Climbed, Objective]:
        monkeypatch.setattr(em_steps, "PARTIAL", partial)
        monkeypatch.setattr(em_steps, "LONGER", longer)
        objective = Objective(plan(canonical), coordinates, {}, Tolerances())
        first = objective.at(coordinates.pack({"beta": beta}))
        em = EM.of(objective, {"beta": beta}, "l-bfgs")
        assert first is not None and em is not None
        return em.run(first), objective

    whole, exact = climbed(0, 1.0)
    short, counted = climbed(3, 1.5)
    assert counted.steps < 0.7 * exact.steps and len(short.steps) < len(whole.steps)
    assert short.at.value > whole.at.value - 3.0 * WORTH
    for end in (whole, short, climbed(1, 1.5)[0]):
        assert end.at.run.status is Status.converged
        assert end.at.value > whole.at.value - 1.0
