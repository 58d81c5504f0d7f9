"""From the text of a model to its evidence: every family, modifier and dispersion predictor against
densities of SciPy, summed over a grid of the latents."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from tests.agreement.written_densities import CASES, Case, X

# The trapezoidal rule: its error is exp(-2 pi^2 sd^2 / step^2) where the posterior has that sd.
FINE, COARSE = np.arange(-6.0, 6.01, 0.1), np.arange(-6.0, 6.01, 0.3)
LEAST = -18.0  # points whose prior is less than e^-18 change nothing
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
    """log evidence and mean of a, by a sum over a grid of both latents."""
    two = "zeta" in case.text
    outer = COARSE if two else FINE
    inner = COARSE if two else np.zeros(1)
    heights = np.full((len(outer), len(inner)), -np.inf)
    for i, a in enumerate(outer):
        for j, c in enumerate(inner):
            prior = -0.5 * (a * a + c * c)
            if prior > LEAST:
                with np.errstate(all="ignore"):
                    value = float(case.density(a + 0.5 * X, c - 0.3 * X).sum())
                heights[i, j] = prior + (value if np.isfinite(value) else -np.inf)
    total = float(special.logsumexp(heights))
    mean = float((np.exp(heights - total).sum(axis=1) * outer).sum())
    step = np.log((outer[1] - outer[0]) / np.sqrt(2.0 * np.pi))
    return total + step * (2 if two else 1), mean


@pytest.mark.few(11)
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
