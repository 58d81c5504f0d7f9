"""Satterthwaite's and Kenward and Roger's degrees of freedom, against R and closed forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.frames.framed import DegreesOfFreedom
from lgmdsl.arrays import Array
from tests.api import mixed_models as mixed

WAYS: tuple[DegreesOfFreedom, ...] = ("satterthwaite", "kenward-roger")
# R 4.2.2, lmerTest 3.1-3, pbkrtest 0.5.2: coef(summary(fit, ddf = ...)) of
# fit <- lmer(y ~ x + (x | who), d); logLik(fit) is -502.566398
SLOPES = {
    "satterthwaite": [
        (252.986377023, 6.959912453, 17.14779627),
        (9.009840416, 1.401472826, 17.51145972),
    ],
    "kenward-roger": [
        (252.986377023, 6.962013042, 16.98930727),
        (9.009840416, 1.402377055, 16.96384131),
    ],
}
# fit <- lmer(y ~ x + (1 | on) + (1 | of), d); logLik(fit) is -36.27590531; the last row is
# contest(fit, c(1, 2), ddf = ..., joint = FALSE)
CROSSED = {
    "satterthwaite": [
        (20.5087527285, 0.8269413001, 5.250289098),
        (0.2393730896, 0.1569918099, 14.566823400),
        (20.98749891, 0.8903931352, 6.993862276),
    ],
    "kenward-roger": [
        (20.5087527285, 0.8269450791, 5.238815387),
        (0.2393730896, 0.1587764915, 14.567590615),
        (20.98749891, 0.8917946863, 6.980948254),
    ],
}


def reml(text: str, data: dict[str, Array]) -> Fit:
    return lgm.fit(lgm.loads(mixed.restricted(text)), data, hyper="map")


@pytest.fixture(scope="module")
def crossed() -> Fit:
    return reml(mixed.CROSSED + "report at_two = a + 2 * b\n", mixed.crossed())


@pytest.fixture(scope="module")
def slopes() -> Fit:
    return reml(mixed.SLOPES, mixed.slopes())


@pytest.mark.parametrize("way", WAYS)
def test_random_slopes_as_in_r(slopes: Fit, way: DegreesOfFreedom) -> None:
    assert slopes.log_evidence == pytest.approx(-502.566398, abs=1e-5)
    frame = slopes.tidy(df=way)
    assert frame[["mean", "sd", "df"]].to_numpy() == pytest.approx(np.array(SLOPES[way]), rel=1e-4)


@pytest.mark.parametrize("way", WAYS)
def test_crossed_effects_as_in_r(crossed: Fit, way: DegreesOfFreedom) -> None:
    assert crossed.log_evidence == pytest.approx(-36.27590531, abs=1e-6)
    frame = crossed.tidy(df=way, quantiles=(0.025,))
    assert frame["term"].tolist() == ["a", "b", "at_two"]
    assert frame[["mean", "sd", "df"]].to_numpy() == pytest.approx(np.array(CROSSED[way]), rel=1e-4)
    b = frame.iloc[1]
    assert b.statistic == pytest.approx(b["mean"] / b.sd)
    assert b.p_value == pytest.approx(2.0 * stats.t.sf(b.statistic, b.df))
    assert b["q2.5"] == pytest.approx(b["mean"] + b.sd * stats.t.ppf(0.025, b.df))


@pytest.mark.parametrize("way", WAYS)
def test_a_regression_has_what_remains_of_its_rows(way: DegreesOfFreedom) -> None:
    text = """lgm 1
index obs
data y[obs] : real
data x[obs] : real
hyper noise : positive ~ flat
latent a ~ flat
latent b ~ flat
observe y ~ normal(mean = a + b * x, sd = noise)
"""
    x = mixed.normals(15, 4)
    y = 1.0 + x + mixed.normals(15, 7)
    frame = lgm.fit(lgm.loads(text), {"y": y, "x": x}, hyper="map").tidy(df=way)
    known = stats.linregress(x, y)
    assert frame.df.to_numpy() == pytest.approx(13.0, rel=1e-5)
    assert frame.sd.to_numpy() == pytest.approx([known.intercept_stderr, known.stderr], rel=1e-4)
    assert frame.p_value[1] == pytest.approx(known.pvalue, rel=1e-3)


@pytest.mark.parametrize("way", WAYS)
def test_a_mean_of_equal_groups_has_one_less_than_these(way: DegreesOfFreedom) -> None:
    text = """lgm 1
