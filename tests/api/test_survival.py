"""Survival curves and hazards of fits, piecewise exponential models, supports that move."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.errors import DataError, LgmError, MethodError, ModelError
from lgmdsl.sites.catalogue import site
from lgmdsl.sites.observed import make_sites

HEAD = "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : {type}\n"
COX = (
    "lgm 1\nindex obs\nindex piece\nindex inner = head(piece)\ndata x[obs] : real\n"
    "data y[obs] : positive\ndata died[obs] : binary\ndata b[inner] : positive\n"
    "latent base[piece] ~ flat\nlatent beta ~ flat\nlet eta[obs, piece] = base[piece] + beta * x\n"
    "observe y ~ piecewise_exponential(log_hazard = eta, breaks = b, event = died)\n"
)


def lifetimes(n: int = 120) -> tuple[Array, Array, Array]:
    """x, y and the event; many are censored, and times are tied."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal(n)
    life, end = rng.exponential(np.exp(-0.7 * x)), rng.exponential(1.5, n)
    y = np.asarray(np.round(np.minimum(life, end), 2) + 0.01, dtype=np.float64)
    return x, y, np.asarray(life <= end, dtype=np.float64)


def breslow(x: Array, y: Array, event: Array, entry: Array | None = None) -> tuple[float, float]:
    """Cox's coefficient and its standard error, ties by Breslow."""
    since = np.zeros_like(y) if entry is None else entry
    beta = 0.0
    for _ in range(40):
        slope = information = 0.0
        for i in np.flatnonzero(event):
            at_risk = (y >= y[i]) & (since < y[i])
            w = np.exp(beta * x[at_risk])
            mean = float(w @ x[at_risk] / w.sum())
            slope += x[i] - mean
            information += float(w @ x[at_risk] ** 2 / w.sum()) - mean**2
        beta += slope / information
    return beta, information**-0.5


def at_events(x: Array, y: Array, event: Array) -> tuple[Array, Array, Array, Array]:
    """Rows censored between two event times as of the earlier one, as Breslow's likelihood has
    them; and the breaks."""
    times = np.unique(y[event == 1.0])
    place = np.searchsorted(times, y, side="right") - 1
    seen = (event == 1.0) | (place >= 0)
    moved = np.where(event == 1.0, y, times[np.maximum(place, 0)])
    return x[seen], moved[seen], event[seen], times[:-1]


def fitted(text: str, method: str = "laplace", **data: Any) -> lgm.Fit:
    return lgm.fit(lgm.loads(text), data, method=method)


def test_a_piece_for_each_event_time_is_cox_regression() -> None:
    """To 1e-6 of coxph(ties = "breslow"), whose likelihood `breslow` maximises (on R's `lung` the
    two agree to eight digits with survival 3.5)."""
    x, y, event, b = at_events(*lifetimes())
    fit = fitted(COX, x=x, y=y, died=event, b=b, piece=np.arange(len(b) + 1))
    beta, error = breslow(x, y, event)
    assert float(fit.mean("beta")) == pytest.approx(beta, abs=1e-6)
    assert float(fit.sd("beta")) == pytest.approx(error, rel=1e-6)


def test_late_entries_between_event_times_are_those_of_cox_at_the_earlier_one() -> None:
    x, y, event, b = at_events(*lifetimes())
    entry = np.where(np.arange(len(y)) % 2, 0.6 * y, 0.0)
    times = np.concatenate([[0.0], b])
    moved = times[np.searchsorted(times, entry, side="right") - 1]
    text = COX.replace("event = died", "event = died, entry = start")
    text = text.replace("data b[", "data start[obs] : real\ndata b[")
    more: dict[str, Any] = {"start": moved, "b": b, "piece": np.arange(len(b) + 1)}
    fit = fitted(text, x=x, y=y, died=event, **more)
    beta, error = breslow(x, y, event, entry)
    assert float(fit.mean("beta")) == pytest.approx(beta, abs=1e-6)
    assert float(fit.sd("beta")) == pytest.approx(error, rel=1e-6)


