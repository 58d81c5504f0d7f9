"""Every method beside the same method written in a few lines of dense algebra (`plain`): one
optimum, one evidence, one posterior, and no more steps than it has always taken."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import special

from lgmdsl.inference.plan import plan
from tests.agreement.plain import (
    Answer,
    by_quadrature,
    few_directions,
    held_by_kinks,
    joined,
    laplace,
    moved,
    propagated,
    through_tangents,
    variational,
)
from tests.agreement.plain_models import (
    BINARY,
    FIELD,
    GROUPED,
    REAL,
    ROWS,
    SITES,
    TEXTS,
    check,
    few,
    field,
    fitted,
    grouped,
)


@cache
def plain(kind: str, site: str, text: str = GROUPED) -> Answer:
    """The answer that methods of a `kind` are to give."""
    model, density = TEXTS[text](), SITES[site].density
    if kind == "laplace":
        return laplace(model, density)
    if kind == "corrected":
        return moved(model, by_quadrature(density), plain("laplace", site, text))
    if kind == "ep":
        return propagated(model, density)
    if kind == "half":
        return propagated(model, density, 0.5)
    if kind == "apart":
        parts = (slice(0, 2), slice(2, len(model.mean)))
        return variational(replace(model, blocks=parts), by_quadrature(density))
    if kind == "tangents":
        if SITES[site].kind == "binary":
            return variational(model, through_tangents(density, BINARY - 0.5))
        # Symmetric about the response.
        from_y = replace(model, offset=model.offset - REAL)
        found = variational(from_y, through_tangents(lambda s: density(s + REAL)))
        return replace(found, model=model)
    assert kind == "variational"
    return variational(model, by_quadrature(density))


# Steps of each solver of one objective, and where it is looser than the others.
Options = dict[str, Any]
VARIATIONAL: list[tuple[str, Options, tuple[int, int, int], float]] = [
    ("natural-gradient", {}, (9, 10, 4), 1e-6),
    ("natural-gradient", {"memory": 1}, (9, 10, 4), 1e-6),
    ("opper-archambeau", {}, (171, 32, 176), 2e-5),
    ("opper-archambeau", {"whitened": False}, (383, 313, 202), 1e-5),
    ("cholesky", {}, (8, 9, 6), 1e-6),
    ("cholesky", {"whitened": False}, (9, 13, 7), 1e-6),
    ("coordinate-ascent", {}, (4, 4, 4), 2e-6),
    ("lcl", {}, (9, 12, 7), 2e-6),
    ("lcl", {"solver": "lbfgs"}, (9, 12, 7), 2e-6),
    ("stochastic", {"minibatch": 4}, (6, 8, 3), 1e-6),
    ("inducing", {"directions": 50}, (9, 10, 4), 1e-6),
    ("mean-field", {"blocks": "b, u"}, (9, 10, 4), 1e-6),
]


def named(case: tuple[Any, ...]) -> str:
    options = ",".join(f"{k}={v}" for k, v in case[1].items())
    return f"{case[0]}[{options}]" if options else case[0]


@pytest.mark.parametrize("case", VARIATIONAL, ids=named)
def test_the_variational_gaussian(case: tuple[str, Options, tuple[int, int, int], float]) -> None:
    """All solvers, on sites that are log-concave with and without limits to their slopes, and on
    one that is not."""
    method, options, steps, close = case
    for site, most in zip(("logit", "poisson", "student_t"), steps, strict=True):
        fit = fitted(GROUPED, site, method, options=options)
        check(fit, plain("variational", site), close)
        few(fit, most)


@pytest.mark.parametrize(("site", "steps"), [("logit", (8, 9)), ("poisson", (10, 17))])
def test_independent_blocks(site: str, steps: tuple[int, int]) -> None:
    for expand, most in zip((True, False), steps, strict=True):
        fit = fitted(GROUPED, site, "mean-field", options={"expand": expand})
        check(fit, plain("apart", site))
        few(fit, most)


@pytest.mark.parametrize("site", ["logit", "poisson"])
def test_few_directions_of_a_gp(site: str) -> None:
    """q(z) = p(z | u) q(u): the variational Gaussian of x, z = mu + R x + e."""
    model, count = field(), 4
    root, left = few_directions(model.covariance[:ROWS, :ROWS], count)
    inner = replace(
        model,
        design=np.hstack([root, np.ones((ROWS, 1))]),
        mean=np.r_[np.zeros(count), 0.3],
        covariance=np.eye(count + 1),
        extra=left,
    )
    q = variational(inner, by_quadrature(SITES[site].density))
    out = joined([root, np.ones((1, 1))])
    more = model.covariance[:ROWS, :ROWS] - root @ root.T
    wanted = Answer(
        model,
        out @ q.mean,
        out @ q.covariance @ out.T + joined([more, np.zeros((1, 1))]),
        q.evidence,
    )
    fit = fitted(FIELD, site, "inducing", options={"directions": count})
    check(fit, wanted)


TANGENTS: list[tuple[str, Options, tuple[int, ...]]] = [
    ("double-loop", {}, (4, 4, 7)),
    ("coordinate-descent", {}, (5, 4, 6)),
    ("coordinate-descent", {"group": 3}, (5, 4, 6)),
]


@pytest.mark.parametrize("case", TANGENTS, ids=named)
def test_super_gaussian_bounds(case: tuple[str, Options, tuple[int, ...]]) -> None:
    method, options, steps = case
    for site, most in zip(("logit", "student_t", "laplace"), steps, strict=True):
        fit = fitted(GROUPED, site, method, options=options)
        check(fit, plain("tangents", site), 2e-6)
        few(fit, most)
    check(fitted(FIELD, "logit", method, options=options), plain("tangents", "logit", FIELD), 2e-6)


@pytest.mark.parametrize("text", [GROUPED, FIELD], ids=["grouped", "field"])
def test_jaakkolas_bound_by_three_methods(text: str) -> None:
    """The super-Gaussian bound of logistic sites is that of Jaakkola and Jordan."""
    fits = [
        fitted(text, "logit", "double-loop"),
        fitted(text, "logit", "coordinate-descent"),
        fitted(text, "logit", "natural-gradient", bound="jaakkola"),
    ]
    for fit in fits:
        check(fit, plain("tangents", "logit", text), 2e-6)


@pytest.mark.parametrize("expand", [True, False])
def test_data_augmentation(expand: bool) -> None:
    """Mean field between z and the auxiliaries: of probit sites log Phi(m) - v/2 is left of a
    site's density, of Student-t sites, mixtures over their scale, the tangent's."""
    sign = 2.0 * BINARY - 1.0
    wanted = variational(
        grouped(), lambda m, v: np.asarray(special.log_ndtr(sign * m[:, 0]) - 0.5 * v[:, 0, 0])
    )
    fit = fitted(GROUPED, "probit", "px-vb", options={"expand": expand})
    check(fit, wanted)
    few(fit, 34 if expand else 59)
    fit = fitted(GROUPED, "student_t", "px-vb", options={"expand": expand})
    check(fit, plain("tangents", "student_t"))
    few(fit, 4 if expand else 6)


# Steps on the grouped model and on the field.
LAPLACE = {"logit": (4, 4), "poisson": (6, 5), "student_t": (3, 4), "probit": (5, 5)}


@pytest.mark.parametrize("site", sorted(LAPLACE))
def test_modes(site: str) -> None:
    for text, steps in zip(TEXTS, LAPLACE[site], strict=True):
        wanted = plain("laplace", site, text)
        fit = fitted(text, site, "laplace")
        check(fit, wanted, 1e-7)
        few(fit, steps)
        mode = fitted(text, site, "map")
        check(mode, wanted, 1e-7)
        assert np.isnan(mode.log_evidence)
    corrected = fitted(GROUPED, site, "laplace", options={"correct_mean": True})
    check(corrected, plain("corrected", site), 1e-6)


def test_the_mode_that_kinks_hold() -> None:
    model = grouped()
    z = held_by_kinks(replace(model, offset=model.offset - REAL), 1.5)
    fit = fitted(GROUPED, "laplace", "map")
    assert fit.converged
    found = np.concatenate([fit.mean("b").values, fit.mean("u").values])
    np.testing.assert_allclose(found, z, atol=1e-6)


EP: list[tuple[str, Options, tuple[int, ...]]] = [
    ("ep", {}, (4, 5, 4, 5)),
    ("ep", {"mode": "sequential"}, (4, 4, 3, 5)),
    ("ep", {"mode": "double-loop"}, (6, 7, 6, 8)),
    ("ep", {"power": 0.5}, (4, 5, 4, 5)),
    ("ep", {"power": 0.5, "mode": "sequential"}, (4, 5, 5, 6)),
    ("ep", {"power": 0.5, "mode": "double-loop"}, (8, 9, 8, 10)),
]


@pytest.mark.parametrize("case", EP, ids=named)
def test_expectation_propagation(case: tuple[str, Options, tuple[int, ...]]) -> None:
    method, options, steps = case
    kind = "half" if "power" in options else "ep"
    for site, most in zip(("logit", "poisson", "student_t", "probit"), steps, strict=True):
        fit = fitted(GROUPED, site, method, options=options)
        check(fit, plain(kind, site), 2e-6)
        few(fit, most)


@pytest.mark.parametrize("text", [GROUPED, FIELD], ids=["grouped", "field"])
@pytest.mark.parametrize("whitened", [True, False])
@pytest.mark.parametrize("method", ["cholesky", "opper-archambeau"])
def test_slopes_of_a_search_are_those_of_its_objective(
    method: str, whitened: bool, text: str
) -> None:
    """Along the steps of L-BFGS near the optimum: a gradient that is off by one per cent still
    leads there."""
    canonical = fitted(text, "poisson", method).canonical
    planned = plan(canonical, method, None, {"whitened": whitened})
    problem: Any = planned.at(canonical.hypers.theta(None))
    backend: Any = planned.backend
    state, seen = backend.start(problem), 0
    for _ in range(400):
        before, state = state, backend.step(problem, state)
        if state.failed is not None:
            break
        one, two = before.iterate, state.iterate
        if two.steps != one.steps + 1:
            continue  # new coordinates
        gain, move = two.at.value - one.at.value, two.x - one.x
        if not 1e-7 < -gain < 1e-3:
            continue
        slope = 0.5 * (one.at.gradient + two.at.gradient)
        along = float(move[0] @ slope[1] if slope.ndim == 2 else move @ slope)
        assert along / gain == pytest.approx(1.0, abs=4e-3)
        seen += 1
    assert seen
