"""`weight` of an observe statement: log t of each row times a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import lgmdsl as lgm

TEXT = """lgm 1
index obs
data x[obs] : real
data y[obs] : {type}
data w[obs] : nonnegative
{more}latent a ~ normal(sd = 3)
latent b ~ normal(sd = 2)
let eta[obs] = a + b * x
observe y ~ {family}
"""
N = 9
RNG = np.random.default_rng(4)
X = RNG.normal(size=N)
COUNTS, BINARY = RNG.poisson(2.0, N), RNG.integers(0, 2, N)
POSITIVE, REAL = RNG.gamma(2.0, 1.0, N), RNG.normal(size=N)
TIMES = np.array([0.0, 1.0, 2.0, 3.0, 1.0, 0.0, 2.0, 1.0, 2.0])
TWICE = np.repeat(np.arange(N), TIMES.astype(int))
FAMILIES: dict[str, tuple[str, Any]] = {
    "poisson(log_rate = eta, weight = w)": ("count", COUNTS),
    "bernoulli(logit = eta, weight = w)": ("binary", BINARY),
    "bernoulli(probit = eta, weight = w)": ("binary", BINARY),
    "binomial(n = 9, logit = eta, weight = w)": ("count", COUNTS),
    "normal(mean = eta, sd = 0.7, weight = w)": ("real", REAL),
    "laplace(mean = eta, scale = 0.7, weight = w)": ("real", REAL),
    "student_t(mean = eta, scale = 0.7, df = 4, weight = w)": ("real", REAL),
    "lognormal(mean = eta, sd = 0.7, weight = w)": ("positive", POSITIVE),
    "weibull(log_scale = eta, shape = 2, event = 0, weight = w)": ("positive", POSITIVE),
    "normal(mean = eta, sd = 1, lower = -0.5, upper = 9, weight = w)": ("real", np.abs(REAL)),
    "negbinomial(log_mean = eta, size = 2, zero_inflation = 0.2, weight = w)": ("count", COUNTS),
}
# ep approximates t^w as one site, and not as w of them.
METHODS = ("laplace", "natural-gradient", "lcl", "double-loop", "px-vb", "map", "coordinate-ascent")
GAUSSIAN = {"marginals": "gaussian"}


def model(family: str, type_: str, more: str = "") -> lgm.Model:
    return lgm.loads(TEXT.format(family=family, type=type_, more=more))


def fits(family: str, method: str, times: Any = TIMES, **options: Any) -> tuple[lgm.Fit, lgm.Fit]:
    """A fit with weights, and one with each row so many times."""
    type_, y = FAMILIES[family]
    again = np.repeat(np.arange(N), np.asarray(times).astype(int))
    plain = model(family.replace("weight = w", "weight = 1"), type_)
    settings = {"method": method, "options": GAUSSIAN, **options}
    one = lgm.fit(model(family, type_), {"x": X, "y": y, "w": times}, **settings)
    rows = {"x": X[again], "y": y[again], "w": np.ones(len(again))}
    return one, lgm.fit(plain, rows, **settings)


@pytest.mark.few(5)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_weight_is_so_many_rows(family: str, method: str) -> None:
    """0 leaves a row out, 2 has it twice: the same posterior and evidence."""
    try:
        one, many = fits(family, method)
    except lgm.MethodError as error:  # a family that the method does not take without weights
        plain = family.replace(", weight = w", "")
        with pytest.raises(lgm.MethodError):
            data = {"x": X, "y": FAMILIES[family][1], "w": TIMES}
            lgm.fit(model(plain, FAMILIES[family][0]), data, method=method)
        assert "E50" in str(error)
        return
    assert one.converged and many.converged
    for name in ("a", "b"):
        sd = float(many.sd(name))
        if method != "map":  # whose sd is that of a surrogate
            assert float(one.sd(name)) == pytest.approx(sd, rel=1e-3)
        assert float(abs(one.mean(name) - many.mean(name))) < 1e-3 * sd
    if np.isfinite(many.log_evidence):
        assert one.log_evidence == pytest.approx(many.log_evidence, abs=1e-7)


@pytest.mark.few(11)
@pytest.mark.parametrize("weight", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("method", ["laplace", "ep", "natural-gradient", "auto"])
def test_fractional_weights_temper(weight: float, method: str) -> None:
    """Against quadrature over both latents, of p(z) prod t^w."""
    a, b = np.meshgrid(np.linspace(-6, 6, 481), np.linspace(-6, 6, 481), indexing="ij")
    eta = a[..., None] + b[..., None] * X
    level = stats.norm.logpdf(a, 0, 3) + stats.norm.logpdf(b, 0, 2)
    level += weight * (BINARY * eta - np.logaddexp(0, eta)).sum(axis=-1)
    area = (12.0 / 480) ** 2
    exact = special.logsumexp(level) + np.log(area)
    share = np.exp(level - special.logsumexp(level))
    family = f"bernoulli(logit = eta, weight = {weight} * w)"
    fit = lgm.fit(model(family, "binary"), {"x": X, "y": BINARY, "w": np.ones(N)}, method=method)
    loose = 0.5 if method == "laplace" else 0.1
    assert fit.log_evidence == pytest.approx(exact, abs=loose)
    if method == "auto":
        assert fit.log_evidence_corrected == pytest.approx(exact, abs=0.02)
        assert float(fit.mean("a")) == pytest.approx((share * a).sum(), abs=0.05)


def test_ep_takes_the_power_in_closed_form_and_by_quadrature() -> None:
    """bernoulli.probit is closed at power 1 alone, laplace at all; both against quadrature."""
    grid = np.linspace(-20, 20, 400_001)
    for family, type_, y, l in (
        ("bernoulli(probit = a, weight = 1.7)", "binary", 1, special.log_ndtr(grid)),
        ("laplace(mean = a, scale = 0.5, weight = 1.7)", "real", 0.4, -np.abs(grid - 0.4) / 0.5),
    ):
        text = f"lgm 1\nindex obs\ndata y[obs] : {type_}\nlatent a ~ normal(sd = 2)\n"
        fit = lgm.fit(lgm.loads(text + f"observe y ~ {family}\n"), {"y": [y]}, method="ep")
        level = 1.7 * l + stats.norm.logpdf(grid, 0, 2)
        exact = special.logsumexp(level) + np.log(grid[1] - grid[0])
        share = np.exp(level - special.logsumexp(level))
        assert fit.log_evidence == pytest.approx(exact, abs=1e-6)
        assert float(fit.mean("a")) == pytest.approx((share * grid).sum(), abs=1e-6)


@pytest.mark.parametrize("way", ["map", "em", "integrate", "vb"])
def test_hypers_are_learned_as_from_so_many_rows(way: str) -> None:
    family = "normal(mean = eta, sd = s, weight = w)"
    more = "hyper s : positive ~ pc_sd(u = 3, alpha = 0.05)\n"
    times = np.maximum(TIMES, 1.0)
    again = np.repeat(np.arange(N), times.astype(int))
    one = lgm.fit(model(family, "real", more), {"x": X, "y": REAL, "w": times}, hyper=way)
    plain = model(family.replace("weight = w", "weight = 1"), "real", more)
    rows = {"x": X[again], "y": REAL[again], "w": np.ones(len(again))}
    many = lgm.fit(plain, rows, hyper=way)
    assert float(one.mean("s")) == pytest.approx(float(many.mean("s")), rel=1e-4)
    assert one.log_evidence == pytest.approx(many.log_evidence, abs=1e-5)
    assert float(one.sd("b")) == pytest.approx(float(many.sd("b")), rel=1e-4)


@pytest.mark.thorough
def test_classes_and_ordinals_and_words_have_weights() -> None:
    classes = """lgm 1
