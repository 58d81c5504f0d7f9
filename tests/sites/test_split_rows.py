"""Rows of zeros and rows above 0 are each answered by their own formula alone."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Site
from lgmdsl.sites.combined.hurdle import hurdle
from lgmdsl.sites.combined.zero_inflated import zero_inflated
from lgmdsl.sites.quadrature import NodeSites
from lgmdsl.sites.scalar import negbinomial
from lgmdsl.sites.scalar.negbinomial import NegbinomialLogMean

ROWS, NODES = 300, 20  # fewer rows than are split by themselves


def sites(modifier: str) -> Site:
    rng = np.random.default_rng(0)
    makes: dict[str, Any] = {"zero_inflation": zero_inflated, "hurdle": hurdle}
    family = makes[modifier](NegbinomialLogMean)
    y = rng.poisson(0.7, ROWS).astype(float)
    fields = {"y": y, "size": np.full(ROWS, 1.5), "exposure": np.ones(ROWS)}
    return cast(Site, family(**fields, **{modifier: np.full(ROWS, 0.2)}))


@pytest.mark.parametrize("modifier", ["zero_inflation", "hurdle"])
def test_nodes_are_asked_once(modifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    plain = NegbinomialLogMean._density

    def density(self: NegbinomialLogMean, x: Array, *parts: Array) -> Array:
        sizes.append(np.size(x))
        return plain(self, x, *parts)

    def deviance(*_: Any) -> Array:
        raise AssertionError("small counts cancel nothing")

    monkeypatch.setattr(NegbinomialLogMean, "_density", density)
    monkeypatch.setattr(negbinomial, "deviance", deviance)
    site, s = sites(modifier), np.random.default_rng(1).normal(size=(ROWS, NODES))
    found = NodeSites(site).pointwise(np.arange(ROWS), s)
    passed = int((cast(Any, site).y > 0.0).sum()) * NODES
    # A hurdle needs f(0) of the rows above 0 as well, and nothing of the others.
    assert sum(sizes) <= (2 * passed if modifier == "hurdle" else s.size)
    for row in (0, 7, 50):
        alone = cast(Pointwise, site.take(np.full(NODES, row))).pointwise(s[row])
        for name in ("value", "slope", "curvature", "third"):
            one, all_ = getattr(alone, name), getattr(found, name)[row]
            np.testing.assert_allclose(all_, one, rtol=1e-12, atol=1e-12)


def test_small_and_large_counts_agree_where_they_meet() -> None:
    """l without deviances has the digits of l with them."""
    y = np.repeat([0.0, 1.0, 7.0, 150.0, 400.0], 40)
    s = np.tile(np.linspace(-8.0, 9.0, 40), 5)
    for size in (0.05, 1.0, 90.0):
        few = NegbinomialLogMean(y=y, size=np.full(200, size), exposure=np.ones(200))
        many = NegbinomialLogMean(
            y=np.append(y, 1e4), size=np.full(201, size), exposure=np.ones(201)
        )
        assert few.small and not many.small
        wanted = many.log_density(np.append(s, 0.0))[:-1]
        np.testing.assert_allclose(few.log_density(s), wanted, rtol=1e-12, atol=1e-12)
