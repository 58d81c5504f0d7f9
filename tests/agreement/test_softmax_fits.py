"""Fits of softmax models from their text: methods and engines agree, evidences are in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import plan
from tests.agreement.plain_models import slopes_hold
from tests.compiled import canonical_form

HEAD = """lgm 1
index obs
index feat
index class = {"a", "b", "c"}
index cut = head(class)
data X[obs, feat] : real
hyper s : positive ~ half_normal(sd = 1)
"""
CHOICE = (
    HEAD + "data y[obs] : class?\nlatent W[feat, class] ~ normal(sd = s)\n"
    "let eta[obs, class] = X @ W\nobserve y ~ categorical(softmax = eta)\n"
)
REFERENCE = CHOICE.replace("W[feat, class]", "W[feat, cut]").replace(
    "eta[obs, class]", "eta[obs, cut]"
)
COUNTS = (
    HEAD + "data y[obs, class] : count?\ndata n[obs] : count\n"
    "latent W[feat, class] ~ normal(sd = s)\nlet eta[obs, class] = X @ W\n"
    "observe y ~ multinomial(n = n, softmax = eta)\n"
)
BOUNDS = ("bohning", "log", "tilted", "product-of-sigmoids", "quadrature")


def data(n: int = 12, feats: int = 2, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, feats))
    p = special.softmax(x @ rng.normal(size=(feats, 3)) * 1.5, axis=1)
    y = np.array([rng.choice(3, p=q) for q in p])
    return {"X": x, "y": np.array(["a", "b", "c"])[y]}


def fit(text: str, given: dict[str, Any], method: str = "natural-gradient", **more: Any) -> lgm.Fit:
    more = {"fixed": {"s": 1.2}, "tol": 1e-10, **more}
    return lgm.fit(lgm.loads(text), given, method, **more)


@pytest.mark.few(3)
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("text", [CHOICE, REFERENCE], ids=["all", "reference"])
def test_solvers_and_engines_share_an_optimum(text: str, bound: str) -> None:
    given = data()
    best = fit(text, given, bound=bound)
    assert best.converged
    canonical = canonical_form(text, given)
    theta = canonical.hypers.theta({"s": 1.2})
    found = {
        m: fit(text, given, m, bound=bound, max_steps=400).log_evidence
        for m in ("cholesky", "coordinate-ascent")
    }
    for engine in (CovarianceEngine, PrecisionEngine, SparseEngine):
        linear = canonical.linear(theta)
        made = plan(canonical, "natural-gradient", bound)
        done = run(made.backend, made.at(theta, engine(linear)), Tolerances(1e-11, 1e-6))
        assert done.posterior is not None
        found[engine.name] = done.posterior.log_evidence
    assert len(found) == 5
    for name, value in found.items():
        assert value == pytest.approx(best.log_evidence, rel=1e-6), name


def exact_evidence(given: dict[str, Any]) -> float:
    """By a product rule over the two free weights of a reference model with one feature."""
    t = np.linspace(-9.0, 9.0, 241)
    w = np.exp(-0.5 * t * t)
    grid = np.stack(np.meshgrid(1.2 * t, 1.2 * t, indexing="ij"), axis=-1).reshape(-1, 2)
    weight = (w[:, None] * w / w.sum() ** 2).ravel()
    x, y = given["X"][:, 0], np.searchsorted(["a", "b", "c"], given["y"])
    s = np.concatenate([grid, np.zeros((len(grid), 1))], axis=1)[:, None, :] * x[:, None]
    l = (s[:, np.arange(len(y)), y] - special.logsumexp(s, axis=2)).sum(axis=1)
    return float(special.logsumexp(l, b=weight))


@pytest.mark.thorough
def test_evidences_are_in_order() -> None:
    given = data(8, 1, seed=3)
    truth = exact_evidence(given)
    found = {b: fit(REFERENCE, given, bound=b).log_evidence for b in (*BOUNDS, "delta")}
    assert all(found[b] <= truth + 1e-9 for b in BOUNDS)
    assert all(found[b] <= found["quadrature"] + 1e-9 for b in BOUNDS)
    assert found["quadrature"] == pytest.approx(truth, abs=0.05)
    assert fit(REFERENCE, given, "laplace").log_evidence == pytest.approx(truth, abs=0.2)
    guarantees = {b: fit(REFERENCE, given, bound=b).guarantee for b in ("log", "delta")}
    assert str(guarantees["log"]) != str(guarantees["delta"])


def test_rows_that_are_missing_in_part_are_refused() -> None:
    counts = np.array([[1.0, 2.0, 0.0], [np.nan, 1.0, 1.0], [3.0, 0.0, 0.0]])
    with pytest.raises(lgm.DataError, match="some of its counts") as raised:
        fit(COUNTS, {"X": np.ones((3, 2)), "y": counts, "n": [3, 2, 3]})
    assert raised.value.codes == ("E304",)
    counts[1] = np.nan
    assert fit(COUNTS, {"X": np.eye(3, 2), "y": counts, "n": [3, 2, 3]}).converged
    with pytest.raises(lgm.DataError, match="cannot occur") as raised:
        fit(COUNTS, {"X": np.eye(3, 2), "y": counts, "n": [3, 2, 4]})
    assert raised.value.codes == ("E303",) and "y = [3, 0, 0]" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "method", "bound"),
    [
        (CHOICE, "laplace", None),
        (REFERENCE, "laplace", None),
        (CHOICE, "natural-gradient", "log"),
        (REFERENCE, "natural-gradient", None),
    ],
    ids=["all-laplace", "reference-laplace", "all-log", "reference-quadrature"],
)
def test_gradients_of_hypers(text: str, method: str, bound: str | None) -> None:
    """In a prior's sd, a loading and an offset, whose adjoints have an axis of classes."""
    index = "cut" if text is REFERENCE else "class"
    more = f"hyper c[{index}] : real ~ normal(sd = 1)\nhyper t : real ~ normal(sd = 1)\nlatent"
    text = text.replace("latent", more, 1).replace("= X @ W", "= c + t * (X @ W)")
    at = {
        "s": np.asarray(0.9),
        "t": np.asarray(1.3),
        "c": np.array([0.3, -0.4, 0.2])[: 2 if index == "cut" else 3],
    }
    given = data()
    given["y"] = np.where(np.arange(12) == 4, "", given["y"])  # a missing row
    slopes_hold(fit(text, given, method, bound=bound, fixed=at), method, bound, at)


