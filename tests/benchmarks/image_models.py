"""Images measured in three ways, with total variation as Laplace potentials: the models, their
data, and the mode by a smoothed objective as a yardstick.

Intensities are 0 to 1; peak signal-to-noise ratios in decibels of that range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import ndimage, optimize

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Engine
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.objectives.super_gaussian import WidthPoint
from lgmdsl.contract.problem import Problem
from lgmdsl.operators.fourier import Fourier
from lgmdsl_backends.double_loop import DoubleLoop
from tests.compiled import problem_for

TEXT = """lgm 1
index row
index col
{data}data y[row, col] : {kind}
latent u[row, col] ~ flat
let seen[row, col] = {seen}
observe y ~ normal(mean = seen, sd = {noise})
potential diff(u, row) ~ laplace(scale = {scale})
potential diff(u, col) ~ laplace(scale = {scale})
"""


@dataclass(frozen=True, eq=False)
class Measured:
    """An image (rows, columns), its model and data; `apply` and `adjoint` are the measurement and
    its transpose on images, for the yardstick; `kept` the entries of y that there are."""

    image: Array
    text: str
    data: dict[str, object]
    y: Array
    kept: Array
    apply: Callable[[Array], Array]
    adjoint: Callable[[Array], Array]
    noise: float
    scale: float

    def problem(self, engine: Callable[[LinearGaussian], Engine] | None = None) -> Problem:
        """The double loop's problem, on the engine that the model gets or another one."""
        found = problem_for("double-loop", self.text, self.data)
        if engine is None:
            return found
        return replace(found, engine=engine(found.engine.linear))

    def psnr(self, estimate: Array) -> float:
        error = estimate.reshape(self.image.shape) - self.image
        return float(-10.0 * np.log10(np.mean(error**2)))


def same(x: Array) -> Array:
    """The measurement that sees the pixels themselves."""
    return x


def picture(shared: Path, name: str) -> Array:
    """256 x 256, 0 to 1."""
    with np.load(shared / "data" / "images256.npz") as file:
        return np.asarray(file[name], dtype=np.float64) / 255.0


