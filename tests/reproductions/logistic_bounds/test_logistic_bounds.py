"""Khan 2012, figures 4.1 to 4.3: bounds of llp(x) = log(1 + e^x) and their errors.

All numbers are what the bounds of `lgmdsl` answer: with y = 0 the log density is -llp, and at
variance 0 an expectation is the bound itself.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import bound
from lgmdsl.bounds.piecewise import FEWEST, MOST, Piecewise
from lgmdsl.contract.questions import Expected
from lgmdsl.site_questions import expected
from tests.reproductions.record import COLOURS, figure, table

pytestmark = [pytest.mark.reproduction, pytest.mark.thorough]
FOLDER = Path(__file__).parent
KINDS = {"linear": "L", "quadratic": "Q"}
NAMES = {"jaakkola": "Jaakkola", "bohning": "Böhning"}


def llp(x: Array) -> Array:
    """The function itself."""
    return -expected("bernoulli.logit", 0, x, 0.0).value


def pieces_of(kind: str, size: int) -> Piecewise:
    found = bound(f"piecewise-{kind}-{size}", Expected)
    assert isinstance(found, Piecewise)
    return found


def upper(kind: str, size: int, x: Array) -> Array:
    """The bound of `size` pieces at x."""
    rule = pieces_of(kind, size).spec.name
    return -expected("bernoulli.logit", 0, x, 0.0, rule=rule).value


def quadratic(rule: str, mean: float, variance: float, x: Array) -> tuple[Array, float]:
    """The parabola above llp that is best for N(mean, variance), and its curvature: the site
    e^(k + b s - w s^2 / 2) below sigma(-s), w = -2 f_v, b = f_m + w m, k = f + w (m^2 + v)/2 - b m.
    """
    f = expected("bernoulli.logit", 0, mean, variance, rule=rule)
    w = -2.0 * float(f.d_variance)
    b = float(f.d_mean) + w * mean
    k = float(f.value) + 0.5 * w * (mean**2 + variance) - b * mean
    return 0.5 * w * x * x - b * x - k, w


def test_figure_4_1() -> None:
    """Jaakkola's parabolas touch at +-xi, flatter for larger xi; Boehning's all have 1/4."""
    x = np.linspace(-20.0, 40.0, 601)
    truth = llp(x)
    rows = []
    # Jaakkola's xi^2 = m^2 + v; Boehning's psi = m, whatever v is.
    asked = [("jaakkola", 5.0, 0.0, 25.0), ("jaakkola", 15.0, 0.0, 225.0)]
    asked += [("bohning", 0.0, 0.0, 1.0), ("bohning", 15.0, 15.0, 1.0)]
    with figure(FOLDER, 7.2, 3.2, name="figure_4_1") as picture:
        panels = dict(zip(("jaakkola", "bohning"), picture.subplots(1, 2), strict=True))
        for rule, axes in panels.items():
            axes.plot(x, truth, "--", color="black", label="llp(η)", zorder=5)
            axes.set(xlim=(-20, 40), ylim=(-1, 45), xlabel="η", title=NAMES[rule])
        for rule, parameter, mean, variance in asked:
            above, curvature = quadratic(rule, mean, variance, x)
            ends = np.array([-20.0, 0.0, 20.0, 40.0])
            gaps = quadratic(rule, mean, variance, ends)[0] - llp(ends)
            rows.append([rule, parameter, curvature, *np.round(gaps, 6).tolist()])
            letter, colour = ("ξ", "#0072B2") if rule == "jaakkola" else ("ψ", "#D55E00")
            panels[rule].plot(
                x,
                above,
                color=colour,
                linewidth=1.0 if parameter < 10 else 2.0,
                label=f"{letter} = {parameter:g}",
            )
            at = np.array([parameter, -parameter if rule == "jaakkola" else parameter])
            touching = quadratic(rule, mean, variance, at)[0]
            panels[rule].plot(at, touching, "o", color=colour, markersize=4)
            assert np.min(above - truth) > -1e-12
            np.testing.assert_allclose(touching, llp(at), atol=1e-12)
        for axes in panels.values():
            axes.legend(loc="lower right")
    header = ["bound", "parameter", "curvature", *(f"gap at {e}" for e in (-20, 0, 20, 40))]
    table(FOLDER, header, rows, name="figure_4_1")
    assert rows[1][2] < rows[0][2] < 0.25
    assert [r[2] for r in rows[2:]] == [0.25, 0.25]


def test_figure_4_2() -> None:
    """Three pieces, linear and quadratic: above llp, below the likelihood, errors at most known."""
    x = np.linspace(-12.0, 12.0, 24001)
    truth = llp(x)
    rows = []
    with figure(FOLDER, 8.4, 4.4, name="figure_4_2") as picture:
        panels = picture.subplots(2, 4)
        for column, (kind, letter) in enumerate(KINDS.items()):
            above = upper(kind, 3, x)
            # p(y = 1 | x) = exp(x - llp(x)).
            curves = ((truth, above), (np.exp(x - truth), np.exp(x - above)))
            names = ("LLP", "logistic")
            declared = pieces_of(kind, 3).spec.error
            for row, (name, (exact, approximate)) in enumerate(zip(names, curves, strict=True)):
                error = np.abs(approximate - exact)
                at = np.interp([-12.0, 0.0, 12.0], x, error)
                rows.append([f"{letter}3", name, float(error.max()), *at.tolist()])
                axes = panels[row, column]
                axes.plot(x, approximate, color=COLOURS[1], label="bound")
                axes.plot(x, exact, "--", color="black", label="exact")
                half, top = (3.0, 3.0) if row == 0 else (5.0, 1.0)
                axes.set(xlim=(-half, half), ylim=(-0.02 * top, 1.05 * top))
                axes.set(title=f"{letter}3 {name} bound")
                axes = panels[row, column + 2]
                axes.plot(x, error, color=COLOURS[0])
                axes.set(xlim=(-10, 10), ylim=(0, 0.24), title=f"{letter}3 {name} error")
            assert np.min(above - truth) > -1e-12
            assert rows[-2][2] == pytest.approx(declared, rel=1e-4)
            # 1 - e^-eps, the most that an error of eps in the log can make.
            assert rows[-1][2] <= -np.expm1(-declared)
        for axes in panels[1]:
            axes.set_xlabel("η")
        panels[0, 0].legend(loc="upper left")
    header = ["bound", "of", "largest error", "at -12", "at 0", "at 12"]
    table(FOLDER, header, rows, name="figure_4_2", digits=4)


def largest_gap(kind: str, size: int) -> float:
    """The largest of bound - llp on a fine grid that holds the breaks and their left limits."""
    breaks = pieces_of(kind, size).pieces.breaks
    x = np.concatenate([np.linspace(-15.0, 15.0, 20001), [-40.0, 40.0]])
    x = np.concatenate([x, breaks, np.nextafter(breaks, -np.inf)])
    gap = upper(kind, size, x) - llp(x)
    assert gap.min() > -1e-12, (kind, size)
    return float(gap.max())


def test_figure_4_3() -> None:
    """The gap is the declared one, falls with R, like R^-2 for lines and R^-3 for parabolas."""
    sizes = np.arange(FEWEST, MOST + 1)
    declared = {k: np.array([pieces_of(k, int(r)).spec.error for r in sizes]) for k in KINDS}
    measured = {k: np.array([largest_gap(k, int(r)) for r in sizes]) for k in KINDS}
    # How many lines it takes to be as good as so many parabolas.
    lines = [
        int(sizes[i]) if (i := _first(declared["linear"] <= q)) is not None else None
        for q in declared["quadratic"]
    ]
    rows = [
        [int(r), *(float(d[k][i]) for k in KINDS for d in (declared, measured)), lines[i]]
        for i, r in enumerate(sizes)
    ]
    header = ["R", "L declared", "L measured", "Q declared", "Q measured", "lines as good as Q"]
    table(FOLDER, header, rows, name="figure_4_3", digits=5)
    with figure(FOLDER, 5.4, 3.8, name="figure_4_3") as picture:
        axes = picture.subplots()
        axes.axvspan(4, 20, color="0.94", label="range of the thesis")
        for (kind, letter), mark, colour in zip(KINDS.items(), "so", COLOURS, strict=False):
            label = f"{letter}: {kind}"
            axes.plot(sizes, measured[kind], mark + "-", color=colour, markersize=4, label=label)
        axes.plot(sizes, np.pi**2 / 8 / sizes**2, ":", color="black", label="π² / 8R²")
        axes.plot(sizes, np.sqrt(2) / sizes**2, "--", color="0.5", label="√2 / R² (thesis)")
        axes.set(yscale="log", xlabel="pieces R", ylabel="largest error of the LLP bound")
        axes.set_xticks([4, 8, 12, 16, 20, 30, 40])
        axes.legend()
    for kind, slope in (("linear", -2.0), ("quadratic", -3.0)):
        np.testing.assert_allclose(measured[kind], declared[kind], rtol=1e-5)
        assert np.all(np.diff(declared[kind]) < 0.0)
        late = sizes >= 20
        fitted = np.polyfit(np.log(sizes[late]), np.log(declared[kind][late]), 1)[0]
        assert fitted == pytest.approx(slope, abs=0.1)
    assert np.all(declared["quadratic"] < declared["linear"])
    assert declared["linear"][-1] * MOST**2 == pytest.approx(np.pi**2 / 8, rel=0.1)


def _first(holds: Array) -> int | None:
    return int(np.argmax(holds)) if np.any(holds) else None


def test_theorem_4_6_1() -> None:
    """Jaakkola's bound is above Boehning's for all m and v, and both are below the truth."""
    m, v = np.meshgrid(np.linspace(-12.0, 12.0, 49), np.geomspace(0.01, 400.0, 40))
    exact, high, low = (
        expected("bernoulli.logit", 1, m, v, rule=rule).value
        for rule in ("quadrature", "jaakkola", "bohning")
    )
    assert np.all(low < high) and np.all(high < exact + 1e-12)
