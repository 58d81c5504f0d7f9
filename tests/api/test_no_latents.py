"""Models of hypers alone: maximum likelihood, or integrated."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats

import lgmdsl as lgm

RATE = """lgm 1
index obs
data y[obs] : count
hyper m : real ~ normal(sd = 2)
observe y ~ poisson(log_rate = m)
"""
RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(3.0, 20)
AMOUNTS = np.where(RNG.random(60) < 0.3, 0.0, RNG.gamma(2.0, 1.0, 60))


def exact() -> tuple[float, float, float]:
    """log p(y), mean and sd of m by quadrature."""
    m = np.linspace(-2.0, 4.0, 20_001)
    level = stats.norm.logpdf(m, 0, 2)
    level += (COUNTS[:, None] * m - np.exp(m)).sum(axis=0) - _log_factorials()
    top = level.max()
    share = np.exp(level - top)
    total = share.sum()
    mean = (share * m).sum() / total
    sd = np.sqrt((share * (m - mean) ** 2).sum() / total)
    return top + np.log(total * (m[1] - m[0])), mean, sd


def _log_factorials() -> float:
    return float(-stats.poisson.logpmf(COUNTS, 1.0).sum() - len(COUNTS))


@pytest.mark.parametrize("method", ["auto", "laplace", "ep", "natural-gradient"])
def test_integrated(method: str) -> None:
    fit = lgm.fit(lgm.loads(RATE), {"y": COUNTS}, method=method, hyper="integrate")
    evidence, mean, sd = exact()
    assert fit.converged
    assert fit.log_evidence == pytest.approx(evidence, abs=1e-3)
    assert float(fit.mean("m")) == pytest.approx(mean, abs=1e-3)
    assert float(fit.sd("m")) == pytest.approx(sd, rel=1e-3)


@pytest.mark.parametrize("method", ["laplace", "ep", "natural-gradient"])
def test_maximum_likelihood(method: str) -> None:
    """Of three hypers with flat priors: the zeros' share, and the gamma's own maximum."""
    text = """lgm 1
index obs
data y[obs] : nonnegative
hyper m : real ~ flat
hyper k : positive ~ flat
hyper p : unit ~ beta(a = 1, b = 1)
observe y ~ gamma(log_mean = m, shape = k, hurdle = p)
"""
    fit = lgm.fit(lgm.loads(text), {"y": AMOUNTS}, method=method, hyper="map")
    positive = AMOUNTS[AMOUNTS > 0.0]

    def loss(x: np.ndarray) -> float:
        mean, shape = np.exp(x)
        return float(-stats.gamma.logpdf(positive, shape, scale=mean / shape).sum())

    best = optimize.minimize(loss, np.zeros(2), method="Nelder-Mead",
                             options={"xatol": 1e-10, "fatol": 1e-12})  # fmt: skip
    share = float(np.mean(AMOUNTS == 0.0))
    total = -best.fun + len(AMOUNTS) * (share * np.log(share) + (1 - share) * np.log1p(-share))
    assert fit.converged
    assert fit.log_evidence == pytest.approx(total, abs=1e-6)
    assert float(fit.mean("m")) == pytest.approx(best.x[0], abs=1e-4)
    assert float(fit.mean("k")) == pytest.approx(np.exp(best.x[1]), rel=1e-4)
    assert float(fit.mean("p")) == pytest.approx(share, abs=1e-5)


def test_what_follows_a_fit(tmp_path: Path) -> None:
    fit = lgm.fit(lgm.loads(RATE), {"y": COUNTS})
    assert fit.names == ("m",)
    assert "(nothing)" not in str(fit.summary()) + str(fit.tidy()) + fit._repr_html_()
    assert fit.glance()["latents"].iloc[0] == 0
    frame = fit.predict({"obs": [0, 1]}).frame()
    mean = np.exp(exact()[1] + 0.5 * exact()[2] ** 2)
    assert frame["y_mean"].to_numpy() == pytest.approx([mean, mean], rel=1e-3)
    assert np.isfinite(fit.loo().elpd) and np.isfinite(fit.waic().elpd)
    assert len(fit.pit().pointwise()) == 20
    file = tmp_path / "fit.nc"
    fit.save(file)
    for other in (lgm.load_fit(file), pickle.loads(pickle.dumps(fit))):
        assert float(other.mean("m")) == pytest.approx(float(fit.mean("m")))
    assert "(nothing)" not in lgm.loads(RATE).to_lgm()


def test_a_model_has_latents_or_hypers() -> None:
    text = "lgm 1\nindex obs\ndata y[obs] : count\nobserve y ~ poisson(log_rate = 0)\n"
    with pytest.raises(lgm.ModelError, match="no latent and no hyper"):
        lgm.loads(text)


def test_ep_has_the_slope_of_rows_without_variance() -> None:
    """A row that no latent reaches, and a hyper in its predictor: its slope is the site's own."""
    text = """lgm 1
index obs
data x[obs] : real
data y[obs] : count
hyper m : real ~ normal(sd = 2)
latent b ~ normal(sd = 1)
observe y ~ poisson(log_rate = m + b * x)
"""
    x = np.where(np.arange(20) < 10, 0.0, 1.0)
    fits = [
        lgm.fit(lgm.loads(text), {"x": x, "y": COUNTS}, method=method, hyper="map")
        for method in ("ep", "natural-gradient")
    ]
    assert all(f.converged for f in fits)
    assert float(fits[0].mean("m")) == pytest.approx(float(fits[1].mean("m")), abs=1e-3)