def halved(image: Array) -> Array:
    """Means of 2 x 2 pixels."""
    rows, columns = image.shape
    return np.asarray(image.reshape(rows // 2, 2, columns // 2, 2).mean(axis=(1, 3)))


def masked(image: Array, noise: float = 0.05, scale: float = 0.05, seed: int = 0) -> Measured:
    """Half of the pixels, at random, with noise."""
    rng = np.random.default_rng(seed)
    y = image + noise * rng.normal(size=image.shape)
    y[rng.random(image.shape) < 0.5] = np.nan
    text = TEXT.format(data="", kind="real?", seen="u", noise=noise, scale=scale)
    kept = np.isfinite(y)

    return Measured(image, text, {"y": y}, y, kept, same, same, noise, scale)


def blurred(
    image: Array,
    noise: float = 0.01,
    scale: float = 0.03,
    seed: int = 0,
    half: int = 3,
    sd: float = 1.5,
) -> Measured:
    """A Gaussian blur of `sd` pixels cut to 2 half + 1 on a side, circular, with noise."""
    side = np.exp(-0.5 * (np.arange(-half, half + 1) / sd) ** 2)
    psf = np.outer(side, side) / side.sum() ** 2

    def blur(x: Array) -> Array:
        return np.asarray(ndimage.convolve(x, psf, mode="wrap"))

    y = blur(image) + noise * np.random.default_rng(seed).normal(size=image.shape)
    seen = 'conv2(u, psf, boundary = "circular")'
    head = "index krow\nindex kcol\ndata psf[krow, kcol] : positive\n"
    text = TEXT.format(data=head, kind="real", seen=seen, noise=noise, scale=scale)
    data: dict[str, object] = {"y": y, "psf": psf}
    every = np.ones(image.shape, dtype=bool)
    return Measured(image, text, data, y, every, blur, blur, noise, scale)  # symmetric psf


def undersampled(
    image: Array, share: float = 0.3, noise: float = 0.01, scale: float = 0.03, seed: int = 0
) -> Measured:
    """A share of the Fourier coefficients, dense at low frequencies, in pairs k and -k."""
    rng = np.random.default_rng(seed)
    low = [np.fft.fftfreq(n) for n in image.shape]
    radius = np.hypot(low[0][:, None], low[1][None, :])
    rank = rng.random(image.shape) ** (1.0 / np.exp(-radius / 0.08).clip(1e-3))
    rank[radius < 0.04] = 2.0
    rank = np.maximum(rank, np.roll(rank[::-1, ::-1], 1, axis=(0, 1)))
    keep = rank >= np.quantile(rank, 1.0 - share)

    fourier = Fourier(image.shape)  # orthogonal

    def transform(x: Array) -> Array:
        return fourier.matvec(x.reshape(-1)).reshape(x.shape)

    def back(x: Array) -> Array:
        return fourier.rmatvec(x.reshape(-1)).reshape(x.shape)

    y = np.where(keep, transform(image) + noise * rng.normal(size=image.shape), 0.0)
    text = TEXT.format(
        data="data keep[row, col] : binary\n",
        kind="real",
        seen="mask(fft(u), keep)",
        noise=noise,
        scale=scale,
    )
    data: dict[str, object] = {"y": y, "keep": keep.astype(int)}
    return Measured(image, text, data, y, keep, transform, back, noise, scale)


@dataclass(frozen=True)
class Course:
    """A double loop step by step: the last point, and bound and residual of each, the start's
    first. Unlike the driver it goes on where the bound falls: an estimate of it may."""

    point: WidthPoint
    bounds: Array
    residuals: Array

    @property
    def fall(self) -> float:
        """The largest drop of the bound from one step to the next, 0 where it always rises."""
        return float(np.maximum(-np.diff(self.bounds), 0.0).max(initial=0.0))


def course(problem: Problem, tolerance: float = 1e-3, steps: int = 40) -> Course:
    """Until the residual (posterior sds of a mean) is below the tolerance."""
    loop = DoubleLoop()
    state = loop.start(problem)
    bounds, residuals = [state.objective], [state.residual]
    while state.residual > tolerance and len(bounds) <= steps:
        state = loop.step(problem, state)
        assert state.failed is None and state.point is not None, state.reason
        bounds.append(state.objective)
        residuals.append(state.residual)
    assert state.point is not None
    return Course(state.point, np.array(bounds), np.array(residuals))


@dataclass(frozen=True)
class Mode:
    """Where the yardstick ended, and why."""

    image: Array
    iterations: int
    objective: float
    message: str


def mode(
    case: Measured,
    iterations: int = 5000,
    relative: float = 1e-12,
    smoothing: float = 1e-3,
) -> Mode:
    """MAP by SciPy's L-BFGS with |x| as sqrt(x^2 + smoothing^2); `relative` is its ftol."""
    shape, precision, rate = case.image.shape, 1.0 / case.noise**2, 1.0 / case.scale
    y = np.where(case.kept, case.y, 0.0)

    def objective(flat: Array) -> tuple[float, Array]:
        x = flat.reshape(shape)
        error = np.where(case.kept, case.apply(x) - y, 0.0)
        value = 0.5 * precision * float((error**2).sum())
        slope = precision * case.adjoint(error)
        for axis in (0, 1):
            step = np.diff(x, axis=axis)
            size = np.sqrt(step**2 + smoothing**2)
            value += rate * float(size.sum())
            pull = rate * step / size
            if axis == 0:
                slope[1:] += pull
                slope[:-1] -= pull
            else:
                slope[:, 1:] += pull
                slope[:, :-1] -= pull
        return value, slope.ravel()

    share = case.adjoint(np.where(case.kept, 1.0, 0.0)) if case.apply is same else 1.0
    begin: Array = np.where(share, case.adjoint(y), y[case.kept].mean())
    found = optimize.minimize(
        objective, begin.ravel(), jac=True, method="L-BFGS-B",
        options={"maxiter": iterations, "maxfun": 2 * iterations, "ftol": relative, "gtol": 1e-6},
    )  # fmt: skip
    return Mode(found.x.reshape(shape), int(found.nit), float(found.fun), str(found.message))
