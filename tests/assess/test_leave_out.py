"""Leave-one-out from Gaussian approximations: cavities, averages, joint densities, refits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.api.assess.components import assessed
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.assess.averages import distribution, log_density, log_moments
from lgmdsl.assess.failure import Failure
from lgmdsl.assess.joint import joint_density
from lgmdsl.assess.loo import loo
from lgmdsl.assess.pit import histogram
from lgmdsl.contract.rows import cavity
from lgmdsl.contract.site import Site
from lgmdsl.sites import catalogue
from lgmdsl.sites.observed import make_sites
from tests.assess.small_models import SmallModel, small_model, truth

# ---- cavities --------------------------------------------------------------------------------


def test_a_cavity_times_its_site_is_the_marginal_again() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 3, 3))
    variance = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(3)
    weight = np.stack([np.diag(w) for w in rng.uniform(-0.1, 0.05, size=(5, 3))])
    mean, shift = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    found = cavity(mean, variance, weight, shift)
    assert found.sound.all()
    precision = np.linalg.inv(found.variance) + weight
    np.testing.assert_allclose(np.linalg.inv(precision), variance, rtol=1e-8, atol=1e-10)
    pull = np.linalg.solve(found.variance, found.mean[..., None])[..., 0] + shift
    again = np.einsum("nij,nj->ni", variance, pull)
    np.testing.assert_allclose(again, mean, rtol=1e-8, atol=1e-10)
    one = cavity(mean[:, 0], variance[:, 0, 0], weight[:, 0, 0], shift[:, 0])
    for k in range(5):
        w, b = weight[k, 0, 0], shift[k, 0]
        v = 1 / (1 / variance[k, 0, 0] - w)
        assert one.variance[k] == pytest.approx(v)
        assert one.mean[k] == pytest.approx(v * (mean[k, 0] / variance[k, 0, 0] - b))


def test_cavities_that_do_not_exist_are_no_numbers() -> None:
    weight = np.array([1.0, 1.0 - 1e-12, 2.0, np.nan, 0.5, -3.0])
    found = cavity(np.ones(6), np.ones(6), weight, np.ones(6))
    np.testing.assert_array_equal(found.sound, [False, False, False, False, True, True])
    np.testing.assert_array_equal(np.isfinite(found.mean), found.sound)
    singular = np.array([[[1.0, 1.0], [1.0, 1.0]]])
    w = np.array([np.diag([0.5, 0.5]), np.diag([0.3, 0.3])])
    both = cavity(np.zeros((2, 2)), np.repeat(singular, 2, 0), w, np.zeros((2, 2)))
    np.testing.assert_array_equal(both.sound, [False, True])
    np.testing.assert_allclose(both.variance[1], np.ones((2, 2)) / 0.4)


# ---- averages --------------------------------------------------------------------------------

OBSERVING: dict[str, dict[str, float]] = {
    "normal.mean": {"sd": 0.7},
    "bernoulli.logit": {},
    "bernoulli.probit": {},
    "bernoulli.cloglog": {},
    "binomial.logit": {"n": 5},
    "poisson.log_rate": {"exposure": 1.5},
    "negbinomial.log_mean": {"size": 2.0, "exposure": 1.0},
    "gamma.log_mean": {"shape": 2.0},
    "student_t.mean": {"scale": 0.5, "df": 3.0},
    "laplace.mean": {"scale": 0.6},
    "normal.log_var": {"mean": 0.1},
}


def sites(name: str, n: int) -> Site:
    cls = catalogue.site(name)
    y = np.linspace(0.3, 2.2, n) if "real" in cls.spec.observed else np.arange(n) % 2 + 0.0
    if "positive" in cls.spec.observed:
        y = y + 0.5
    return cls(y=y, **{k: np.full(n, v) for k, v in OBSERVING[name].items()})  # type: ignore[call-arg]


@pytest.mark.few(8)
@pytest.mark.parametrize("name", OBSERVING)
def test_averages_are_those_of_a_fine_grid(name: str) -> None:
    mean, variance = np.array([-1.0, 0.4, 1.1, 0.0]), np.array([0.01, 0.3, 2.0, 1e-8])
    site = sites(name, 4)
    first, second = log_moments(site, mean, variance)
    lower, upper = distribution(site, mean, variance)
    mass = log_density(site, mean, variance)
    t = np.linspace(-12, 12, 240_001)
    w = np.exp(-0.5 * t * t) / np.exp(-0.5 * t * t).sum()
    for i in range(4):
        many = site.take(np.full(len(t), i))
        s = mean[i] + np.sqrt(variance[i]) * t
        with np.errstate(all="ignore"):
            level, (low, high) = many.log_density(s), many.distribution(s)
        centre = w @ level
        assert first[i] == pytest.approx(centre, rel=1e-7, abs=1e-8)
        assert second[i] == pytest.approx(w @ (level - centre) ** 2, rel=1e-6, abs=1e-10)
        assert mass[i] == pytest.approx(np.log(w @ np.exp(level)), abs=1e-7)
        assert lower[i] == pytest.approx(w @ low, abs=1e-7)
        assert upper[i] == pytest.approx(w @ high, abs=1e-7)


def test_of_a_censored_response_a_range_is_known() -> None:
    """Of the second, that it is beyond 1.5."""
    cls = catalogue.find_site("normal.mean.censored")
    assert cls is not None
    y, one, none = np.array([0.4, 1.5]), np.ones(2), np.full(2, np.nan)
    ends = {"event": np.array([1.0, 0.0]), "lower": none, "upper": none}
    site = make_sites(cls, y, {"sd": one, **ends})
    lower, upper = distribution(site, np.zeros(2), one)
    np.testing.assert_allclose(lower, stats.norm(0, np.sqrt(2)).cdf(y), atol=1e-9)
    np.testing.assert_allclose(upper, [lower[0], 1.0], atol=1e-9)


@pytest.mark.parametrize("name", ["poisson.log_rate", "bernoulli.logit", "gamma.log_mean"])
def test_joint_densities_are_those_of_a_grid(name: str) -> None:
    site = sites(name, 2)
    mean, covariance = np.array([0.3, -0.5]), np.array([[1.5, 0.9], [0.9, 1.0]])
    axis = np.linspace(-9, 9, 401)
    e = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    s = mean + e @ np.linalg.cholesky(covariance).T
    with np.errstate(all="ignore"):
        level = sum(site.take(np.full(len(s), k)).log_density(s[:, k]) for k in range(2))
    prior = -0.5 * (e**2).sum(axis=1)
    wanted = special.logsumexp(level + prior) - special.logsumexp(prior)
    # Poor Gaussian sites cost accuracy, and the error says so.
    for w in (0.2, 1.0):
        found = joint_density(
            [site], [(2,)], mean, covariance, w * np.eye(2), np.array([0.4, -0.2]), 4096, 3
        )
        assert found.error < 2e-2
        assert abs(found.log - wanted) < 5 * found.error + 1e-4
    singular = np.outer([1.0, 2.0], [1.0, 2.0])
    line = mean + axis[:, None] * np.array([1.0, 2.0])
    with np.errstate(all="ignore"):
        level = sum(site.take(np.full(len(axis), k)).log_density(line[:, k]) for k in range(2))
    wanted = special.logsumexp(level - 0.5 * axis**2) - special.logsumexp(-0.5 * axis**2)
    found = joint_density(
        [site], [(2,)], mean, singular, 0.2 * np.eye(2), np.array([0.2, -0.2]), 4096, 3
    )
    assert abs(found.log - wanted) < 5 * found.error + 1e-4


def test_joint_densities_of_fixed_predictors_are_those_of_the_sites() -> None:
    site, zero = sites("poisson.log_rate", 2), np.zeros((2, 2))
    found = joint_density([site], [(2,)], np.ones(2), zero, np.eye(2), np.ones(2), 512, 0)
    assert found.log == pytest.approx(site.log_density(np.ones(2)).sum()) and found.error == 0.0


# ---- approximations --------------------------------------------------------------------------


@given(st.integers(0, 2**20))
@settings(max_examples=4)
def test_values_without_a_flag_are_near_the_truth(seed: int) -> None:
    """log p(y) - log p(y_-i) by quadrature, of models of one or two weights."""
    model = small_model(seed)
    rows = len(model.data["y"])
    if rows < 3 or model.size > 2:
        return
    fit = model.fit("ep")
    found, again = fit.loo(), fit.loo(exact=True)
    i = seed % rows
    rest = replace(model, data={k: np.delete(v, i, axis=0) for k, v in model.data.items()})
    try:
        whole, part = (truth(m, m.fit("ep")).log_evidence for m in (model, rest))
    except (ArithmeticError, lgm.LgmError):
        return
    flag = found.flag[0][i]
    assert bool(again.refitted[0][i]) == (flag > 0)
    if flag == Failure.none:
        assert found.log_density[0][i] == pytest.approx(whole - part, abs=0.4)
    assert again.log_density[0][i] == pytest.approx(whole - part, abs=0.7)


@pytest.mark.thorough
def test_errors_are_small_on_the_whole() -> None:
    """EP's leave-one-out over random models: half the errors below 0.01, nine tenths below 0.1."""
    errors = []
    for seed in range(40):
        model = small_model(seed)
        rows = len(model.data["y"])
        if rows < 3 or model.size > 1:
            continue
        try:
            whole = truth(model, model.fit("ep")).log_evidence
            found = model.fit("ep").loo()
            for i in range(0, rows, 3):
                rest = {k: np.delete(v, i, axis=0) for k, v in model.data.items()}
                part = replace(model, data=rest)
                left = whole - truth(part, part.fit("ep")).log_evidence
                errors.append(abs(found.log_density[0][i] - left))
        except (ArithmeticError, lgm.LgmError):
            continue
    assert len(errors) > 20
    assert np.median(errors) < 0.01 and np.quantile(errors, 0.9) < 0.1


