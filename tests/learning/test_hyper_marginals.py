"""Fits ask the posterior of their hyperparameters by its methods, whichever class it is of."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path

import h5netcdf
import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.coordinates.hyper_marginals import Ends, HyperMarginals, OneHyper, Stored
from lgmdsl.learning.integration.hyper_posterior import HyperPosterior
from lgmdsl.learning.search.learning_record import LearningOptions

TEXT = """lgm 1
index obs
index g
data y[obs] : real
data who[obs] : g
hyper s : positive ~ half_normal(sd = 1)
hyper t : positive ~ half_normal(sd = 1)
latent u[g] ~ normal(sd = t)
let eta[obs] = u[who]
report both[g] = u * t
observe y ~ normal(mean = eta, sd = s)
"""
WHO = np.repeat(np.arange(6), 5)
DATA = {"y": WHO - 2.5 + np.random.default_rng(0).normal(size=30), "who": WHO}


@dataclass(frozen=True, eq=False)
class Known(HyperMarginals):
    """Marginals alone: a value that has an sd of 1."""

    theta: Theta

    def mean(self, of: Callable[[Theta], Array]) -> Array:
        return of(self.theta)

    def sd(self, of: Callable[[Theta], Array]) -> Array:
        return np.ones_like(of(self.theta))

    def quantile(
        self, of: Callable[[Theta], Array], levels: Array, ends: Ends | None = None
    ) -> Array:
        return np.array([of(self.theta) for _ in levels])

    def density(
        self, of: Callable[[Theta], Array], size: int, ends: Ends | None = None
    ) -> tuple[Array, Array]:
        x = np.linspace(0.0, 1.0, size) + of(self.theta)[..., None]
        return x, np.ones_like(x)

    def record(self) -> Stored:
        return Stored({"known": 1}, {"some": np.arange(3.0)})


@dataclass(frozen=True, eq=False)
class Spread(Known):
    """Two values of the noise sd, for which one q(z) stands."""

    def nodes(
        self, rows: Callable[[Theta], Array], together: bool = False
    ) -> tuple[tuple[Theta, ...], Array]:
        return tuple({**self.theta, "s": np.array(s)} for s in (0.5, 2.0)), np.array([0.5, 0.5])


@pytest.fixture(scope="module")
def fit() -> lgm.Fit:
    return lgm.fit(lgm.loads(TEXT), DATA, "laplace", "map")


def test_a_class_of_ones_own_answers_a_fit(fit: lgm.Fit, tmp_path: Path) -> None:
    other = replace(fit, hyper_marginals=Known(fit.theta))
    assert float(other.mean("t")) == float(fit.theta["t"]) and float(other.sd("t")) == 1.0
    assert other.density("t", 11)["density"].values.tolist() == [1.0] * 11
    drawn, plain = (f.sample(4, seed=1, names=["t", "both", "u"]) for f in (other, fit))
    for name in ("t", "both", "u"):  # those of the point
        np.testing.assert_array_equal(drawn[name], plain[name])
    np.testing.assert_array_equal(other.sd("both"), fit.sd("both"))
    assert other.loo().elpd == fit.loo().elpd
    other.save(tmp_path / "fit.nc")
    with h5netcdf.File(tmp_path / "fit.nc") as file:
        assert file["learning"].attrs["known"] == 1
        assert file["learning"].variables["some"][...].tolist() == [0.0, 1.0, 2.0]


def test_sites_are_averaged_over_the_nodes_that_it_gives(fit: lgm.Fit) -> None:
    """The predictive density of a mixture of two noise sds, by hand."""
    other = replace(fit, hyper_marginals=Spread(fit.theta))
    pointwise = other.predict({"who": np.arange(6)}).response("y")["sd"]
    own = fit.sd("u").values
    np.testing.assert_allclose(pointwise, np.sqrt(own**2 + (0.25 + 4.0) / 2.0), rtol=1e-6)


def test_settings_are_one_value() -> None:
    settings = FitSettings("laplace", "map", {"s": 0.5}, tol=1e-5, max_steps=7)
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert settings.tolerances == Tolerances.scaled(1e-5)
    assert FitSettings() == FitSettings(options={}, fixed={}) != settings


def test_options_of_one_way_are_left_out_of_another() -> None:
    asked = LearningOptions("ccd", "squarem", (100, 3), 5)
    assert asked.of("em") == LearningOptions(None, "squarem", (100, 3), 5)
    assert asked.of("integrate") == LearningOptions("ccd", None, None, 5)
    assert asked.of("map") == LearningOptions(None, None, None, 5)


def test_a_hyper_at_all_nodes_is_what_it_is_at_each() -> None:
    integrated = lgm.fit(lgm.loads(TEXT), DATA, "laplace", "integrate").hyper_marginals
    assert isinstance(integrated, HyperPosterior)
    for name in ("s", "t"):
        one_by_one = integrated.values(itemgetter(name))
        np.testing.assert_array_equal(integrated.values(OneHyper(name)), one_by_one)
