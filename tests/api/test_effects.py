"""fit.effects(): against closed forms, and against averages of draws by hand."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit

RNG = np.random.default_rng(4)
N = 200
X, Z = RNG.normal(1.0, 2.0, N), RNG.integers(0, 2, N)
WHO = np.array([f"m{k}" for k in RNG.integers(1, 12, N)])
GROUPS = [f"m{k}" for k in range(1, 12)]
HEAD = """lgm 1
index obs
index g
data x[obs] : real
data z[obs] : binary
data who[obs] : g
data y[obs] : {type}
latent a ~ normal(sd = 3)
latent b ~ normal(sd = 3)
latent c ~ normal(sd = 3)
latent u[g] ~ normal(sd = 0.6)
let eta[obs] = a + b * x + c * z + u[who]
"""


def some_fit(kind: str, family: str, y: Any) -> Fit:
    data = {"x": X, "z": Z, "who": WHO, "y": y}
    options = {"correction": "off"}
    return lgm.fit(
        lgm.loads(HEAD.format(type=kind) + f"observe y ~ {family}\n"), data, options=options
    )


@pytest.fixture(scope="module")
def logit() -> Fit:
    p = special.expit(0.3 * X - 0.5 + Z)
    return some_fit("binary", "bernoulli(logit = eta)", RNG.binomial(1, p))


@pytest.fixture(scope="module")
def gaussian() -> Fit:
    return some_fit("real", "normal(mean = eta, sd = 0.8)", 0.3 * X + Z + RNG.normal(size=N))


def by_hand(fit: Fit, **changed: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(draws, N) linear predictors of the data with some columns changed."""
    draws = fit.sample(20_000, seed=11, names=["a", "b", "c", "u"])
    x, z, who = changed.get("x", X), changed.get("z", Z), changed.get("who", WHO)
    u = draws["u"].sel(g=list(np.broadcast_to(who, N))).values
    a, b, c = (draws[k].values[:, None] for k in "abc")
    return np.asarray(a + b * x + c * z + u)


def close(row: Any, draws: Any) -> None:
    """Means and sds of two sets of draws, 4,000 and 20,000, to four Monte Carlo errors."""
    sd = float(np.std(draws))
    assert row["estimate"] == pytest.approx(float(np.mean(draws)), abs=4 * sd / np.sqrt(3300))
    assert row["sd"] == pytest.approx(sd, rel=0.06)
    assert row["q5"] == pytest.approx(float(np.quantile(draws, 0.05)), abs=0.15 * sd)


def test_an_identity_link_gives_the_coefficient(gaussian: Fit) -> None:
    for kind in ("average", "conditional", "balanced"):
        row = gaussian.effects("x", kind=kind).iloc[0]
        assert row["estimate"] == pytest.approx(float(gaussian.mean("b")), rel=1e-8)
        assert row["sd"] == pytest.approx(float(gaussian.sd("b")), rel=1e-8)
        quantiles = gaussian.quantile("b", [0.05, 0.5, 0.95]).values
        np.testing.assert_allclose(row[["q5", "q50", "q95"]].astype(float), quantiles, rtol=1e-7)
    row = gaussian.effects("x", contrast=(1.0, 4.0)).iloc[0]
    assert row["contrast"] == "4 - 1"
    assert row["estimate"] == pytest.approx(3.0 * float(gaussian.mean("b")), rel=1e-8)
    assert row["sd"] == pytest.approx(3.0 * float(gaussian.sd("b")), rel=1e-8)
    row = gaussian.effects("z").iloc[0]
    assert row["contrast"] == "1 - 0" and row["sd"] == pytest.approx(float(gaussian.sd("c")))


def test_spreads_of_the_data(gaussian: Fit) -> None:
    b = float(gaussian.mean("b"))
    for contrast, size in (
        ("sd", X.std(ddof=1)),
        ("iqr", np.subtract(*np.quantile(X, [0.75, 0.25]))),
        ("minmax", X.max() - X.min()),
        (2, 2.0),
    ):
        row = gaussian.effects("x", contrast=contrast).iloc[0]
        assert row["estimate"] == pytest.approx(float(size) * b, rel=1e-8), contrast


