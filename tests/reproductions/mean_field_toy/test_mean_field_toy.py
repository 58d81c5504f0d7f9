"""Qi and Jaakkola 2007, section 2: mean field between w and z, y ~ N(w + z, 1), z ~ N(0, D), w
flat; plain, and expanded by z ~ N(alpha, D); its rates by theorem 4.1 and its bound.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.status import Guarantee
from tests.reproductions.record import COLOURS, figure, table

pytestmark = [pytest.mark.reproduction, pytest.mark.thorough]
FOLDER = Path(__file__).parent
MODEL = """lgm 1
data y : real
data D : positive
latent w ~ flat
latent z ~ normal(sd = sqrt(D))
observe y ~ normal(mean = w + z, sd = 1)
"""
Y, WIDTHS = 2.0, (0.1, 1.0, 10.0, 100.0)
TOLERANCE = 1e-11  # of the evidence; a thousand times as many posterior sds of means


def fitted(width: float, expand: bool) -> lgm.Fit:
    """z before w: from w = 0, as w before z would be at its limit after one step from z = 0."""
    options = {"blocks": "z; w", "expand": expand}
    data = {"y": Y, "D": width}
    return lgm.fit(lgm.loads(MODEL), data, "mean-field", options=options, tol=TOLERANCE)


def as_printed(width: float, rounds: int, expanded: bool) -> Array:
    """The paper's (4), z first, and its reduction of alpha = <z>: <w> after each round."""
    w, out = 0.0, []
    for _ in range(rounds):
        z = (Y - w) / (1.0 + 1.0 / width)
        w = Y - z
        if expanded:  # alpha = <z> is taken from z and added to w
            w += z
        out.append(w)
    return np.array(out)


def rate_of_theorem(width: float) -> float:
    """Theorem 4.1 for the means: the spectral radius of P_z P_w, each from D^2 Q = A (29)."""
    A = np.array([[1.0 + 1.0 / width, 1.0], [1.0, 1.0]])  # the precision of (z, w)
    product = np.eye(2)
    for s in range(2):
        P, other = np.eye(2), 1 - s
        P[other, s] = -A[other, s] / A[s, s]
        P[s, s] = 0.0
        product = product @ P
    return float(np.abs(np.linalg.eigvals(product)).max())


def test_toy() -> None:
    rows, moves = [], {}
    for width in WIDTHS:
        plain, expanded = fitted(width, False), fitted(width, True)
        moves[width] = np.array([t.residual for t in plain.trace])
        seen = moves[width][(moves[width] < 1e-2) & (moves[width] > 1e-7)]
        measured = float((seen[-1] / seen[0]) ** (1.0 / max(len(seen) - 1, 1)))
        theory = rate_of_theorem(width)
        assert theory == pytest.approx(width / (1.0 + width), rel=1e-12)
        assert measured == pytest.approx(theory, rel=1e-4)
        # The printed updates make the same way: <w> - y = -<z>, in sds of z, the narrower of both.
        narrow = np.sqrt(1.0 / (1.0 + 1.0 / width))
        printed = np.abs(as_printed(width, len(moves[width]) - 1, False) - Y) / narrow
        np.testing.assert_allclose(moves[width][1:], printed, rtol=1e-3, atol=1e-9)
        assert as_printed(width, 1, True)[0] == pytest.approx(Y, abs=1e-12)
        for fit in (plain, expanded):
            assert fit.converged and fit.guarantee is Guarantee.LOWER
            assert float(fit.mean("w")) == pytest.approx(Y, abs=1e-7)
            assert float(fit.sd("w")) == pytest.approx(1.0, abs=1e-12)
            assert float(fit.sd("z")) ** 2 == pytest.approx(1.0 / (1.0 + 1.0 / width), rel=1e-12)
            assert fit.log_evidence == pytest.approx(-0.5 * np.log1p(width), abs=1e-10)
        rows.append(
            [
                width, theory, measured, plain.steps, expanded.steps, plain.log_evidence, 0.0,
                float(plain.sd("w")), float(np.sqrt(1.0 + width)),
            ]
        )  # fmt: skip
    header = ["D", "rate by theorem 4.1", "measured", "plain sweeps", "expanded rounds", "bound"]
    table(FOLDER, [*header, "log p(y)", "sd of w", "exact sd"], rows)
    with figure(FOLDER) as picture:
        left, right = picture.subplots(1, 2)
        for width, colour in zip(WIDTHS, COLOURS, strict=False):
            left.semilogy(moves[width][:200], color=colour, label=f"D = {width:g}")
        left.set(xlabel="sweep", ylabel="distance from the limit (sds)", ylim=(1e-8, 3.0))
        left.set_title("plain: rate D / (1 + D)")
        left.legend()
        at = np.geomspace(0.05, 200.0, 100)
        right.semilogx(at, -0.5 * np.log1p(at), color=COLOURS[7], label="-1/2 log(1 + D)")
        right.semilogx([r[0] for r in rows], [r[5] for r in rows], "o", color=COLOURS[0])
        right.axhline(0.0, color=COLOURS[6], linewidth=0.8)
        right.set(xlabel="D", ylabel="bound - log p(y), nats", title="what independence costs")
        right.legend()