GROUPED = """lgm 1
index obs
index subject
data x[obs] : real
data who[obs] : subject
data y[obs] : {type}
latent a ~ {prior}
latent u[subject] ~ normal(sd = 0.8)
let eta[obs] = a + u[who]
observe y ~ {family}
"""


def grouped(family: str, kind: str, prior: str = "normal(sd = 2)", rows: int = 18) -> Any:
    rng = np.random.default_rng(4)
    who = np.arange(rows) % 6
    s = 0.5 + 0.8 * rng.normal(size=6)[who]
    y: AnyArray = rng.poisson(np.exp(s)) if kind == "count" else (s + rng.normal(size=rows) > 0)
    data = {"x": np.zeros(rows), "who": who, "y": y.astype(int)}
    model = lgm.loads(GROUPED.format(type=kind, family=family, prior=prior))
    return lgm.fit(model, data, method="ep"), data


def grouped_log_evidence(site: Site, who: AnyArray, rows: AnyArray) -> float:
    """log p(y_rows) by the trapezoidal rule within subjects and over a."""
    a = np.linspace(-9, 9, 91)
    t = np.linspace(-8, 8, 161)
    w = np.exp(-0.5 * t * t)
    total = stats.norm(0, 2).logpdf(a)
    for g in np.unique(who[rows]):
        mine = rows[who[rows] == g]
        s = a[:, None] + 0.8 * t
        level = sum(
            site.take(np.full(s.size, i)).log_density(s.ravel()).reshape(s.shape) for i in mine
        )
        total = total + special.logsumexp(level + np.log(w / w.sum()), axis=1)
    return float(special.logsumexp(total) + np.log(a[1] - a[0]))


