"""Searches that end at an edge (a noise sd of 0), and starts at saddles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

import lgmdsl as lgm
from lgmdsl.canonical.queries.loadings import multiplied
from tests.compiled import canonical_form

HEYWOOD = """lgm 1
index p
index i
index k = 1
data y[p, i] : real
hyper c[i] : real ~ normal(sd = 5)
hyper L[i, k] : real ~ normal(sd = 3)
hyper s[i] : positive ~ pc_sd(u = 1, alpha = 0.05)
latent z[p, k] ~ normal(sd = 1)
let eta[p, i] = c + L @ z
observe y ~ normal(mean = eta, sd = s)
"""


def heywood() -> np.ndarray:
    """Correlations 0.9, 0.9 and 0.7 would make the first column's communality 0.81 / 0.7."""
    root = np.linalg.cholesky([[1.0, 0.9, 0.9], [0.9, 1.0, 0.7], [0.9, 0.7, 1.0]])
    white = np.linalg.qr(np.random.default_rng(0).normal(size=(150, 4)))[0][:, 1:]
    return np.asarray(np.sqrt(150) * (white - white.mean(axis=0)) @ root.T)


@pytest.mark.thorough
def test_a_noise_sd_of_zero_is_an_edge_that_is_told() -> None:
    """The others' values are those at the edge."""
    fit = lgm.fit(lgm.loads(HEYWOOD), {"y": heywood()}, hyper="em")
    assert fit.converged
    sd = fit.mean("s").values
    assert sd[0] < 1e-2 and sd[1:].min() > 0.2
    told = [w for w in fit.warnings if w.code == "W605"]
    assert len(told) == 1 and "`s[i 0]`" in told[0].message and "s[i 1]" not in told[0].message
    # Farther out, nothing more is to be had: the edge is where the rest was searched.
    pinned = {"s": np.r_[sd[0] / 10.0, sd[1:]]}
    out = lgm.fit(lgm.loads(HEYWOOD), {"y": heywood()}, hyper="em", fixed=pinned)
    assert abs(out.log_evidence - fit.log_evidence) < 0.02


PRODUCT = """lgm 1
index obs
data x[obs] : real
data y[obs] : real
hyper a : real ~ normal(sd = 1)
hyper b : real ~ normal(sd = 1)
hyper s : positive ~ half_normal(sd = 1)
latent w ~ normal(sd = 1)
let eta[obs] = {form}
observe y ~ normal(mean = eta, sd = s)
"""


@pytest.mark.parametrize(
    ("form", "hyper"),
    [
        ("a * b * x * w", "map"),
        ("a * b * x + 0.1 * w", "map"),
        ("a * b * x + 0.1 * w", "integrate"),  # whose search is that of the other form too
    ],
)
def test_a_product_of_hypers_leaves_the_saddle_at_zero(form: str, hyper: str) -> None:
    """There the evidence has no slope in either; the same start at every call."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=40)
    data = {"x": x, "y": 0.9 * x + 0.3 * rng.normal(size=40)}
    model = lgm.loads(PRODUCT.format(form=form))
    fit = lgm.fit(model, data, hyper=hyper)
    at = float(fit.theta["a"] * fit.theta["b"])
    assert abs(at) > 0.3
    if "0.1" in form:  # the coefficient itself
        assert at == pytest.approx(0.87, abs=0.15)
    if hyper == "map":
        assert fit.theta["a"] == lgm.fit(model, data, hyper=hyper).theta["a"]


def test_which_hypers_are_multiplied() -> None:
    text = (
        "lgm 1\nindex obs\nindex k = 2\ndata x[obs] : real\ndata y[obs] : real\n"
        "hyper a : real ~ flat\nhyper b : real ~ flat\nhyper c : real = a * b\n"
        "hyper d : real ~ flat\nhyper e : real ~ flat\nhyper p : positive ~ exponential(rate = 1)\n"
        "hyper L[k] : real ~ flat\nlatent z[obs, k] ~ normal(sd = 1)\n"
        "let eta[obs] = c * x + d * x + d * e * x + p * e + z @ L\n"
        "observe y ~ normal(mean = eta, sd = 1)\n"
    )
    data = {"x": np.ones(3), "y": np.zeros(3)}
    canonical = canonical_form(text, data)
    theta = canonical.hypers.start()
    assert multiplied(canonical, theta) == ("a", "b", "d", "e", "L")
    assert multiplied(canonical, theta, {"a", "L"}) == ("b", "d", "e")


PRESSED = """lgm 1
index obs
data y[obs] : real
hyper s : positive ~ uniform(lower = 0, upper = 1000000000)
latent b0 ~ normal(sd = 1e21)
observe y ~ normal(mean = b0, sd = s)
"""


@pytest.mark.parametrize("hyper", ["map", "em"])
def test_a_bound_that_the_data_press_against_is_told(hyper: str) -> None:
    """The sd is the bound but for rounding, where the slope is still steep."""
    y = 1e20 * np.random.default_rng(0).normal(size=20)
    fit = lgm.fit(lgm.loads(PRESSED), {"y": y}, hyper=hyper)
    assert float(fit.mean("s")) == pytest.approx(1e9, rel=1e-6)
    assert any(w.code == "W605" and "`s`" in w.message for w in fit.warnings)
    fit_sd = float(fit.sd("s"))
    assert np.isnan(fit_sd), "an sd of 0 would be a claim"
    assert "1e+09" in str(fit.warnings[0])


BOUNDED = """lgm 1
index obs
index g
data y[obs] : real
data who[obs] : g
hyper s : positive ~ {prior}
latent a ~ normal(sd = 1000)
latent u[g] ~ normal(sd = s)
let eta[obs] = a + u[who]
observe y ~ normal(mean = eta, sd = 1)
"""


def grouped(spread: float) -> dict[str, np.ndarray]:
    """Groups whose means have this sd exactly."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=20)
    means = spread * (means - means.mean()) / means.std(ddof=1)
    noise = rng.normal(size=(20, 5))
    noise -= noise.mean(axis=1, keepdims=True)
    return {"y": (means[:, None] + noise).ravel(), "who": np.repeat(np.arange(20), 5)}