index obs
index g
data y[obs] : real
data in[obs] : g
hyper s : positive ~ flat
hyper tau : positive ~ flat
latent a ~ flat
latent u[g] ~ normal(sd = s)
observe y ~ normal(mean = a + u[in], sd = 1 / sqrt(tau))
"""
    who = np.repeat(np.arange(7), 4)
    y = 1.5 * mixed.normals(7, 3)[who] + mixed.normals(28, 5)
    frame = lgm.fit(lgm.loads(text), {"y": y, "in": who}, hyper="map").tidy(df=way)
    means = y.reshape(7, 4).mean(axis=1)
    assert frame.df[0] == pytest.approx(6.0, rel=1e-5)
    assert frame.sd[0] == pytest.approx(means.std(ddof=1) / np.sqrt(7), rel=1e-5)


def test_given_sds_leave_no_degree_open() -> None:
    fit = lgm.fit(
        lgm.loads(mixed.restricted(mixed.CROSSED)),
        mixed.crossed(),
        hyper="map",
        fixed={"s": 1.0, "t": 1.0},
    )
    frame = fit.tidy(df="satterthwaite").set_index("term")
    assert np.isfinite(frame.df).all()  # the noise sd is estimated
    assert frame.df["a"] > 500.0


@pytest.mark.parametrize("way", WAYS)
def test_contrasts_of_labels(way: DegreesOfFreedom) -> None:
    """Whatever the base of treatment contrasts is, effects are the same."""
    text = """lgm 1
index obs
index g
index arm
data y[obs] : real
data arms[obs] : arm
data in[obs] : g
hyper s : positive ~ flat
hyper noise : positive ~ flat
latent a ~ flat
latent e[arm] ~ flat
constrain e["r"] = 0
latent u[g] ~ normal(sd = s)
observe y ~ normal(mean = a + e[arms] + u[in], sd = noise)
"""
    who = np.repeat(np.arange(12), 3)
    arms = np.array(["p", "q", "r"])[who % 3]
    y = mixed.normals(12, 5)[who] + mixed.normals(36, 7) + 0.5 * (arms == "q")
    data = {"y": y[2:], "arms": arms[2:], "in": who[2:]}
    frames, effects = [], []
    for base in ("r", "p"):
        model = lgm.loads(text.replace('"r"', f'"{base}"'))
        fit = lgm.fit(model, data, hyper="map")
        frames.append(fit.tidy(df=way).set_index("term"))
        effects.append(fit.effects("arms", contrast="pairwise", df=way))
    assert frames[0].index.tolist() == ["a", "e[p]", "e[q]"]
    columns = ["estimate", "sd", "df", "statistic", "p_value", "q5", "q95"]
    first, second = (e[columns].to_numpy() for e in effects)
    assert first == pytest.approx(second, rel=1e-3)
    row = effects[0].iloc[1]  # r less p
    numbers = [-row.estimate, row.sd, row.df]
    tidy = frames[0][["mean", "sd", "df"]].to_numpy()[1]
    assert numbers == pytest.approx(tidy, rel=1e-6)


def test_levels_leave_other_latents_out(crossed: Fit) -> None:
    with pytest.raises(lgm.MethodError, match="without"):
        crossed.effects("x", contrast="levels", kind="conditional", df="satterthwaite")
    level = crossed.effects(
        "x", contrast=(0.0, 2.0), kind="conditional", without=["u", "v"], df="kenward-roger"
    ).iloc[0]
    b = CROSSED["kenward-roger"][1]
    assert [level.estimate, level.sd, level.df] == pytest.approx([2 * b[0], 2 * b[1], b[2]], 1e-4)
    with pytest.raises(lgm.MethodError, match="E501"):
        crossed.effects("x", compare="ratio", df="satterthwaite")


def test_a_fit_from_a_file_needs_its_data(crossed: Fit, tmp_path: Path) -> None:
    crossed.save(tmp_path / "fit.nc")
    again = lgm.load_fit(tmp_path / "fit.nc")
    with pytest.raises(lgm.DataError, match="E305"):
        again.tidy(df="satterthwaite")
    frame = again.tidy(df="kenward-roger", data=mixed.crossed())
    assert frame.df.to_numpy() == pytest.approx(crossed.tidy(df="kenward-roger").df.to_numpy())


def test_words_and_names(crossed: Fit) -> None:
    with pytest.raises(lgm.ModelError, match="E108"):
        crossed.tidy(df="welch")  # type: ignore[arg-type]
    with pytest.raises(lgm.MethodError, match="coefficients alone"):
        crossed.tidy(["u"], df="satterthwaite")


@pytest.mark.parametrize(
    ("text", "data", "reason"),
    [
        (mixed.HERDS, mixed.herds(), "Gaussian responses"),
        (mixed.CROSSED, mixed.crossed(), "flat prior"),
        (mixed.CROSSED.replace("hyper b : real", "latent b"), mixed.crossed(), "moves the mean"),
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_models_without_them(
    text: str, data: dict[str, Array], reason: str, way: DegreesOfFreedom
) -> None:
    fit = lgm.fit(lgm.loads(text), data, method="laplace", hyper="map")
    with pytest.raises(lgm.MethodError, match=reason):
        fit.tidy(df=way)


def test_kenward_and_roger_want_variance_components() -> None:
    text = """lgm 1
