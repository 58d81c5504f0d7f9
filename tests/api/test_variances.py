"""`--option variances=exact|samples|lanczos`, `samples`, `vectors`: what drives a fit, what it
reports, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.status import Status

LOGIT = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent w[feat] ~ normal(sd = 2)
let eta[obs] = X @ w
observe y ~ bernoulli(logit = eta)
"""
LEARNED = LOGIT.replace(
    "latent w[feat] ~ normal(sd = 2)",
    """\
hyper s : positive ~ pc_sd(u = 3, alpha = 0.05)
latent w[feat] ~ normal(sd = s)""",
)
ROWS, FEATURES = 200, 40


def data() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES))
    p = 1.0 / (1.0 + np.exp(-X[:, :3] @ [1.0, -1.0, 0.5]))
    return {"X": X, "y": (rng.random(ROWS) < p).astype(float)}


def fitted(method: str = "double-loop", text: str = LOGIT, **options: object) -> Any:
    return lgm.fit(lgm.loads(text), data(), method=method, options=options)


@pytest.fixture(scope="module")
def exact() -> Any:
    return fitted(variances="exact")


def percentages(fit: Any) -> dict[str, float]:
    """The errors that the notes name: of what, in per cent."""
    found = re.findall(r"variances of (\w+) \+- ([\d.]+) %", fit.provenance["notes"])
    return {of: float(number) for of, number in found}


def test_exact_ones_are_the_default_where_an_engine_has_them(exact: Any) -> None:
    plain = fitted()
    assert plain.engine == exact.engine != "iterative"
    assert plain.log_evidence == exact.log_evidence


def test_samples_as_many_as_were_asked_for(exact: Any) -> None:
    """Means are off by little, and errors fall with the square root of the number."""
    said = {}
    for count in (20, 500):
        fit = fitted(variances="samples", samples=count)
        assert fit.engine == "iterative" and fit.converged
        assert fit.posterior.conditioned.samples.count == count
        away = (np.asarray(fit.mean("w")) - np.asarray(exact.mean("w"))) / np.asarray(exact.sd("w"))
        assert float(np.sqrt(np.mean(away**2))) < 0.05
        said[count] = percentages(fit)["predictors"]
        assert abs(fit.log_evidence - exact.log_evidence) < 1.0
    assert said[500] < 0.3 * said[20]


@pytest.mark.parametrize("method", ["laplace", "natural-gradient", "ep"])
def test_samples_for_other_methods(method: str) -> None:
    fit = fitted(method, samples=200)
    usual = fitted(method)
    assert fit.engine == "iterative" and fit.converged
    np.testing.assert_allclose(fit.sd("w"), usual.sd("w"), rtol=0.2)


def test_errors_say_what_they_are_of() -> None:
    """The latents' variances are estimated from the same samples as the predictors', but for what
    neighbours say: each has its own error, and both are what is found."""
    model = lgm.loads("""lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : real
latent w[feat] ~ normal(sd = 1)
observe y ~ normal(mean = X @ w, sd = 3)
""")
    given = {"X": data()["X"], "y": data()["y"]}
    right, fit = (lgm.fit(model, given, method="laplace", options=o) for o in ({}, {"samples": 20}))
    said = percentages(fit)
    assert said.keys() == {"predictors", "latents"}
    q, p = fit.posterior.conditioned, right.posterior.conditioned
    for of, estimate, truth in (
        ("predictors", q.variance[0], p.variance[0]),
        ("latents", q.latent_variance, p.latent_variance),
    ):
        found = 100.0 * float(np.sqrt(np.mean((estimate / truth - 1.0) ** 2)))
        assert found / 2.0 < said[of] < 3.0 * found
    assert said["latents"] < said["predictors"] / 4.0
    assert "log evidence +- " in fit.provenance["notes"] and " nats" in fit.provenance["notes"]


def test_lanczos_vectors_that_span_the_latents_are_exact(exact: Any) -> None:
    fit = fitted(variances="lanczos")
    assert fit.engine == "iterative" and fit.converged
    np.testing.assert_allclose(fit.sd("w"), exact.sd("w"), rtol=1e-5)
    np.testing.assert_allclose(fit.sd("eta"), exact.sd("eta"), rtol=1e-5)
    away = (np.asarray(fit.mean("w")) - np.asarray(exact.mean("w"))) / np.asarray(exact.sd("w"))
    assert np.abs(away).max() < 1e-3
    notes = fit.provenance["notes"]
    assert f"{FEATURES} Lanczos vectors drove the outer loop and hold 100 %" in notes
    assert percentages(fit) == {}


