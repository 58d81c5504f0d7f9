"""Rows that are alike are fitted as one with their number as its weight: nothing else changes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.canonical.blocks.alike import LEAST

TEXT = """lgm 1
index obs
index group
index cell
{indices}data g[obs] : group
data h[obs] : cell
data x[obs] : real
data n[obs] : count
data w[obs] : positive
data e[obs] : binary
data y[obs] : {type}
hyper s : positive ~ half_normal(sd = 1)
{hypers}latent a ~ normal(sd = 2)
latent u[group] ~ normal(sd = s)
latent v[cell] ~ normal(sd = 0.7)
latent b ~ normal(sd = 1)
let eta[obs] = a + u[g] + v[h] * x
let zeta[obs] = 0.3 * b - 0.4 * x
{more}observe y ~ {family}
"""
N, GROUPS, CELLS = LEAST + 200, 5, 3
GAUSSIAN = {"marginals": "gaussian"}
CLASSES = 'index score = {"poor", "fair", "good"}\nindex cut = head(score)\n'
CUTS = "hyper c[cut] : ordered ~ normal(sd = 3)\n"
SIZE = "hyper r : positive ~ half_normal(sd = 3)\n"
EACH = "hyper r[cell] : positive ~ half_normal(sd = 3)\n"
SOFTMAX = "latent k[score] ~ normal(sd = 1)\nlet both[obs, score] = k * x + eta * 0.1\n"


def _counts(level: Any, rng: np.random.Generator) -> Any:
    return np.minimum(rng.poisson(np.exp(0.3 + level)), 9.0)


def _binary(level: Any, rng: np.random.Generator) -> Any:
    return (rng.normal(size=N) < level).astype(float)


def _rounded(level: Any, rng: np.random.Generator) -> Any:
    return np.round(level + rng.normal(size=N))


def _times(level: Any, rng: np.random.Generator) -> Any:
    return np.ceil(np.exp(level) * rng.gamma(2.0, 1.0, N))


def _words(level: Any, rng: np.random.Generator) -> Any:
    return np.array(["poor", "fair", "good"])[
        np.clip(1 + np.round(level + rng.normal(size=N)), 0, 2).astype(int)
    ]


# Family: type of y, its values, further index sets, hypers and lets, methods.
BOTH = ("laplace", "natural-gradient")
FAMILIES: dict[str, tuple[str, Any, str, str, str, tuple[str, ...]]] = {
    "poisson(log_rate = eta, exposure = n + 1)": (
        "count", _counts, "", "", "", (*BOTH, "map")),
    "poisson(log_rate = eta, weight = w)": ("count", _counts, "", "", "", BOTH),
    "bernoulli(logit = eta)": (
        "binary", _binary, "", "", "",
        (*BOTH, "double-loop", "coordinate-descent", "opper-archambeau", "cholesky", "map")),
    "bernoulli(probit = eta)": ("binary", _binary, "", "", "", (*BOTH, "px-vb")),
    "binomial(n = n + 9, logit = eta)": ("count", _counts, "", "", "", BOTH),
    "ordinal(logit = eta, cuts = c)": ("score", _words, CLASSES, CUTS, "", BOTH),
    "categorical(softmax = both)": ("score", _words, CLASSES, "", SOFTMAX, BOTH),
    "categorical(stick = both)": (
        "score", _words, CLASSES, "", SOFTMAX.replace("score]", "cut]"), BOTH),
    "negbinomial(log_mean = eta, size = r)": ("count", _counts, "", SIZE, "", BOTH),
    "negbinomial(log_mean = eta, size = r[h])": ("count", _counts, "", EACH, "", BOTH),
    "negbinomial(log_mean = eta, log_size = zeta)": ("count", _counts, "", "", "", BOTH),
    "normal(mean = eta, sd = r)": ("real", _rounded, "", SIZE, "", (*BOTH, "px-vb")),
    "normal(mean = eta, sd = r * exp(x))": ("real", _rounded, "", SIZE, "", BOTH),
    "normal(mean = eta, log_sd = zeta)": ("real", _rounded, "", "", "", BOTH),
    "student_t(mean = eta, scale = r, df = 4)": ("real", _rounded, "", SIZE, "", BOTH),
    "weibull(log_scale = eta, shape = r, event = e)": ("positive", _times, "", SIZE, "", BOTH),
    "normal(mean = eta, sd = r, lower = x, upper = x + 2)": (
        "real", _rounded, "", SIZE, "", BOTH),
    "poisson(log_rate = eta, hurdle_logit = zeta)": ("count", _counts, "", "", "", BOTH),
    "poisson(log_rate = eta, zero_inflation = 0.2)": ("count", _counts, "", "", "", BOTH),
}  # fmt: skip


def data(family: str, seed: int, missing: bool) -> dict[str, Any]:
    """Rows in random order, of few groups and covariates."""
    rng = np.random.default_rng(seed)
    g = rng.integers(0, GROUPS, N)
    y = FAMILIES[family][1](rng.permutation(np.linspace(-1.0, 1.0, GROUPS))[g], rng)
    if missing:
        gone = rng.random(N) < 0.05
        y = np.where(gone, "" if y.dtype.kind == "U" else np.nan, y)
    return {
        "g": g,
        "h": rng.integers(0, CELLS, N),
        "x": rng.choice([-0.5, 0.5], N),
        "n": rng.choice([1, 4], N),
        "e": rng.integers(0, 2, N),
        "w": rng.choice([0.5, 1.0, 2.0], N),
        "y": y,
    }


def model(family: str, missing: bool = False) -> lgm.Model:
    type_, _, indices, hypers, more, _ = FAMILIES[family]
    if type_ == "real" and "lower" in family:
        family = family.replace("lower = x, upper = x + 2", "lower = lo, upper = hi")
        more += "data lo[obs] : real?\ndata hi[obs] : real?\n"
    return lgm.loads(
        TEXT.format(
            type=type_ + "?" * missing, family=family, indices=indices, hypers=hypers, more=more
        )
    )


def both(family: str, given_data: Any, method: str, missing: bool, **settings_: Any) -> Any:
    """The fits with and without merging."""
    fits = [
        lgm.fit(
            model(family, missing), given_data, method, options={**GAUSSIAN, "merge": m},
            **settings_,
        )
        for m in ("on", "off")
    ]  # fmt: skip
    assert "merged" not in fits[1].provenance
    return fits


# Every family by every method at fixed hyperparameters, where both fits are the same to rounding;
# searches and integrals, which know nothing of rows, on one of each kind of parameter.
SEARCHED = (
    "bernoulli(logit = eta)",
    "negbinomial(log_mean = eta, size = r[h])",
    "ordinal(logit = eta, cuts = c)",
)
# Whose fits of all rows take seconds: by one method.
DEAR = {
    "categorical(softmax = both)": "natural-gradient",
    "negbinomial(log_mean = eta, log_size = zeta)": "natural-gradient",
    "normal(mean = eta, log_sd = zeta)": "natural-gradient",
    "student_t(mean = eta, scale = r, df = 4)": "laplace",
    "poisson(log_rate = eta, zero_inflation = 0.2)": "laplace",
    "normal(mean = eta, sd = r, lower = x, upper = x + 2)": "laplace",
}
CASES = [
    *(
        (family, method, "fixed")
        for family, about in FAMILIES.items()
        for method in about[5]
        if DEAR.get(family, method) == method
    ),
    *((family, "laplace", "map") for family in SEARCHED),
    ("poisson(log_rate = eta, weight = w)", "natural-gradient", "map"),
    ("bernoulli(probit = eta)", "laplace", "integrate"),
]


def close(a: Any, b: Any, rel: float, scale: Any = 1.0) -> bool:
    return bool(np.all(np.abs(np.asarray(a) - np.asarray(b)) <= rel * np.asarray(scale) + 1e-12))


@pytest.mark.few(11)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_merging_changes_nothing(case: tuple[str, str, str]) -> None:
    """Evidence, moments and labels, in every family and way; rows are missing in every third."""
    family, method, way = case
    seed = CASES.index(case)
    missing = seed % 3 == 0
    more: dict[str, Any] = {"hyper": way}
    if way == "fixed":
        hypers = {"s": 0.8, "r": 1.5, "c": [-0.5, 0.5]}
        known = model(family, missing).checked.symbols
        more["fixed"] = {n: v for n, v in hypers.items() if n in known}
    d = data(family, seed, missing)
    if "lower" in family:
        d |= {"lo": d["y"] - 0.5, "hi": d["y"] + 0.5}
    on, off = both(family, d, method, missing, **more)
    assert on.provenance.keys() & {"merged", "summed"}
    assert on.status is off.status
    searched = way != "fixed"  # whose search begins elsewhere, and stops at its tolerance
    if method != "map":
        # Points of an integral stand around where each search ended: 1.3e-3 nats were seen.
        near = {"fixed": 0.0, "map": 0.0, "integrate": 3e-3}[way]
        rel = 1e-7 if searched else 1e-10
        assert on.log_evidence == pytest.approx(off.log_evidence, rel=rel, abs=near)
    assert on.names == off.names
    # Methods of many steps stop at their tolerance too.
    tight = {"coordinate-descent": 1e-4, "cholesky": 1e-5}.get(method, 1e-6)
    tight = 2e-2 if searched else tight
    for name in on.names:
        sd = off.sd(name).fillna(1.0)
        assert on.mean(name).dims == off.mean(name).dims
        assert close(on.mean(name), off.mean(name), tight, sd), name
        assert close(on.sd(name).fillna(1.0), sd, tight, sd), name
    assert [w.shape for w in on.weight] == [w.shape for w in off.weight]


TWICE: dict[str, Any] = {"fixed": {"s": 0.8}, "method": "natural-gradient"}
EXAMPLES = (
    "bernoulli(logit = eta)",
    "poisson(log_rate = eta, weight = w)",
    "ordinal(logit = eta, cuts = c)",
    "categorical(softmax = both)",
    "poisson(log_rate = eta, hurdle_logit = zeta)",
    "negbinomial(log_mean = eta, log_size = zeta)",
)


def pair(family: str, missing: bool = True, **settings_: Any) -> tuple[Any, Any, Any]:
    d = data(family, 5, missing)
    fixed: dict[str, Any] = {"s": 0.8}
    if "cuts" in family:
        fixed["c"] = [-0.5, 0.5]
    options: dict[str, Any] = {"method": "natural-gradient", "fixed": fixed, **settings_}
    return (*both(family, d, missing=missing, **options), d)


@pytest.mark.thorough
@pytest.mark.parametrize("family", EXAMPLES)
def test_answers_by_row(family: str) -> None:
    """Each row has its own: left out alone, with the label and the place that it had."""
    on, off, _ = pair(family)
    assert on.provenance.keys() & {"merged", "summed"}
    pairs = [(on.loo(), off.loo()), (on.waic(), off.waic()), (on.dic(), off.dic())]
    if "softmax" not in family:
        pairs.append((on.pit(), off.pit()))
    points = len(pairs)
    if "log_size" not in family and "hurdle" not in family:  # softmax has vectors of predictors too
        pairs.append((on.loo(groups="group"), off.loo(groups="group")))  # integrals by points
    for k, (here, there) in enumerate(pairs):
        rel = 1e-7 if k < points else 1e-5
        for name in ("elpd", "se", "p_loo", "p_waic", "dic"):
            value = getattr(there, name, None)
            if value is not None:
                assert getattr(here, name) == pytest.approx(value, rel=rel), name
        one, other = here.pointwise(), there.pointwise()
        assert one.dims == other.dims
        np.testing.assert_allclose(one, other, rtol=10.0 * rel, atol=1e-8)
    mine, theirs = on.augment(), off.augment()
    assert list(mine.columns) == list(theirs.columns)
    for name, values in theirs.items():
        if values.dtype.kind == "f":
            np.testing.assert_allclose(mine[name], values, rtol=1e-6, atol=1e-8, err_msg=name)
        else:
            assert mine[name].equals(values), name


def test_draws_and_densities_of_rows() -> None:
    """ArviZ's groups, replicated responses and predictions of a categorical covariate."""
    on, off, _ = pair("bernoulli(logit = eta)")
    mine, theirs = on.to_arviz(50), off.to_arviz(50)
    for group in ("log_likelihood", "posterior", "posterior_predictive", "observed_data"):
        for name, values in theirs[group].data_vars.items():
            same = mine[group][name]
            assert same.dims == values.dims
            close_ = np.isclose(same, values, rtol=1e-5, atol=1e-7, equal_nan=True)
            assert close_.mean() > 0.999, (group, name)  # a draw on the edge of 0 and 1
    new = {"g": [0, 1], "h": [2, 0], "x": [0.5, -0.5]}
    mine, theirs = (f.predict(new).mean("eta") for f in (on, off))
    np.testing.assert_allclose(mine, theirs, rtol=1e-7)
    np.testing.assert_allclose(on.impute()["y"], off.impute()["y"], rtol=1e-7)


