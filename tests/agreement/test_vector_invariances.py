"""What no fit of vector sites may depend on, for every (method, bound) pair that takes them:

entries that are missing       all families, all pairs
the order of the classes       all families but sticks and pieces of time, which stand in an order
counts or single choices       multinomials beside categoricals, admixtures beside single words

The last two without products of sigmoids by quadratic pieces.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array
from tests.agreement.vector_pairs import (
    ALL,
    EMISSION,
    LABELS,
    TEXTS,
    VECTOR,
    Pair,
    data,
    fit,
    fitted,
)

# A product of sigmoids by quadratic pieces jumps where a predictor passes from one piece to the
# next: what solvers come to rest at depends on their way there.
STEADY = [
    (name, pair) for name, pair in ALL if "product-of-sigmoids-piecewise-quad" not in pair.bound
]
ORDERED = ("categorical.stick", "piecewise_exponential.log_hazard")
SYMMETRIC = [(name, pair) for name, pair in STEADY if name not in ORDERED]
# Expectation propagation approximates sites one by one, so it has another answer for more sites.
COUNTED = [
    (name, pair)
    for name, pair in STEADY
    if name.startswith(("multinomial", "admixture")) and pair.method != "ep"
]


SLOW = ("cholesky", "coordinate-ascent")
# The points of these rules lie on axes of their own: another order is another rule.
ROUGH = {("admixture.softmax", "quadrature"): 1e-4, ("dirichlet.softmax", "quadrature"): 1e-5}


def over(cases: list[tuple[str, Pair]]) -> pytest.MarkDecorator:
    """A test of every pair, named by it; the solvers that share natural-gradient's objective are
    marked as slow."""
    made = [
        pytest.param(
            name, pair, id=f"{name}-{pair}", marks=[pytest.mark.slow] if pair.method in SLOW else []
        )
        for name, pair in cases
    ]
    return pytest.mark.parametrize(("family", "pair"), made)


def agree(
    a: lgm.Fit, b: lgm.Fit, shift: float = 0.0, order: Array | None = None, near: float = 1e-7
) -> None:
    """Evidences `shift` apart (a mode has none), and the same means and sds."""
    assert a.converged and b.converged
    if a.method != "map":
        assert a.log_evidence == pytest.approx(b.log_evidence + shift, rel=near, abs=near)
    for found in ("mean", "sd"):
        x, y = (np.asarray(getattr(f, found)("w")) for f in (a, b))
        np.testing.assert_allclose(
            x if order is None else x[order], y, rtol=0.0, atol=max(2e-4, 20.0 * near)
        )


def test_every_family_has_a_model() -> None:
    assert set(TEXTS) == set(VECTOR)
    assert {pair.method for _, pair in ALL} >= {"laplace", "natural-gradient", "coordinate-ascent"}


@pytest.mark.few(8)
@over(ALL)
def test_missing_rows_are_left_out(family: str, pair: Pair) -> None:
    given, gone = data(family), np.array([1, 3])
    y = given["y"].astype(object if given["y"].dtype.kind == "U" else float)
    y[gone] = "" if y.dtype == object else np.nan
    some = fit(family, pair, {**given, "y": y.astype(given["y"].dtype)})
    rest = fit(
        family,
        pair,
        {k: v if k == "breaks" else np.delete(v, gone, axis=0) for k, v in given.items()},
    )
    agree(some, rest)
    assert abs(float(some.mean("w")[0]) - float(fitted(family, pair).mean("w")[0])) > 1e-3


@pytest.mark.few(8)
@over(SYMMETRIC)
def test_permuting_classes_leaves_the_fit(family: str, pair: Pair) -> None:
    given, order = data(family), np.array([2, 0, 1])
    emission = EMISSION[np.argsort(order)]
    if given["y"].dtype.kind == "U":
        given["y"] = LABELS[order[np.searchsorted(LABELS, given["y"])]]
    elif not family.startswith("admixture"):
        given["y"] = given["y"][:, np.argsort(order)]
    near = ROUGH.get((family, pair.bound), 1e-7)
    agree(fit(family, pair, given, emission), fitted(family, pair), order=order, near=near)


@pytest.mark.few(10)
@over(COUNTED)
def test_splitting_counts_leaves_the_evidence_but_for_their_orders(family: str, pair: Pair) -> None:
    given = data(family)
    counts = given["y"].astype(int)
    rows = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    chosen = np.concatenate([np.repeat(np.arange(counts.shape[1]), c) for c in counts])
    if family.startswith("multinomial"):
        single, y = "categorical.softmax", LABELS[chosen]
    else:
        single, y = family, np.eye(counts.shape[1])[chosen]
    orders = special.gammaln(counts.sum(axis=1) + 1.0).sum() - special.gammaln(counts + 1.0).sum()
    split = fit(single, pair, {"x": given["x"][rows], "y": y})
    agree(fitted(family, pair), split, shift=float(orders))