def test_few_lanczos_vectors_are_no_convergence(exact: Any) -> None:
    """Their widths are not the best ones, whatever the residual says; sds are of samples."""
    fit = fitted(vectors=8)
    assert fit.status is Status.stalled
    notes = fit.provenance["notes"]
    share = re.search(r"8 Lanczos vectors .* hold ([\d.]+) % of the variances of the pr", notes)
    assert share is not None and 5.0 < float(share[1]) < 60.0
    assert "what is reported is from samples" in notes
    assert fit.log_evidence < exact.log_evidence - 0.1
    np.testing.assert_allclose(fit.sd("w"), exact.sd("w"), rtol=0.4)


@pytest.mark.parametrize("options", [{"samples": 30}, {"vectors": 8}, {"vectors": FEATURES}])
def test_a_stored_fit_has_the_same_variances(options: dict[str, int], tmp_path: Path) -> None:
    fit = fitted(**options)  # type: ignore[arg-type]
    fit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc")
    np.testing.assert_allclose(again.sd("eta"), fit.sd("eta"), rtol=1e-3)
    new = {"X": np.eye(FEATURES)[:3]}
    first, second = (f.predict(new).sd("eta") for f in (fit, again))
    np.testing.assert_allclose(first, second, rtol=0.2 if "vectors" in options else 1e-3)


REFUSED: list[tuple[str, str, dict[str, object], str]] = [
    ("double-loop", LOGIT, {"variances": "lancos"}, "E104.*`variances` cannot be `lancos`"),
    ("double-loop", LOGIT, {"samples": 4}, "E104.*`samples` is a whole number, at least 5, not"),
    ("double-loop", LOGIT, {"samples": "many"}, "E104.*at least 5, not `many`"),
    ("double-loop", LOGIT, {"vectors": 0}, "E104.*`vectors` is a whole number, at least 1"),
    ("double-loop", LOGIT, {"vectors": 2.5}, "E104.*`vectors` is a whole number, at least 1"),
    ("double-loop", LOGIT, {"variances": "exact", "samples": 20},
     "E104.*`samples` has no use with variances=exact"),
    ("double-loop", LOGIT, {"variances": "lanczos", "samples": 20},
     "E104.*`samples` has no use with variances=lanczos"),
    ("double-loop", LOGIT, {"samples": 9, "vectors": 9},
     "E104.*`vectors` has no use with variances=samples"),
    ("natural-gradient", LOGIT, {"variances": "lanczos"},
     "E104.*`natural-gradient` cannot be driven by variances=lanczos"),
    ("map", LOGIT, {"vectors": 5}, "E104.*`map` cannot be driven by variances=lanczos"),
    ("double-loop", LOGIT, {"engine": "precision", "variances": "lanczos"},
     "E501.*`precision` cannot take .* exactly, and variances=lanczos was asked for"),
    ("double-loop", LOGIT, {"engine": "iterative", "variances": "exact"},
     "E501.*`iterative` cannot take .* estimates variances, and variances=exact was asked for"),
    ("double-loop", LEARNED, {"variances": "lanczos"},
     'E104.*`variances` cannot be `lanczos` with hyper="integrate"'),
    ("laplace", LOGIT.replace("normal(sd = 2)", "gp(at = u, kernel = se(sd = 1, length = 1))")
     .replace("data y", "data u[feat] : real\ndata y"), {"samples": 20},
     "E501.*no engine takes this model with variances=samples: iterative: "),
]  # fmt: skip


@pytest.mark.parametrize(("method", "text", "options", "reason"), REFUSED)
def test_what_cannot_be_used_is_refused_by_name(
    method: str, text: str, options: dict[str, object], reason: str
) -> None:
    given = data() | {"u": np.linspace(0.0, 3.0, FEATURES)}
    with pytest.raises(lgm.MethodError) as told:
        lgm.fit(lgm.loads(text), given, method=method, options=options)
    assert re.search(reason, str(told.value), re.S)
    assert "help: " in str(told.value)


@pytest.mark.thorough
def test_hyperparameters_are_learned_with_samples() -> None:
    fit = fitted(text=LEARNED, samples=50)
    usual = fitted(text=LEARNED)
    assert float(fit.mean("s")) == pytest.approx(float(usual.mean("s")), rel=0.3)
