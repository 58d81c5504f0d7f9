"""Improper posteriors are found at the mode, before a dear method goes to infinity for them."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl_backends.natural_gradient import NaturalGradient

TEXT = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent b[feat] ~ flat
let s[obs] = X @ b
observe y ~ bernoulli(logit = s)
"""


def test_separated_classes_are_refused_before_the_method_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object) -> NoReturn:
        raise AssertionError("the method was started")

    monkeypatch.setattr(NaturalGradient, "start", never)
    X = np.random.default_rng(0).normal(size=(40, 2))
    separated = {"X": X, "y": (X[:, 0] > 0).astype(int)}
    with pytest.raises(lgm.ModelError) as caught:
        lgm.fit(lgm.loads(TEXT), separated, "natural-gradient")
    assert caught.value.codes == ("E402",)
    mixed = {"X": X, "y": np.arange(40) % 2}
    with pytest.raises(AssertionError, match="started"):
        lgm.fit(lgm.loads(TEXT), mixed, "natural-gradient")


@pytest.mark.parametrize("level", ["normal(sd = 5)", "flat"])
def test_classes_separated_along_the_free_line_of_rw2(level: str) -> None:
    """The line has density 1 and the classes lie on its two sides: no posterior."""
    who = np.arange(12).repeat(2)
    model = lgm.loads(
        "lgm 1\nindex obs\nindex t = 12\ndata y[obs] : binary\ndata who[obs] : t\n"
        f"latent b0 ~ {level}\nlatent f[t] ~ rw2(sd = 1)\nlet eta[obs] = b0 + f[who]\n"
        "observe y ~ bernoulli(logit = eta)\n"
    )
    with pytest.raises(lgm.ModelError) as caught:
        lgm.fit(model, {"y": (who > 5).astype(int), "who": who}, method="laplace")
    assert caught.value.codes == ("E402",)
    mixed = np.where(who % 3 == 0, 1 - (who > 5), who > 5)
    assert lgm.fit(model, {"y": mixed, "who": who}, method="laplace").converged


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_classes_that_many_latents_separate_together(link: str) -> None:
    """No single latent of twenty separates them, nor any direction of theirs that q thinks wide."""
    rng = np.random.default_rng(0)
    w, X = rng.normal(size=20), rng.normal(size=(100, 20))
    text = (
        "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : binary\n"
        "latent w[feat] ~ flat()\nlet eta[obs] = X @ w\n"
        f"observe y ~ bernoulli({link} = eta)\n"
    )
    data = {"X": X, "y": (X @ w > 0.0).astype(int)}
    with pytest.raises(lgm.ModelError, match="moves from its mean to infinity") as caught:
        lgm.fit(lgm.loads(text), data, "laplace")
    assert caught.value.codes == ("E402",)
    data["y"] = (X @ w + 3.0 * rng.normal(size=100) > 0.0).astype(int)
    assert lgm.fit(lgm.loads(text), data, "laplace").converged


