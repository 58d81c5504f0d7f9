"""`explain` on parts that do not interact and on groups that shared latents border."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm

TEXT = """lgm 1
index i
index j
data y[i] : real
data x[i] : real
data who[i] : j
latent a ~ normal(sd = 1)
latent u[j] ~ normal(sd = 2)
latent v[j] ~ normal(sd = 1)
latent w[j] ~ normal(sd = 1)
let eta[i] = a + u[who]
observe y ~ normal(mean = eta, sd = 1)
observe x ~ normal(mean = v[who], sd = 1)
report both[j] = v + w
"""
DATA = {"y": np.arange(6.0), "x": np.ones(6), "who": np.array([0, 1, 2, 0, 1, 2])}


def test_parts_and_plates() -> None:
    found = lgm.explain(lgm.loads(TEXT), DATA)
    assert found.groups == (("a", "u"), ("v",), ("w",))
    assert [(p.latents, p.size, p.rows) for p in found.parts] == [
        (("a", "u"), 4, 6),
        (("v",), 3, 6),
        (("w",), 3, 0),
    ]
    first, second, idle = found.parts
    assert first.engine and first.flops > 0 and second.engine and second.flops > 0
    assert (idle.engine, idle.flops) == ("", 0.0)
    (plate,) = found.plates
    assert (plate.index, plate.latents, plate.shared) == ("j", ("u", "v", "w"), ("a",))
    page = str(found)
    assert "independent of one another: a, u; v; w" in page
    assert "independent over j, given a: u, v, w" in page
    assert "parts that do not interact would take" in page and "w nothing" in page
    assert [p["latents"] for p in found.as_json()["parts"]] == [("a", "u"), ("v",), ("w",)]
    assert [w.code for w in found.warnings] == ["W102"]


def test_evidences_of_parts_add() -> None:
    """What the page says of them, by three fits."""
    whole = lgm.fit(lgm.loads(TEXT), DATA)
    one = TEXT.replace("observe x ~ normal(mean = v[who], sd = 1)\n", "")
    two = TEXT.replace("observe y ~ normal(mean = eta, sd = 1)\n", "")
    parts = [lgm.fit(lgm.loads(text), DATA) for text in (one, two)]
    assert whole.log_evidence == pytest.approx(sum(p.log_evidence for p in parts), rel=1e-9)
    assert "parts that do not interact" not in str(
        lgm.explain(lgm.loads(TEXT.replace("mean = v[who]", "mean = eta + v[who] + w[who]")), DATA)
    )
