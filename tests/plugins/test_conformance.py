"""The shipped conformance checks take parts from outside, and find what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import getsource
from typing import cast

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.extend import Array, Elementwise, Expected, ExpectedAnswer, Problem, Site, Terms
from lgmdsl.testing.backend_checks import check_backend
from lgmdsl.testing.bound_checks import check_bound
from lgmdsl.testing.engine_checks import check_engine
from lgmdsl.testing.kernel_checks import check_kernel
from lgmdsl.testing.prior_checks import check_prior
from lgmdsl.testing.site_checks import check_site
from lgmdsl.testing.structure_checks import check_structure
from lgmdsl_backends.catalogue import BACKENDS
from tests.plugins.acme import acme_engine, acme_lgm
from tests.priors.cases import ELEMENTWISE, made

pytestmark = pytest.mark.usefixtures("acme")
Y = np.array([0.0, 1.0, 2.0, 7.0, 30.0])
TEXT = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : count
latent b[feat] ~ normal(sd = 1)
let eta[obs] = X @ b
observe y ~ geometric(logit = eta)
"""


def test_site_and_bound() -> None:
    check_site(acme_lgm.Geometric(Y))
    check_bound(acme_lgm.curvature, acme_lgm.Geometric(Y))


def test_the_site_is_a_word_of_the_language() -> None:
    """The geometric is the negative binomial of size 1, whose log mean is -logit."""
    rng = np.random.default_rng(0)
    data = {"X": rng.normal(size=(30, 2)), "y": rng.geometric(0.4, 30) - 1}
    fit = lgm.fit(lgm.loads(TEXT), data)
    assert fit.converged
    text = TEXT.replace("geometric(logit = eta)", "negbinomial(log_mean = -eta, size = 1)")
    same = lgm.fit(lgm.loads(text), data)
    assert fit.log_evidence == pytest.approx(same.log_evidence, rel=1e-8)
    np.testing.assert_allclose(fit.mean("b"), same.mean("b"), atol=1e-6)
    one, two = (f.predict({"X": data["X"][:3]}).response("y")["probability"] for f in (fit, same))
    np.testing.assert_allclose(one.sel(value=2), two.sel(value=2), rtol=1e-6)


@pytest.mark.parametrize("part", [acme_lgm.Geometric, acme_lgm.FixedPoint])
def test_a_part_is_short(part: type) -> None:
    assert len(getsource(part).splitlines()) < 45


def test_structure() -> None:
    arguments = {"sd": np.array(1.3), "share": np.array(0.4)}
    check_structure(lambda a: acme_lgm.Exchangeable(5, a["sd"], a["share"]), arguments)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_prior(shape: tuple[int, ...]) -> None:
    check_prior(acme_lgm.Lomax(np.array(2.5), np.array(0.7)), "positive", shape)


@pytest.mark.parametrize("dimensions", [1, 3])
def test_kernel(dimensions: int) -> None:
    arguments = {"sd": np.array(1.3), "frequency": np.array(0.8)}
    check_kernel(lambda a: acme_lgm.Cosine(a["sd"], a["frequency"]), arguments, dimensions)


def test_engine() -> None:
    assert check_engine(acme_engine.Plain) == 24


def test_back_end() -> None:
    assert check_backend(acme_lgm.FixedPoint) >= 4


def test_the_back_end_is_a_method() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = lgm.loads(TEXT.replace("count", "binary").replace("geometric", "bernoulli"))
    data = {"X": X, "y": (X[:, 0] > 0.3).astype(int)}
    toy = lgm.fit(model, data, method="fixed-point", options={"damping": 0.9})
    own = lgm.fit(model, data, method="laplace")
    assert toy.log_evidence == pytest.approx(own.log_evidence, rel=1e-7)
    with pytest.raises(lgm.MethodError, match="did you mean `damping`"):
        lgm.fit(model, data, method="fixed-point", options={"dampin": 0.9})
    with pytest.raises(lgm.MethodError, match="fixed-point"):
        lgm.fit(model, data, method="fixed-pont")


def test_a_back_end_that_does_not_move_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lazy(acme_lgm.FixedPoint):
        def residual(self, problem: Problem, state: acme_lgm.Point) -> float:
            return 0.0

    monkeypatch.setitem(BACKENDS, "fixed-point", Lazy)
    with pytest.raises(AssertionError, match="ends elsewhere"):
        check_backend(Lazy)


def test_a_wrong_prior_is_found() -> None:
    class Unnormalised(acme_lgm.Lomax):
        def terms(self, value: Array) -> Terms:
            given = super().terms(value)
            return given._replace(log_density=given.log_density + 0.01)

    class Misslope(acme_lgm.Lomax):
        def terms(self, value: Array) -> Terms:
            given = super().terms(value)
            return given._replace(slope=1.001 * given.slope)

    two = np.array(2.0)
    with pytest.raises(AssertionError, match="has mass"):
        check_prior(Unnormalised(two, two), "positive")
    with pytest.raises(AssertionError, match="slope in the value"):
        check_prior(Misslope(two, two), "positive")
    with pytest.raises(AssertionError, match="does not name `real`"):
        check_prior(acme_lgm.Lomax(two, two), "real")


def test_a_wrong_kernel_is_found() -> None:
    class Misslope(acme_lgm.Cosine):
        def smooth_slopes(self, x1: Array, x2: Array, adjoint: Array) -> dict[str, Array]:
            return {k: 1.001 * v for k, v in super().smooth_slopes(x1, x2, adjoint).items()}

    arguments = {"sd": np.array(1.3), "frequency": np.array(0.8)}
    with pytest.raises(AssertionError, match="measured"):
        check_kernel(lambda a: Misslope(a["sd"], a["frequency"]), arguments)


def test_a_bound_that_is_none_is_found() -> None:
    @dataclass(frozen=True)
    class Above(Expected):
        own: Expected

        def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
            a = self.own.expected(mean, variance, second)
            return ExpectedAnswer(
                a.value + variance, a.d_mean, a.d_variance + 1.0, d_mean2=a.d_mean2
            )

    class Wrong(acme_lgm.Curvature):
        def lift(self, site: Site) -> object:
            return Above(cast(Expected, super().lift(site)))

    with pytest.raises(AssertionError, match="declared LOWER"):
        check_bound(Wrong(), acme_lgm.Geometric(Y))


@pytest.mark.thorough
def test_every_prior_of_the_language_passes() -> None:
    """The same check on the project's own: of single numbers with a distribution function."""
    for case in ELEMENTWISE:
        prior = made(case)
        if isinstance(prior, Elementwise) and case[0] not in ("pc_mix", "pc_cor0", "pc_cor1"):
            check_prior(prior, case[1])