def test_one_piece_is_exponential_with_the_same_evidence() -> None:
    """The Poisson terms' own constant is not part of the evidence; so with entries."""
    x, y, event = lifetimes(40)
    exponential = (
        HEAD.format(type="positive")
        + "data died[obs] : binary\nlatent a ~ normal(sd = 2)\nlatent c ~ normal(sd = 1)\n"
        "let eta[obs] = a + c * x\nobserve y ~ exponential(log_rate = eta, event = died)\n"
    )
    # the same hazard in both pieces
    pieces = COX.replace("latent base[piece] ~ flat", "latent base ~ normal(sd = 2)")
    pieces = pieces.replace("latent beta ~ flat", "latent beta ~ normal(sd = 1)")
    pieces = pieces.replace("base[piece] + beta * x", "base + beta * x + 0 * g[piece]")
    pieces = pieces.replace("latent base ~", "latent g[piece] ~ normal(sd = 1)\nlatent base ~")
    one = fitted(exponential, x=x, y=y, died=event)
    two = fitted(pieces, x=x, y=y, died=event, b=[0.4], piece=[0, 1])
    assert two.log_evidence == pytest.approx(one.log_evidence, abs=1e-8)
    assert float(two.mean("beta")) == pytest.approx(float(one.mean("c")), abs=1e-8)
    late = pieces.replace("event = died)", "event = died, entry = start)")
    late = late.replace("data b[inner]", "data start[obs] : real\ndata b[inner]")
    entered = fitted(late, x=x, y=y + 1.0, died=event, b=[1.4], piece=[0, 1], start=np.ones(40))
    assert entered.log_evidence == pytest.approx(one.log_evidence, abs=1e-8)


@pytest.mark.thorough
def test_piecewise_fits_are_assessed_predicted_and_stored(tmp_path: Path) -> None:
    x, y, event = lifetimes(60)
    text = COX.replace("latent base[piece] ~ flat", "latent base[piece] ~ normal(sd = 2)")
    fit = fitted(text, x=x, y=y, died=event, b=[0.3, 1.0], piece=[0, 1, 2])
    table = fit.survival([0.3, 1.0, 2.0], {"x": [0.5], "b": [0.3, 1.0]}, n=4000)
    rate = np.exp(np.asarray(fit.mean("base")) + 0.5 * float(fit.mean("beta")))
    about = np.exp(-np.cumsum(rate * [0.3, 0.7, 1.0]))
    assert table["survival_mean"].to_numpy() == pytest.approx(about, abs=0.03)
    assert table["hazard_q50"].to_numpy() == pytest.approx(rate, rel=0.15)
    assert np.isfinite(fit.loo().elpd)
    drawn = fit.sample_predictive(400, seed=1)["y"].values
    assert np.mean(drawn > 1.0, axis=0) == pytest.approx(
        fit.survival([1.0])["survival_mean"].to_numpy(), abs=0.12
    )
    fit.save(tmp_path / "fit.nc")
    again = lgm.load_fit(tmp_path / "fit.nc")
    known = again.survival([1.0])["survival_mean"].to_numpy()
    assert known == pytest.approx(fit.survival([1.0])["survival_mean"].to_numpy(), abs=1e-12)


CURVES: dict[str, Any] = {
    "weibull(log_scale = eta, shape = 1.4)": lambda s: stats.weibull_min(1.4, scale=np.exp(s)),
    "gamma(log_mean = eta, shape = 2)": lambda s: stats.gamma(2.0, scale=np.exp(s) / 2.0),
    "lognormal(mean = eta, sd = 0.8)": lambda s: stats.lognorm(0.8, scale=np.exp(s)),
    "exponential(log_rate = eta)": lambda s: stats.expon(scale=np.exp(-s)),
    "loglogistic(log_scale = eta, shape = 2)": lambda s: stats.fisk(2.0, scale=np.exp(s)),
    "inverse_gaussian(log_mean = eta, shape = 2)": lambda s: stats.invgauss(
        np.exp(s) / 2.0, scale=2.0
    ),
    "gompertz(log_rate = eta, shape = 0.3)": lambda s: stats.gompertz(
        np.exp(s) / 0.3, scale=1 / 0.3
    ),
    "generalized_pareto(log_scale = eta, shape = 0.2)": lambda s: stats.genpareto(
        0.2, scale=np.exp(s)
    ),
}


@pytest.mark.parametrize("family", CURVES)
def test_survival_curves_are_averages_over_the_posterior(family: str) -> None:
    """Mean and quantiles of P(Y > t) and of the hazard against SciPy at the normal posterior."""
    text = HEAD.format(type="positive") + (
        f"latent a ~ normal(sd = 2)\nlet eta[obs] = a + 0 * x\nobserve y ~ {family}\n"
    )
    y = np.random.default_rng(5).gamma(2.0, 0.6, 30)
    fit = fitted(text, x=np.zeros(30), y=y)
    table = fit.survival([0.5, 2.0, 40.0], {"x": [0.0]}, quantiles=(0.1, 0.9), n=20000)
    q = stats.norm(float(fit.mean("a")), float(fit.sd("a")))
    s = q.ppf((np.arange(2000) + 0.5) / 2000)
    for time, row in zip((0.5, 2.0, 40.0), table.itertuples(), strict=True):
        law = CURVES[family](s)
        with np.errstate(all="ignore"):
            curve, hazard = law.sf(time), law.pdf(time) / law.sf(time)
        assert row.survival_mean == pytest.approx(curve.mean(), abs=2e-3)
        assert row.survival_q10 == pytest.approx(np.quantile(curve, 0.1), abs=4e-3)
        assert row.survival_q90 == pytest.approx(np.quantile(curve, 0.9), abs=4e-3)
        if np.isfinite(hazard).all():
            assert row.hazard_mean == pytest.approx(hazard.mean(), rel=0.02)


