"""From the text of a model to its evidence: every family, modifier and dispersion predictor against
densities of SciPy, summed over a grid of the latents."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy import special

import lgmdsl as lgm
from tests.agreement.written_densities import CASES, Case, X

NODES, WEIGHTS = hermegauss(40)
LOG_WEIGHTS = np.log(WEIGHTS / WEIGHTS.sum())
LEAST = -20.0  # nodes of less weight than e^-20 change nothing
MODEL = """lgm 1
index obs
data x[obs] : real
data y[obs] : {kind}
{more}latent a ~ normal(sd = 1)
latent c ~ normal(sd = 1)
let eta[obs] = a + 0.5 * x
let zeta[obs] = c - 0.3 * x
observe y ~ {text}
"""


def _truth(case: Case) -> tuple[float, float]:
    """log evidence and mean of a, by quadrature."""
    inner = NODES if "zeta" in case.text else np.zeros(1)
    log_inner = LOG_WEIGHTS if "zeta" in case.text else np.zeros(1)
    heights = np.full((len(NODES), len(inner)), -np.inf)
    for i, a in enumerate(NODES):
        for j, c in enumerate(inner):
            weight = LOG_WEIGHTS[i] + log_inner[j]
            if weight > LEAST:
                with np.errstate(all="ignore"):
                    value = float(case.density(a + 0.5 * X, c - 0.3 * X).sum())
                heights[i, j] = weight + (value if np.isfinite(value) else -np.inf)
    total = float(special.logsumexp(heights))
    return total, float((np.exp(heights - total).sum(axis=1) * NODES).sum())


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.text)
def test_the_evidence_is_that_of_the_density(case: Case) -> None:
    more = "".join(f"data {n}[obs] : {kind}\n" for n, (kind, _) in case.data.items())
    text = MODEL.format(kind=case.kind, text=case.text, more=more)
    data = {"x": X, "y": case.y, **{n: values for n, (_, values) in case.data.items()}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = lgm.fit(lgm.loads(text), data)
    evidence, mean = _truth(case)
    assert fit.converged
    assert fit.log_evidence_corrected == pytest.approx(evidence, abs=0.03)
    assert float(fit.mean("a")) == pytest.approx(mean, abs=0.03)


def test_the_table_has_every_modifier() -> None:
    texts = " ".join(case.text for case in CASES)
    words = "weight zero_inflation zero_inflation_logit hurdle hurdle_logit truncated event entry"
    assert all(f"{word} = " in texts for word in words.split())
    assert len(CASES) >= 90