def test_the_link_scale_is_exact_of_any_family(logit: Fit) -> None:
    row = logit.effects("x", scale="link").iloc[0]
    assert row["estimate"] == pytest.approx(float(logit.mean("b")), rel=1e-8)
    assert row["sd"] == pytest.approx(float(logit.sd("b")), rel=1e-8)


def test_average_slopes_of_a_logit(logit: Fit) -> None:
    p = special.expit(by_hand(logit))
    b = logit.sample(20_000, seed=11, names=["a", "b", "c", "u"])["b"].values
    close(logit.effects("x").iloc[0], (p * (1 - p)).mean(axis=1) * b)
    relative = (p * (1 - p)).mean(axis=1) * b / p.mean(axis=1)
    close(logit.effects("x", compare="ratio").iloc[0], relative)


@pytest.mark.thorough
def test_average_comparisons_of_a_logit(logit: Fit) -> None:
    one, zero = (special.expit(by_hand(logit, z=v)).mean(axis=1) for v in (1, 0))
    close(logit.effects("z").iloc[0], one - zero)
    ratio = logit.effects("z", compare="ratio").iloc[0]
    assert ratio["contrast"] == "1 / 0"
    close(ratio, one / zero)
    up = special.expit(by_hand(logit, x=X + 1.5)).mean(axis=1)
    close(logit.effects("x", contrast=1.5).iloc[0], up - special.expit(by_hand(logit)).mean(axis=1))


@pytest.mark.thorough
def test_groups_and_levels(logit: Fit) -> None:
    frame = logit.effects("x", contrast=1.0, by="who")
    assert list(frame["who"]) == GROUPS
    change = special.expit(by_hand(logit, x=X + 1.0)) - special.expit(by_hand(logit))
    close(frame.iloc[2], change[:, WHO == "m3"].mean(axis=1))
    frame = logit.effects("x", by="z")
    assert list(frame["z"]) == [0, 1]
    levels = logit.effects("who", contrast="levels")
    assert list(levels["contrast"]) == GROUPS
    close(levels.iloc[1], special.expit(by_hand(logit, who="m2")).mean(axis=1))
    pairs = logit.effects("who", contrast=("m2", "m10"))
    assert list(pairs["contrast"]) == ["m10 - m2"]
    both = [special.expit(by_hand(logit, who=w)).mean(axis=1) for w in ("m10", "m2")]
    close(pairs.iloc[0], both[0] - both[1])
    assert len(logit.effects("who")) == 10 and len(logit.effects("who", contrast="pairwise")) == 55
    assert list(logit.effects("who", contrast="sequential")["contrast"])[:2] == [
        "m2 - m1",
        "m3 - m2",
    ]


def test_the_reference_row(logit: Fit) -> None:
    values, counts = np.unique(WHO, return_counts=True)
    mode, z = values[counts.argmax()], float(round(Z.mean()))
    base = {"x": np.full(N, X.mean()), "z": z, "who": mode}
    up = special.expit(by_hand(logit, **{**base, "x": base["x"] + 1.0}))[:, 0]
    close(
        logit.effects("x", contrast=1, kind="conditional").iloc[0],
        up - special.expit(by_hand(logit, **base))[:, 0],
    )
    frame = logit.effects("x", contrast=1, kind="conditional", by="who")
    assert list(frame["who"]) == GROUPS
    assert frame.set_index("who").loc[mode, "estimate"] == pytest.approx(
        float(np.mean(up - special.expit(by_hand(logit, **base))[:, 0])), rel=0.05
    )


@pytest.mark.thorough
def test_a_balanced_grid_weights_combinations_alike(logit: Fit) -> None:
    cells = [
        special.expit(by_hand(logit, x=np.full(N, X.mean()), z=z, who=w))[:, 0]
        for w in GROUPS
        for z in (0, 1)
    ]
    frame = logit.effects("z", kind="balanced", contrast="levels")
    close(frame.iloc[0], np.mean(cells[::2], axis=0))
    close(frame.iloc[1], np.mean(cells[1::2], axis=0))
    assert frame["estimate"][0] != pytest.approx(
        logit.effects("z", contrast="levels")["estimate"][0], rel=1e-3
    )


