"""Every ordinal model of the language, by every link: fits of one latent beside brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import lgmdsl as lgm
from lgmdsl.sites.catalogue import site
from lgmdsl.vocabulary.families import FAMILIES

(SIGNATURE,) = (f for f in FAMILIES if f.name == "ordinal")
LINKS = [p.name for p in SIGNATURE.parameters if p.type == "latent"]
(FORMS,) = (p.choices for p in SIGNATURE.parameters if p.name == "model")
CUTS, SCORES = [-0.7, 0.4, 1.5], [-1.0, 0.1, 0.9, 2.0]
LABELS = ["low", "mid", "high", "top"]


def data() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=14)
    code = np.clip(np.round(1.2 + x + rng.normal(size=14)), 0, 3).astype(int)
    return {"x": x, "y": np.array(LABELS)[code], "code": code.astype(float)}


@pytest.mark.few(7)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("link", LINKS)
def test_one_latent_by_brute_force(link: str, form: str) -> None:
    given = data()
    x, code = given["x"], given.pop("code")
    own = "hyper t[class] : ordered ~ normal(sd = 3)\n" if form == "stereotype" else ""
    text = (
        'lgm 1\nindex obs\nindex class = {"low", "mid", "high", "top"}\nindex cut = head(class)\n'
        "data x[obs] : real\ndata y[obs] : class\nhyper c[cut] : ordered ~ normal(sd = 3)\n"
        f"{own}latent b ~ normal(sd = 1.3)\nlet eta[obs] = x * b\n"
        f"observe y ~ ordinal({link} = eta, cuts = c, {'scores = t, ' if own else ''}"
        f'model = "{form}")\n'
    )
    b = np.linspace(-9.0, 9.0, 2001)
    made: Any = site(f"ordinal.{link}" + ("" if form == "cumulative" else f".{form}"))
    more = [np.tile(SCORES, (14, 1))] if own else []
    sites = made(code, np.tile(CUTS, (14, 1)), *more)
    level = np.array([sites.log_density(x * v).sum() for v in b]) - 0.5 * (b / 1.3) ** 2
    evidence = special.logsumexp(level) + np.log((b[1] - b[0]) / 1.3 / np.sqrt(2.0 * np.pi))
    share = np.exp(level - special.logsumexp(level))
    mean = share @ b
    sd = np.sqrt(share @ (b - mean) ** 2)
    fixed = {"c": CUTS, "t": SCORES} if own else {"c": CUTS}
    fits = {
        method: lgm.fit(lgm.loads(text), given, method, fixed=fixed)
        for method in ("ep", "natural-gradient", "laplace")
    }
    near = {"ep": 5e-3, "natural-gradient": 5e-3, "laplace": 5e-2}
    for method, fit in fits.items():
        assert fit.converged
        assert fit.log_evidence == pytest.approx(evidence, abs=near[method]), method
        assert float(fit.mean("b")) == pytest.approx(mean, abs=2.0 * near[method]), method
        assert float(fit.sd("b")) == pytest.approx(sd, rel=0.03), method
    assert fits["natural-gradient"].log_evidence <= evidence + 1e-9