def test_the_order_of_rows() -> None:
    """A fit of shuffled rows has the answers of these rows."""
    family = "bernoulli(logit = eta)"
    on, _, d = pair(family, missing=False)
    order = np.random.default_rng(1).permutation(N)
    mixed = lgm.fit(model(family), {k: v[order] for k, v in d.items()}, **TWICE)
    np.testing.assert_allclose(mixed.mean("eta"), np.asarray(on.mean("eta"))[order], atol=1e-9)
    one, other = mixed.loo().pointwise(), on.loo().pointwise()
    np.testing.assert_allclose(one, np.asarray(other)[order], rtol=1e-7)


@pytest.mark.thorough
def test_files_and_copies(tmp_path: Any) -> None:
    """A copy has the same digits; a file, which has no responses, the same to rounding."""
    d = data("bernoulli(logit = eta)", 5, missing=True)
    options: dict[str, Any] = {"options": GAUSSIAN, "method": "laplace", "hyper": "integrate"}
    fit = lgm.fit(model("bernoulli(logit = eta)", missing=True), d, **options)
    assert fit.provenance["merged"] and len(fit.mixed) > 1
    again = pickle.loads(pickle.dumps(fit))
    assert again == fit
    for one in (fit, again):
        one.marginals  # noqa: B018  (conditioned anew)
    levels = [0.05, 0.95]
    assert np.array_equal(again.quantile("u", levels), fit.quantile("u", levels))
    assert np.array_equal(again.posterior.conditioned.mean[0], fit.posterior.conditioned.mean[0])
    fit.save(tmp_path / "fit.nc")
    read = lgm.load_fit(tmp_path / "fit.nc")
    np.testing.assert_allclose(read.quantile("u", levels), fit.quantile("u", levels), rtol=1e-9)
    np.testing.assert_allclose(
        read.posterior.conditioned.mean[0], fit.posterior.conditioned.mean[0], rtol=1e-9
    )
    assert read.loo(data=d).elpd == pytest.approx(fit.loo().elpd, rel=1e-9)


