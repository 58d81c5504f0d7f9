"""Lengths and ranges have the unit of the inputs: no unit leads to another maximum."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.contract.status import Status

MODEL = """lgm 1
index obs
data x[obs] : real
data y[obs] : real
hyper s : positive ~ flat
hyper r : positive ~ PRIOR
hyper t : positive ~ flat
latent m ~ normal(sd = 10)
latent f[obs] ~ STRUCTURE
let eta[obs] = m + f
observe y ~ normal(mean = eta, sd = t)
"""
STRUCTURES = {
    "se": "gp(at = x, kernel = se(sd = s, length = r))",
    "matern": "gp(at = x, kernel = matern(sd = s, length = r, smoothness = 1.5))",
    "ou": "ou(at = x, sd = s, rate = r)",
}


def _fit(structure: str, unit: float, prior: str = "flat") -> lgm.Fit:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 5.0, 60))
    y = 1.0 + 2.0 * np.sin(2.0 * x) + rng.normal(0.0, 0.7, 60)
    text = MODEL.replace("STRUCTURE", STRUCTURES[structure]).replace("PRIOR", prior)
    return lgm.fit(lgm.loads(text), {"x": unit * x, "y": y}, hyper="map")


@pytest.mark.few(2)
@pytest.mark.parametrize("structure", sorted(STRUCTURES))
def test_no_unit_of_inputs_leads_to_another_maximum(structure: str) -> None:
    one = _fit(structure, 1.0)
    assert one.status is Status.converged and one.learning is not None
    for unit in (1e-6, 1e-3, 1e3, 1e6):
        fit = _fit(structure, unit)
        assert fit.status is Status.converged and fit.learning is not None
        assert not fit.warnings
        assert fit.log_evidence == pytest.approx(one.log_evidence, abs=1e-5)
        scale = 1.0 / unit if structure == "ou" else unit  # of a rate, or of a length
        assert float(fit.mean("r")) == pytest.approx(scale * float(one.mean("r")), rel=1e-3)
        assert fit.learning.fits <= 2 * one.learning.fits + 10  # places are tried on the way


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_a_prior_in_another_unit_hides_no_maximum(unit: float) -> None:
    """Its middle is far from the inputs, where the curve is noise or a constant, but the data
    outweigh it."""
    fit = _fit("se", unit, "lognormal(mean = 0, sd = 2)")
    assert fit.status is Status.converged and not fit.warnings
    pinned = _fit("se", 1.0).log_evidence
    assert fit.log_evidence == pytest.approx(pinned, abs=1.5)