@pytest.mark.thorough
def test_hypers_are_learned_and_classes_predicted() -> None:
    given = data(20)
    fits = [
        fit(CHOICE, given, "laplace", fixed=None, hyper=h, tol=None) for h in ("map", "integrate")
    ]
    new = {"X": np.array([[0.0, 0.0], [2.0, -1.0]])}
    for f in fits:
        assert f.converged and 0.1 < float(f.mean("s")) < 5.0
        p = f.predict(new).response("y")["probability"]
        assert p.dims == ("obs", "class") and list(p["class"].values) == ["a", "b", "c"]
        np.testing.assert_allclose(p.sum("class"), 1.0, rtol=1e-12)
        np.testing.assert_allclose(p[0], 1.0 / 3.0, atol=1e-10)
    shares = fit(CHOICE + "report p[obs, class] = softmax(eta, class)\n", given, "laplace")
    own = shares.predict({"X": given["X"]}).response("y")["probability"]
    np.testing.assert_allclose(shares.mean("p"), own, atol=0.02)


def test_predicted_counts_are_those_of_draws() -> None:
    rng = np.random.default_rng(4)
    x, counts = rng.normal(size=(6, 2)), rng.multinomial(4, [0.5, 0.3, 0.2], size=6)
    f = fit(COUNTS, {"X": x, "y": counts, "n": np.full(6, 4)})
    p = f.predict({"X": x[:2], "n": [4, 9]})
    told, drawn = p.response("y"), p.sample_response("y", 20_000, seed=1)
    assert drawn.dims == ("sample", "obs", "class")
    assert (drawn.sum("class") == [4, 9]).all()
    np.testing.assert_allclose(drawn.mean("sample"), told["mean"], atol=0.08)
    np.testing.assert_allclose(drawn.std("sample"), told["sd"], rtol=0.03)


def test_methods_that_take_no_vector_sites_say_so() -> None:
    for method in ("lcl", "opper-archambeau", "coordinate-descent"):
        with pytest.raises(
            lgm.MethodError, match=r"vector-valued: .*\n.* natural-gradient"
        ) as raised:
            fit(CHOICE, data(), method)
        assert raised.value.codes == ("E501",)
    with pytest.raises(lgm.MethodError, match=r"not super-gaussian\n.* natural-gradient"):
        fit(CHOICE, data(), "double-loop")  # of vectors it takes norms


def test_ep_takes_choices_and_their_sticks() -> None:
    assert fit(CHOICE, data(), "ep").converged
    stick = REFERENCE.replace("softmax", "stick")
    assert fit(stick, data(), "ep").converged


@pytest.mark.thorough
def test_choices_left_out_one_by_one() -> None:
    """Cavities against fits without the row."""
    given = data(30)
    loo = fit(CHOICE, given).loo()
    for i in (0, 3, 7):
        kept = np.delete(np.arange(30), i)
        rest = fit(CHOICE, {"X": given["X"][kept], "y": given["y"][kept]})
        p = rest.predict({"X": given["X"][[i]]}).response("y")["probability"]
        known = np.log(float(p.sel({"class": given["y"][i]}).item()))
        assert loo.log_density[0][i] == pytest.approx(known, abs=5e-3)