@pytest.mark.parametrize(
    ("prior", "spread", "hyper", "bound"),
    [
        ("uniform(lower = 0, upper = 10)", 100.0, "integrate", "10"),
        ("uniform(lower = 0, upper = 10)", 100.0, "map", "10"),
        ("uniform(lower = 0, upper = 10)", 100.0, "vb", "10"),
        ("uniform(lower = 0, upper = 10)", 10.5, "integrate", "10"),
        ("uniform(lower = 2, upper = 10)", 0.5, "integrate", "2"),
        ("uniform(lower = 2, upper = 10)", 0.5, "map", "2"),
        ("uniform(lower = 0, upper = 10)", 3.0, "integrate", ""),
        ("uniform(lower = 0, upper = 10)", 3.0, "map", ""),
        ("uniform(lower = 0, upper = 10)", 0.0, "integrate", ""),
        ("half_normal(sd = 10)", 100.0, "integrate", ""),
    ],
)
def test_a_bound_of_a_prior_is_reported(prior: str, spread: float, hyper: str, bound: str) -> None:
    """The data press against it from inside or beyond; where they say something else, or nothing
    but that an sd is small, no bound is mentioned."""
    model = lgm.loads(BOUNDED.format(prior=prior))
    fit = lgm.fit(model, grouped(spread), hyper=hyper)
    reports = [w.message for w in fit.warnings if w.code == "W605" and "of its prior" in w.message]
    assert len(reports) == (1 if bound else 0)
    assert not bound or ("`s`" in reports[0] and f"the bound {bound} of" in reports[0])
    if hyper == "map" and bound:
        assert np.isnan(float(fit.sd("s"))) and float(fit.mean("s")) == pytest.approx(
            float(bound), rel=1e-3
        )


def test_the_middle_of_bounds_is_not_reported_where_nothing_is_known() -> None:
    """Under a uniform prior that the data do not change the posterior is uniform as well."""
    text = BOUNDED.replace("u[g] ~ normal(sd = s)", "u[g] ~ normal(sd = 1)").replace(
        "sd = 1000", "sd = 2 + 1e-9 * s"
    )
    model = lgm.loads(text.format(prior="uniform(lower = 1, upper = 3)"))
    fit = lgm.fit(model, grouped(1.0), hyper="integrate")
    assert not [w for w in fit.warnings if w.code == "W605"]