@pytest.mark.parametrize(
    ("family", "kind"), [("poisson(log_rate = eta)", "count"), ("bernoulli(logit = eta)", "binary")]
)
def test_groups_are_near_the_truth(family: str, kind: str) -> None:
    fit, data = grouped(family, kind)
    site = assessed(fit, None, None, "loo").components[0].sites[0]
    every, who = np.arange(18), data["who"]
    found, again = fit.loo(groups="subject"), fit.loo(groups="who", exact="all")
    whole = grouped_log_evidence(site, who, every)
    for g in range(6):
        wanted = whole - grouped_log_evidence(site, who, every[who != g])
        assert float(found.pointwise().sel(subject=g)) == pytest.approx(wanted, abs=0.06)
        assert float(again.pointwise().sel(subject=g)) == pytest.approx(wanted, abs=0.01)
    assert 0.0 < found.error < 0.01 and again.refitted[0].all() and not found.refitted[0].any()


@pytest.mark.parametrize("family", ["student_t", "laplace"])
def test_rewritten_families_keep_their_densities(family: str) -> None:
    """The compiler makes potentials on eta - y of them: densities of y all the same."""
    extra = ", df = 4" if family == "student_t" else ""
    text = GROUPED.format(
        type="real", prior="normal(sd = 2)", family=f"{family}(mean = eta, scale = 0.5{extra})"
    )
    rng = np.random.default_rng(0)
    who = np.arange(18) % 6
    y = 3.0 + 0.8 * rng.normal(size=6)[who] + 0.5 * rng.standard_t(4, size=18)
    fit = lgm.fit(lgm.loads(text), {"x": 0 * y, "who": who, "y": y}, method="ep")
    site = assessed(fit, None, None, "loo").components[0].sites[0]
    every = np.arange(18)
    whole = grouped_log_evidence(site, who, every)
    quick = fit.loo().pointwise().values
    found, below = fit.loo(exact="all").pointwise().values, fit.pit(exact=True).pointwise().values
    for i in range(0, 18, 3):
        left = grouped_log_evidence(site, who, np.delete(every, i))
        assert found[i] == pytest.approx(whole - left, abs=0.06)
        assert quick[i] == pytest.approx(whole - left, abs=0.15)
    groups = fit.loo(groups="subject").pointwise().values
    for g in range(6):
        left = grouped_log_evidence(site, who, every[who != g])
        assert groups[g] == pytest.approx(whole - left, abs=0.3)
    mean = fit.predict({"x": 0 * y, "who": who}).response("y")["mean"].values
    assert np.corrcoef(below, y - mean)[0, 1] > 0.8