def test_hazards_at_time_zero_are_limits() -> None:
    def at_zero(family: str) -> tuple[float, float]:
        text = HEAD.format(type="positive") + (
            f"latent a ~ normal(sd = 2)\nlet eta[obs] = a + 0 * x\nobserve y ~ {family}\n"
        )
        fit = fitted(text, x=np.zeros(3), y=[0.5, 1.0, 2.0])
        row = fit.survival(0.0, {"x": [0.0]}).iloc[0]
        return float(row["survival_mean"]), float(row["hazard_q50"])

    assert at_zero("lognormal(mean = eta, sd = 1)") == (1.0, 0.0)
    assert at_zero("weibull(log_scale = eta, shape = 0.7)") == (1.0, np.inf)
    survival, hazard = at_zero("exponential(log_rate = eta)")
    assert survival == 1.0 and 0.1 < hazard < 3.0


def test_what_has_no_survival_curve_is_refused() -> None:
    text = HEAD.format(type="real") + (
        "latent a ~ normal(sd = 2)\nlet eta[obs] = a * x\nobserve y ~ normal(mean = eta, sd = 1)\n"
    )
    fit = fitted(text, x=[1.0, 2.0], y=[0.1, 0.2])
    with pytest.raises(MethodError, match="of one positive response; the model observes `y`"):
        fit.survival([1.0])
    with pytest.raises(MethodError, match="`normal` observes real data"):
        fit.survival([1.0], response="y")
    with pytest.raises(ModelError, match="numbers from 0, not -1"):
        fit.survival([1.0, -1.0])


LIMITED = {
    "gev(location = eta, scale = 1, shape = -0.4)": "real",
    "gev(location = eta, scale = 1, shape = 0.6)": "real",
    "generalized_pareto(log_scale = eta, shape = -0.5)": "positive",
}


def limited(family: str, spread: float = 1.0) -> tuple[str, dict[str, Array]]:
    """A model whose prior mean is far outside of the support of most rows."""
    rng = np.random.default_rng(4)
    kind, x = LIMITED[family], rng.standard_normal(50)
    y = 6.0 + spread * (x + rng.gumbel(size=50)) if kind == "real" else np.exp(1.0 + x)
    text = HEAD.format(type=kind) + (
        "latent a ~ normal(sd = 10)\nlatent c ~ normal(sd = 3)\nlet eta[obs] = a + c * x\n"
        f"observe y ~ {family}\n"
    )
    return text, {"x": x, "y": y}


@pytest.mark.parametrize("family", LIMITED)
@pytest.mark.parametrize("method", ["laplace", "map", "ep"])
def test_fits_start_within_the_support(family: str, method: str) -> None:
    """Against the mode (mean) of the posterior on a grid, which no search finds for them."""
    text, data = limited(family)
    fit = fitted(text, method, **data)
    assert fit.converged
    a, c = (float(fit.mean(n)) for n in ("a", "c"))
    width = [4.5 * float(fit.sd(n)) for n in ("a", "c")] if method == "ep" else [0.5, 0.5]
    ga, gc = np.meshgrid(
        np.linspace(-1, 1, 161) * width[0] + a, np.linspace(-1, 1, 161) * width[1] + c
    )
    at = ga[..., None] + gc[..., None] * data["x"]
    name = {"gev": "gev.location", "gen": "generalized_pareto.log_scale"}[family[:3]]
    shape = float(family.partition("shape = ")[2].rstrip(")"))
    given = {"shape": np.full(at.size, shape)}
    if name.startswith("gev"):
        given["scale"] = np.ones(at.size)
    y = np.broadcast_to(data["y"], at.shape).ravel()
    sites = make_sites(site(name), np.array(y), given)
    level = sites.log_density(at.ravel()).reshape(at.shape).sum(axis=-1)
    level = level - 0.5 * (ga / 10.0) ** 2 - 0.5 * (gc / 3.0) ** 2
    if method != "ep":
        best = np.unravel_index(np.argmax(level), level.shape)
        assert (ga[best], gc[best]) == pytest.approx((a, c), abs=0.01)
        return
    w = np.exp(level - level.max())
    w /= w.sum()
    assert float((w * ga).sum()) == pytest.approx(a, abs=0.15 * float(fit.sd("a")))
    assert float((w * gc).sum()) == pytest.approx(c, abs=0.15 * float(fit.sd("c")))