def test_latents_may_be_left_out(gaussian: Fit) -> None:
    frame = gaussian.effects("z", contrast="levels", kind="conditional", without=["u"])
    mean = float(gaussian.mean("a") + X.mean() * gaussian.mean("b"))
    assert frame["estimate"][0] == pytest.approx(mean, rel=1e-8)
    with pytest.raises(lgm.ModelError, match="no latent `v`"):
        gaussian.effects("z", without="v")


@pytest.mark.thorough
def test_classes_have_an_effect_each() -> None:
    text = """lgm 1
index obs
index k
index cut = head(k)
data x[obs] : real
data y[obs] : k
hyper c[cut] : ordered ~ normal(mean = 0, sd = 3)
latent b ~ normal(sd = 3)
let eta[obs] = b * x
observe y ~ ordinal(logit = eta, cuts = c)
"""
    labels = ["low", "mid", "high"]
    words = np.array(labels)[np.digitize(0.8 * X + RNG.logistic(size=N), [0.0, 2.0])]
    y = pd.Categorical(words.tolist(), labels, ordered=True)
    fit = lgm.fit(lgm.loads(text), pd.DataFrame({"x": X, "y": y}))
    frame = fit.effects("x")
    assert list(frame["k"]) == ["low", "mid", "high"]
    assert frame["estimate"].sum() == pytest.approx(0.0, abs=1e-9)
    assert frame["estimate"][0] < 0 < frame["estimate"][2]
    cuts, b = fit.mean("c").values, float(fit.mean("b"))
    density = [stats.logistic.pdf(c - b * X).mean() for c in cuts]
    wanted = np.array([-b * density[0], b * (density[0] - density[1]), b * density[1]])
    np.testing.assert_allclose(frame["estimate"], wanted, atol=3e-3)
    # Probabilities vary with the cuts of each draw, also where the predictor is 0.
    levels = fit.effects("x", data={"x": [0.0]}, contrast=(0.0, 1.0), compare="ratio")
    assert (levels["sd"] > 0).all()


@pytest.mark.thorough
def test_slopes_and_comparisons_of_softmax_classes() -> None:
    text = """lgm 1
index obs
index k
data x[obs] : real
data g[obs] : binary
data y[obs] : k
latent a[k] ~ normal(sd = 2)
latent b[k] ~ normal(sd = 2)
latent c[k] ~ normal(sd = 2)
let eta[obs, k] = a + b * x + c * g
observe y ~ categorical(softmax = eta)
"""
    labels, x, g = np.array(["bike", "bus", "car"]), X[:120] / 2.0, Z[:120]
    eta = np.stack([0.0 * x, 0.8 * x, 0.5 - 0.5 * x + g], axis=1)
    y = labels[(eta + RNG.gumbel(size=eta.shape)).argmax(axis=1)]
    fit = lgm.fit(lgm.loads(text), {"x": x, "g": g, "y": y}, options={"correction": "off"})
    draws = fit.sample(20_000, seed=2, names=["a", "b", "c"])
    a, b, c = (draws[n].values for n in "abc")

    def shares(x: Any, g: Any) -> Any:
        along = a[:, None] + b[:, None] * x[None, :, None] + c[:, None] * g[None, :, None]
        return special.softmax(along, axis=2)

    p = shares(x, g)
    slopes = p * (b[:, None] - (p * b[:, None]).sum(axis=2, keepdims=True))
    frame = fit.effects("x")
    assert list(frame["k"]) == ["bike", "bus", "car"]
    change = shares(x, np.ones(120)).mean(axis=1) - shares(x, np.zeros(120)).mean(axis=1)
    ratio = shares(x, np.ones(120)).mean(axis=1) / shares(x, np.zeros(120)).mean(axis=1)
    compared, ratios = fit.effects("g"), fit.effects("g", compare="ratio")
    for k in range(3):
        close(frame.iloc[k], slopes[..., k].mean(axis=1))
        close(compared.iloc[k], change[:, k])
        close(ratios.iloc[k], ratio[:, k])
    assert compared["estimate"].sum() == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(lgm.ModelError, match='scale="response" has one for each class'):
        fit.effects("x", scale="link")


