"""Operators of the language: what they compile to, against NumPy; gradients through them."""

from __future__ import annotations

import numpy as np
import pytest
import pywt
from scipy import ndimage

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.reverse import pull
from lgmdsl.contract.engine import Conditioned
from lgmdsl.engines.choose import choose
from lgmdsl.errors import DataError
from lgmdsl.operators.fourier import paired
from tests.compiled import canonical_form

HEAD = """lgm 1
index row
index col
index krow
index kcol
data y[row, col] : real
data x[row, col] : real
data psf[krow, kcol] : real
data keep[row, col] : binary
latent u[row, col] ~ normal(sd = 1)
latent v[col, row] ~ normal(sd = 1)
"""
ROWS, COLS = 6, 8
RNG = np.random.default_rng(8)
X, PSF = RNG.normal(size=(ROWS, COLS)), RNG.normal(size=(3, 5))
KEEP = (RNG.uniform(size=(ROWS, COLS)) < 0.6).astype(float)
DATA = {"y": np.zeros((ROWS, COLS)), "x": X, "psf": PSF, "keep": KEEP}
U, V = RNG.normal(size=(ROWS, COLS)), RNG.normal(size=(COLS, ROWS))


def compiled(text: str) -> CanonicalModel:
    return canonical_form(HEAD + text, DATA)


def value(canonical: CanonicalModel) -> Array:
    """The last predictor at u = U, v = V."""
    p = canonical.linear({}).predictors[-1]
    parts = {"u": U.ravel(), "v": V.ravel()}
    out = p.offset + sum(op.matvec(parts[name]) for name, op in p.columns.items())
    for name, op in p.columns.items():
        assert np.allclose(op.dense() @ parts[name], op.matvec(parts[name]))
    return np.asarray(out)


def convolved(image: Array) -> Array:
    return np.asarray(ndimage.convolve(image, PSF, mode="wrap"))


CASES = {
    "diff(u, row)": np.diff(U, axis=0),
    "diff(u, col, order = 2)": np.diff(U, 2, axis=1),
    "diff(diff(u, row), col)": np.diff(np.diff(U, axis=0), axis=1),
    "diff(diff(u, row), row)": np.diff(U, 2, axis=0),
    'diff(u, col, boundary = "circular")': np.roll(U, -1, axis=1) - U,
    "cumsum(u, col)": np.cumsum(U, axis=1),
    "2 * cumsum(x * u + x, row) - u": 2 * np.cumsum(X * U + X, axis=0) - U,
    'conv2(u, psf, boundary = "circular")': convolved(U),
    # The axes are those of the text, whichever latent comes first.
    'conv2(x - v + u, psf, boundary = "circular")': convolved(X - V.T + U),
    'conv2(x, psf, boundary = "circular") * u': convolved(X) * U,
    'wavelet(u, filter = "haar", levels = 1)': pywt.coeffs_to_array(
        pywt.wavedecn(U, "haar", mode="periodization", level=1)
    )[0],
    "mask(fft(u), keep)": KEEP * paired(np.fft.fftn(U, norm="ortho")),
    "sum(diff(u + v, row), col)": np.diff(U + V.T, axis=0).sum(axis=1),
}


@pytest.mark.parametrize("text", CASES)
def test_values(text: str) -> None:
    canonical = compiled(
        f"observe y ~ normal(mean = u, sd = 1)\npotential {text} ~ laplace(scale = 1)\n"
    )
    block = canonical.blocks[-1]
    wanted = CASES[text]
    assert block.shape == wanted.shape
    assert np.allclose(value(canonical), wanted.ravel())


def test_values_by_label_and_map() -> None:
    """What an operator gave can be gathered like any let."""
    canonical = compiled(
        "let s[row, col] = cumsum(u, row)\nlet first[col] = s[0, col]\n"
        "observe y ~ normal(mean = u, sd = 1)\npotential first ~ laplace(scale = 1)\n"
    )
    assert np.allclose(value(canonical), U[0])


