"""Small images of which some rows of the spectrum are measured, and their posterior by numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import Array, IntArray
from lgmdsl.operators.fourier import Fourier

MODEL = """lgm 1
index row
index col
data y[row, col] : real?
data s[row] : positive
latent u[row, col] ~ {prior}
let seen[row, col] = fft(u) + 0.3
observe y ~ normal(mean = seen, sd = s{weight})
{potentials}
"""
POTENTIALS = """potential diff(u, row) ~ laplace(scale = 0.1)
potential diff(u, col) ~ laplace(scale = 0.2)
"""


@dataclass(frozen=True, eq=False)
class Image:
    """n x n pixels, their spectrum with noise of an sd for each row, and the line of each entry:
    row k and its conjugate; lines 0 and 1 are measured."""

    pixels: Array
    spectrum: Array
    y: Array
    sd: Array
    line: IntArray

    @property
    def measured(self) -> Array:
        return np.where(self.line <= 1, self.y, np.nan)

    @property
    def data(self) -> dict[str, Array]:
        return {"y": self.measured, "s": self.sd}

    @property
    def design(self) -> Array:
        """F, (n^2, n^2)."""
        return Fourier(self.pixels.shape).matvec(np.eye(self.pixels.size))


def image(n: int = 6, seed: int = 0) -> Image:
    rng = np.random.default_rng(seed)
    pixels = np.zeros((n, n))
    pixels[1:3, 2:5] = 1.0
    pixels[3:, :2] = 0.5
    spectrum = Fourier(pixels.shape).matvec(pixels.reshape(-1)).reshape(n, n) + 0.3
    k = np.arange(n)
    sd = 0.02 * (1.0 + 0.2 * np.minimum(k, n - k))
    y = spectrum + sd[:, None] * rng.normal(size=(n, n))
    line = np.repeat(np.minimum(k, n - k)[:, None], n, axis=1)
    return Image(pixels, spectrum, y, sd, line)


def model(potentials: bool = True, weight: str = "") -> lgm.Model:
    """With total variation on flat pixels, or independent Gaussian ones."""
    prior = "flat" if potentials else "normal(sd = 0.7)"
    more = POTENTIALS if potentials else ""
    return lgm.loads(MODEL.format(prior=prior, potentials=more, weight=weight))
