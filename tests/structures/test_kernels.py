"""Kernels: closed forms, identities of + and *, white's convention, slopes, near pairs."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.errors import ModelError
from lgmdsl.structures import catalogue
from lgmdsl.structures.catalogue import structure
from lgmdsl.structures.kernels import Gp, Kernel
from lgmdsl.structures.stationary import Matern, squared_distances
from lgmdsl.testing.structure_checks import check_structure

ONE = np.array(1.3)
LEAVES = {
    "se": {"sd": ONE, "length": np.array(0.9)},
    "matern": {"sd": ONE, "length": np.array(0.9)},
    "rq": {"sd": ONE, "length": np.array(0.9), "alpha": np.array(0.7)},
    "periodic": {"sd": ONE, "length": np.array(1.4), "period": np.array(2.3)},
    "linear": {"sd": ONE},
    "white": {"sd": ONE},
}


def kernel(name: str, **arguments: Any) -> Kernel:
    """That of the catalogue; a Matern of smoothness 3/2 where none is asked for."""
    usual = {"smoothness": 1.5} if name == "matern" else {}
    return catalogue.kernel(name, **{**usual, **arguments})


def inputs(n: int = 12, d: int = 2, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(n, d))
    x[3] = x[1]
    return x


def literal(name: str, dx: np.ndarray, x1: np.ndarray, x2: np.ndarray, smoothness: float) -> float:
    """The kernel's formula in 40 digits."""
    mp = mpmath.mp
    mp.dps = 40
    sd, ell = mpmath.mpf("1.3"), mpmath.mpf("0.9")
    r2 = sum((mpmath.mpf(float(v)) / ell) ** 2 for v in dx)
    r = mpmath.sqrt(r2)
    if name == "se":
        value = mpmath.exp(-r2 / 2)
    elif name == "rq":
        a = mpmath.mpf("0.7")
        value = (1 + r2 / (2 * a)) ** (-a)
    elif name == "periodic":
        arg = sum(mpmath.sin(mpmath.pi * float(v) / mpmath.mpf("2.3")) ** 2 for v in dx)
        value = mpmath.exp(-2 * arg / mpmath.mpf("1.4") ** 2)
    elif name == "linear":
        value = sum(mpmath.mpf(float(a)) * float(b) for a, b in zip(x1, x2, strict=True))
    elif smoothness == 0.5:
        value = mpmath.exp(-r)
    elif smoothness == 1.5:
        value = (1 + mpmath.sqrt(3) * r) * mpmath.exp(-mpmath.sqrt(3) * r)
    else:
        a = mpmath.sqrt(5) * r
        value = (1 + a + a * a / 3) * mpmath.exp(-a)
    return float(sd**2 * value)