index obs
index k = {{"a", "b", "c"}}
index cut = head(k)
data y[obs] : k
data x[obs] : real
data w[obs] : nonnegative
latent u[{over}] ~ normal(sd = 2)
{more}
observe y ~ {family}
"""
    y = np.array(["a", "b", "c"])[RNG.integers(0, 3, N)]
    cuts = "hyper c[cut] : ordered ~ normal(sd = 3)"
    for family, over, more in (
        ("categorical(softmax = u * x, weight = w)", "k", ""),
        ("categorical(probit = u * x, weight = w)", "k", ""),
        ("categorical(stick = u * x, weight = w)", "cut", ""),
        ('ordinal(logit = u["a"] * x, cuts = c, weight = w)', "k", cuts),
        ('ordinal(probit = u["a"] * x, cuts = c, weight = w)', "k", cuts),
    ):
        text = classes.format(family=family, over=over, more=more)
        plain = lgm.loads(text.replace("weight = w", "weight = 1"))
        for method in ("laplace", "natural-gradient"):
            settings: Any = {"method": method, "options": GAUSSIAN, "hyper": "map"}
            one = lgm.fit(lgm.loads(text), {"x": X, "y": y, "w": TIMES}, **settings)
            again = {"x": X[TWICE], "y": y[TWICE], "w": np.ones(len(TWICE))}
            many = lgm.fit(plain, again, **settings)
            assert one.log_evidence == pytest.approx(many.log_evidence, abs=1e-5), family
            assert np.allclose(one.mean("u"), many.mean("u"), atol=1e-4), family


def test_criteria_count_each_row_by_its_weight() -> None:
    """dic and waic as of so many rows; loo leaves a row out with its weight."""
    times = np.maximum(TIMES, 1.0)
    one, many = fits("poisson(log_rate = eta, weight = w)", "natural-gradient", times)
    assert one.dic().dic == pytest.approx(many.dic().dic, rel=1e-9)
    assert one.waic().elpd == pytest.approx(many.waic().elpd, rel=1e-9)
    assert one.waic().p_waic == pytest.approx(many.waic().p_waic, rel=1e-9)
    # exact: the fit without a row, which predicts y at weight 1
    family = "normal(mean = eta, sd = 0.7, weight = w)"
    fit, _ = fits(family, "laplace", times)
    values = fit.loo().pointwise().values
    for row in (1, 3):
        kept = np.arange(N) != row
        data = {"x": X[kept], "y": REAL[kept], "w": times[kept]}
        without = lgm.fit(model(family, "real"), data, method="laplace")
        eta = without.predict({"x": X[[row]]})
        mean, sd = float(eta.mean("eta")[0]), float(eta.sd("eta")[0])
        exact = stats.norm.logpdf(REAL[row], mean, np.hypot(sd, 0.7))
        assert values[row] == pytest.approx(times[row] * exact, abs=1e-9)
    assert fit.loo().elpd == pytest.approx(values.sum())


@pytest.mark.parametrize("which", ["poisson", "normal", "drawn"])
def test_groups_are_left_out_with_every_copy_of_their_rows(which: str) -> None:
    half = np.arange(N) % 2
    if which == "drawn":
        text = model("bernoulli(logit = eta, weight = w)", "binary")
        ones = np.ones(N, dtype=int)
        one = lgm.fit(text, {"x": X, "y": ones, "w": TIMES})
        rows = {"x": X[TWICE], "y": ones[TWICE], "w": np.ones(len(TWICE))}
        copies = lgm.fit(text, rows)
    else:
        one, copies = fits(next(f for f in FAMILIES if f.startswith(which)), "laplace")
    assert bool(one.drawn) == bool(copies.drawn) == (which == "drawn")
    (left,) = one.loo(groups=np.where(TIMES > 0.0, half, 9)).log_density
    (wanted,) = copies.loo(groups=half[TWICE]).log_density
    np.testing.assert_allclose(left[:2], wanted, rtol=0, atol=0.02 if which == "drawn" else 5e-3)


def test_loo_reweights_hyperparameters_with_the_weight() -> None:
    """Against fits without the row, hyperparameters learned again."""
    family = "normal(mean = eta, sd = s, weight = w)"
    more = "hyper s : positive ~ pc_sd(u = 3, alpha = 0.05)\n"
    times = np.full(N, 3.0)
    fit = lgm.fit(model(family, "real", more), {"x": X, "y": REAL, "w": times}, hyper="integrate")
    row = int(np.argmax(np.abs(REAL)))
    kept = np.arange(N) != row
    data = {"x": X[kept], "y": REAL[kept], "w": times[kept]}
    without = lgm.fit(model(family, "real", more), data, hyper="integrate")
    full = lgm.fit(
        model(family, "real", more),
        {"x": X, "y": REAL, "w": np.where(kept, 3.0, 1.0)},
        hyper="integrate",
    )
    exact = full.log_evidence - without.log_evidence
    assert float(fit.loo().pointwise().values[row]) / 3.0 == pytest.approx(exact, abs=0.03)


def test_draws_and_predictions_take_weight_one() -> None:
    one, _ = fits("normal(mean = eta, sd = 0.7, weight = w)", "laplace", np.full(N, 4.0))
    new = one.predict({"x": [0.0]})
    spread = float(new.response("y").sd[0]) if hasattr(new.response("y"), "sd") else None
    eta = float(new.sd("eta")[0])
    frame = new.frame()
    assert float(frame["y_sd"].iloc[0]) == pytest.approx(np.hypot(eta, 0.7), rel=1e-9)
    assert spread is None or spread == pytest.approx(np.hypot(eta, 0.7), rel=1e-9)


def test_the_exact_draws_are_of_the_weighted_posterior() -> None:
    """`auto` draws where the Gaussian is too far off, and an audit agrees."""
    family = "bernoulli(logit = eta, weight = w)"
    fit = lgm.fit(
        model(family, "binary"), {"x": X, "y": np.ones(N, dtype=int), "w": np.full(N, 0.7)}
    )
    a, b = np.meshgrid(np.linspace(-8, 18, 521), np.linspace(-12, 12, 481), indexing="ij")
    eta = a[..., None] + b[..., None] * X
    level = stats.norm.logpdf(a, 0, 3) + stats.norm.logpdf(b, 0, 2)
    level += 0.7 * (-np.logaddexp(0, -eta)).sum(axis=-1)
    share = np.exp(level - special.logsumexp(level))
    mean = (share * a).sum()
    sd = np.sqrt((share * (a - mean) ** 2).sum())
    assert abs(float(fit.mean("a")) - mean) < 0.1 * sd
    assert abs(float(fit.sd("a")) / sd - 1.0) < 0.1


@pytest.mark.parametrize(
    ("weight", "more", "says"),
    [
        ("h", "hyper h : positive ~ half_normal(sd = 1)\n", "must be known: data or a number"),
        ("-1", "", "must be 0 or above"),
        ("x", "", "must be nonnegative, and `x` is real"),
        ("a", "", "must be free of latents"),
    ],
)
def test_weights_that_a_model_cannot_have(weight: str, more: str, says: str) -> None:
    with pytest.raises(lgm.ModelError, match=says):
        model(f"poisson(log_rate = eta, weight = {weight})", "count", more)


@pytest.mark.parametrize(
    ("w", "says"),
    [
        (np.where(X > 0, 1.0, -1.0), "`w` is nonnegative but holds other values"),
        (np.where(X > 0, 1.0, np.nan), "missing"),
        (np.where(X > 0, 1.0, np.inf), "infinite"),
    ],
)
def test_weights_that_data_cannot_be(w: Any, says: str) -> None:
    with pytest.raises(lgm.DataError, match=says):
        lgm.fit(
            model("poisson(log_rate = eta, weight = w)", "count"), {"x": X, "y": COUNTS, "w": w}
        )


def test_an_expression_below_zero_is_named() -> None:
    with pytest.raises(lgm.DataError, match="the weight of `y` is negative in 2 rows"):
        lgm.fit(
            model("poisson(log_rate = eta, weight = w - 1)", "count"),
            {"x": X, "y": COUNTS, "w": TIMES},
        )


def test_quantiles_of_a_hurdle_are_zero_up_to_its_probability() -> None:
    text = TEXT.format(
        type="nonnegative", more="", family="gamma(log_mean = eta, shape = 2, hurdle = 0.3)"
    ).replace("data w[obs] : nonnegative\n", "")
    y = np.where(np.arange(N) < 3, 0.0, POSITIVE)
    fit = lgm.fit(lgm.loads(text), {"x": X, "y": y})
    new = fit.predict({"x": [0.0, 1.0]})
    frame = new.frame(quantiles=(0.05, 0.29, 0.31, 0.9))
    assert (frame[["y_q5", "y_q29"]].to_numpy() == 0.0).all()
    assert (frame["y_q31"] > 0.0).all()
    draws = fit.replicate(4000, seed=1) if hasattr(fit, "replicate") else None
    if draws is not None:
        assert np.mean(np.asarray(draws["y"]) == 0.0) == pytest.approx(0.3, abs=0.03)
