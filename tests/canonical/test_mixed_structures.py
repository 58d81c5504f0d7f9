"""Structures that are declared as a mixture of two blocks, whatever they are called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.vocabulary import lookup
from lgmdsl.vocabulary.signature import Mixed, Parameter

TEXT = """lgm 1
index obs
index g
data adj[g, g] : graph
data y[obs] : real
data who[obs] : g
hyper s : positive ~ exponential(rate = 1)
latent v[g] ~ {structure}
observe y ~ normal(mean = v[who], sd = 0.5)
"""
DATA = {
    "y": np.random.default_rng(3).normal(size=8),
    "who": np.arange(8) % 4,
    "adj": np.array([[0, 1], [1, 2], [2, 3]]),
}


@pytest.fixture
def twin() -> Iterator[None]:
    """bym2 under another name, with another name for its share and other parts for its blocks."""
    bym2 = lookup.declared("structure", "bym2")
    graph, sd, _ = bym2.parameters
    share = Parameter("share", "unit", over="none")
    signature = replace(
        bym2,
        name="blend",
        parameters=(graph, sd, share),
        mixed=Mixed("share", (("besag", ("graph",)), ("iid", ()))),
    )
    lookup.register(signature)
    yield
    lookup.unregister("structure", "blend")


def fitted(structure: str) -> lgm.Fit:
    model = lgm.loads(TEXT.format(structure=structure))
    return lgm.fit(model, DATA, method="laplace", fixed={"s": 0.8})


@pytest.mark.thorough
def test_a_mixture_under_another_name_is_the_same_model(twin: None) -> None:
    one = fitted("bym2(graph = adj, sd = s, mix = 0.3)")
    two = fitted("blend(graph = adj, sd = s, share = 0.7)")
    assert two.status == one.status
    np.testing.assert_allclose(two.log_evidence, one.log_evidence, rtol=1e-12)
    np.testing.assert_allclose(two.mean("v"), one.mean("v"), rtol=1e-10)
    np.testing.assert_allclose(two.sd("v"), one.sd("v"), rtol=1e-10)
    page = str(lgm.explain(two.model, DATA, {"s": 0.8}))
    wanted = "blend to two blocks and a map: sd (sqrt(1 - share) v.besag + sqrt(share) v.iid)"
    assert wanted in " ".join(page.split())


def test_a_product_takes_one_mixture() -> None:
    """The second one's share used to be dropped without a word."""
    text = TEXT.replace("index g\n", "index g\nindex h\ndata e[h, h] : graph\n")
    text = text.replace("data who", "data where[obs] : h\ndata who").replace(
        "v[who]", "v[who, where]"
    )
    text = text.replace("v[g]", "v[g, h]")
    product = "bym2(graph = adj, sd = s, mix = 0.3) * bym2(graph = e, mix = 0.6)"
    data = {**DATA, "where": np.arange(8) // 4, "e": np.array([[0, 1]])}
    with pytest.raises(lgm.MethodError, match="a product takes one `bym2`") as caught:
        lgm.fit(lgm.loads(text.format(structure=product)), data, fixed={"s": 0.8})
    assert caught.value.codes == ("E501",)
    one = product.replace("bym2(graph = e, mix = 0.6)", "besag(graph = e)")
    assert np.isfinite(
        lgm.fit(lgm.loads(text.format(structure=one)), data, fixed={"s": 0.8}).log_evidence
    )