@pytest.mark.parametrize("name", ["se", "rq", "periodic", "linear"])
@pytest.mark.parametrize("d", [1, 7])
def test_values_match_the_formula(name: str, d: int) -> None:
    x1, x2 = inputs(6, d), inputs(5, d, seed=1)
    k = kernel(name, **LEAVES[name]).cross(x1, x2)
    wanted = [[literal(name, a - b, a, b, 0) for b in x2] for a in x1]
    np.testing.assert_allclose(k, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("d", [1, 7])
def test_matern_matches_the_formula(smoothness: float, d: int) -> None:
    x1, x2 = inputs(6, d), inputs(5, d, seed=1)
    x2[0] = x1[0] + 1e-7
    k = kernel("matern", **LEAVES["matern"], smoothness=smoothness).cross(x1, x2)
    wanted = [[literal("matern", a - b, a, b, smoothness) for b in x2] for a in x1]
    np.testing.assert_allclose(k, wanted, rtol=1e-11)


def test_matern_knows_three_smoothnesses() -> None:
    with pytest.raises(ModelError, match=r"0\.5, 1\.5 or 2\.5"):
        Matern(ONE, ONE, 2.0)


@pytest.mark.parametrize(
    ("name", "fixed"),
    [(name, {}) for name in LEAVES] + [("matern", {"smoothness": nu}) for nu in (0.5, 2.5)],
)
def test_slopes_of_leaves(name: str, fixed: dict[str, float]) -> None:
    check_structure(
        lambda a: Gp(inputs(), kernel(name, **{k[7:]: v for k, v in a.items()}, **fixed)),
        {f"kernel.{k}": v for k, v in LEAVES[name].items()},
    )


@pytest.mark.parametrize("name", ["se", "matern", "rq", "periodic", "linear"])
def test_slopes_by_input_dimension(name: str) -> None:
    arguments = dict(LEAVES[name])
    which = "sd" if name == "linear" else "length"
    arguments[which] = np.array([0.8, 1.3, 2.0, 1.1, 0.9, 3.0])
    x = inputs(240, 6)[:210]  # more rows than one tile
    check_structure(
        lambda a: Gp(x, kernel(name, **{k[7:]: v for k, v in a.items()})),
        {f"kernel.{k}": v for k, v in arguments.items()},
    )


def test_slopes_of_a_tree() -> None:
    def build(a):  # type: ignore[no-untyped-def]
        trend = kernel("linear", sd=a["kernel.0.sd"])
        wave = kernel("periodic", sd=a["kernel.1.0.sd"], length=np.array(1.0), period=np.array(2.0))
        decay = kernel("se", sd=np.array(1.0), length=a["kernel.1.1.length"])
        noise = kernel("white", sd=a["kernel.2.sd"])
        from lgmdsl.structures.kernels import Sum

        return Gp(inputs(), Sum((trend, wave * decay, noise)))

    keys = ["kernel.0.sd", "kernel.1.0.sd", "kernel.1.1.length", "kernel.2.sd"]
    check_structure(build, {k: np.array(0.6 + 0.2 * i) for i, k in enumerate(keys)})


def test_white_is_the_identity_on_one_array_and_zero_between_two() -> None:
    x = inputs()
    k = kernel("white", sd=2.0)
    np.testing.assert_array_equal(k.cross(x, x), 4.0 * np.eye(len(x)))
    np.testing.assert_array_equal(k.cross(x, x.copy()), np.zeros((len(x), len(x))))
    both = kernel("se", sd=1.0, length=1.0) * k
    np.testing.assert_array_equal(both.matrix(x), 4.0 * np.eye(len(x)))


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_sums_and_products_are_elementwise(seed: int, d: int) -> None:
    x, y = inputs(5, d, seed), inputs(4, d, seed + 1)
    a, b = kernel("se", sd=0.7, length=1.1), kernel("matern", sd=1.2, length=0.8, smoothness=2.5)
    np.testing.assert_allclose((a + b).cross(x, y), a.cross(x, y) + b.cross(x, y), rtol=1e-13)
    np.testing.assert_allclose((a * b).matrix(x), a.matrix(x) * b.matrix(x), rtol=1e-13)
    np.testing.assert_allclose((a + b).diagonal(x), (a + b).matrix(x).diagonal(), rtol=1e-13)


@given(st.integers(0, 10_000), st.floats(-8, 0), st.floats(0, 6))
def test_near_pairs_far_from_the_origin_keep_their_distance(
    seed: int, near: float, far: float
) -> None:
    """The GEMM form cancels; near pairs must come from differences."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(6, 9)) + 10.0**far
    y = x + 10.0**near * rng.normal(size=x.shape)
    exact = ((x[:, None] - y[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(squared_distances(x, y), exact, rtol=1e-9)
    assert np.all(squared_distances(x, x).diagonal() == 0)


def test_gp_accepts_a_flat_input_and_keeps_duplicates_singular() -> None:
    s = structure("gp", 12, at=inputs()[:, 0], kernel=kernel("se", sd=1.0, length=2.0))
    k = s.covariance()
    np.testing.assert_allclose(k[1], k[3], rtol=1e-15)


@pytest.mark.parametrize("name", ["se", "matern", "rq", "periodic", "linear", "white"])
def test_a_kernel_whose_scale_another_factor_carries_has_sd_1(name: str) -> None:
    arguments = {"length": 1.2, "alpha": 2.0, "period": 2.0}
    taken = {"linear": (), "white": (), "rq": ("length", "alpha"), "periodic": ("length", "period")}
    given = {k: np.array(arguments[k]) for k in taken.get(name, ("length",))}
    x = inputs()
    one = kernel(name, sd=np.array(1.0), **given).matrix(x)
    np.testing.assert_array_equal(kernel(name, **given).matrix(x), one)
    shown = [f"{k} = {v}" for k, v in given.items()]
    shown += ["smoothness = 1.5"] if name == "matern" else []
    call = f"{name}({', '.join(shown)})" if shown else name
    model = lgm.loads(
        "lgm 1\nindex t\ndata x[t] : real\ndata y[t] : real\n"
        f"latent f[t] ~ gp(at = x, kernel = se(sd = 2, length = 3) * {call})\n"
        "observe y ~ normal(mean = f, sd = 0.5)\n"
    )
    fit = lgm.fit(model, {"x": np.arange(5.0), "y": np.ones(5)})
    assert fit.converged
