"""What a design refuses since cases that join would leave it out."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm

HEAD = """lgm 1
index obs
index feat
index group
data X[obs, feat] : real
data x[obs] : real
data g[obs] : group
data y[obs] : binary
latent b[feat] ~ normal(sd = 1)
latent u[group] ~ normal(sd = 1)
latent e[obs] ~ normal(sd = 1)
"""
PLAIN = "observe y ~ bernoulli(logit = X @ b + u[g] + e)\n"
RNG = np.random.default_rng(0)
DATA = {"X": RNG.normal(size=(12, 3)), "x": RNG.normal(size=12), "g": np.repeat(["a", "b"], 6),
        "y": RNG.integers(0, 2, 12)}  # fmt: skip
POOL = {
    "X": RNG.normal(size=(5, 3)),
    "x": RNG.normal(size=5),
    "g": np.array(["a", "b"] * 2 + ["a"]),
}
NEW = {**POOL, "g": np.array(["a", "b", "c", "c", "d"])}


@pytest.mark.parametrize(
    ("text", "pool", "told"),
    [
        (PLAIN + "potential X @ b ~ laplace(scale = 1)\n", POOL, "a potential over `obs`"),
        (
            PLAIN + "let m[obs] = X @ b\npotential m ~ laplace(scale = 1)\n",
            POOL,
            "a potential over `obs`",
        ),
        (PLAIN + "potential e ~ laplace(scale = 1)\n", POOL, "a potential over `obs`"),
        (PLAIN + "potential u[g] ~ laplace(scale = 1)\n", POOL, "a potential over `obs`"),
        (
            PLAIN + "let t = sum(e, obs)\npotential t ~ laplace(scale = 1)\n",
            POOL,
            "a potential over `obs`",
        ),
        (PLAIN + "potential u ~ laplace(scale = 1)\n", NEW, "a potential over `group`"),
        (PLAIN + "constrain sum(e, obs) = 0\n", POOL, "a constraint over `obs`"),
        (PLAIN + "constrain sum(u, group) = 0\n", NEW, "a constraint over `group`"),
        ("observe y ~ bernoulli(logit = cumsum(X @ b, obs))\n", POOL, "`cumsum` over `obs`"),
        (
            'let m[obs] = diff(X @ b, obs, boundary = "circular")\n'
            "observe y ~ bernoulli(logit = m + e)\n",
            POOL,
            "`diff` over `obs`",
        ),
        ("observe y ~ bernoulli(logit = X @ b - sum(x, obs))\n", POOL, "`sum` over `obs`"),
        ("let t = x @ e\nobserve y ~ bernoulli(logit = X @ b + t)\n", POOL, "`@` over `obs`"),
    ],
)
def test_what_would_be_left_out_is_refused(text: str, pool: dict[str, object], told: str) -> None:
    with pytest.raises(lgm.MethodError) as caught:
        lgm.design(lgm.loads(HEAD + text), DATA, pool)
    assert caught.value.codes == ("E501",), str(caught.value)
    assert f"no design takes {told}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "pool"),
    [
        (PLAIN + "potential b ~ laplace(scale = 1)\n", NEW),
        (PLAIN + "potential diff(b, feat) ~ laplace(scale = 1)\n", NEW),
        (PLAIN + "potential u ~ laplace(scale = 1)\nconstrain sum(u, group) = 0\n", POOL),
        (PLAIN + 'potential u["a"] ~ laplace(scale = 1)\n', NEW),
        ("let c[feat] = cumsum(b, feat)\nobserve y ~ bernoulli(logit = X @ c + u[g])\n", NEW),
    ],
)
def test_what_cases_do_not_change_is_allowed(text: str, pool: dict[str, object]) -> None:
    assert len(lgm.design(lgm.loads(HEAD + text), DATA, pool, steps=2).queries) == 2
