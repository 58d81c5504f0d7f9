"""Bounds by name, series by number of pieces, third parties, and a bound of vector sites."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.bounds import catalogue
from lgmdsl.bounds.catalogue import applicable, bound, named, register_bound
from lgmdsl.bounds.piecewise import Piecewise
from lgmdsl.contract.bound import Bound, BoundSpec
from lgmdsl.contract.catalogue import Catalogue
from lgmdsl.contract.questions import Expected, ExpectedAnswer, ExpectedSlopes, Tilted, TiltedSlopes
from lgmdsl.contract.site import Site, SiteSpec
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import LgmError
from lgmdsl.site_questions import expected, tilted
from lgmdsl.sites.catalogue import site


def test_series_by_name() -> None:
    for size in (3, 12, 40):
        found = bound(f"piecewise-quadratic-{size}", Expected)
        assert found == Piecewise("quadratic", size)
        assert found.spec.name == f"piecewise-quadratic-{size}"
    given = [b.spec.gives for b in named("quadrature")]
    first = [Expected, Tilted, TiltedSlopes, ExpectedSlopes]
    assert given == [*first, Expected, Expected, Tilted, TiltedSlopes, Expected]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("jakkola", "did you mean `jaakkola`"),
        ("piecewise-linear-2", "R from 3 to 40"),
        ("piecewise-linear-41", "R from 3 to 40"),
        ("piecewise-linear-06", "R from 3 to 40"),
        ("piecewise-linear-", "R from 3 to 40"),
        ("piecewise-quadratic", "R from 3 to 40"),
        (
            "piecewise-cubic-6",
            "Bounds: quadrature, jaakkola, bohning, tilted, log, product-of-sigmoids, delta, "
            "piecewise-linear-R",
        ),
        ("piecewise-linear-²", "R from 3 to 40"),
        ("", "Bounds:"),
    ],
)
def test_unknown_names(name: str, said: str) -> None:
    assert named(name) == ()
    with pytest.raises(LgmError, match="E103") as raised:
        bound(name, Expected)
    assert said in str(raised.value)
    with pytest.raises(LgmError) as raised:
        expected("bernoulli.logit", 1, 0.0, 1.0, rule=name)
    assert raised.value.codes == ("E103",)


def test_a_bound_that_gives_something_else() -> None:
    with pytest.raises(LgmError, match="no bound `jaakkola` gives Tilted") as raised:
        tilted("bernoulli.logit", 1, 0.0, 1.0, rule="jaakkola")
    assert raised.value.codes == ("E103",) and "piecewise" not in str(raised.value)


@pytest.mark.parametrize(
    "rule", ["jaakkola", "bohning", "piecewise-linear-6", "piecewise-quadratic-10"]
)
def test_rules_of_the_public_call(rule: str) -> None:
    exact = expected("bernoulli.logit", 1, [[0.3], [-2.0]], [2.0, 0.1, 40.0])
    found = expected(
        "bernoulli.logit", 1, [[0.3], [-2.0]], [2.0, 0.1, 40.0], rule=rule, second=True
    )
    assert found.value.shape == (2, 3) and found.d_variance2 is not None
    assert np.all(found.value <= exact.value)
    np.testing.assert_allclose(found.value, exact.value, atol=6.0)
    with pytest.raises(LgmError) as raised:
        expected("poisson.log_rate", 1, 0.0, 1.0, rule=rule)
    assert raised.value.codes == ("E504",)
    assert "not logistic" in str(raised.value) and "quadrature" in str(raised.value)


def test_applicable() -> None:
    logistic = ("quadrature", "jaakkola", "bohning", "piecewise-linear-R", "piecewise-quadratic-R")
    for name in ("bernoulli.logit", "binomial.logit", "logistic", "sech2"):
        assert applicable(site(name), Expected) == logistic
        assert applicable(site(name), Tilted) == ("quadrature",)
    assert applicable(site("bernoulli.probit"), Expected) == ("quadrature",)
    assert applicable(site("laplace"), Expected) == ()


@dataclass(frozen=True, eq=False)
class Softmax(Site):
    """y in 0..K of K free predictors."""

    y: Array
    spec: ClassVar[SiteSpec] = SiteSpec("softmax.logits", observed=("count",), vector=True)

    def log_density(self, s: Array) -> Array:
        full = np.concatenate([np.zeros((len(s), 1)), s], axis=1)
        top = full.max(axis=1)
        picked = full[np.arange(len(s)), self.y.astype(int)]
        return np.asarray(picked - top - np.log(np.exp(full - top[:, None]).sum(axis=1)))

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}


@dataclass(frozen=True, eq=False)
class SoftmaxBelow(Expected):
    """Boehning's multinomial bound at the mean: A = (I - 11'/(K + 1)) / 2."""

    site: Softmax

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        k = mean.shape[1]
        curve = 0.5 * (np.eye(k) - 1.0 / (k + 1.0))
        value = self.site.log_density(mean) - 0.5 * np.einsum("ij,nij->n", curve, variance)
        p = np.exp(mean) / (1.0 + np.exp(mean).sum(axis=1, keepdims=True))
        y = np.eye(k + 1)[self.site.y.astype(int)][:, 1:]
        return ExpectedAnswer(value, y - p, np.broadcast_to(-0.5 * curve, variance.shape))


@dataclass(frozen=True)
class Multinomial(Bound):
    """A third party's bound of a vector site."""

    spec: ClassVar[BoundSpec] = BoundSpec(
        "multinomial-quadratic",
        asks=Site,
        gives=Expected,
        guarantee=Guarantee.LOWER,
        error=float("inf"),
    )

    def applies_to(self, site: type[Site]) -> str:
        return "" if site is Softmax else f"{site.spec.name} is no softmax"

    def lift(self, site: Site) -> SoftmaxBelow:
        assert isinstance(site, Softmax)
        return SoftmaxBelow(site)