def test_columns_of_a_matrix() -> None:
    text = """lgm 1
index obs
index f
data X[obs, f] : real
data y[obs] : count
latent w[f] ~ normal(sd = 1)
let eta[obs] = X @ w
observe y ~ poisson(log_rate = eta)
"""
    matrix = pd.DataFrame(RNG.normal(size=(60, 2)), columns=["age", "dose"])
    y = RNG.poisson(np.exp(0.4 * matrix["dose"].to_numpy()))
    fit = lgm.fit(lgm.loads(text), {"X": matrix, "y": y}, options={"correction": "off"})
    frame = fit.effects("X")
    assert list(frame["term"]) == ["X[age]", "X[dose]"]
    w = fit.sample(20_000, seed=3, names=["w"])["w"].values
    rate = np.exp(w @ matrix.to_numpy().T)
    close(frame.iloc[1], rate.mean(axis=1) * w[:, 1])
    one = fit.effects("X[age]")
    assert len(one) == 1 and one["estimate"][0] == frame["estimate"][0]
    with pytest.raises(lgm.ModelError, match="no column `agee`"):
        fit.effects("X[agee]")
    other = fit.effects("X[age]", data={"X": matrix[:10]})
    assert other["estimate"][0] != frame["estimate"][0]


def test_a_loaded_fit_and_other_frames(
    logit: Fit, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    logit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc")
    pd.testing.assert_frame_equal(again.effects("x"), logit.effects("x"), rtol=1e-6)
    assert type(logit.effects("x", backend="polars")).__module__.startswith("polars")
    assert list(logit.effects("x", quantiles=(0.025,)).columns)[-1] == "q2.5"
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(lgm.MethodError, match=r"lgmdsl\[frames\]"):
        logit.effects("x", backend="polars")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "w"}, "no covariate named `w`"),
        ({"name": "y"}, "no covariate named `y`"),
        ({"name": "x", "kind": "median"}, "`kind` cannot be `median`"),
        ({"name": "x", "contrast": "pairwise"}, "`contrast` of this covariate is a number"),
        ({"name": "x", "contrast": ("a", "b")}, "two numbers"),
        ({"name": "who", "contrast": 1}, "`contrast` of this covariate is"),
        ({"name": "who", "contrast": ("m1", "m99")}, 'no label "m99"'),
        ({"name": "x", "by": "w"}, "cannot be grouped by `w`"),
        ({"name": "x", "response": "w"}, "observes no `w`"),
        ({"name": "x", "contrast": "levels"}, "too many to compare all"),
        ({"name": "x", "quantiles": (5,)}, "probabilities"),
    ],
)
def test_what_is_refused(logit: Fit, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(lgm.LgmError, match=said):
        logit.effects(**arguments)


PLACES = """lgm 1
index obs
data x[obs] : real
data z[obs] : real
data y[obs] : real
latent a ~ normal(sd = 3)
latent b ~ normal(sd = 3)
latent f[obs] ~ gp(kernel = se(sd = 1, length = 1), at = x)
let eta[obs] = a + b * z + f
observe y ~ normal(mean = eta, sd = 0.3)
"""


def test_positions_of_a_gaussian_process(tmp_path: Any) -> None:
    """Against the closed form of the process at both levels."""
    x, z = np.sort(X[:40]), Z[:40] + 0.1 * RNG.normal(size=40)
    y = np.sin(x) + 0.5 * z + 0.3 * RNG.normal(size=40)
    fitted = lgm.fit(lgm.loads(PLACES), {"x": x, "z": z, "y": y})
    fitted.save(tmp_path / "f.nc")

    def kernel(a: Any, b: Any) -> Any:
        return np.exp(-((a[:, None] - b[None]) ** 2) / 2)

    inverse = np.linalg.inv(kernel(x, x) + 9 + 9 * np.outer(z, z) + 0.09 * np.eye(40))

    def wanted(high: Any, low: Any) -> tuple[float, float]:
        k = kernel(high, x).mean(axis=0) - kernel(low, x).mean(axis=0)
        prior = kernel(high, high).mean() + kernel(low, low).mean() - 2 * kernel(high, low).mean()
        return float(k @ inverse @ y), float(np.sqrt(prior - k @ inverse @ k))

    one, zero = np.array([1.0]), np.array([0.0])
    half = 0.01 * (x.max() - x.min())
    slope = np.array(wanted(x + half, x - half)) / (2 * half)
    for fit in (fitted, lgm.load_fit(tmp_path / "f.nc")):
        for row, (mean, sd) in (
            (fit.effects("x", contrast=(0.0, 1.0)), wanted(one, zero)),
            (fit.effects("x", contrast=(0.0, 1.0), kind="conditional"), wanted(one, zero)),
            (fit.effects("x"), slope),
        ):
            assert row["estimate"][0] == pytest.approx(mean, rel=1e-5)
            assert row["sd"][0] == pytest.approx(sd, rel=1e-5)
        assert fit.effects("z")["estimate"][0] == pytest.approx(float(fit.mean("b")), rel=1e-6)


def test_positions_of_a_process_of_counts() -> None:
    x = np.sort(X[:40])
    text = PLACES.replace("y[obs] : real", "y[obs] : count").replace(
        "normal(mean = eta, sd = 0.3)", "poisson(log_rate = eta)"
    )
    data = {"x": x, "z": Z[:40] + 0.0, "y": RNG.poisson(np.exp(np.sin(x)))}
    fit = lgm.fit(lgm.loads(text), data, options={"correction": "off"})
    there = fit.predict({"x": [0.0, 1.0], "z": [float(data["z"].mean())] * 2})
    draws = np.exp(there.sample(20_000, seed=2)["eta"].values)
    close(
        fit.effects("x", contrast=(0.0, 1.0), kind="conditional").iloc[0], draws[:, 1] - draws[:, 0]
    )


def test_places_that_rows_do_not_name_are_refused() -> None:
    text = """lgm 1
index obs
index site
data where[obs] : site
data x[site] : real
data y[obs] : real
latent f[site] ~ gp(kernel = se(sd = 1, length = 1), at = x)
let eta[obs] = f[where]
observe y ~ normal(mean = eta, sd = 0.5)
"""
    data = {"where": np.repeat(np.arange(10), 3), "x": X[:10], "y": X[:30]}
    with pytest.raises(lgm.MethodError, match=r"`x` is not over the rows of `y`") as refused:
        lgm.fit(lgm.loads(text), data).effects("x")
    assert "fit.predict(new)" in str(refused.value)
    noisy = PLACES.replace(
        "let eta[obs] = a +", "latent e[obs] ~ normal(sd = 0.1)\nlet eta[obs] = e +"
    )
    fit = lgm.fit(lgm.loads(noisy), {"x": X[:30], "z": Z[:30] + 0.1 * X[:30], "y": X[:30]})
    with pytest.raises(lgm.MethodError, match=r'without=\["e"\]'):
        fit.effects("x")
    assert len(fit.effects("x", without=["e"])) == 1


def test_latents_of_single_rows_stay_with_their_rows() -> None:
    text = """lgm 1
index obs
data x[obs] : real
data y[obs] : count
latent b ~ normal(sd = 3)
latent e[obs] ~ normal(sd = 0.5)
let eta[obs] = b * x + e
observe y ~ poisson(log_rate = eta)
"""
    x = X[:60] / 2.0
    fit = lgm.fit(lgm.loads(text), {"x": x, "y": RNG.poisson(np.exp(0.3 * x))}, method="laplace")
    draws = fit.sample(20_000, seed=3, names=["b", "eta"])
    close(
        fit.effects("x").iloc[0],
        (np.exp(draws["eta"].values) * draws["b"].values[:, None]).mean(axis=1),
    )


@pytest.mark.parametrize("scale", ["response", "link"])
def test_effects_of_hypers_alone_have_the_sds_of_the_curvature(scale: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    data = {"x": x, "y": rng.poisson(np.exp(0.3 + 0.5 * x))}
    model = lgm.loads(
        "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : count\n"
        "hyper a : real ~ normal(sd = 3)\nhyper b : real ~ normal(sd = 3)\n"
        "let eta[obs] = a + b * x\nobserve y ~ poisson(log_rate = eta)\n"
    )
    mode, whole = (
        lgm.fit(model, data, hyper=way).effects("x", scale=scale).iloc[0]
        for way in ("map", "integrate")
    )
    assert mode["sd"] == pytest.approx(whole["sd"], rel=0.1)
    assert mode["q5"] == pytest.approx(whole["q5"], abs=0.2 * whole["sd"])
    assert mode["q95"] == pytest.approx(whole["q95"], abs=0.2 * whole["sd"])
