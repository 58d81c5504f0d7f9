"""Every bound beside its formula: the fit through it is the best Gaussian for that formula, and its
slopes in hyperparameters are those of its evidence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ThirdExpected
from lgmdsl.inference.plan import plan
from tests.agreement.plain import (
    Average,
    Plain,
    by_quadrature,
    propagated,
    variational,
)
from tests.agreement.plain_models import (
    BINARY,
    GROUPED,
    REAL,
    ROWS,
    X,
    check,
    few,
    fitted,
    grouped,
    slopes_hold,
)

# ---- logistic sites ----------------------------------------------------------------------------


def jaakkola(m: Array, v: Array) -> Array:
    """E[log(1 + e^x)] <= m/2 + log 2cosh(xi/2), xi^2 = m^2 + v."""
    xi = np.sqrt(m * m + v)
    return np.asarray(0.5 * m + 0.5 * xi + np.log1p(np.exp(-xi)))


def bohning(m: Array, v: Array) -> Array:
    return np.asarray(np.logaddexp(0.0, m) + v / 8.0)


def in_pieces(kind: str) -> Callable[[Array, Array], Array]:
    """E[rho], rho of the table's pieces for x > 0 and x + rho(-x) for x < 0: Gauss-Legendre within
    every piece."""
    root = Path(__file__).resolve().parents[2]
    entry = json.loads((root / "lgmdsl" / "bounds" / "pieces.json").read_text())[kind]
    ends, pieces = [*entry["breaks"], np.inf], entry["pieces"]
    nodes, weights = np.polynomial.legendre.leggauss(40)

    def upper(m: Array, v: Array) -> Array:
        sd, total = np.sqrt(v), np.zeros_like(m)
        for side in (1.0, -1.0):
            centre = side * m
            for low, high, (a, b, c) in zip(ends, ends[1:], pieces, strict=False):
                first = np.clip(low, centre - 9.0 * sd, centre + 9.0 * sd)
                half = 0.5 * (np.clip(high, centre - 9.0 * sd, centre + 9.0 * sd) - first)
                x = first[:, None] + half[:, None] * (1.0 + nodes)
                bell = np.exp(-0.5 * ((x - centre[:, None]) / sd[:, None]) ** 2)
                rho = (a * x + b) * x + c - (x if side < 0.0 else 0.0)
                total += half * ((rho * bell) @ weights) / (sd * np.sqrt(2.0 * np.pi))
        return total

    return upper


LOGISTIC = {
    "jaakkola": jaakkola,
    "bohning": bohning,
    "piecewise-linear-4": in_pieces("linear-4"),
    "piecewise-quadratic-6": in_pieces("quadratic-6"),
}


def trials(upper: Callable[[Array, Array], Array]) -> Average:
    return lambda m, v: BINARY * m[:, 0] - upper(m[:, 0], v[:, 0, 0])


# Steps of natural-gradient, cholesky, coordinate-ascent and lcl.
STEPS = {
    "jaakkola": (9, 7, 3, 8),
    "bohning": (11, 4, 1, 0),
    "piecewise-linear-4": (8, 7, 4, 8),
    "piecewise-quadratic-6": (9, 8, 4, 9),
}


@pytest.mark.parametrize("bound", LOGISTIC)
def test_bounds_of_logistic_sites(bound: str) -> None:
    wanted = variational(grouped(), trials(LOGISTIC[bound]))
    methods = ("natural-gradient", "cholesky", "coordinate-ascent", "lcl")
    for method, steps in zip(methods, STEPS[bound], strict=True):
        fit = fitted(GROUPED, "logit", method, bound=bound)
        check(fit, wanted, 5e-6)
        few(fit, steps)


CUTS = np.array([-0.8, 0.6])
GRADE = (np.arange(ROWS) * 5 % 3).astype(int)


@pytest.mark.parametrize("bound", ["jaakkola", "bohning"])
def test_bounds_of_sums_of_shifted_logistic_sites(bound: str) -> None:
    """log P(y = j) = log s(c_j - s) + log s(s - c_j-1) + log(1 - exp(c_j-1 - c_j)), s a sigmoid."""
    upper = LOGISTIC[bound]

    def f(m: Array, v: Array) -> Array:
        m, v = m[:, 0], v[:, 0, 0]
        under, over = GRADE < 2, GRADE > 0
        value = -1.0 * under * upper(m - CUTS[np.minimum(GRADE, 1)], v)
        value -= over * upper(CUTS[np.maximum(GRADE - 1, 0)] - m, v)
        return np.asarray(value + (under & over) * np.log1p(-np.exp(CUTS[0] - CUTS[1])))

    text = GROUPED.replace("index obs\n", 'index obs\nindex grade = {{"l", "m", "h"}}\n').replace(
        "latent b", "index cut = head(grade)\nhyper c[cut] : ordered ~ normal(sd = 3)\nlatent b"
    )
    fit = fitted(
        text, "ordinal(logit = eta, cuts = c)", "natural-gradient", bound=bound, kind="grade",
        fixed={"c": CUTS}, y=np.array(["l", "m", "h"])[GRADE],
    )  # fmt: skip
    check(fit, variational(grouped(), f), 2e-6)
    slopes_hold(fit, "natural-gradient", bound, {"c": CUTS})


def test_bounds_of_sites_with_weights() -> None:
    weight = 0.5 + np.arange(ROWS) % 4
    text = GROUPED.replace("latent b", "data w[obs] : positive\nlatent b")
    f = trials(jaakkola)
    fit = fitted(
        text, "bernoulli(logit = eta, weight = w)", "natural-gradient", bound="jaakkola",
        kind="binary", w=weight,
    )  # fmt: skip
    check(fit, variational(grouped(), lambda m, v: weight * f(m, v)), 2e-6)
    text = text.replace("latent b", "hyper h : positive ~ half_normal(sd = 3)\nlatent b")
    fit = fitted(
        text, "logistic(mean = eta, scale = h, weight = w)", "natural-gradient", bound="jaakkola",
        kind="real", y=REAL, w=weight, fixed={"h": 1.4},
    )  # fmt: skip
    slopes_hold(fit, "natural-gradient", "jaakkola", {"h": np.asarray(1.4)})


# ---- softmax sites -----------------------------------------------------------------------------

CLASSES = """lgm 1
index obs
index feat
index class = {{"a", "b", "c"}}
index cut = head(class)
data X[obs, feat] : real
data y[obs] : class
hyper h : positive ~ half_normal(sd = 2)
latent W[feat, {over}] ~ normal(mean = 0.2, sd = h)
let eta[obs, {over}] = X @ W
observe y ~ categorical({link} = eta)
"""
EVENTS, SD = 8, 1.1
CHOSEN = np.arange(EVENTS) * 7 % 3
ONE = np.eye(3)[CHOSEN]


def classes(over: int) -> Plain:
    return Plain(
        np.asarray(np.kron(X[:EVENTS], np.eye(over)), dtype=np.float64),
        np.zeros(EVENTS * over),
        np.full(2 * over, 0.2),
        SD**2 * np.eye(2 * over),
        width=over,
        latents=("W",),
    )


def classified(
    method: str, bound: str | None, over: str = "class", link: str = "softmax"
) -> lgm.Fit:
    return lgm.fit(
        lgm.loads(CLASSES.format(over=over, link=link)),
        {"X": X[:EVENTS], "y": np.array(["a", "b", "c"])[CHOSEN]},
        method, bound=bound, tol=1e-9, fixed={"h": SD}, options={"correction": "off"},
    )  # fmt: skip


def _diagonal(v: Array) -> Array:
    return np.asarray(np.einsum("nii->ni", v))


def log_bound(m: Array, v: Array) -> Array:
    return np.asarray(special.logsumexp(m + 0.5 * _diagonal(v), axis=1))


def bohning_of_classes(m: Array, v: Array) -> Array:
    curve = 0.5 * (np.eye(3) - 1.0 / 3.0)
    return np.asarray(special.logsumexp(m, axis=1) + 0.5 * np.einsum("ij,nij->n", curve, v))


def delta(m: Array, v: Array) -> Array:
    p = special.softmax(m, axis=1)
    spread = (p * _diagonal(v)).sum(axis=1) - np.einsum("ni,nij,nj->n", p, v, p)
    return np.asarray(special.logsumexp(m, axis=1) + 0.5 * spread)


def tilted(m: Array, v: Array) -> Array:
    """min over a of a'm + log sum_k exp{(e_k - a)'m + (e_k - a)'V(e_k - a) / 2}, at the fixed point
    a = softmax(m + diag V / 2 - V a)."""
    level, a = m + 0.5 * _diagonal(v), special.softmax(m, axis=1)
    for _ in range(300):
        following = special.softmax(level - np.einsum("nij,nj->ni", v, a), axis=1)
        if np.abs(following - a).max() < 1e-15:
            break
        a = 0.6 * a + 0.4 * following
    away = np.eye(3) - a[:, None, :]  # (N, k, i): e_k - a
    inner = np.einsum("nki,ni->nk", away, m) + 0.5 * np.einsum("nki,nij,nkj->nk", away, v, away)
    return np.asarray((a * m).sum(axis=1) + special.logsumexp(inner, axis=1))


def product_of_sigmoids(m: Array, v: Array) -> Array:
    """min over alpha of alpha + sum_k U(m_k - alpha, V_kk), U Jaakkola's; at its slope's zero."""
    v = _diagonal(v)
    low, high = m.min(axis=1) - 9.0, m.max(axis=1) + 9.0
    for _ in range(48):
        alpha = 0.5 * (low + high)
        x = m - alpha[:, None]
        xi = np.sqrt(x * x + v)
        left = (0.5 + x * np.tanh(0.5 * xi) / (2.0 * xi)).sum(axis=1) > 1.0
        low, high = np.where(left, alpha, low), np.where(left, high, alpha)
    return np.asarray(alpha + jaakkola(m - alpha[:, None], v).sum(axis=1))


SOFTMAX = {
    "log": log_bound,
    "bohning": bohning_of_classes,
    "delta": delta,
    "tilted": tilted,
    "product-of-sigmoids": product_of_sigmoids,
}
# Steps of natural-gradient, cholesky and coordinate-ascent.
SOFTMAX_STEPS = {
    "log": (11, 14, 4),
    "bohning": (9, 4, 1),
    "delta": (8, 8, 4),
    "tilted": (6, 7, 3),
    "product-of-sigmoids": (8, 7, 2),
}


@pytest.mark.parametrize("bound", SOFTMAX)
def test_bounds_of_softmax_sites(bound: str) -> None:
    upper = SOFTMAX[bound]
    wanted = variational(classes(3), lambda m, v: (ONE * m).sum(axis=1) - upper(m, v))
    methods = ("natural-gradient", "cholesky", "coordinate-ascent")
    for method, steps in zip(methods, SOFTMAX_STEPS[bound], strict=True):
        fit = classified(method, bound)
        check(fit, wanted, 5e-6)
        few(fit, steps)


def test_the_compiled_tilt_is_the_other() -> None:
    """Many rows take compiled loops."""
    rng = np.random.default_rng(4)
    mean, root = rng.normal(size=(60, 3)), rng.normal(size=(60, 3, 3))
    y, variance = np.arange(60) % 3, root @ root.transpose(0, 2, 1)
    many = lgm.sites.expected("categorical.softmax", y, mean, variance, rule="tilted")
    few = lgm.sites.expected("categorical.softmax", y[:9], mean[:9], variance[:9], rule="tilted")
    for name in ("value", "d_mean", "d_variance"):
        np.testing.assert_allclose(getattr(many, name)[:9], getattr(few, name), atol=1e-9)


def thirds_hold(fit: lgm.Fit, at: dict[str, Array]) -> None:
    """Third derivatives of E[l] in the mean, to three digits: differences of the second."""
    (answer,) = plan(fit.canonical, "natural-gradient").at(at).expecting()
    assert isinstance(answer, ThirdExpected)
    m, v = fit.posterior.conditioned.mean[0], fit.posterior.conditioned.variance[0]
    found = answer.third_expected(m, v)
    assert found is not None
    for k in range(m.shape[1]):
        move = 1e-3 * np.eye(m.shape[1])[k]
        two = answer.expected(m + move, v).d_variance - answer.expected(m - move, v).d_variance
        np.testing.assert_allclose(found[:, :, :, k], two / 1e-3, rtol=6e-3, atol=1e-5)


def softmax_of_two(s: Array) -> Array:
    """l, (N, nodes), with the last class as the reference."""
    full = np.concatenate([s, np.zeros_like(s[:, :1])], axis=1)
    return np.asarray(full[np.arange(EVENTS), CHOSEN] - special.logsumexp(full, axis=1))


def test_expectations_of_softmax_sites() -> None:
    wanted = variational(classes(2), by_quadrature(softmax_of_two, 70, 8.5))
    for method in ("natural-gradient", "cholesky", "coordinate-ascent"):
        check(classified(method, "quadrature", "cut"), wanted, 5e-6)
    fit = classified("natural-gradient", "quadrature", "cut")
    slopes_hold(fit, "natural-gradient", "quadrature", {"h": np.asarray(SD)})


def test_tilted_moments_of_softmax_sites() -> None:
    wanted = propagated(classes(2), softmax_of_two, nodes=61)
    check(classified("ep", None, "cut"), wanted, 5e-6, 1e-6)


def probit(m: Array, v: Array) -> Array:
    """E[log P(s_y + e_y is the largest)], e normal and of unit variance: over the two contrasts."""
    contrasts = np.stack([np.delete(ONE[n] - np.eye(3), CHOSEN[n], axis=0) for n in range(EVENTS)])
    x, weight = np.polynomial.hermite_e.hermegauss(40)

    def density(d: Array) -> Array:  # (N, 2, nodes)
        below = special.log_ndtr(x[:, None] + d[:, :, None, :]).sum(axis=1)
        return np.asarray(special.logsumexp(below + np.log(weight / weight.sum())[:, None], axis=1))

    spread = contrasts @ v @ contrasts.transpose(0, 2, 1)
    return by_quadrature(density, 16, 6.0)(np.einsum("nij,nj->ni", contrasts, m), spread)


def test_expectations_of_other_vector_sites() -> None:
    fit = classified("natural-gradient", "quadrature", "class", "probit")
    begin = fit.posterior.weight[0], fit.posterior.shift[0].reshape(-1)
    check(fit, variational(classes(3), probit, begin, 1e-4), 1e-4, 2e-5)


# ---- expectations and tilted moments of other sites --------------------------------------------

TWO = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : real
hyper h : positive ~ half_normal(sd = 9)
latent b[feat] ~ normal(mean = 0.3, sd = 1.2)
latent d[feat] ~ normal(sd = 0.4)
let eta[obs] = X @ b
let spread[obs] = X @ d
observe y ~ {site}
"""
DF, FEW = 6.0, 5


