"""Simulated data follow the model: moments against closed forms, types, labels, refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg as sla

import lgmdsl as lgm
from lgmdsl.api.simulate.simulate import simulate
from lgmdsl.arrays import Array
from lgmdsl.errors import DataError, MethodError, ModelError, NumericalError


def test_moments_of_latents_and_responses() -> None:
    model = lgm.loads(
        "lgm 1\nindex a\ndata y[a] : real\nhyper s : positive ~ exponential(rate = 1)\n"
        "latent m ~ normal(mean = 2, sd = 0.001)\nlatent u[a] ~ normal(sd = s)\n"
        "let e[a] = m + u\nobserve y ~ normal(mean = e, sd = 0.5)\n"
    )
    drawn = simulate(model, sizes={"a": 40_000}, fixed={"s": 1.5}, seed=1)
    u, y = drawn["truth.u"], drawn["y"]
    # Four standard errors: se(mean) = sd/sqrt(n), se(sd) = sd/sqrt(2n).
    assert abs(u.mean()) < 4 * 1.5 / 200 and abs(u.std() - 1.5) < 4 * 1.5 / 283
    assert abs(y.mean() - 2) < 4 * 1.59 / 200
    assert abs(y.std() - np.hypot(1.5, 0.5)) < 4 * 1.59 / 283
    assert abs(np.corrcoef(u, y)[0, 1] - 1.5 / np.hypot(1.5, 0.5)) < 0.01


def test_dense_covariance_is_drawn_through() -> None:
    model = lgm.loads(
        "lgm 1\nindex p\nindex k = 2\ndata y[p, k] : real\n"
        "hyper S[k, k] : covariance ~ lkj_cov(eta = 1, u = 1, alpha = 0.5)\n"
        "latent z[p, k] ~ iid * dense(cov = S)\nobserve y ~ normal(mean = z, sd = 1)\n"
    )
    cov = [[2.0, -0.8], [-0.8, 1.0]]
    z = simulate(model, sizes={"p": 400}, fixed={"S": cov}, seed=2)["truth.z"]
    assert z.shape == (400, 2) and np.allclose(np.cov(z.T), cov, atol=0.35)


def test_constraints_hold_exactly() -> None:
    model = lgm.loads(
        "lgm 1\nindex a\ndata y[a] : count\nlatent u[a] ~ normal(sd = 1)\n"
        "constrain sum(u, a) = 3\nobserve y ~ poisson(log_rate = u)\n"
    )
    drawn = simulate(model, sizes={"a": 12})
    assert drawn["truth.u"].sum() == pytest.approx(3, abs=1e-10)
    assert drawn["y"].dtype.kind == "i" and (drawn["y"] >= 0).all()


def test_covariates_have_their_types() -> None:
    model = lgm.loads(
        "lgm 1\nindex a\nindex b\ndata y[a] : real\ndata r[a] : real\ndata p[a] : positive\n"
        "data u[a] : unit\ndata c[a] : count\ndata k[a] : binary\ndata m[a] : b\n"
        "latent w[b] ~ normal(sd = 1)\n"
        "let e[a] = w[m] + r + log(p) + log(u) + c + k\nobserve y ~ normal(mean = e, sd = 1)\n"
    )
    drawn = simulate(model, sizes={"a": 50, "b": 7})
    assert (drawn["p"] > 0).all() and ((drawn["u"] > 0) & (drawn["u"] < 1)).all()
    assert drawn["c"].dtype.kind == "i" and (drawn["c"] >= 1).all()
    assert set(drawn["k"]) == {0, 1} and set(drawn["m"]) == set(range(7))
    assert lgm.fit(model, drawn).converged


def test_given_covariates_and_labels_are_kept() -> None:
    model = lgm.loads(
        "lgm 1\nindex a\nindex g\ndata y[a] : count\ndata who[a] : g\n"
        "latent u[g] ~ normal(sd = 1)\nlet e[a] = u[who]\nobserve y ~ poisson(log_rate = e)\n"
    )
    who = np.array(["zoe", "ada", "zoe", "bob"])
    drawn = simulate(model, {"who": who, "y": [1, 2, 3, 4]}, seed=5)
    assert list(drawn["who"]) == list(who) and list(drawn["g"]) == ["ada", "bob", "zoe"]
    assert len(drawn["y"]) == 4
    fitted = lgm.fit(model, drawn)
    assert list(fitted.mean("u")["g"].values) == ["ada", "bob", "zoe"]


def test_labels_that_the_text_names_exist() -> None:
    model = lgm.loads(
        "lgm 1\nindex a\nindex t\ndata y[a] : real\ndata X[a, t] : real\n"
        "latent b[t] ~ normal(sd = 1)\nlet e[a] = X @ b\nobserve y ~ normal(mean = e, sd = 1)\n"
        'report gap = b["time"] - b["cost"]\n'
    )
    drawn = simulate(model, sizes={"a": 6, "t": 3})
    assert {"time", "cost"} <= set(drawn["t"]) and len(drawn["t"]) == 3
    assert lgm.fit(model, drawn).mean("gap").shape == ()


def test_robust_responses_are_drawn_from_their_own_family() -> None:
    model = lgm.loads(
        "lgm 1\nindex a\ndata y[a] : real\nlatent m ~ normal(sd = 0.001)\n"
        "let e[a] = m\nobserve y ~ laplace(mean = e, scale = 2)\n"
    )
    y = simulate(model, sizes={"a": 20_000})["y"]
    assert np.abs(y).mean() == pytest.approx(2, abs=0.06)


def test_hypers_without_a_value_are_drawn_from_their_priors() -> None:
    model = lgm.loads(
        "lgm 1\nindex a\ndata y[a] : real\nhyper t : positive ~ exponential(rate = 1)\n"
        "hyper s : positive ~ uniform(lower = t, upper = 2 * t)\nlatent u[a] ~ normal(sd = s)\n"
        "observe y ~ normal(mean = u, sd = 1)\n"
    )
    drawn = simulate(model, sizes={"a": 4000}, seed=3)
    t, s = drawn["truth.t"], drawn["truth.s"]
    assert t < s < 2 * t and drawn["truth.u"].std() == pytest.approx(s, rel=0.05)
    assert simulate(model, sizes={"a": 4}, seed=4)["truth.t"] != t
    pinned = simulate(model, sizes={"a": 4000}, fixed={"t": 0.01, "s": 2.0}, seed=3)
    assert "truth.t" not in pinned and pinned["truth.u"].std() == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    ("prior", "rest", "code", "kind"),
    [
        ("flat", "", "E402", ModelError),
        ("normal(sd = s)", "", "E503", MethodError),
        ("normal(sd = 1)", "potential u ~ laplace(scale = 1)\n", "E501", ModelError),
        ("flat", "constrain sum(u, a) = 1\n", "E402", ModelError),
    ],
)
def test_refusals(prior: str, rest: str, code: str, kind: type[Exception]) -> None:
    hyper = "hyper s : positive ~ flat\n" if "s)" in prior else ""
    model = lgm.loads(
        f"lgm 1\nindex a\ndata y[a] : real\n{hyper}latent u[a] ~ {prior}\n"
        f"observe y ~ normal(mean = u, sd = 1)\n{rest}"
    )
    with pytest.raises(kind) as caught:
        simulate(model, sizes={"a": 4})
    assert caught.value.codes == (code,)  # type: ignore[attr-defined]


def test_intrinsic_priors_are_drawn_on_their_constraint() -> None:
    model = lgm.loads(
        "lgm 1\nindex a\nindex b\ndata y[a, b] : real\nlatent u[a, b] ~ rw1(sd = 3) * iid\n"
        "observe y ~ normal(mean = u, sd = 0.001)\n"
    )
    y = simulate(model, sizes={"a": 6, "b": 2000})["y"]
    assert np.abs(y.sum(axis=0)).max() < 0.02
    steps = np.diff(y, axis=0).std(axis=1)
    assert steps == pytest.approx(np.full(5, steps.mean()), rel=0.1)
    assert np.exp(np.log(y.std(axis=1)).mean()) == pytest.approx(3.0, rel=0.05)


def many(prior: str, draws: int = 4000, rest: str = "") -> Array:
    """Draws of a latent of 6 members, (draws, 6), as rows of a product with iid."""
    model = lgm.loads(
        f"lgm 1\nindex b\nindex a\ndata y[b, a] : real\nlatent u[b, a] ~ iid * {prior}\n"
        f"observe y ~ normal(mean = u, sd = 0.001)\n{rest}"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lgm.SimulationWarning)
        return np.asarray(simulate(model, sizes={"a": 6, "b": draws}, seed=8)["truth.u"])


def differences(order: int) -> Array:
    return np.diff(np.eye(6), n=order, axis=0)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("prior", "structure", "directions"),
    [
        ("rw1(sd = 2, sum_to_zero = false)", differences(1), 1),
        ("rw2(sd = 2)", differences(2), 2),
        ("rw2(sd = 2, sum_to_zero = false)", differences(2), 2),
        (
            "seasonal(sd = 2, period = 3)",
            np.array([np.eye(6)[k : k + 3].sum(axis=0) for k in range(4)]),
            2,
        ),
    ],
)
def test_intrinsic_priors_are_drawn_off_their_flat_directions(
    prior: str, structure: Array, directions: int
) -> None:
    """Zero along the null space of D, and of covariance c (D'D)^+ , scaled to the sd, off it."""
    draws = many(prior, 300)
    kernel = sla.null_space(structure)
    assert kernel.shape[1] == directions
    assert np.abs(draws @ kernel).max() < 1e-6
    k = np.linalg.pinv(structure.T @ structure)
    k *= 4.0 / np.exp(np.mean(np.log(np.diag(k))))
    # z'K^+z of each draw is chi-squared of as many degrees of freedom as D has rows.
    squares = np.einsum("ni,ij,nj->n", draws, np.linalg.pinv(k), draws)
    rank = 6 - directions
    assert abs(squares.mean() - rank) < 4 * np.sqrt(2 * rank / 300)
    error = np.abs(draws.T @ draws / 300 - k).max() / np.diag(k).max()
    assert error < 0.35


def test_a_trend_that_a_constraint_fixes_is_kept() -> None:
    """The user's own equations determine the directions: nothing is left out, and they hold."""
    text = (
        "lgm 1\nindex a\ndata x[a] : real\ndata y[a] : real\n"
        "latent u[a] ~ rw2(sd = 1, sum_to_zero = false)\n"
        "constrain sum(x * u, a) = 7\nREST"
        "observe y ~ normal(mean = u, sd = 1)\n"
    )
    x = np.arange(6.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both = lgm.loads(text.replace("REST", "constrain sum(u, a) = 3\n"))
        u = simulate(both, {"x": x, "a": np.arange(6)}, seed=1)["truth.u"]
    assert float(x @ u) == pytest.approx(7.0) and float(u.sum()) == pytest.approx(3.0)
    with pytest.warns(lgm.SimulationWarning, match="`u` 1 direction"):
        one = lgm.loads(text.replace("REST", ""))
        u = simulate(one, {"x": x, "a": np.arange(6)}, seed=1)["truth.u"]
    assert float(x @ u) == pytest.approx(7.0)
    free = sla.null_space(np.vstack([differences(2), x]))[:, 0]
    assert abs(float(free @ u)) < 1e-6


def test_flat_latents_that_constraints_determine() -> None:
    model = lgm.loads(
        "lgm 1\nindex a\ndata y[a] : real\nlatent c ~ flat\nconstrain c = 2\n"
        "latent u[a] ~ normal(sd = 1)\nobserve y ~ normal(mean = c + u, sd = 1)\n"
    )
    assert float(simulate(model, sizes={"a": 4})["truth.c"]) == pytest.approx(2.0)


def test_products_are_drawn_off_all_their_flat_directions() -> None:
    """rw1 * rw1 has a level for each member of either axis: all sums are zero."""
    prior = "rw1(sd = 1, sum_to_zero = false) * rw1(sum_to_zero = false)"
    model = lgm.loads(
        f"lgm 1\nindex a\nindex b\ndata y[a, b] : real\nlatent u[a, b] ~ {prior}\n"
        "observe y ~ normal(mean = u, sd = 1)\n"
    )
    with pytest.warns(lgm.SimulationWarning, match="`u` 11 directions"):
        u = simulate(model, sizes={"a": 5, "b": 7})["truth.u"]
    assert np.abs(u.sum(axis=0)).max() < 1e-6 and np.abs(u.sum(axis=1)).max() < 1e-6
    assert u.std() > 0.1


def test_sizes_are_asked_for() -> None:
    model = lgm.loads(
        "lgm 1\nindex a\nindex b\ndata X[a, b] : real\ndata y[a] : binary\n"
        "latent w[b] ~ normal(sd = 1)\nlet e[a] = X @ w\nobserve y ~ bernoulli(logit = e)\n"
    )
    with pytest.raises(DataError) as caught:
        simulate(model)
    assert 'sizes={"a": 20, "b": 3}' in str(caught.value)
    assert "--sizes a=20,b=3" in caught.value.diagnostics[0].on_command_line().help
    assert simulate(model, {"X": np.ones((4, 2))})["y"].shape == (4,)


def test_a_rate_beyond_all_bounds_is_an_error() -> None:
    model = lgm.loads(
        "lgm 1\nindex a\ndata y[a] : count\nlatent u[a] ~ normal(mean = 900, sd = 1)\n"
        "observe y ~ poisson(log_rate = u)\n"
    )
    with pytest.raises(NumericalError):
        simulate(model, sizes={"a": 3})


def test_an_intrinsic_block_is_drawn_on_its_constraint() -> None:
    model = lgm.loads(
        "lgm 1\nindex a\nindex b\ndata y[a, b] : real\n"
        "latent u[a, b] ~ rw1(sd = 2) * ar1(rho = 0.5)\nobserve y ~ normal(mean = u, sd = 1)\n"
    )
    drawn = np.asarray(simulate(model, sizes={"a": 6, "b": 3}, seed=4)["truth.u"])
    np.testing.assert_allclose(drawn.sum(axis=0), 0.0, atol=1e-10)
    assert np.abs(drawn).min() > 0.0