@pytest.mark.parametrize("first", ["on", "off"])
def test_starts_from_other_rows(first: str) -> None:
    """A merged fit begins at one that was not, and the other way round."""
    family = "poisson(log_rate = eta, exposure = n + 1)"
    d, second = data(family, 5, missing=False), "off" if first == "on" else "on"
    plain = model(family)
    one = lgm.fit(plain, d, options={"merge": first}, **TWICE)
    other = lgm.fit(plain, d, options={"merge": second}, **TWICE)
    warm = lgm.fit(plain, d, options={"merge": second}, start_from=one, **TWICE)
    assert warm.log_evidence == pytest.approx(other.log_evidence, rel=1e-10)
    assert warm.steps < other.steps
    with pytest.raises(lgm.MethodError, match="other sites"):
        lgm.fit(plain, {k: v[:-1] for k, v in d.items()}, start_from=one, **TWICE)


@pytest.mark.parametrize(
    ("family", "settings_"),
    [
        ("bernoulli(logit = eta)", {"method": "ep"}),
        ("bernoulli(logit = eta)", {"method": "lcl"}),
        ("normal(mean = eta, sd = r)", {"method": "laplace", "hyper": "em"}),
    ],
)
def test_where_nothing_is_merged(family: str, settings_: Any) -> None:
    """EP has a Gaussian for each row, and closed-form steps of EM are sums over rows."""
    fixed: dict[str, Any] = {} if "hyper" in settings_ else {"fixed": {"s": 0.8}}
    d = data(family, 5, missing=False)
    fit = lgm.fit(model(family), d, options=GAUSSIAN, **settings_, **fixed)
    assert "merged" not in fit.provenance