def test_missing_rows_leave_the_operator_unformed() -> None:
    text = 'observe y ~ normal(mean = conv2(u, psf, boundary = "circular"), sd = 1)\n'
    y = np.where(KEEP > 0, 0.0, np.nan)
    given = HEAD.replace("data y[row, col] : real", "data y[row, col] : real?")
    canonical = canonical_form(given + text, {**DATA, "y": y})
    assert np.allclose(value(canonical), convolved(U)[KEEP > 0])
    assert not canonical.linear({}).predictors[0].columns["u"].in_memory


GRADIENT = """lgm 1
index t
data y[t] : real
data x[t] : real
hyper c[t] : real ~ normal(sd = 1)
hyper a : positive ~ half_normal(sd = 1)
latent u[t] ~ normal(sd = 1)
latent b ~ normal(sd = 2)
let s[t] = a * cumsum(c * u + a * x, t) + c * b
observe y ~ normal(mean = s, sd = 0.5)
potential c^2 * diff(a * u + x * b, t, boundary = "reflect") ~ laplace(scale = 1)
"""


def test_gradients_pass_through_operators() -> None:
    rng = np.random.default_rng(2)
    data = {"y": rng.normal(size=6), "x": rng.normal(size=6)}
    canonical = canonical_form(GRADIENT, data)
    weight = (rng.random(6) + 0.3, rng.random(6) + 0.3)
    shift = (rng.normal(size=6), rng.normal(size=6))
    free = {"c": rng.normal(size=6), "a": np.asarray(0.7)}

    def conditioned(given: dict[str, Array]) -> Conditioned:
        engine, _ = choose(canonical.linear(canonical.hypers.theta(given)))
        assert engine is not None
        q = engine.condition(weight, shift)
        assert isinstance(q, Conditioned)
        return q

    raw = pull(canonical, conditioned(free).adjoints(), [{}, {}], canonical.hypers.theta(free))
    for name, at in free.items():
        for i in np.ndindex(*at.shape):
            step = np.zeros_like(at)
            step[i] = 1e-6
            up, down = (
                conditioned({**free, name: at + step}),
                conditioned({**free, name: at - step}),
            )
            want = (up.log_normaliser - down.log_normaliser) / 2e-6
            assert float(np.asarray(raw[name])[i]) == pytest.approx(want, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("potential diff(u, row, order = 6) ~ laplace(scale = 1)", "more labels"),
        ('potential wavelet(u, filter = "haar", levels = 2) ~ laplace(scale = 1)', "levels"),
        ('observe y ~ normal(mean = conv2(u, x, boundary = "zero"), sd = 1)', ""),
    ],
)
def test_axes_that_do_not_fit(text: str, remedy: str) -> None:
    if not remedy:
        compiled(text + "\n")
        return
    with pytest.raises(DataError) as caught:
        compiled(text + "\n")
    assert caught.value.codes == ("E301",)
    assert remedy in str(caught.value)


def test_diff_in_the_engines_there_are() -> None:
    """A random walk written by potentials has the evidence of its joint density."""
    text = (
        "lgm 1\nindex t\ndata y[t] : real\nlatent u[t] ~ normal(sd = 3)\n"
        "observe y ~ normal(mean = u, sd = 0.5)\npotential diff(u, t) ~ normal(sd = 0.2)\n"
    )
    y = RNG.normal(size=40)
    fit = lgm.fit(lgm.loads(text), {"y": y}, method="laplace")
    d = np.diff(np.eye(40), axis=0)
    a = np.eye(40) / 9 + np.eye(40) / 0.25 + d.T @ d / 0.04
    mean = np.linalg.solve(a, y / 0.25)
    joint = 0.5 * mean @ a @ mean - 0.5 * y @ y / 0.25 - 0.5 * np.linalg.slogdet(a)[1]
    joint -= 40 * np.log(3) + 40 * np.log(0.5) + 39 * np.log(0.2) + 79 * 0.5 * np.log(2 * np.pi)
    assert np.allclose(np.asarray(fit.mean("u")), mean)
    assert fit.log_evidence == pytest.approx(joint)
