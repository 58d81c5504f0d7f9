"""A site and a back end from outside, each in under 60 lines, through the shipped conformance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.inference import registry
from lgmdsl.testing.backend_checks import check_backend
from lgmdsl.testing.site_checks import check_site
from lgmdsl_backends.catalogue import BACKENDS
from lgmdsl_backends.laplace import Laplace
from tests.backends.toy_backend import FixedPoint
from tests.backends.toy_site import GeometricLogit

TEXT = (
    "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : count\n"
    "latent b[feat] ~ normal(sd = 1)\nlet eta[obs] = X @ b\n"
    "observe y ~ geometric(logit = eta)\n"
)


@pytest.fixture
def registered() -> Iterator[None]:
    lgm.register(GeometricLogit)
    lgm.register(FixedPoint)
    yield
    registry.unregister(FixedPoint)
    registry.unregister(GeometricLogit)


@pytest.mark.parametrize("name", ["toy_site.py", "toy_backend.py"])
def test_a_part_is_a_short_file(name: str) -> None:
    assert len((Path(__file__).parent / name).read_text().splitlines()) < 60


def test_the_toy_site_conforms(registered: None) -> None:
    y = np.array([0.0, 1.0, 2.0, 7.0, 30.0])
    check_site(GeometricLogit(y))


def test_the_toy_site_is_a_word_of_the_language(registered: None) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = rng.geometric(0.4, 30) - 1
    fit = lgm.fit(lgm.loads(TEXT), {"X": X, "y": y})
    assert fit.converged
    # The geometric is the negative binomial of size 1, whose log mean is -logit.
    text = TEXT.replace("geometric(logit = eta)", "negbinomial(log_mean = -eta, size = 1)")
    same = lgm.fit(lgm.loads(text), {"X": X, "y": y})
    assert fit.log_evidence == pytest.approx(same.log_evidence, rel=1e-8)
    np.testing.assert_allclose(fit.mean("b"), same.mean("b"), atol=1e-6)
    there = fit.predict({"X": X[:3]}).response("y")
    np.testing.assert_allclose(
        there["probability"].sel(value=2),
        same.predict({"X": X[:3]}).response("y")["probability"].sel(value=2),
        rtol=1e-6,
    )


def test_without_registration_the_word_is_unknown() -> None:
    with pytest.raises(lgm.ModelError) as caught:
        lgm.loads(TEXT)
    assert "E103" in caught.value.codes


def test_the_toy_back_end_conforms(registered: None) -> None:
    assert check_backend(FixedPoint) >= 4


def test_the_toy_back_end_is_a_method(registered: None) -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    text = TEXT.replace("count", "binary").replace("geometric", "bernoulli")
    data = {"X": X, "y": (X[:, 0] > 0.3).astype(int)}
    toy = lgm.fit(lgm.loads(text), data, method="fixed-point", options={"damping": 0.9})
    own = lgm.fit(lgm.loads(text), data, method="laplace")
    assert toy.log_evidence == pytest.approx(own.log_evidence, rel=1e-7)
    with pytest.raises(lgm.MethodError, match="did you mean `damping`"):
        lgm.fit(lgm.loads(text), data, method="fixed-point", options={"dampin": 0.9})
    with pytest.raises(lgm.MethodError, match="fixed-point"):
        lgm.fit(lgm.loads(text), data, method="fixed-pont")


def test_laplace_conforms() -> None:
    assert check_backend(Laplace) == 5


def test_taken_names_and_other_things_are_refused(registered: None) -> None:
    class Other(FixedPoint):
        pass

    with pytest.raises(lgm.MethodError, match="exists already"):
        lgm.register(Other)
    for thing in (3, int, "laplace"):
        with pytest.raises(TypeError):
            lgm.register(thing)


def test_a_broken_back_end_is_caught(registered: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conformance check can fail: one that reports convergence without moving."""

    class Lazy(FixedPoint):
        def residual(self, problem, state) -> float:  # type: ignore[no-untyped-def]
            return 0.0

    monkeypatch.setitem(BACKENDS, "fixed-point", Lazy)
    with pytest.raises(AssertionError, match="ends elsewhere"):
        check_backend(Lazy)