def test_where_it_would_not_pay() -> None:
    """Few rows, and a covariate that is never twice the same."""
    family = "bernoulli(logit = eta)"
    d = data(family, 5, missing=False)
    few = {k: v[: LEAST - 1] for k, v in d.items()}
    continuous = {**d, "x": np.random.default_rng(2).normal(size=N)}
    for other in (few, continuous):
        assert "merged" not in lgm.fit(model(family), other, **TWICE).provenance
    assert "merged" in lgm.fit(model(family), d, **TWICE).provenance


def test_option_is_checked() -> None:
    d = data("bernoulli(logit = eta)", 5, missing=False)
    with pytest.raises(lgm.MethodError, match="`merge` cannot be `perhaps`"):
        lgm.fit(model("bernoulli(logit = eta)"), d, options={"merge": "perhaps"}, **TWICE)


@pytest.mark.thorough
def test_a_sparse_design_and_a_table_of_two_indices() -> None:
    """Rows of a csr matrix, and a latent that is there along one index of two."""
    import scipy.sparse as sp

    text = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent b[feat] ~ normal(sd = 1)
let eta[obs] = X @ b
observe y ~ bernoulli(logit = eta)
"""
    rng = np.random.default_rng(3)
    shapes = np.where(rng.random((40, 12)) < 0.2, rng.random((40, 12)), 0.0)
    design = sp.csr_array(shapes[rng.integers(0, 40, 3000)])
    y = rng.integers(0, 2, 3000)
    fits = [
        lgm.fit(lgm.loads(text), {"X": X, "y": y}, "laplace", options={"merge": m})
        for X in (design, design.toarray())
        for m in ("on", "off")
    ]
    assert [f.provenance.get("merged", "").startswith("y: 3,000 rows") for f in fits] == [
        1,
        0,
        1,
        0,
    ]
    for f in fits[1:]:
        np.testing.assert_allclose(f.mean("b"), fits[0].mean("b"), atol=1e-8)
        assert f.log_evidence == pytest.approx(fits[0].log_evidence, rel=1e-11)
    table = """lgm 1