def a_copy() -> Catalogue[Bound]:
    """The catalogue as it is, for additions of a test."""
    copy: Catalogue[Bound] = Catalogue({})
    copy.update(catalogue.BOUNDS)
    return copy


def test_a_bound_of_vector_sites_takes_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "BOUNDS", a_copy())
    register_bound(Multinomial())
    assert register_bound(Multinomial()) in named("multinomial-quadratic")
    assert applicable(Softmax, Expected) == ("multinomial-quadratic",)
    rng = np.random.default_rng(2)
    y, m = np.array([0.0, 1.0, 2.0]), rng.normal(size=(3, 2))
    root = rng.normal(size=(3, 2, 2))
    variance = root @ root.transpose(0, 2, 1)
    lift = bound("multinomial-quadratic", Expected).lift(Softmax(y))
    assert isinstance(lift, Expected)
    found = lift.expected(m, variance)
    z = rng.normal(size=(200_000, 2))
    for i in range(3):
        draws = m[i] + z @ root[i].T
        one = Softmax(np.full(len(z), y[i]))
        assert found.value[i] <= one.log_density(draws).mean()
    assert found.d_mean.shape == (3, 2) and found.d_variance.shape == (3, 2, 2)


def test_names_that_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "BOUNDS", a_copy())

    class Other(Multinomial):
        """Takes a name of a series, and one of a bound."""

        spec: ClassVar[BoundSpec] = BoundSpec(
            "piecewise-linear-7", asks=Site, gives=Expected, guarantee=Guarantee.LOWER
        )

    with pytest.raises(LgmError, match="E106"):
        register_bound(Other())
    assert register_bound(Piecewise("linear", 7)) == Piecewise("linear", 7)
    assert not any(isinstance(b, Piecewise) for b in catalogue.bounds())


def test_bounds_are_listed_by_their_classes_and_imported_when_come_to() -> None:
    assert [type(b).__name__ for b in catalogue.BOUNDS.shipped()] == list(catalogue.BOUNDS)
    assert all(catalogue.BOUNDS.ships(type(b).__name__, b) for b in catalogue.BOUNDS.values())
    program = (
        "import sys\nfrom lgmdsl.bounds.catalogue import bounds\nnext(bounds())\n"
        "print(sorted(m for m in sys.modules if m.startswith('lgmdsl.bounds.')))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == str(
        [f"lgmdsl.bounds.{name}" for name in ("catalogue", "quadrature", "weighted")]
    )