def two() -> Plain:
    design = np.zeros((2 * FEW, 4))
    design[::2, :2] = design[1::2, 2:] = X[:FEW]
    return Plain(
        design,
        np.zeros(2 * FEW),
        np.array([0.3, 0.3, 0.0, 0.0]),
        np.diag([1.44, 1.44, 0.16, 0.16]),
        width=2,
        latents=("b", "d"),
        seen=("eta", "spread"),
    )


def student_of_two(s: Array) -> Array:
    x = (REAL[:FEW, None] - s[:, 0]) * np.exp(-s[:, 1])
    constant = special.gammaln(0.5 * DF + 0.5) - special.gammaln(0.5 * DF)
    constant -= 0.5 * np.log(DF * np.pi)
    return np.asarray(constant - 0.5 * (DF + 1.0) * np.log1p(x * x / DF) - s[:, 1])


@pytest.mark.parametrize("method", ["natural-gradient", "ep"])
def test_sites_of_two_predictors(method: str) -> None:
    site = "student_t(mean = eta, log_scale = spread, df = h)"
    fit = fitted(TWO, site, method, X=X[:FEW], y=REAL[:FEW], fixed={"h": DF})
    begin = fit.posterior.weight[0], fit.posterior.shift[0].reshape(-1)
    if method == "ep":
        wanted = propagated(two(), student_of_two, 1.0, 101, 8.5, begin, 1e-4)
    else:
        wanted = variational(two(), by_quadrature(student_of_two, 40, 8.0), begin, 1e-5)
    check(fit, wanted, 2e-5, 1e-6)
    slopes_hold(fit, method, None, {"h": np.asarray(DF)}, close=1e-3)
    if method != "ep":
        thirds_hold(fit, {"h": np.asarray(DF)})


SCALED = {
    "student_t(mean = eta, scale = h, df = 6)": ("natural-gradient", "ep", "laplace", "px-vb"),
    "logistic(mean = eta, scale = h)": ("natural-gradient", "double-loop", "jaakkola", "ep"),
    "laplace(mean = eta, scale = h)": ("natural-gradient", "double-loop", "ep"),
}


@pytest.mark.parametrize("site", SCALED)
def test_slopes_in_the_parameters_of_sites(site: str) -> None:
    text = GROUPED.replace("latent b", "hyper h : positive ~ half_normal(sd = 3)\nlatent b")
    text = text.replace("sd = 0.7", "sd = 0.5 * h").replace("X @ b", "h * (X @ b)")
    for name in SCALED[site]:
        method, bound = ("natural-gradient", name) if name == "jaakkola" else (name, None)
        at = {"h": np.asarray(1.4)}
        fit = fitted(text, site, method, kind="real", y=REAL, bound=bound, fixed={"h": 1.4})
        slopes_hold(fit, method, bound, at)