@pytest.mark.parametrize("method", ["natural-gradient", "lcl", "cholesky"])
def test_no_gaussian_has_an_expectation_there(method: str) -> None:
    text, data = limited("gev(location = eta, scale = 1, shape = 0.6)")
    with pytest.raises(MethodError) as caught:
        fitted(text, method, **data)
    assert "-inf under every Gaussian" in str(caught.value)


def test_a_support_that_no_latent_reaches_is_no_fit() -> None:
    """Rows of one predictor whose supports do not meet."""
    text = HEAD.format(type="real") + (
        "latent a ~ normal(sd = 10)\nlet eta[obs] = a * x\n"
        "observe y ~ gev(location = eta, scale = 0.1, shape = 0.5)\n"
    )
    try:  # s < y + 0.2 and s > -y - ... : a < -4.8 and a > 4.8
        fit = fitted(text, x=np.array([1.0, -1.0]), y=np.array([-5.0, -5.0]))
    except LgmError:
        return
    assert not fit.converged


def test_ml_of_extremes_is_that_of_scipy() -> None:
    """At SciPy's estimates the mode is SciPy's location, and the log likelihood the same."""
    rng = np.random.default_rng(7)
    for shape in (0.25, 1e-3, -0.3):
        y = stats.genextreme(-shape, loc=10.0, scale=2.0).rvs(80, random_state=rng)
        c, place, scale = stats.genextreme.fit(y, -shape, loc=10.0, scale=2.0)
        text = (
            "lgm 1\nindex obs\ndata y[obs] : real\nlatent a ~ flat\n"
            f"observe y ~ gev(location = a, scale = {float(scale)!r}, shape = {-float(c)!r})\n"
        )
        fit = fitted(text, "map", y=y)
        assert float(fit.mean("a")) == pytest.approx(place, abs=1e-3)
        level = lgm.sites.tilted(
            "gev.location",
            y,
            np.full(80, float(fit.mean("a"))),
            np.zeros(80),
            scale=scale,
            shape=-c,
        )
        want = stats.genextreme(c, place, scale).logpdf(y).sum()
        assert float(np.sum(level.log_mass)) == pytest.approx(want, abs=1e-4)


def test_quantile_regression_minimises_the_check_loss() -> None:
    """`map` under flat priors is Koenker and Bassett's estimate: a linear programme."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(3)
    x = rng.standard_normal(60)
    y = 1.0 + 0.5 * x + (1.0 + 0.4 * np.abs(x)) * rng.standard_normal(60)
    text = HEAD.format(type="real") + (
        "latent a ~ flat\nlatent c ~ flat\nlet eta[obs] = a + c * x\n"
        "observe y ~ asymmetric_laplace(quantile = eta, scale = 1, level = 0.8)\n"
    )
    fit = fitted(text, "map", x=x, y=y)
    design = np.column_stack([np.ones(60), x])
    eye = np.eye(60)
    programme = linprog(
        np.concatenate([np.zeros(2), np.full(60, 0.8), np.full(60, 0.2)]),
        A_eq=np.hstack([design, eye, -eye]), b_eq=y,
        bounds=[(None, None)] * 2 + [(0, None)] * 120,
    )  # fmt: skip
    assert programme.x is not None
    assert float(fit.mean("a")) == pytest.approx(float(programme.x[0]), abs=1e-4)
    assert float(fit.mean("c")) == pytest.approx(float(programme.x[1]), abs=1e-4)


@pytest.mark.parametrize(
    ("family", "kind", "words"),
    [
        ("skew_normal(mean = eta, sd = 1, skew = -1.2)", "real", "between -0.99527 and 0.99527"),
        ("gev(location = eta, scale = 1, shape = -1)", "real", "a shape above -1, not -1"),
        ("generalized_pareto(log_scale = eta, shape = -1.5)", "positive", "above -1, not -1.5"),
        (
            "asymmetric_laplace(quantile = eta, scale = 1, level = 1)",
            "real",
            "both excluded, not 1",
        ),
    ],
)
def test_refused_values_are_named(family: str, kind: str, words: str) -> None:
    text = HEAD.format(type=kind) + (
        f"latent a ~ normal(sd = 2)\nlet eta[obs] = a * x\nobserve y ~ {family}\n"
    )
    method = "ep" if "laplace" in family else "laplace"
    with pytest.raises(DataError, match=words) as caught:
        fitted(text, method, x=[1.0, 2.0], y=[0.1, 0.2])
    assert caught.value.codes == ("E303",)
    assert caught.value.diagnostics[0].help


def test_breaks_must_increase() -> None:
    x, y, event = lifetimes(20)
    with pytest.raises(DataError, match="positive and increase"):
        fitted(COX, x=x, y=y, died=event, b=[1.0, 0.3], piece=[0, 1, 2])