@pytest.mark.few(3)
@pytest.mark.parametrize("absent", [0, 2])
@pytest.mark.parametrize("method", ["laplace", "natural-gradient"])
def test_a_class_that_was_never_seen(method: str, absent: int) -> None:
    """The reference class is absent where the predictors of all others go up together."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    mixed = (X[:, 0] + rng.normal(size=40) > 0).astype(int)
    seen = [k for k in range(3) if k != absent]
    text = (
        "lgm 1\nindex obs\nindex feat\nindex class = 3\nindex cut = head(class)\n"
        "data X[obs, feat] : real\ndata y[obs] : class\nlatent b[cut] ~ flat\n"
        "latent B[cut, feat] ~ flat\nlet eta[obs, cut] = b + X @ B\n"
        "observe y ~ categorical(softmax = eta)\n"
    )
    with pytest.raises(lgm.ModelError) as caught:
        lgm.fit(lgm.loads(text), {"y": np.array(seen)[mixed], "X": X}, method)
    assert caught.value.codes == ("E402",)
    three = np.where(rng.random(40) < 0.3, absent, np.array(seen)[mixed])
    assert lgm.fit(lgm.loads(text), {"y": three, "X": X}, "laplace").converged


@pytest.mark.parametrize("link", ["softmax", "probit"])
def test_a_level_that_all_classes_share_is_free(link: str) -> None:
    """The sites see contrasts alone; and the latent is named that nothing fixes."""
    text = (
        "lgm 1\nindex obs\nindex class = 3\ndata y[obs] : class\ndata x[obs] : real\n"
        "latent a[class] ~ normal(sd = 1)\nlatent b[class] ~ flat\n"
        f"let eta[obs, class] = a + b * x\nobserve y ~ categorical({link} = eta)\n"
    )
    rng = np.random.default_rng(0)
    data = {"y": rng.integers(3, size=60), "x": rng.normal(size=60)}
    with pytest.raises(lgm.ModelError, match="nothing fixes `b`") as caught:
        lgm.fit(lgm.loads(text), data, "laplace")
    assert caught.value.codes == ("E402",)
    proper = text.replace("b[class] ~ flat", "b[class] ~ normal(sd = 3)")
    assert lgm.fit(lgm.loads(proper), data, "natural-gradient").converged


@pytest.mark.parametrize("engine", ["precision", "covariance", "sparse", "iterative"])
def test_a_word_of_the_reason_is_no_latent(engine: str) -> None:
    """The latent `prior` is well determined, and "no datum or prior determines" `b`."""
    text = (
        "lgm 1\nindex obs\ndata y[obs] : real\ndata x[obs] : real\nlatent prior ~ flat\n"
        "latent b ~ flat\nlet eta[obs] = prior + b * x\nobserve y ~ normal(mean = eta, sd = 1)\n"
    )
    with pytest.raises(lgm.ModelError, match="nothing fixes `b`") as caught:
        lgm.fit(
            lgm.loads(text), {"y": np.arange(6.0), "x": np.zeros(6)}, options={"engine": engine}
        )
    assert caught.value.codes == ("E402",)
    assert "no datum or prior determines b\n" in str(caught.value)


def test_the_latent_that_is_free_is_named() -> None:
    text = (
        "lgm 1\nindex obs\nindex class = 3\nindex cut = head(class)\ndata y[obs] : class\n"
        "data x[obs] : real\nlatent a[cut] ~ flat\nlatent b[cut] ~ flat\n"
        "let eta[obs, cut] = a + b * x\nobserve y ~ categorical(softmax = eta)\n"
    )
    data = {"y": np.arange(60) % 3, "x": np.zeros(60)}
    with pytest.raises(lgm.ModelError, match="nothing fixes `b`"):
        lgm.fit(lgm.loads(text), data)


@pytest.mark.parametrize(
    "prior",
    [
        "rw2(sd = s) * rw2",
        "rw1(sd = s) * rw2(cyclic = false)",
        "rw2(sd = s) * iid",
        "rw2(sd = s, sum_to_zero = false) * rw1",
    ],
)
def test_the_prior_proposed_in_place_of_free_trends_fits(prior: str) -> None:
    """Cells that no row falls into leave the trends of rw2 along either axis free."""
    rng = np.random.default_rng(0)
    data = {
        "y": rng.normal(size=25),
        "i": rng.integers(12, size=25),
        "j": rng.integers(10, size=25),
    }
    written = f"latent f[a, b] ~ {prior}"
    text = (
        "lgm 1\nindex obs\nindex a = 12\nindex b = 10\ndata y[obs] : real\ndata i[obs] : a\n"
        f"data j[obs] : b\nhyper s : positive = 0.7\n{written}\n"
        "observe y ~ normal(mean = f[i, j], sd = 1)\n"
    )
    with pytest.raises(lgm.ModelError) as caught:
        lgm.fit(lgm.loads(text), data)
    (problem,) = caught.value.diagnostics
    assert problem.code == "E402" and "`rw2` leaves trends free" in problem.help
    proposed = problem.help[problem.help.index("latent ") :].removesuffix(" has none")
    assert lgm.fit(lgm.loads(text.replace(written, proposed)), data).converged


def test_a_free_level_of_a_walk_is_tied_by_its_sum() -> None:
    text = (
        "lgm 1\nindex obs\nindex t = 9\ndata y[obs] : real\ndata who[obs] : t\n"
        "latent b0 ~ flat\nlatent f[t] ~ rw1(sd = 1, sum_to_zero = false)\n"
        "observe y ~ normal(mean = b0 + f[who], sd = 1)\n"
    )
    data = {"y": np.arange(9.0), "who": np.arange(9)}
    with pytest.raises(lgm.ModelError, match="help: remove `sum_to_zero = false`"):
        lgm.fit(lgm.loads(text), data)
    assert lgm.fit(lgm.loads(text.replace(", sum_to_zero = false", "")), data).converged


@pytest.mark.parametrize("base", ["p", "q", "r"])
def test_the_base_of_treatment_contrasts_is_no_direction(base: str) -> None:
    """Its variance is rounding, and so is what a move along it does to the predictors."""
    text = f"""lgm 1
index obs
index arm
data y[obs] : real
data arms[obs] : arm
latent a ~ flat
latent e[arm] ~ flat
constrain e["{base}"] = 0
observe y ~ normal(mean = a + e[arms], sd = 1)
"""
    data = {"y": np.arange(12.0), "arms": np.array(["p", "q", "r"] * 4)}
    means = data["y"].reshape(4, 3).mean(axis=0)
    fit = lgm.fit(lgm.loads(text), data)
    assert fit.mean("e").values == pytest.approx(means - means["pqr".index(base)])
