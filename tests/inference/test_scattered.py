"""The standard error that fits tell of their sites' points: right over many seeds, and told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats
from scipy.stats import qmc

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import bound
from lgmdsl.bounds.softmax import LogSumExpBound, SoftmaxByQuadrature
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.status import Guarantee
from lgmdsl.inference import quasi_random_error as scattered
from lgmdsl.inference.quasi_random_error import SCRAMBLES, standard_error
from lgmdsl.inference.registry import backends
from lgmdsl.inference.routes import Route, route
from lgmdsl.sites.combined.weighted import weighted
from lgmdsl.sites.vector.softmax import CategoricalSoftmax

ROWS = 6


def moments(classes: int, sd: float) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(classes)
    root = sd * rng.normal(size=(ROWS, classes, classes)) / np.sqrt(classes)
    return rng.normal(size=(ROWS, classes)), root, root @ root.transpose(0, 2, 1)


def value(rule: LogSumExpBound, site: CategoricalSoftmax, m: Array, v: Array) -> Array:
    return rule.lift(site).expected(m, v).value


@pytest.mark.few(2)
@pytest.mark.parametrize(("classes", "sd"), [(4, 1.0), (4, 4.0), (7, 2.0)])
def test_coverage_over_seeds(classes: int, sd: float) -> None:
    """Of Student's t intervals for the sum over the sites, whose errors go together."""
    m, root, v = moments(classes, sd)
    site = CategoricalSoftmax(np.zeros(ROWS), np.ones((ROWS, classes)))
    truth = 0.0
    for seed in range(8):
        z = special.ndtri(qmc.Sobol(classes, seed=1000 + seed).random(2**13))
        s = m[:, None] + np.concatenate([z, -z]) @ root.transpose(0, 2, 1)
        truth += (s[:, :, 0] - special.logsumexp(s, axis=2)).mean(axis=1).sum() / 8.0
    ratio = []
    for seed in range(0, 30 * 100, 100):
        rule = SoftmaxByQuadrature(seed=seed)
        route = Route(CategoricalSoftmax, rule, Guarantee.NUMERICAL)
        error = standard_error([route], [site], [m], [v])
        ratio.append((value(rule, site, m, v).sum() - truth) / error)
    # An estimate and the spread of SCRAMBLES others: t on SCRAMBLES - 1 degrees of freedom.
    law = stats.t(SCRAMBLES - 1)
    for level in (0.5, 0.9):
        inside = float(np.mean(np.abs(ratio) < law.ppf(0.5 + 0.5 * level)))
        assert abs(inside - level) < 4.0 * np.sqrt(level * (1.0 - level) / 30), (level, inside)


def test_sites_keep_within_the_stated_error() -> None:
    stated = bound("quadrature", Expected, CategoricalSoftmax).spec.error
    for classes, sd in ((4, 8.0), (6, 3.0)):
        m, _, v = moments(classes, sd)
        site = CategoricalSoftmax(np.zeros(ROWS), np.ones((ROWS, classes)))
        found = [value(SoftmaxByQuadrature(seed=k), site, m, v) for k in range(12)]
        centre = np.mean(found, axis=0)
        assert np.all(np.abs(found - centre) <= stated * np.maximum(1.0, np.abs(centre)))


def test_some_sites_stand_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    m, _, v = moments(4, 1.5)
    m, v = np.tile(m, (50, 1)), np.tile(v, (50, 1, 1))
    site = CategoricalSoftmax(np.zeros(50 * ROWS), np.ones((50 * ROWS, 4)))
    route = Route(CategoricalSoftmax, SoftmaxByQuadrature(), Guarantee.NUMERICAL)
    whole = standard_error([route], [site], [m], [v])
    monkeypatch.setattr(scattered, "MOST", 100)
    assert standard_error([route], [site], [m], [v]) == pytest.approx(whole, rel=0.1)


def test_no_points_no_error() -> None:
    m, _, v = moments(3, 2.0)
    site = CategoricalSoftmax(np.zeros(ROWS), np.ones((ROWS, 3)))
    route = Route(CategoricalSoftmax, SoftmaxByQuadrature(), Guarantee.NUMERICAL)
    assert standard_error([route], [site], [m], [v]) == 0.0


@pytest.mark.parametrize(("classes", "told"), [("abc", False), ("abcd", True)])
def test_fits_tell_it(classes: str, told: bool) -> None:
    labels = ", ".join(f'"{c}"' for c in classes)
    text = (
        f"lgm 1\nindex obs\nindex class = {{{labels}}}\ndata x[obs] : real\ndata y[obs] : class\n"
        "latent w[class] ~ normal(sd = 1)\nlet eta[obs, class] = x * w\n"
        "observe y ~ categorical(softmax = eta)\n"
    )
    given: dict[str, Any] = {"x": np.linspace(-1, 1, 8), "y": list((classes * 8)[:8])}
    notes = lgm.fit(lgm.loads(text), given, "natural-gradient").provenance.get("notes", "")
    assert ("standard error of the points" in notes) is told


def test_weighted_sites_have_it_too() -> None:
    """Of weights of 2 it is that of each row twice."""
    m, _, v = moments(4, 1.5)
    plain = CategoricalSoftmax(np.zeros(ROWS), np.ones((ROWS, 4)))
    fields = {"y": plain.y, "available": plain.available, "weight": np.full(ROWS, 2.0)}
    twice = weighted(CategoricalSoftmax)(**fields)
    answered = route(type(twice), backends()["natural-gradient"])
    assert isinstance(answered, Route)
    alone = Route(CategoricalSoftmax, SoftmaxByQuadrature(), Guarantee.NUMERICAL)
    error = standard_error([alone], [plain], [m], [v])
    assert standard_error([answered], [twice], [m], [v]) == pytest.approx(2.0 * error, rel=1e-9)
