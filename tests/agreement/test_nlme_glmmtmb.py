"""Covariances of groups and residuals against nlme 3.1-162 and glmmTMB 1.1.5 (R 4.2.2): maxima of
the likelihood and of the restricted likelihood, coefficients and variance parameters.

R, with `frac <- function(z) z - floor(z)`:

    i <- 1:120
    d <- data.frame(g = factor(rep(1:20, each = 6)), t = rep(0:5, 20), x = frac(0.618034 * i),
      when = rep(c(0, 0.7, 1.5, 3, 3.4, 6), 20) + 0.2 * frac(0.414214 * i))
    e <- sin(12.9 * i + 3 * sin(i)); u <- sin(5.3 * (1:20) + 2 * cos(3 * (1:20)))[d$g]
    d$y <- with(d, 1 + 2 * x + 0.8 * u + (0.5 + 0.15 * t) * (e + 0.6 * c(0, head(e, -1))))
    d$k <- factor(ifelse(as.integer(d$g) %% 3 == 0, "a", "b"))
    d <- d[frac(0.732051 * i) > 0.1, ]
    d$f <- factor(d$t); d$w <- numFactor(c(0, 0.7, 1.5, 3, 3.4, 6)[d$t + 1])
    gls(y ~ x, d, CORRELATION, VARIANCES, method = "ML")         # and "REML"
    glmmTMB(y ~ x + STRUCTURE, d, dispformula = ~ 0, REML = FALSE)  # no noise but the structure
    glmmTMB(y ~ x + STRUCTURE, d, REML = FALSE)                     # with noise

tolerances 1e-12 (`glsControl`, `glmmTMBControl(optCtrl)`). The call stands next to each case. With
`dispformula = ~ 0` glmmTMB keeps noise of sd 1.2e-4, which costs it up to 5e-7 of a log likelihood.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import lgmdsl as lgm

I = np.arange(1.0, 121.0)
G, T = np.repeat(np.arange(20), 6), np.tile(np.arange(6), 20)
GRID = np.array([0.0, 0.7, 1.5, 3.0, 3.4, 6.0])
E = np.sin(12.9 * I + 3.0 * np.sin(I))
OF_GROUP = np.sin(5.3 * np.arange(1.0, 21.0) + 2.0 * np.cos(3.0 * np.arange(1.0, 21.0)))
X = (0.618034 * I) % 1.0
WHEN = GRID[T] + 0.2 * ((0.414214 * I) % 1.0)
Y = 1.0 + 2.0 * X + 0.8 * OF_GROUP[G]
Y += (0.5 + 0.15 * T) * (E + 0.6 * np.concatenate([[0.0], E[:-1]]))
KEPT = (0.732051 * I) % 1.0 > 0.1
PLACES, PLACE = np.unique(WHEN[KEPT], return_inverse=True)

HEAD = """lgm 1
index obs
index g
index t
index k
index place
data who[obs]   : g
data turn[obs]  : t
data kind[obs]  : k
data at_of[obs] : place
data x[obs]     : real
data y[obs]     : real
data when[obs]  : positive
data grid[t]    : real
data at[place]  : real
"""
DATA: dict[str, Any] = {
    "who": G[KEPT], "turn": T[KEPT], "kind": np.where((G[KEPT] + 1) % 3 == 0, "a", "b"),
    "place": np.arange(len(PLACES)), "at_of": PLACE, "at": PLACES, "grid": GRID,
    "x": X[KEPT], "y": Y[KEPT], "when": WHEN[KEPT],
}  # fmt: skip
COEFFICIENTS = {
    "ML": "hyper a : real ~ flat\nhyper b : real ~ flat\n",
    "REML": "latent a ~ flat\nlatent b ~ flat\n",
}
R, P, C = "hyper r : correlation ~ flat\n", "hyper p : real ~ flat\n", "hyper c : positive ~ flat\n"
EACH, NOISE = "hyper w[t] : positive ~ flat\n", "hyper n : positive ~ flat\n"


def residual(structure: str, entry: str = "e[who, turn]", axis: str = "t") -> str:
    """Rows whose only noise is a structure."""
    return (
        f"latent e[g, {axis}] ~ iid * {structure}\n"
        f"observe y ~ normal(mean = a + b * x, residual = {entry})\n"
    )


def effects(structure: str) -> str:
    """A structure of groups, and noise."""
    return NOISE + (
        f"latent e[g, t] ~ iid * {structure}\n"
        "observe y ~ normal(mean = a + b * x + e[who, turn], sd = n)\n"
    )


class Case(NamedTuple):
    """The model, the log likelihoods (ML, REML), coefficients (ML) and their standard errors, and
    estimates of hyperparameters by ML where R has them in these terms."""

    model: str
    likelihoods: tuple[float, float]
    coefficients: tuple[float, float]
    errors: tuple[float, float]
    hypers: dict[str, Any] = {}  # noqa: RUF012


CASES = {
    "corAR1(form = ~ t | g)": Case(
        R + residual("ar1(sd = s, rho = r)"), (-129.0409210, -130.7916663),
        (0.907548, 2.121495), (0.166491, 0.205458), {"s": 0.9133429, "r": 0.5573668},
    ),
    "corCAR1(form = ~ when | g)": Case(
        C + residual("ou(sd = s, rate = c, at = at)", "e[who, at_of]", "place"),
        (-137.4019581, -139.1535776),
        (0.851690, 2.223718), (0.165498, 0.225232), {"s": 0.954738, "c": -np.log(0.4148923)},
    ),
    "corCompSymm(form = ~ t | g)": Case(
        R + residual("compound(sd = s, rho = r)"), (-127.6867146, -129.2105693),
        (0.879019, 2.137269), (0.190, 0.216), {"s": 0.8987702, "r": 0.4453507},
    ),
    "corGaus(form = ~ when | g)": Case(
        C + residual("gp(at = at, kernel = se(sd = s, length = c))", "e[who, at_of]", "place"),
        (-142.7382424, -144.5482711),
        (0.926864, 2.065255), (0.173386, 0.301186), {"s": 0.896734, "c": 0.191820 / np.sqrt(2.0)},
    ),
    "varIdent(form = ~ 1 | k)": Case(
        "hyper v[k] : positive ~ flat\nobserve y ~ normal(mean = a + b * x, sd = v[kind])\n",
        (-142.7568216, -144.5711250),
        (0.921047, 2.054840), (0.173852, 0.302126), {"v": [0.885574 * 1.041381, 0.885574]},
    ),
    "varPower(form = ~ when)": Case(
        P + "observe y ~ normal(mean = a + b * x, sd = s * when^p)\n",
        (-140.7145529, -142.5962933),
        (1.010507, 1.935152), (0.166863, 0.293041), {"s": 0.849637, "p": 0.096691},
    ),
    "corAR1, varIdent": Case(
        R + "hyper v[k] : positive ~ flat\n" + residual("ar1(rho = r)", "v[kind] * e[who, turn]"),
        (-128.9542161, -130.7054592),
        (0.888104, 2.129645), (0.168365, 0.205581),
        {"v": [0.897117 * 1.065774, 0.897117], "r": 0.560733},
    ),
    "corAR1, varPower": Case(
        R + P + residual("ar1(sd = s, rho = r)", "when^p * e[who, turn]"),
        (-126.6401623, -128.4898886),
        (0.992620, 2.020890), (0.157104, 0.198791), {"s": 0.866701, "r": 0.564808, "p": 0.097319},
    ),
    "corCAR1, varExp(form = ~ when)": Case(
        C + P + residual(
            "ou(sd = s, rate = c, at = at)", "exp(p * when) * e[who, at_of]", "place"
        ),
        (-132.5003304, -134.4347232),
        (0.923043, 2.115003), (0.150625, 0.208793),
        {"s": 0.676863, "c": -np.log(0.371176), "p": 0.111525},
    ),
    "corAR1, varIdent(form = ~ 1 | t)": Case(
        R + EACH + residual("ar1(sd = w, rho = r)"), (-122.5921622, -124.5963786),
        (0.9473362, 2.0725653), (0.16, 0.2), {
            "r": 0.5750185,
            "w": 0.7252726 * np.array(
                [1.0, 0.8256985, 1.1675402, 1.3375991, 1.3880786, 1.6955619]
            ),
        },
    ),
    "lme(random = ~ 1 | g), corAR1": Case(
        R + "hyper v : positive ~ flat\nlatent u[g] ~ normal(sd = v)\n"
        + residual("ar1(sd = s, rho = r)").replace("b * x", "b * x + u[who]"),
        (-126.4166902, -128.0036518),
        (0.8837261, 2.1395732), (0.19, 0.21), {"s": 0.7058695, "r": 0.2469560},
    ),
    "glmmTMB cs(0 + f | g)": Case(
        R + EACH + residual("compound(sd = w, rho = r)"), (-120.5415040, -122.3521988),
        (0.928753, 2.127183), (0.183784, 0.237952),
    ),
    "glmmTMB toep(0 + f | g)": Case(
        EACH + "index lag = 5\nhyper q[lag] : correlation ~ flat\n"
        + residual("toeplitz(sd = w, pacf = q)"), (-114.8214613, -116.9054322),
        (1.089557, 1.881787), (0.165851, 0.199208),
    ),
    "glmmTMB us(0 + f | g)": Case(
        "hyper S[t, t] : covariance ~ flat\n" + residual("dense(cov = S)"),
        (-109.3079888, -111.5023716),
        (1.148752, 1.820644), (0.172342, 0.193317),
    ),
    "glmmTMB diag(0 + f | g)": Case(
        EACH + "observe y ~ normal(mean = a + b * x, sd = w[turn])\n",
        (-138.6205714, -140.5808958),
        (0.943243, 2.056378), (0.192703, 0.342089),
    ),
    "glmmTMB ar1(0 + f | g) and noise": Case(
        R + effects("ar1(sd = s, rho = r)"), (-127.4213992, -128.9661237),
        (0.877874, 2.150018), (0.186292, 0.223359),
    ),
    "glmmTMB exp(0 + w | g) and noise": Case(
        C + effects("ou(sd = s, rate = c, at = grid)"), (-126.9245688, -128.4664484),
        (0.878165, 2.157262), (0.187874, 0.219105),
    ),
    "glmmTMB gau(0 + w | g) and noise": Case(
        C + effects("gp(at = grid, kernel = se(sd = s, length = c))"), (-127.0272325, -128.5637659),
        (0.879950, 2.158704), (0.188073, 0.221773),
    ),
    "glmmTMB mat(0 + w | g), smoothness 1.5, and noise": Case(
        C + effects("gp(at = grid, kernel = matern(sd = s, length = c, smoothness = 1.5))"),
        (-126.9791071, -128.5184701),
        (0.878671, 2.160346), (0.187873, 0.220767),
    ),
    "glmmTMB rr(0 + f | g, 2) and noise": Case(
        NOISE + "index j = 2\nhyper L[t, j] : real ~ flat\nlatent z[g, j] ~ normal(sd = 1)\n"
        "observe y ~ normal(mean = a + b * x + sum(L[turn, j] * z[who, j], j), sd = n)\n",
        (-120.4853657, -122.2183411),
        (0.846058, 2.226714), (0.187143, 0.220254),
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", COEFFICIENTS)
@pytest.mark.parametrize("name", CASES)
def test_maxima_and_estimates(name: str, way: str) -> None:
    case = CASES[name]
    scale = "hyper s : positive ~ flat\n" if "sd = s" in case.model else ""
    text = HEAD + COEFFICIENTS[way] + scale + case.model
    fit = lgm.fit(lgm.loads(text), DATA, hyper="map")
    assert fit.converged
    assert fit.log_evidence == pytest.approx(case.likelihoods[way == "REML"], abs=2e-6)
    if way == "ML":
        found = [float(fit.mean(n)) for n in "ab"]
        np.testing.assert_allclose(found, case.coefficients, atol=1e-3 * min(case.errors))
        for hyper, value in case.hypers.items():
            np.testing.assert_allclose(fit.theta[hyper], value, rtol=2e-4)
