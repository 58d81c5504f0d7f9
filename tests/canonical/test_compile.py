"""Compiled models against dense formulas written out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.canonical.model import CanonicalModel
from tests.compiled import canonical_form


def compiled(text: str, **data: object) -> CanonicalModel:
    return canonical_form("lgm 1\n" + text, data)


def design(model: CanonicalModel, name: str, block: int = 0) -> Array:
    columns = model.linear(model.hypers.theta()).predictors[block].columns
    return columns[name].dense()


def test_sites_are_named_after_their_statements() -> None:
    model = compiled(
        "index g\ndata x[g] : real\ndata y[g] : real\nlatent b[g] ~ normal(sd = 1)\n"
        "observe y ~ normal(mean = b, sd = 1)\npotential b ~ sech2(scale = 1)\n"
        "potential x * b ~ logistic(scale = 2)\n",
        x=[1.0, 2.0],
        y=[0.0, 1.0],
    )
    assert [b.name for b in model.blocks] == ["y", "potential 1", "potential 2"]


@pytest.mark.parametrize(
    ("axes", "factors", "picked"),
    [("term, g", "dense(cov = S) * iid", '"a", g'), ("g, term", "iid * dense(cov = S)", 'g, "a"')],
)
def test_kronecker_factors_follow_the_axes(axes: str, factors: str, picked: str) -> None:
    model = compiled(
        'index g\nindex term = {"a", "b"}\n'
        "hyper S[term, term] : covariance ~ inv_wishart(df = 4, scale = 1)\ndata y[g] : real\n"
        f"latent d[{axes}] ~ {factors}\nlet m[g] = d[{picked}]\n"
        "observe y ~ normal(mean = m, sd = 1)\n",
        y=np.zeros(3),
    )
    S = np.array([[2.0, 0.5], [0.5, 1.0]])
    linear = model.linear(model.hypers.theta({"S": S}))
    one, two = (f.covariance() for f in linear.blocks[0].factors)
    want = np.kron(S, np.eye(3)) if axes == "term, g" else np.kron(np.eye(3), S)
    np.testing.assert_allclose(np.kron(one, two), want)
    marginal = linear.predictors[0].columns["d"].dense() @ want
    np.testing.assert_allclose(
        marginal @ linear.predictors[0].columns["d"].dense().T, 2 * np.eye(3)
    )


def test_products_sums_and_picks_make_the_right_columns() -> None:
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(4, 2, 3)), rng.normal(size=4)
    who = np.array([1, 0, 1, 1])
    model = compiled(
        "index i\nindex j\nindex k\nindex g\ndata X[i, j, k] : real\ndata w[i] : real\n"
        "data who[i] : g\ndata y[i, j] : real\nlatent b[k] ~ normal(sd = 1)\n"
        "latent u[g, k] ~ normal(sd = 1)\n"
        "let m[i, j] = w * (X @ b) / 2 - sum(X * u[who, k], k) + 3 * b[1]\n"
        "observe y ~ normal(mean = m, sd = 1)\n",
        X=X,
        w=w,
        who=who,
        y=np.zeros((4, 2)),
    )
    want_b = (w[:, None, None] * X / 2).reshape(8, 3)
    want_b[:, 1] += 3
    np.testing.assert_allclose(design(model, "b"), want_b)
    want_u = np.zeros((4, 2, 2, 3))
    for i in range(4):
        want_u[i, :, who[i]] = -X[i]
    np.testing.assert_allclose(design(model, "u"), want_u.reshape(8, 6))


def test_missing_rows_leave_the_operator() -> None:
    model = compiled(
        "index i\ndata x[i] : real\ndata y[i] : real?\nlatent b ~ normal(sd = 1)\n"
        "let m[i] = x * b\nobserve y ~ normal(mean = m, sd = 1)\n",
        x=[1.0, 2.0, 3.0],
        y=[0.5, np.nan, 1.5],
    )
    np.testing.assert_array_equal(design(model, "b"), [[1.0], [3.0]])
    np.testing.assert_array_equal(model.sites({})[0].y, [0.5, 1.5])  # type: ignore[attr-defined]


def test_centred_observations_become_potentials() -> None:
    model = compiled(
        "index i\ndata y[i] : real\nlatent b ~ normal(sd = 1)\nlet m[i] = b + 1\n"
        "observe y ~ student_t(mean = m, scale = 2, df = 3)\n",
        y=[4.0, 5.0],
    )
    assert model.blocks[0].site.spec.potential
    assert model.blocks[0].family.spec.name == "student_t.mean"
    np.testing.assert_array_equal(model.linear({}).predictors[0].offset, [-3.0, -4.0])
    assert "potential on the predictor minus y" in model.rewrites[0].description