index person
index item
data y[person, item] : binary?
hyper s[item] : positive ~ half_normal(sd = 1)
hyper t : positive ~ half_normal(sd = 1)
latent u[item] ~ normal(sd = t)
latent e ~ normal(sd = 1)
observe y ~ bernoulli(logit = u + s * e)
"""
    answers = np.where(rng.random((300, 20)) < 0.1, np.nan, rng.integers(0, 2, (300, 20)))
    one, other = (
        lgm.fit(lgm.loads(table), {"y": answers}, "laplace", hyper="map", options={"merge": m})
        for m in ("on", "off")
    )
    assert "40 distinct" in one.provenance["merged"]
    # 21 scales, some of them at 0: two searches agree to their tolerance, the function to rounding.
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-3)
    there = {"s": other.mean("s"), "t": other.mean("t")}
    one, other = (
        lgm.fit(lgm.loads(table), {"y": answers}, "laplace", fixed=there, options={"merge": m})
        for m in ("on", "off")
    )
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-11)


def test_what_is_said(tmp_path: Any) -> None:
    """`lgm explain` and the page of the fit say it, and the engine is sized at what is fitted."""
    d = data("bernoulli(logit = eta)", 5, missing=False)
    page = " ".join(str(lgm.explain(model("bernoulli(logit = eta)"), d)).split())
    assert (
        "y: 2,200 rows, 60 of them distinct: fitted as these with their counts as weights "
        "(all by lcl, ep, mean-field and inducing)"
    ) in page
    assert "sized at the distinct rows" in page
    fit = lgm.fit(model("bernoulli(logit = eta)"), d, **TWICE)
    assert "y: 2,200 rows, 60 distinct" in fit.summary()
    few = {k: v[:100] for k, v in d.items()}
    assert "distinct" not in str(lgm.explain(model("bernoulli(logit = eta)"), few))


def test_refusals_count_every_row() -> None:
    """What is refused of merged rows is said of all of them."""
    family = "poisson(log_rate = eta, exposure = n + 1)"
    d, said = data(family, 5, missing=False), []
    without = lgm.loads(model(family).to_lgm().replace("n + 1", "x + 0.5"))  # 0 in half the rows
    for merge in ("on", "off"):
        with pytest.raises(lgm.DataError, match="cannot occur") as refused:
            lgm.fit(without, d, options={"merge": merge}, **TWICE)
        said.append(str(refused.value))
    assert said[0] == said[1]