def test_a_maximum_far_from_the_start_is_no_edge() -> None:
    """One latent that is 12.3 from its prior's mean: the maximum is a root of a cubic in t^2."""
    text = (
        "lgm 1\nindex obs\ndata y[obs] : real\nhyper t : positive ~ half_normal(sd = 10)\n"
        "latent m ~ normal(mean = -4, sd = t)\nlet e[obs] = m\n"
        "observe y ~ normal(mean = e, sd = 0.1)\n"
    )
    y = 8.0 + 0.1 * np.arange(7)
    fit = lgm.fit(lgm.loads(text), {"y": y}, hyper="map")
    assert fit.converged and "W605" not in [w.code for w in fit.warnings]
    far, noise = (y.mean() + 4.0) ** 2, 0.1**2 / 7
    t = np.linspace(8.0, 10.0, 2_000_001)
    log = -0.5 * np.log(t**2 + noise) - 0.5 * far / (t**2 + noise) - 0.5 * (t / 10.0) ** 2
    top = t[log.argmax()]
    assert float(fit.mean("t")) == pytest.approx(top, abs=2e-3)
    assert 1.0 < float(fit.sd("t")) < 8.0


@pytest.mark.parametrize(("family", "y"), [("count", [0, 0, 0]), ("binary", [1, 1, 1, 1])])
@pytest.mark.parametrize("latent", [False, True])
def test_a_real_value_whose_density_has_no_maximum(family: str, y: list[int], latent: bool) -> None:
    law = "poisson(log_rate = {})" if family == "count" else "bernoulli(logit = {})"
    text = f"lgm 1\nindex obs\ndata y[obs] : {family}\nhyper m : real ~ flat\n"
    if latent:
        text += "latent a ~ normal(sd = 1)\n"
    text += f"observe y ~ {law.format('m + a' if latent else 'm')}\n"
    fit = lgm.fit(lgm.loads(text), {"y": y}, hyper="map")
    assert [w.code for w in fit.warnings if "`m`" in w.message] == ["W605"]
    assert np.isnan(fit.sd("m"))
    inside = lgm.fit(lgm.loads(text), {"y": [1 - y[0], *y[1:]]}, hyper="map")
    assert "W605" not in {w.code for w in inside.warnings} and np.isfinite(inside.sd("m"))


@pytest.mark.parametrize("unit", [1e-20, 1.0, 1e20])
def test_a_real_value_in_any_unit_has_a_maximum(unit: float) -> None:
    text = """lgm 1
index obs
data y[obs] : real
data s : positive
hyper m : real ~ flat
observe y ~ normal(mean = m, sd = s)
"""
    data = {"y": np.array([1.0, 2.0, -5.0]) * unit, "s": unit}
    fit = lgm.fit(lgm.loads(text), data, hyper="map")
    assert not fit.warnings and np.isfinite(fit.sd("m"))


@pytest.mark.parametrize("seed", [0, 11])
def test_a_value_held_at_an_edge_on_the_way_is_released(seed: int) -> None:
    """Before the others were learned the degrees of freedom gained by being infinite; there they
    stayed, 3.6 nats below the maximum, as converged."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=150)
    y = 10.0 + 4.0 * x + 1.4 * rng.standard_t(30, size=150)
    model = """lgm 1
