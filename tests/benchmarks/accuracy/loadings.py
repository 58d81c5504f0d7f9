"""Two loadings of one factor, normal data: their posterior in closed form on a grid.

    y[i] ~ N(l u_i, noise^2 I),  u_i ~ N(0, 1),  l ~ N(0, 1):   y[i] ~ N(0, l l' + noise^2 I)

It is the same for l and -l, so that its mean is 0: an average around one of two modes is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import Array

AXIS = np.linspace(-4.0, 4.0, 161)
WELL = 0.5  # nats between two modes
SAME, ZERO = 0.8, 1e-3  # of the limit of a mean; of loadings that vanished
WAYS = (
    ("auto", "integrate"), ("auto", "map"), ("natural-gradient", "em"), ("px-vb", "em"),
    ("mean-field", "em"), ("laplace", "integrate"),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class LoadingCase:
    """`y`: (rows, 2)."""

    number: int
    noise: float
    y: Array

    @classmethod
    def of(cls, number: int) -> LoadingCase:
        rng = np.random.default_rng([number, 3])
        rows, noise = int(rng.integers(4, 25)), float(rng.choice([0.5, 1.0, 2.0]))
        loads = rng.choice([0.0, 0.5, 1.5], 2)
        own = float(rng.choice([0.7, 1.0])) * noise  # less than is modelled: loadings of 0
        y = rng.normal(size=(rows, 1)) * loads + own * rng.normal(size=(rows, 2))
        return cls(number, noise, np.round(y, 4))

    @property
    def text(self) -> str:
        rows = len(self.y)
        return (
            f"lgm 1\nindex obs = {rows}\nindex item = 2\nlatent u[obs] ~ normal(sd = 1)\n"
            "hyper l[item] : real ~ normal(sd = 1)\nlet eta[obs, item] = l * u\n"
            f"data y[obs, item] : real\nobserve y ~ normal(mean = eta, sd = {self.noise!r})\n"
        )

    def logs(self, l0: Array, l1: Array) -> Array:
        """The log density of the loadings, up to a constant."""
        s = self.y.T @ self.y
        v = self.noise**2
        size = v + l0**2 + l1**2
        quadratic = np.trace(s) / v
        quadratic = quadratic - (l0**2 * s[0, 0] + 2 * l0 * l1 * s[0, 1] + l1**2 * s[1, 1]) / (
            v * size
        )
        return np.asarray(
            -0.5 * len(self.y) * np.log(v * size) - 0.5 * quadratic - 0.5 * (l0**2 + l1**2)
        )

    def judged(self, fit: lgm.Fit) -> dict[str, tuple[bool, bool, float, str]]:
        """Of a fit, for each code: deserved, needed, how far off, of what."""
        l0, l1 = np.meshgrid(AXIS, AXIS, indexing="ij")
        logs = self.logs(l0, l1)
        share = np.exp(logs - logs.max())
        share /= share.sum()
        sd = np.array([np.sqrt((share * v**2).sum()) for v in (l0, l1)])
        middle = logs[len(AXIS) // 2, len(AXIS) // 2]
        two = bool(logs.max() - middle > WELL)
        mean = np.ravel(fit.mean("l").values)
        z = float(np.abs(mean / sd).max()) / 0.1
        codes = {w.code for w in fit.warnings}
        done = str(fit.status) == "converged"
        nothing = (False, False, 0.0, "")
        out = dict.fromkeys(
            ("W602", "W603", "W604", "W605", "W606", "W607", "W608", "W609", "W611"), nothing
        )
        whole = fit.hyper == "integrate"
        off = whole and z > SAME
        missing = whole and z > 1.2 and done and not codes & {"W604", "W606", "W607"}
        out["W607"] = (two or off, missing, z, "mean of loadings, true 0")
        gone = not whole and float(np.abs(mean).max()) < ZERO
        out["W608"] = (gone, gone and two and "W608" not in codes, z, "loadings of 0")
        out["W604"] = out["W606"] = out["W609"] = (off, False, z, "mean of loadings, true 0")
        return out

    def rows_of(self, lines: Callable[..., list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """The lines of some fits."""
        return [line for some in self._fits(lines) for line in some]

    def _fits(self, lines: Callable[..., list[dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
        for k in range(len(WAYS)):
            method, hyper = WAYS[k]
            yield lines(
                self.number, "loadings", self.text, {"y": self.y}, {}, method, hyper, self.judged, 2
            )