index t
data y[t] : real
hyper s : positive ~ flat
hyper r : correlation ~ flat
hyper noise : positive ~ flat
latent a ~ flat
latent f[t] ~ ar1(sd = s, rho = r)
observe y ~ normal(mean = a + f, sd = noise)
"""
    steps, f = mixed.normals(60, 13), np.zeros(60)
    for t in range(1, 60):
        f[t] = 0.7 * f[t - 1] + steps[t]
    fit = lgm.fit(lgm.loads(text), {"y": f + 0.5 * mixed.normals(60, 17)}, hyper="map")
    with pytest.raises(lgm.MethodError, match="variance components"):
        fit.tidy(df="kenward-roger")
    assert 2.0 < fit.tidy(df="satterthwaite").df[0] < 60.0


def test_correlated_residuals_have_those_of_the_same_covariance() -> None:
    """Compound symmetry of the residuals is a random intercept."""
    rng = np.random.default_rng(5)
    who, when = np.repeat(np.arange(12), 5), np.tile(np.arange(5), 12)
    data: dict[str, Any] = {"who": who, "when": when, "x": rng.normal(size=60)}
    data["y"] = 1.0 + data["x"] + rng.normal(size=12)[who] + rng.normal(size=60)
    head = (
        "lgm 1\nindex obs\nindex g\nindex t\ndata who[obs] : g\ndata when[obs] : t\n"
        "data x[obs] : real\ndata y[obs] : real\nlatent a ~ flat\nlatent b ~ flat\n"
        "hyper s : positive ~ flat\n"
    )
    residual = (
        "hyper r : correlation ~ flat\nlatent e[g, t] ~ iid * compound(sd = s, rho = r)\n"
        "observe y ~ normal(mean = a + b * x, residual = e[who, when])\n"
    )
    effect = (
        "hyper u : positive ~ flat\nlatent v[g] ~ normal(sd = u)\n"
        "observe y ~ normal(mean = a + b * x + v[who], sd = s)\n"
    )
    one, two = (
        lgm.fit(lgm.loads(head + text), data, hyper="map").tidy(df="satterthwaite")
        for text in (residual, effect)
    )
    np.testing.assert_allclose(one["sd"], two["sd"], rtol=1e-5)
    np.testing.assert_allclose(one["df"], two["df"], rtol=1e-4)


def test_a_slope_that_no_datum_tells_of_is_left_out() -> None:
    """Random slopes of a constant: a random intercept, of balanced groups, by Kenward-Roger too."""
    who = np.repeat(np.arange(9), 4)
    data = {"y": mixed.normals(9, 2)[who] + mixed.normals(36, 7), "x": np.full(36, 3.0), "who": who}
    text = mixed.restricted(mixed.SLOPES).replace("latent b ~ flat\n", "").replace(" + b * x", "")
    frame = lgm.fit(lgm.loads(text), data, hyper="map").tidy(df="kenward-roger")
    plain = text.replace(' + d[who, "slope"] * x', "")
    plain = plain.replace("hyper S[term, term] : covariance", "hyper s : positive")
    plain = plain.replace("d[subject, term] ~ iid * dense(cov = S)", "d[subject] ~ normal(sd = s)")
    plain = plain.replace('d[who, "level"]', "d[who]").replace(
        'index term = {"level", "slope"}\n', ""
    )
    exact = lgm.fit(lgm.loads(plain.replace("data x[obs]   : real\n", "")), data, hyper="map")
    assert frame["df"].tolist() == pytest.approx([8.0], rel=1e-5)
    assert frame["sd"].tolist() == pytest.approx(exact.tidy(df="kenward-roger")["sd"], rel=1e-5)


def test_a_fit_with_all_variances_given_says_so() -> None:
    model = lgm.loads(mixed.restricted(mixed.CROSSED))
    fit = lgm.fit(model, mixed.crossed(), hyper="map", fixed={"s": 1.0, "t": 1.0, "noise": 0.6})
    with pytest.raises(lgm.LgmError, match="pin fewer hyperparameters by fixed"):
        fit.tidy(df="satterthwaite")


def test_effects_of_a_file_with_the_data_of_the_fit(crossed: Fit, tmp_path: Path) -> None:
    crossed.save(tmp_path / "o.nc")
    read = lgm.load_fit(tmp_path / "o.nc")
    with pytest.raises(lgm.LgmError, match="E305"):
        read.effects("x", df="kenward-roger")
    found = read.effects("x", df="kenward-roger", data=mixed.crossed())
    assert found.equals(crossed.effects("x", df="kenward-roger"))


def test_covariates_in_which_a_hyper_stands_are_refused() -> None:
    """A covariate that is learned: what is integrated out depends on it."""
    text = mixed.restricted(mixed.CROSSED).replace("b * x", "b * exp(-k * z)")
    text = text.replace("data x[obs]  : real", "data z[obs] : real\nhyper k : positive ~ flat")
    data = mixed.crossed()
    z = np.arange(float(len(data["y"]))) % 4
    data = {n: v for n, v in data.items() if n != "x"} | {"z": z}
    fit = lgm.fit(lgm.loads(text), {**data, "y": data["y"] + 3.0 * np.exp(-z)}, hyper="map")
    with pytest.raises(lgm.LgmError, match="hyper `k` moves the mean"):
        fit.tidy(df="satterthwaite")


@pytest.mark.parametrize("way", WAYS)
def test_origins_of_covariates_are_of_no_account(slopes: Fit, way: DegreesOfFreedom) -> None:
    data = mixed.slopes()
    fit = reml(mixed.SLOPES, {**data, "x": data["x"] + 2000.0})
    columns = ["mean", "sd", "df"]
    found, near = (f.tidy(["b"], df=way)[columns].to_numpy() for f in (fit, slopes))
    assert found == pytest.approx(near, rel=2e-3)


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(8))
def test_an_sd_at_its_edge_takes_no_degrees_of_freedom(seed: int) -> None:
    """Satterthwaite's, of groups that do not differ: those of the regression without them."""
    rng = np.random.default_rng(seed)
    who, y = np.repeat(np.arange(6), 5), rng.normal(size=30)
    y -= 0.9 * (np.bincount(who, y) / 5)[who]  # means closer together than noise would have them
    text = mixed.restricted(mixed.CROSSED).replace(" + b * x", "").replace(" + v[of]", "")
    lines = [
        x
        for x in text.splitlines()
        if not any(n in x for n in ("x[obs]", "of[obs]", "v[", " b ", " t ", "index sample"))
    ]
    fit = lgm.fit(lgm.loads("\n".join(lines) + "\n"), {"y": y, "on": who}, hyper="map")
    assert fit.converged and float(fit.mean("s")) < 1e-2
    assert fit.tidy(df="satterthwaite")["df"].tolist() == pytest.approx([29.0], rel=1e-4)


def test_reports_with_a_hyper_in_them_have_none() -> None:
    """An estimated sd times a coefficient is no functional of the coefficients alone."""
    text = mixed.CROSSED + "report scaled = s * b\nreport twice = 2 * b\n"
    fit = reml(text, mixed.crossed())
    assert fit.tidy(df="satterthwaite")["term"].tolist() == ["a", "b", "twice"]
    with pytest.raises(lgm.LgmError, match="`scaled` has no degrees of freedom"):
        fit.tidy(["scaled"], df="satterthwaite")