index obs
data x[obs] : real
data y[obs] : real
hyper a : real ~ flat
hyper b : real ~ flat
hyper d : positive ~ flat
hyper k : positive ~ flat
let eta[obs] = a + b * x
observe y ~ student_t(mean = eta, scale = d, df = k)
"""
    fit = lgm.fit(lgm.loads(model), {"x": x, "y": y}, method="laplace", hyper="map")

    def loss(p: np.ndarray) -> float:
        a, b, log_scale, log_df = p
        z = (y - a - b * x) / np.exp(log_scale)
        return float(len(y) * log_scale - stats.t.logpdf(z, np.exp(log_df)).sum())

    best = optimize.minimize(loss, np.array([10.0, 4.0, 0.3, 2.5]), options={"gtol": 1e-8})
    assert fit.log_evidence == pytest.approx(-best.fun, abs=1e-6)
    assert float(fit.mean("k")) == pytest.approx(np.exp(best.x[3]), rel=1e-3)


GROUPS = """lgm 1
index obs
index who
data of[obs] : who
data y[obs] : {type}
hyper s : positive ~ flat
latent a ~ normal(sd = 5)
latent u[who] ~ normal(sd = s)
let eta[obs] = a + u[of]
observe y ~ {family}
"""


@pytest.mark.parametrize("method", ["laplace", "natural-gradient"])
@pytest.mark.parametrize(
    ("type_", "family"),
    [("count", "poisson(log_rate = eta)"), ("real", "normal(mean = eta, sd = 1)")],
)
def test_an_sd_of_zero_is_the_model_without_the_effect(
    type_: str, family: str, method: str
) -> None:
    """Groups of equal means: the evidence is highest at an sd of 0, an ordinary maximum."""
    data = {"of": np.repeat(np.arange(10), 5), "y": np.tile([1.0, 2.0, 3.0, 4.0, 5.0], 10)}
    model = lgm.loads(GROUPS.format(type=type_, family=family))
    fit = lgm.fit(model, data, method, hyper="map")
    without = lgm.fit(model, data, method, fixed={"s": 1e-8}, tol=1e-12)
    assert fit.converged and not fit.warnings and np.isnan(float(fit.sd("s")))
    assert fit.log_evidence == pytest.approx(without.log_evidence, abs=2e-6)


POWER_LAW = """lgm 1
index obs
data y[obs] : positive
hyper a : real ~ flat
hyper k : positive ~ flat
hyper q : real ~ flat
observe y ~ generalized_gamma(location = a, scale = k, shape = q)
"""


@pytest.mark.thorough
def test_a_shape_that_goes_to_infinity_is_reported() -> None:
    """Data of a power law below a bound, c^-1 y^(1/c - 1) exp(-top/c): the limit of a generalized
    gamma as its shape grows and its scale is c over it."""
    log_y = -0.7 * np.random.default_rng(2).exponential(size=30)
    top = log_y.max()
    c = (top - log_y).mean()
    limit = -30.0 * np.log(c) - 30.0 - log_y.sum()
    fit = lgm.fit(lgm.loads(POWER_LAW), {"y": np.exp(log_y)}, "laplace", hyper="map")
    assert fit.converged
    assert [w.message for w in fit.warnings if w.code == "W605"]
    assert float(fit.mean("q")) > 100.0
    assert float(fit.mean("q") * fit.mean("k")) == pytest.approx(c, rel=1e-2)
    assert limit - 2e-3 < fit.log_evidence < limit


SLOPES = """lgm 1
index obs
index g
index t = {"level", "slope"}
data y[obs] : real
data x[obs] : real
data who[obs] : g
hyper a : real ~ flat
hyper b : real ~ flat
hyper e : positive ~ flat
hyper S[t, t] : covariance ~ flat
latent u[g, t] ~ iid * dense(cov = S)
let eta[obs] = a + b * x + u[who, "level"] + x * u[who, "slope"]
observe y ~ normal(mean = eta, sd = e)
"""


@pytest.mark.parametrize("seed", [2, 3, 4, 9])
def test_a_singular_covariance_has_the_likelihood_of_its_edge(seed: int) -> None:
    """Maxima over covariances ll' of rank 1, by dense algebra."""
    rng = np.random.default_rng(seed)
    who, x = np.repeat(np.arange(10), 5), rng.normal(size=50)
    u = rng.normal(size=(10, 1)) @ np.array([[0.6, 0.3]])
    y = 0.3 + 0.5 * x + u[who, 0] + x * u[who, 1] + rng.normal(size=50)
    fit = lgm.fit(lgm.loads(SLOPES), {"y": y, "x": x, "who": who}, hyper="map")

    def height(at: np.ndarray) -> float:
        root, noise = at[2] + at[3] * x, np.exp(2.0 * at[4]) * np.eye(5)
        of = [
            stats.multivariate_normal(
                at[0] + at[1] * x[k], np.outer(root[k], root[k]) + noise
            ).logpdf(y[k])
            for k in np.arange(50).reshape(10, 5)
        ]
        return -float(np.sum(of))

    sd = np.sqrt(np.diag(fit.theta["S"]))
    begin = [fit.theta["a"], fit.theta["b"], sd[0], sd[1], np.log(fit.theta["e"])]
    begin[3] *= np.sign(fit.theta["S"][0, 1])
    best = optimize.minimize(height, begin, method="BFGS", options={"gtol": 1e-6})
    assert np.linalg.eigvalsh(fit.theta["S"])[0] < 1e-4, "the seed's maximum is at the edge"
    assert fit.converged
    assert fit.log_evidence == pytest.approx(-best.fun, abs=1e-6)
    assert any(w.code == "W605" for w in fit.warnings)
