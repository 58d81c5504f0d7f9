"""Targets whose sites are Gaussian: the posterior is known whatever q was conditioned on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lgmdsl.accuracy.density_ratio import DensityRatio
from lgmdsl.accuracy.tails import effective_size, k_hat
from lgmdsl.arrays import Array
from lgmdsl.assess.estimator import MixturePoint
from lgmdsl.assess.importance.audit import Findings, audit_mixture
from lgmdsl.assess.importance.bench import FollowedDirections, direction, k_hats
from lgmdsl.assess.importance.draws import moves
from lgmdsl.assess.importance.moments import Functional
from lgmdsl.assess.importance.verdict import Outcome, judge
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Engine, Failed, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.contract.site import Site, SiteSpec
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.operators.explicit import Dense, Identity
from lgmdsl.structures.catalogue import structure
from lgmdsl.testing.engine_checks import MakeEngine, standard_cases
from lgmdsl.testing.engine_models import Case, brute

ENGINES: list[type[Engine]] = [CovarianceEngine, PrecisionEngine]


@dataclass(frozen=True, eq=False)
class Quadratic(Site):
    """l(s) = -s'Ws / 2 + b's: with it the joint density is Gaussian."""

    weight: Array
    shift: Array
    spec: ClassVar[SiteSpec] = SiteSpec("test.quadratic")

    def log_density(self, s: Array) -> Array:
        return np.asarray(rows.inner(self.shift, s) - 0.5 * rows.quadratic(self.weight, s))

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}


def posterior(
    engine: type[Engine], linear: LinearGaussian, weight: Rows, shift: Rows
) -> Conditioned:
    make: MakeEngine = engine
    q = make(linear).condition(weight, shift)
    assert not isinstance(q, Failed), q.reason
    return q


def audit(
    sites: Sequence[Site],
    linear: LinearGaussian,
    q: Conditioned,
    functionals: Sequence[Functional],
    n: int,
    seed: int,
) -> Findings:
    """Of one Gaussian q, the posterior of `linear` with Gaussian sites, against the true ones."""
    return audit_mixture((MixturePoint(1.0, sites, linear, lambda: q),), functionals, n, seed)


def latents(q: Conditioned) -> Functional:
    """z itself."""
    return Functional("z", q.latent_mean, np.sqrt(np.maximum(q.latent_variance, 0.0)), lambda x: x)


def sites(weight: Rows, shift: Rows) -> tuple[Quadratic, ...]:
    return tuple(Quadratic(w, b) for w, b in zip(weight, shift, strict=True))


def cases(engine: type[Engine]) -> list[Case]:
    return [c for c in standard_cases(range(1)) if not engine.refuses(c.linear)]


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_moves_where_q_is_exact(engine: type[Engine]) -> None:
    """Flat, singular and constrained priors, signed weights, vector sites."""
    for case in cases(engine):
        q = posterior(engine, case.linear, case.weight, case.shift)
        target = sites(case.weight, case.shift)
        found = audit(target, case.linear, q, [latents(q)], 200, 0)
        assert found.k_hat == -np.inf, case.name
        assert found.log_evidence == pytest.approx(q.log_normaliser, abs=1e-8), case.name
        assert found.log_evidence_se < 1e-8 and judge(found).outcome is Outcome.trust
        for c in found.corrected.values():
            np.testing.assert_allclose(c.shift, 0.0, atol=1e-8)
            np.testing.assert_allclose(c.error, 0.0, atol=1e-6)
        np.testing.assert_allclose(
            found.corrected["z"].sd, np.sqrt(np.maximum(q.latent_variance, 0)), atol=1e-6
        )


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ENGINES)
def test_another_gaussian_is_corrected_to_the_target(engine: type[Engine]) -> None:
    """q has other weights and shifts than the target, whose moments are known by brute force."""
    moved, judged = 0.0, 0
    for number, case in enumerate(cases(engine)):
        rng = np.random.default_rng(number)
        shift = tuple(b + 0.1 * rng.normal(size=b.shape) for b in case.shift)
        weight = tuple(w + 0.1 * (1.0 if w.ndim == 1 else np.eye(w.shape[1])) for w in case.weight)
        q = posterior(engine, case.linear, weight, shift)
        found = audit(sites(case.weight, case.shift), case.linear, q, [latents(q)], 4000, number)
        if found.effective < 300:  # q is too far off: the audit says so, or what moved
            assert judge(found).outcome is not Outcome.trust, case.name
            continue
        judged += 1
        exact, c = brute(case.linear, case.weight, case.shift), found.corrected["z"]
        sd = np.sqrt(np.maximum(exact.covariance.diagonal(), 0.0))
        miss = np.abs(c.mean - exact.mean)
        assert np.all(miss <= 5.0 * c.error * c.sd + 1e-6), case.name
        np.testing.assert_allclose(c.sd, sd, rtol=0.15, atol=1e-5)
        gap = abs(found.log_evidence - exact.log_normaliser)
        assert gap <= 5.0 * found.log_evidence_se, case.name
        moved = max(moved, float(np.abs(c.shift).max()))
    assert judged >= 8 and moved > 0.2  # there was something to correct


@pytest.mark.parametrize(("precision", "proposal"), [(0.3, "student-t"), (3.0, "mixture")])
def test_many_draws_come_close(precision: float, proposal: str) -> None:
    """One latent, far off: q is N(0, 1/2), the target N(1/p, 1/p), p = 1 + `precision`."""
    linear = independent(1)
    q = posterior(PrecisionEngine, linear, (np.ones(1),), (np.zeros(1),))
    target, p = sites((np.array([precision]),), (np.ones(1),)), 1.0 + precision
    found = audit(target, linear, q, [latents(q)], 200_000, 0)
    c = found.corrected["z"]
    assert found.proposal == proposal
    assert c.mean[0] == pytest.approx(1.0 / p, abs=0.02 / np.sqrt(p))
    assert c.sd[0] == pytest.approx(1.0 / np.sqrt(p), rel=0.01)
    assert found.log_evidence == pytest.approx(0.5 / p - 0.5 * np.log(p), abs=0.01)


def independent(size: int) -> LinearGaussian:
    block = PriorBlock("z", (structure("normal", size, sd=np.ones(size)),), np.zeros(size))
    return LinearGaussian((block,), (Predictor({"z": Identity(size)}, np.zeros(size)),))


def thin(size: int, share: float) -> tuple[Rows, Rows]:
    """Sites that pull every latent by the same small share of its sd."""
    return (np.ones(size),), (np.full(size, share * np.sqrt(2.0)),)


@pytest.mark.thorough
def test_a_bias_spread_thin_over_many_latents_is_found_in_a_sum() -> None:
    """Each of 100 latents is off by 0.15 sd: none is shifted, their sum is by 1.5 sd."""
    size = 100
    linear, (weight, shift) = independent(size), thin(size, 0.15)
    q = posterior(PrecisionEngine, linear, weight, (np.zeros(size),))
    z = latents(q)
    total = Functional(
        "total", z.mean[:1], np.array([np.sqrt(size / 2)]), lambda x: x.sum(axis=1, keepdims=True)
    )
    found = audit(sites(weight, shift), linear, q, [z, total], 20_000, 0)
    assert np.abs(found.corrected["z"].shift).max() < 0.25
    assert found.corrected["total"].shift[0] == pytest.approx(1.5, abs=0.2)
    verdict = judge(found)
    assert verdict.outcome is Outcome.shifted and verdict.farthest is not None
    assert verdict.farthest.name == "total"


def test_a_bad_k_hat_is_not_hidden_by_many_good_latents() -> None:
    """One of 60 latents has far too small a variance; the others are exact."""
    size = 60
    linear = independent(size)
    weight, right = np.ones(size), np.ones(size)
    weight[7] = 40.0
    q = posterior(PrecisionEngine, linear, (weight,), (np.zeros(size),))
    found = audit(sites((right,), (np.zeros(size),)), linear, q, [latents(q)], 4000, 0)
    # The other proposal still finds what is off.
    assert found.k_hat > 0.7 and judge(found).outcome is not Outcome.trust
    assert found.along["predictors"] > 0.7
    one = audit(sites((weight,), (np.zeros(size),)), linear, q, [latents(q)], 4000, 0)
    assert one.k_hat == -np.inf and set(one.along.values()) == {-np.inf}


def test_the_followed_predictors_are_those_whose_sites_depart_most() -> None:
    """Of two site blocks, the worst rows are in the second; weight times distance is judged."""
    size, rng = 30, np.random.default_rng(0)
    block = PriorBlock("z", (structure("normal", size, sd=np.ones(size)),), np.zeros(size))
    eye = Predictor({"z": Identity(size)}, np.zeros(size))
    linear = LinearGaussian((block,), (eye, eye))
    weight, zero = np.full(size, 0.5), np.zeros(size)
    off = weight.copy()
    off[[4, 11, 20]] = [0.9, 0.1, 0.6]
    q = posterior(PrecisionEngine, linear, (weight, off), (zero, zero))
    ratio = DensityRatio(sites((weight, weight), (zero, zero)), q)
    follow = FollowedDirections(ratio, direction(linear, q, 0))
    x = rng.normal(size=(1000, size)) * np.sqrt(q.latent_variance)
    bx = moves(linear, x)
    follow.add(x, bx)
    assert follow.places == ((1, 11), (1, 4), (1, 20))
    own = ratio(bx)
    effective = effective_size(own)
    want = [k_hat(own + np.log(np.abs(x[:, i])), effective) for i in (11, 4, 20)]
    found = k_hats(follow.distances, own, effective)["predictors"]
    assert found == max(want) != k_hat(own, effective)


@given(st.integers(0, 2**20), st.integers(1, 6), st.floats(0.3, 3.0))
@settings(max_examples=10)
def test_units_do_not_matter(seed: int, size: int, unit: float) -> None:
    """All latents in another unit: shifts in sds, k-hat and evidence are the same."""
    rng = np.random.default_rng(seed)
    weight, shift = np.exp(rng.normal(size=size)), rng.normal(size=size)
    target = sites((weight * rng.uniform(0.8, 1.3, size),), (shift + 0.2,))
    found = []
    for u in (1.0, unit):
        block = PriorBlock("z", (structure("normal", size, sd=np.full(size, u)),), np.zeros(size))
        predictor = Predictor({"z": Dense(np.eye(size) / u)}, np.zeros(size))
        linear = LinearGaussian((block,), (predictor,))
        q = posterior(PrecisionEngine, linear, (weight,), (shift,))
        found.append(audit(target, linear, q, [latents(q)], 400, seed))
    one, other = found
    assert other.k_hat == pytest.approx(one.k_hat, rel=1e-6, abs=1e-6)
    assert other.log_evidence == pytest.approx(one.log_evidence, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(other.corrected["z"].shift, one.corrected["z"].shift, atol=1e-7)


def test_draws_are_the_same_where_they_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    import lgmdsl.assess.importance.draws as module

    case = cases(CovarianceEngine)[0]
    q = posterior(CovarianceEngine, case.linear, case.weight, case.shift)
    target = sites(tuple(0.9 * w for w in case.weight), case.shift)
    one = audit(target, case.linear, q, [latents(q)], 500, 3)
    monkeypatch.setattr(module, "KEPT", 0)
    other = audit(target, case.linear, q, [latents(q)], 500, 3)
    np.testing.assert_array_equal(one.corrected["z"].mean, other.corrected["z"].mean)
    assert one.log_evidence == other.log_evidence
