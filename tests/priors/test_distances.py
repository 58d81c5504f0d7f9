"""Distances of penalised-complexity priors against direct computation of the divergence."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import integrate, stats

from lgmdsl.arrays import SparseMatrix
from lgmdsl.priors.catalogue import prior
from lgmdsl.priors.pc_df import distance, divergence
from lgmdsl.priors.pc_mix import PcMix
from lgmdsl.structures.spatial.besag import besag, besag_spectrum


@pytest.mark.parametrize("df", [2.3, 3.0, 7.0, 15.9, 16.1, 40.0])
def test_student_divergence_by_quadrature(df: float) -> None:
    """KLD of a t of unit variance from the normal, as an integral."""
    t = stats.t(df, scale=np.sqrt((df - 2.0) / df))

    def integrand(u: float) -> float:
        x = np.sinh(u)
        rest = t.logpdf(x) - stats.norm.logpdf(x)
        return float(t.pdf(x) * rest * np.cosh(u))

    # the tail of x^2 t(x) falls slowly near df = 2: as exp(-(df - 2) u)
    want = 2.0 * integrate.quad(integrand, 0.0, 120.0, epsabs=1e-13, epsrel=1e-11, limit=400)[0]
    assert float(divergence(np.array(df)).value) == pytest.approx(want, rel=1e-7)


@pytest.mark.parametrize("df", [2.0001, 2.5, 5.0, 15.999, 16.0, 30.0, 1e3, 1e6])
def test_student_divergence_to_full_precision(df: float) -> None:
    with mpmath.workdps(60):

        def kld(v: mpmath.mpf) -> mpmath.mpf:
            entropy = (v + 1) / 2 * (mpmath.digamma((v + 1) / 2) - mpmath.digamma(v / 2))
            entropy += mpmath.log(mpmath.sqrt(v) * mpmath.beta(v / 2, mpmath.mpf(1) / 2))
            unit = entropy + mpmath.log((v - 2) / v) / 2
            return mpmath.log(2 * mpmath.pi * mpmath.e) / 2 - unit

        at = mpmath.mpf(df)
        wanted = [float(mpmath.diff(kld, at, k, h=mpmath.mpf(10) ** -18)) for k in range(3)]
    for found, want in zip(divergence(np.array(df)), wanted, strict=True):
        assert float(found) == pytest.approx(want, rel=5e-11)


def test_student_distance_falls() -> None:
    df = 2.0 + np.exp(np.linspace(-30, 30, 2000))
    assert (np.diff(distance(df)) < 0).all()


def graph(name: str) -> SparseMatrix:
    rng = np.random.default_rng(3)
    if name == "grid":  # banded
        long, short = (np.eye(k, k=1) + np.eye(k, k=-1) for k in (40, 4))
        return sp.csr_array(np.kron(long, np.eye(4)) + np.kron(np.eye(40), short))
    w = np.triu(rng.random((14, 14)) < 0.25, 1).astype(float)
    w[[3, 9]] = w[:, [3, 9]] = 0.0  # islands
    w[:6, 6:] = 0.0  # at least two components
    return sp.csr_array(w + w.T)


@pytest.mark.parametrize("name", ["grid", "islands"])
def test_mixing_distance_against_dense_matrices(name: str) -> None:
    """d^2 = tr(S) - n - log|S|, S = (1 - mix) I + mix C, C the covariance that besag has."""
    w = graph(name)
    n = w.shape[0]
    structure = besag(n, w, 1.0)
    c = structure.covariance()
    # on islands besag is N(0, 1), as the independent part is
    assert besag_spectrum(w) == pytest.approx(np.linalg.eigvalsh(c), abs=1e-11)
    found = prior("pc_mix", "unit", graph=besag_spectrum(w), u=0.4, alpha=0.3)
    assert isinstance(found, PcMix)

    def direct(mix: float) -> float:
        s = (1.0 - mix) * np.eye(n) + mix * c
        return float(np.sqrt(np.trace(s) - n - np.linalg.slogdet(s)[1]))

    for mix in (0.01, 0.3, 0.77, 0.999):
        assert found.distance(np.array(mix)).value == pytest.approx(direct(mix), rel=1e-9)
    assert found.rate == pytest.approx(-np.log(0.7) / direct(0.4), rel=1e-11)


@pytest.mark.parametrize("mix", [0.0, 1e-9, 0.05, 0.4, 0.97])
def test_mixing_distance_has_its_slopes(mix: float) -> None:
    """Also where x - log(1 + x) cancels; in quadruple precision."""
    g = [mpmath.mpf(v) for v in ("0", "0.3", "1", "1.00001", "4.5", "0.2", "2.1")]
    found = prior("pc_mix", "unit", graph=[float(v) for v in g], u=0.4, alpha=0.3)
    assert isinstance(found, PcMix)
    with mpmath.workdps(50):

        def d(m: mpmath.mpf) -> mpmath.mpf:
            # with the sign of m the distance is smooth through 0
            x = [m * (v - 1) for v in g]
            return mpmath.sign(m) * mpmath.sqrt(sum(a - mpmath.log(1 + a) for a in x))

        at = mpmath.mpf(mix) + mpmath.mpf(10) ** -22
        wanted = [float(d(at)), *(float(mpmath.diff(d, at, k, h=1e-26)) for k in (1,))]
        bend = float((d(at + 1e-9) - 2 * d(at) + d(at - 1e-9)) / mpmath.mpf(1e-9) ** 2)
    value, slope, second = found.distance(np.array(mix))
    assert value == pytest.approx(wanted[0], rel=1e-12, abs=1e-20)
    assert slope == pytest.approx(wanted[1], rel=1e-10)
    assert second == pytest.approx(bend, rel=1e-5)