# ---- flags -----------------------------------------------------------------------------------


def test_what_determines_its_own_predictor_is_flagged() -> None:
    """A flat effect of a level that one response alone has seen."""
    text = GROUPED.replace("normal(sd = 0.8)", "flat()").replace("latent a ~ {prior}\n", "")
    model = lgm.loads(
        text.replace("a + u", "u").format(type="count", family="poisson(log_rate = eta)")
    )
    data = {"x": np.zeros(5), "who": np.array([0, 0, 0, 0, 1]), "y": np.array([3, 1, 4, 2, 5])}
    fit = lgm.fit(model, data, method="laplace")
    for found in (fit.loo(), fit.loo(exact=True)):
        np.testing.assert_array_equal(found.flag[0], [0, 0, 0, 0, Failure.improper])
        assert np.isnan(found.elpd) and np.isfinite(found.log_density[0][:4]).all()
        assert found.failed == 1 and "y[4]: without it its predictor" in str(found)
    assert np.isnan(fit.pit().pointwise().values[4])
    one = fit.loo(groups="subject")
    assert one.flag[0][1] == Failure.improper


def test_influence_is_flagged_and_a_refit_is_its_remedy() -> None:
    model = small_model(37)  # one response whose removal moves the others by two sds
    fit = model.fit("ep")
    found, again = fit.loo(), fit.loo(exact=True)
    assert list(np.flatnonzero(found.flag[0])) == [7] == list(np.flatnonzero(again.refitted[0]))
    assert found.flag[0][7] == Failure.influential and found.failed == 0 == again.flagged
    part = replace(model, data={k: np.delete(v, 7, axis=0) for k, v in model.data.items()})
    wanted = truth(model, fit).log_evidence - truth(part, part.fit("ep")).log_evidence
    errors = [abs(f.log_density[0][7] - wanted) for f in (found, again)]
    assert errors[0] > 0.1 and errors[1] < 0.01
    assert "exact=True" in str(found) and "fitted again without  1 response" in str(again)


def test_a_response_that_moves_itself_alone_is_not_influential() -> None:
    text = "lgm 1\nindex i\ndata y[i] : count\nlatent u[i] ~ normal(sd = 2)\n"
    model = lgm.loads(f"{text}observe y ~ poisson(log_rate = u)\n")
    fit = lgm.fit(model, {"y": np.array([0, 3, 40, 200])}, method="ep")
    component = assessed(fit, None, None, "loo").components[0]
    found = fit.loo()
    assert found.flagged == 0 == fit.loo(groups="i").flagged
    (left,) = loo([component])
    move = (left.cavities[0].mean - component.mean[0]) / np.sqrt(component.variance[0])
    assert np.abs(move).max() > 5.0


def test_histograms_spread_discrete_values_evenly() -> None:
    flat = histogram(np.array([0.0, 0.25]), np.array([1.0, 0.75]), 4)
    np.testing.assert_allclose(flat, [0.5, 1.5, 1.5, 0.5])
    points = histogram(np.array([0.0, 0.3, 1.0, np.nan]), np.array([0.0, 0.3, 1.0, 0.5]), 2)
    np.testing.assert_allclose(points, [4 / 3, 2 / 3])
    rng = np.random.default_rng(0)
    y = rng.poisson(3.0, 20_000)
    low, high = stats.poisson(3).cdf(y - 1), stats.poisson(3).cdf(y)
    np.testing.assert_allclose(histogram(low, high, 10), np.ones(10), atol=0.06)


def small_rows(model: SmallModel, order: AnyArray) -> SmallModel:
    return replace(model, data={k: v[order] for k, v in model.data.items()})


@given(st.integers(0, 2**20))
@settings(max_examples=5)
def test_the_order_of_rows_is_no_matter(seed: int) -> None:
    model = small_model(seed)
    order = np.random.default_rng(seed).permutation(len(model.data["y"]))
    fit, other = model.fit("laplace"), small_rows(model, order).fit("laplace")

    def close(a: Array, b: Array) -> None:
        np.testing.assert_allclose(a[order], b, rtol=2e-5, atol=1e-6)

    close(fit.loo().pointwise().values, other.loo().pointwise().values)
    close(fit.pit().pointwise().values, other.pit().pointwise().values)
    close(fit.waic().pointwise().values, other.waic().pointwise().values)
    close(fit.dic().pointwise().values, other.dic().pointwise().values)


