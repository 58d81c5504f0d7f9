"""DIC, WAIC, leave-one-out, PIT and leave-group-out against dense algebra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import lgmdsl as lgm
from lgmdsl.api.assess.components import assessed, component
from lgmdsl.assess.component import Component
from lgmdsl.assess.criteria import deviances, waic_terms
from lgmdsl.assess.groups import groups_out
from lgmdsl.assess.loo import loo, pit
from lgmdsl.canonical.model import CanonicalModel
from tests.assess.linear_models import LinearModel, linear_model

NOISE = 0.6


@pytest.fixture(scope="module", params=[0, 1, 2])
def model(request: pytest.FixtureRequest) -> LinearModel:
    return linear_model(request.param)


def test_dic_counts_the_effective_degrees_of_freedom(model: LinearModel) -> None:
    mean, k, cov = model.prior()
    hat = k @ np.linalg.inv(cov)
    found = model.fit().dic()
    assert found.p_d == pytest.approx(np.trace(hat), rel=1e-9)
    centre = mean + hat @ (model.y - mean)
    at_mean = -2 * stats.norm(centre, NOISE).logpdf(model.y)
    assert found.deviance_at_mean == pytest.approx(at_mean.sum(), rel=1e-10)
    local = at_mean + 2 * np.diag(hat)
    shares = found.pointwise("y").values
    np.testing.assert_allclose(shares[model.seen], local, rtol=1e-8)
    assert np.isnan(shares).sum() == 2 and found.dic == pytest.approx(local.sum(), rel=1e-9)


def test_waic_is_that_of_the_gaussian_marginals(model: LinearModel) -> None:
    mean, k, cov = model.prior()
    hat = k @ np.linalg.inv(cov)
    m, v = mean + hat @ (model.y - mean), np.diag(NOISE**2 * hat)
    lppd = stats.norm(m, np.sqrt(v + NOISE**2)).logpdf(model.y)
    r, ratio = (model.y - m) / NOISE, v / NOISE**2
    effective = r**2 * ratio + 0.5 * ratio**2
    found = model.fit().waic()
    np.testing.assert_allclose(found.effective().values[model.seen], effective, rtol=1e-8)
    np.testing.assert_allclose(found.pointwise().values[model.seen], lppd - effective, rtol=1e-7)
    assert found.elpd == pytest.approx((lppd - effective).sum(), rel=1e-8)
    n = len(model.y)
    assert found.se == pytest.approx(np.sqrt(n * np.var(lppd - effective, ddof=1)), rel=1e-7)


@pytest.mark.parametrize("exact", [False, "all"])
def test_leave_one_out_is_that_of_the_joint_density(model: LinearModel, exact: bool | str) -> None:
    """From the precision Q of all responses: y_i | y_-i is normal around y_i - (Qr)_i / Q_ii, with
    variance 1 / Q_ii."""
    mean, _, cov = model.prior()
    q = np.linalg.inv(cov)
    centre, sd = model.y - (q @ (model.y - mean)) / np.diag(q), 1 / np.sqrt(np.diag(q))
    fit = model.fit()
    found = fit.loo(exact=exact)
    np.testing.assert_allclose(
        found.pointwise().values[model.seen], stats.norm(centre, sd).logpdf(model.y), atol=1e-8
    )
    assert found.flagged == 0 and (found.flags() == "").all()
    inside = fit.waic().lppd
    assert found.p_loo == pytest.approx(inside - found.elpd, rel=1e-9)
    np.testing.assert_allclose(
        fit.pit().pointwise().values[model.seen], stats.norm(centre, sd).cdf(model.y), atol=1e-8
    )


@pytest.mark.few(5)
@pytest.mark.parametrize("exact", [False, "all"])
def test_leave_group_out_is_that_of_the_joint_density(
    model: LinearModel, exact: bool | str
) -> None:
    found = model.fit().loo(groups="subject", exact=exact)
    everything = np.arange(len(model.y))
    for g in range(4):
        rest = model.without(np.flatnonzero(model.groups == g))
        wanted = model.log_density(everything) - model.log_density(rest)
        assert float(found.pointwise().sel(subject=g)) == pytest.approx(wanted, abs=1e-8)
    assert found.error == 0.0 and found.flagged == 0 and found.p_loo is None


HYPERS = [
    {"noise": 0.6, "spread": 0.8},
    {"noise": 0.75, "spread": 0.5},
    {"noise": 0.5, "spread": 1.2},
]


def weighted(canonical: CanonicalModel, fit: lgm.Fit, weight: float) -> Component:
    """A fit at fixed hyperparameters as one component of a mixture."""
    point = replace(fit.points[0], share=weight)
    return component(canonical, point, point.condition)


def mixture(model: LinearModel, prior: np.ndarray) -> tuple[tuple[Component, ...], np.ndarray]:
    """The exact posterior over three hyperparameter points, and log p(y) at each."""
    logs = np.array([model.log_density(np.arange(len(model.y)), **h) for h in HYPERS])
    weight = np.exp(logs + np.log(prior) - logsumexp(logs + np.log(prior)))
    out = []
    for h, w in zip(HYPERS, weight, strict=True):
        fit = model.fit(**h)
        asked = assessed(fit, None, None, "loo")
        out.append(weighted(asked.canonical, fit, float(w)))
    return tuple(out), logs


def test_mixtures_over_hyperparameters_are_exact(model: LinearModel) -> None:
    prior = np.array([0.5, 0.3, 0.2])
    parts, logs = mixture(model, prior)
    whole = logsumexp(logs, b=prior)
    (left,) = loo(parts)
    (transform,) = pit(parts, [left])
    for i in range(len(model.y)):
        rest = model.without(np.array([i]))
        each = np.array([model.log_density(rest, **h) for h in HYPERS])
        assert left.log_density[i] == pytest.approx(whole - logsumexp(each, b=prior), abs=1e-8)
        weight = prior * np.exp(each - logsumexp(each, b=prior))
        np.testing.assert_allclose(left.weight[:, i], weight, atol=1e-8)
        below = 0.0
        for w, h in zip(weight, HYPERS, strict=True):
            mean, _, cov = model.prior(**h)
            gain = np.linalg.solve(cov[np.ix_(rest, rest)], cov[rest, i])
            centre = mean[i] + gain @ (model.y[rest] - mean[rest])
            below += w * stats.norm(centre, np.sqrt(cov[i, i] - gain @ cov[rest, i])).cdf(
                model.y[i]
            )
        assert transform.middle[i] == pytest.approx(below, abs=1e-8)
    groups = [(np.flatnonzero(model.groups == g),) for g in range(4)]
    out = groups_out(parts, groups, 1024, 0)
    for g, (rows,) in enumerate(groups):
        each = np.array([model.log_density(model.without(rows), **h) for h in HYPERS])
        assert out.log_density[g] == pytest.approx(whole - logsumexp(each, b=prior), abs=1e-8)


def test_criteria_of_mixtures_average_over_the_points() -> None:
    model = linear_model(0)
    parts, _ = mixture(model, np.array([0.2, 0.3, 0.5]))
    weight = np.array([c.weight for c in parts])
    rng = np.random.default_rng(0)
    rows = np.arange(len(model.y))
    deviance, effective = deviances(parts, parts), waic_terms(parts)
    point = rng.choice(3, size=50_000, p=weight)
    s = np.stack([c.mean[0] for c in parts])[point] + np.sqrt(
        np.stack([c.variance[0] for c in parts])[point]
    ) * rng.normal(size=(len(point), len(rows)))
    noise = np.array([h["noise"] for h in HYPERS])[point][:, None]
    level = stats.norm(s, noise).logpdf(model.y)
    np.testing.assert_allclose(deviance.mean[0], -2 * level.mean(axis=0), rtol=0.03, atol=0.03)
    np.testing.assert_allclose(effective.effective[0], level.var(axis=0), rtol=0.1, atol=0.01)
    lppd = np.log(np.exp(level).mean(axis=0))
    np.testing.assert_allclose(effective.lppd[0], lppd, atol=0.03)
    top = HYPERS[int(np.argmax(weight))]["noise"]
    plug = -2 * stats.norm(sum(c.weight * c.mean[0] for c in parts), top).logpdf(model.y)
    np.testing.assert_allclose(deviance.at_mean[0], plug, rtol=1e-10)


def test_a_point_that_leaving_out_revives_is_flagged(model: LinearModel) -> None:
    """An outlier holds the weight on a wide noise; without it, all but nothing stays there."""
    data = dict(model.data)
    y = data["y"].copy()
    far = model.seen[0]
    y[far] = 12.0
    broken = LinearModel({**data, "y": y})
    points = [{"noise": 0.6, "spread": 0.8}, {"noise": 3.0, "spread": 0.8}]
    logs = np.array([broken.log_density(np.arange(len(broken.y)), **h) for h in points])
    weight = np.exp(logs - logsumexp(logs))
    parts = []
    for h, w in zip(points, weight, strict=True):
        fit = broken.fit(**h)
        asked = assessed(fit, None, None, "loo")
        parts.append(weighted(asked.canonical, fit, float(w)))
    (left,) = loo(parts)
    assert left.flag[0] == 2 and (left.flag[1:] == 0).all()
