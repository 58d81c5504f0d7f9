"""Khan 2012, figure 4.4: log likelihood of one binary observation of one latent, with
unlimited data, against the prior's sd; the truth, and what each bound makes of it.

z ~ N(2, sd^2), p(y = 1 | z) = 1 / (1 + e^-z). For data from sd = 2, L(sd) = P1 log p(y = 1 | sd)
+ P0 log p(y = 0 | sd). An estimate replaces each p by p^ = int e^{f(y, z)} N(z) dz (4.46).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.bounds.catalogue import bound
from lgmdsl.bounds.piecewise import Piecewise
from lgmdsl.contract.questions import Expected
from tests.reproductions.record import figure, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
MEAN, TRUE_SD = 2.0, 2.0
SDS = np.round(np.linspace(0.05, 4.0, 80), 2)
TABLED = (0.05, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
MODEL = """lgm 1
data y : binary
hyper sd : positive = 1
latent z ~ normal(mean = 2, sd = sd)
observe y ~ bernoulli(logit = z)
"""
PANELS = {
    "Böhning": {"B": "bohning"},
    "Jaakkola": {"J": "jaakkola"},
    "linear pieces": {"L6": "piecewise-linear-6", "L10": "piecewise-linear-10"},
    "quadratic pieces": {"Q3": "piecewise-quadratic-3", "Q5": "piecewise-quadratic-5"},
}
RULES = {short: rule for panel in PANELS.values() for short, rule in panel.items()}


def log_truth(y: int, sd: float) -> float:
    """log p(y | sd), to 1e-9."""
    return float(lgm.sites.tilted("bernoulli.logit", y, MEAN, sd * sd).log_mass)


P1, P0 = (float(np.exp(log_truth(y, TRUE_SD))) for y in (1, 0))


@cache
def fitted(rule: str, y: int, sd: float) -> Fit:
    """The variational Gaussian fit under a bound; its log evidence is an ELBO."""
    model, method = lgm.loads(MODEL), "natural-gradient"
    fit = lgm.fit(model, {"y": y}, method, hyper="fixed", fixed={"sd": sd}, bound=rule, tol=1e-11)
    assert fit.converged, (rule, y, sd)
    return fit


@cache
def log_estimate(rule: str, y: int, sd: float) -> float:
    """log p^(y | sd), without Jensen's inequality.

    Under one parabola q is Gaussian, so the ELBO at the best variational parameter is log p^
    itself. For pieces rho: int e^{yz - rho(z)} N(z) dz, piece by piece.
    """
    found = bound(rule, Expected)
    if not isinstance(found, Piecewise):
        return fitted(rule, y, sd).log_evidence
    low, high, breaks = MEAN - 12.0 * sd, MEAN + 12.0 * sd, found.pieces.breaks
    ends = np.concatenate([[low], breaks[(breaks > low) & (breaks < high)], [high]])
    node, weight = np.polynomial.legendre.leggauss(80)
    half = 0.5 * np.diff(ends)[:, None]
    z = ends[:-1, None] + half * (1.0 + node)
    exponent = y * z - found.pieces.at(z) - 0.5 * ((z - MEAN) / sd) ** 2
    return float(np.log(np.sum(half * weight * np.exp(exponent)) / (np.sqrt(2.0 * np.pi) * sd)))


def likelihood(rule: str, sd: float) -> float:
    """L(sd) with the estimate of a rule for both outcomes."""
    return P1 * log_estimate(rule, 1, sd) + P0 * log_estimate(rule, 0, sd)


def as_printed(rule: str, sd: float) -> float:
    """(4.49) to the letter: log(1 - p^(y = 1)) in place of log p^(y = 0)."""
    one = log_estimate(rule, 1, sd)
    return P1 * one + P0 * float(np.log(-np.expm1(one)))


def elbo(rule: str, sd: float) -> float:
    """L(sd) with what a fit reports as its evidence."""
    return P1 * fitted(rule, 1, sd).log_evidence + P0 * fitted(rule, 0, sd).log_evidence


def true(sd: float) -> float:
    """L(sd)."""
    return P1 * log_truth(1, sd) + P0 * log_truth(0, sd)


def best_sd(curve: Callable[[float], float]) -> float:
    """Where a curve is highest, to 1e-3; SDS[0] where it falls from there."""
    k = int(np.argmax([curve(sd) for sd in SDS]))
    if k in (0, len(SDS) - 1):
        return float(SDS[k])
    found = optimize.minimize_scalar(
        lambda s: -curve(s),
        bounds=(SDS[k - 1], SDS[k + 1]),
        method="bounded",
        options={"xatol": 1e-5},
    )
    return round(float(found.x), 3)


def test_figure_4_4() -> None:
    """Böhning's and Jaakkola's estimates put the sd at 0; pieces converge to the truth."""
    curves = {
        short: np.array([likelihood(rule, sd) for sd in SDS]) for short, rule in RULES.items()
    }
    elbos = {short: np.array([elbo(rule, sd) for sd in SDS]) for short, rule in RULES.items()}
    truth = np.array([true(sd) for sd in SDS])
    optima = {short: best_sd(partial(likelihood, rule)) for short, rule in RULES.items()}
    # Jensen's inequality alone: Gaussian q, expectations without a bound.
    exact = best_sd(partial(elbo, "quadrature"))
    errors = {short: float(np.max(truth - curve)) for short, curve in curves.items()}
    rows: list[list[object]] = [["truth", best_sd(true), true(TRUE_SD), 0.0, None, exact, None]]
    for short, rule in RULES.items():
        gap = bound(rule, Expected).spec.error
        rows.append(
            [
                short,
                optima[short],
                likelihood(rule, optima[short]),
                errors[short],
                gap if np.isfinite(gap) else None,
                best_sd(partial(elbo, rule)),
                best_sd(partial(as_printed, rule)),
            ]
        )
        assert np.all(curves[short] <= truth + 1e-9), short
        assert np.all(elbos[short] <= curves[short] + 1e-8), short
        assert errors[short] <= gap
    header = [
        "bound",
        "best sd",
        "L there",
        "largest L error",
        "declared gap",
        "best sd by ELBO",
        "best sd by (4.49) as printed",
    ]
    table(FOLDER, header, rows, name="optima", digits=5)
    at = np.searchsorted(SDS, TABLED)
    columns = [SDS, truth, *curves.values(), *(elbos[s] for s in ("L6", "L10", "Q3", "Q5"))]
    header = ["sd", "truth", *RULES, *(f"ELBO {s}" for s in ("L6", "L10", "Q3", "Q5"))]
    table(FOLDER, header, [[float(c[i]) for c in columns] for i in at], name="curves", digits=5)

    with figure(FOLDER, 7.2, 5.4) as picture:
        for axes, (title, panel) in zip(picture.subplots(2, 2).flat, PANELS.items(), strict=True):
            axes.plot(SDS, truth, color="#0072B2", label="truth")
            axes.plot(TRUE_SD, true(TRUE_SD), "o", color="#0072B2")
            for short, colour in zip(panel, ("#F4845F", "#8B1A00")[-len(panel) :], strict=True):
                axes.plot(SDS, curves[short], "--", color=colour, label=short)
                if short[0] in "LQ":
                    axes.plot(SDS, elbos[short], ":", color=colour, label=f"{short}, ELBO")
                axes.plot(
                    optima[short],
                    likelihood(RULES[short], optima[short]),
                    "s",
                    color=colour,
                    markersize=5,
                    clip_on=False,
                )
            single = len(panel) == 1
            axes.set(xlim=(0, 4), ylim=(-0.62 if single else -0.66, -0.525), title=title)
            axes.set(xlabel="prior sd σ", ylabel="log likelihood")
            axes.legend(loc="lower right" if single else "lower center", ncols=1 if single else 3)

    assert abs(P1 - 0.7752) < 5e-5  # as in the thesis
    assert best_sd(true) == pytest.approx(TRUE_SD, abs=1e-3)
    for short in ("B", "J"):
        assert optima[short] == SDS[0] and np.all(np.diff(curves[short]) < 0.0)
    for fewer, more in (("L6", "L10"), ("Q3", "Q5")):
        assert errors[more] < errors[fewer] < errors["J"] < errors["B"]
        assert abs(optima[more] - TRUE_SD) < abs(optima[fewer] - TRUE_SD) < 0.25


@pytest.mark.parametrize("rule", ["bohning", "jaakkola"])
@pytest.mark.parametrize("y", [0, 1])
def test_an_elbo_under_one_parabola_has_no_error_of_jensen(rule: str, y: int) -> None:
    """The evidence of the fit is the integral of its parabola against the prior, in closed form,
    and no other parabola's integral is larger."""
    sd = 2.5
    fit = fitted(rule, y, sd)

    def log_integral(mean: float, variance: float) -> float:
        f = lgm.sites.expected("bernoulli.logit", y, mean, variance, rule=rule)
        w = -2.0 * float(f.d_variance)
        b = float(f.d_mean) + w * mean
        k = float(f.value) + 0.5 * w * (mean**2 + variance) - b * mean
        precision, shift = w + 1.0 / sd**2, b + MEAN / sd**2
        height = -0.5 * np.log1p(w * sd * sd) + 0.5 * (shift**2 / precision - MEAN**2 / sd**2)
        return k + float(height)

    mean, variance = float(fit.mean("z")), float(fit.sd("z")) ** 2
    assert log_integral(mean, variance) == pytest.approx(fit.log_evidence, abs=1e-7)
    for change in (-0.2, 0.2):
        assert log_integral(mean + change, variance) < fit.log_evidence


def test_theorem_4_6_2() -> None:
    """The ELBO under R pieces is below that of quadrature by at most the declared gap."""
    for sd in (0.5, 2.0, 4.0):
        for y in (0, 1):
            exact = fitted("quadrature", y, sd).log_evidence
            losses = {}
            for size in (3, 5, 10, 20, 40):
                for kind in ("linear", "quadratic"):
                    rule = f"piecewise-{kind}-{size}"
                    losses[rule] = exact - fitted(rule, y, sd).log_evidence
                    assert -1e-8 <= losses[rule] <= bound(rule, Expected).spec.error + 1e-8
            assert losses["piecewise-quadratic-40"] < 2e-5