# ---- hyperparameters -------------------------------------------------------------------------

INTEGRATED = """lgm 1
index obs
index group
data y[obs] : {type}
data who[obs] : group
latent m ~ normal(sd = 5)
hyper s : positive ~ lognormal(mean = 0, sd = 1)
{more}
latent a[group] ~ normal(sd = {sd})
let eta[obs] = m + a[who]
observe y ~ {family}
"""
WHO = np.repeat(np.arange(5), 3)


def by_grid(y: Array) -> float:
    """log p(y) of normal responses with two scales, the latents integrated in closed form."""
    two = np.exp(np.linspace(-4.0, 4.0, 41)), np.exp(np.linspace(-5.0, 5.0, 41))
    who = WHO[len(WHO) - len(y) :]
    same = (who[:, None] == who).astype(float)
    values, vectors = np.linalg.eigh(same)
    logs = np.empty((41, 41))
    for i, s in enumerate(two[0]):
        for j, t in enumerate(two[1]):
            root = vectors * np.sqrt(t**2 * values + s**2)
            w, one = np.linalg.solve(root, y), np.linalg.solve(root, np.ones(len(y)))
            shrunk = 25.0 * (one @ w) ** 2 / (1.0 + 25.0 * one @ one)
            determinant = np.sum(np.log(t**2 * values + s**2)) + np.log1p(25.0 * one @ one)
            logs[i, j] = -0.5 * (w @ w - shrunk + determinant + len(y) * np.log(2.0 * np.pi))
            logs[i, j] += stats.norm.logpdf(np.log(s)) + stats.norm.logpdf(np.log(t))
    return float(special.logsumexp(logs) + np.log(8.0 / 40.0 * 10.0 / 40.0))


@pytest.mark.few(1)
@pytest.mark.parametrize(("seed", "out"), [(0, 0.0), (0, 3.0), (2, 4.0), (1, 9.0)])
def test_exact_values_have_hyperparameters_of_their_own(seed: int, out: float) -> None:
    """Of an outlier the points of the whole fit are where those without it are not."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=15) + rng.normal(size=5)[WHO]
    y[0] += out
    model = lgm.loads(
        INTEGRATED.format(
            type="real",
            more="hyper t : positive ~ lognormal(mean = 0, sd = 1)",
            sd="t",
            family="normal(mean = eta, sd = s)",
        )
    )
    fit = lgm.fit(model, {"y": y, "who": WHO}, hyper="integrate", tol=1e-8)
    truth = by_grid(y) - by_grid(y[1:])
    plain, exact = fit.loo(), fit.loo(exact=True)
    assert float(exact.pointwise()[0]) == pytest.approx(truth, abs=0.02)
    together = fit.loo(groups=np.arange(15), exact=True)
    assert float(together.pointwise()[0]) == pytest.approx(truth, abs=0.02)
    assert (plain.flag[0][0] == Failure.hyperparameters) == (out > 0.0)
    assert exact.flag[0][0] == 0 == together.flag[0][0]
    if out:
        assert abs(float(plain.pointwise()[0]) - truth) > 0.2
        assert float(fit.pit(exact=True).upper()[0]) > 0.99


FAMILIES = {
    "gev(location = eta, scale = s, shape = 0.1)": ("real", 1.0),
    "student_t(mean = eta, scale = s, df = 4)": ("real", 1.0),
    "poisson(log_rate = eta + e)": ("count", 4.0),
}


@pytest.mark.thorough
@pytest.mark.parametrize("family", FAMILIES)
def test_exact_values_are_differences_of_evidences(family: str) -> None:
    kind, scale = FAMILIES[family]
    rng = np.random.default_rng(0)
    y = scale * (rng.normal(size=15) + 0.5 * rng.normal(size=5)[WHO])
    y[3] += 5.0 * scale
    more = "latent e[obs] ~ normal(sd = s)" if kind == "count" else ""
    y = np.maximum(np.round(y), 0.0) if kind == "count" else y
    text = INTEGRATED.format(type=kind, more=more, sd=0.5, family=family)
    options = {"effort": "low"}
    fit = lgm.fit(lgm.loads(text), {"y": y, "who": WHO}, options=options)
    rest = {"y": np.delete(y, 3), "who": np.delete(WHO, 3)}
    without = lgm.fit(lgm.loads(text), rest, options=options)
    found = float(fit.loo(exact=True).pointwise()[3])
    assert found == pytest.approx(fit.log_evidence - without.log_evidence, abs=0.05)
