"""Fong, Rue and Wakefield 2010 (R-INLA, `glmm_published.json`): means and sds as printed.

The printed salamander numbers are those of Laplace approximations: with `laplace` and its mean
corrected all of them are within 0.1 sd. Exactly, the sds of both salamander effects are larger
(`references/salamander_1.json`; natural-gradient and EP agree with it), so the default method is
not held to the print there. One printed sd is of no prior of the paper: see README.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lgmdsl as lgm

from .data import LOADERS, model_text

EPIL = {"Base": "b_base", "Trt": "b_trt", "BasexTrt": "b_base_trt", "Age": "b_age"}
SEEDS = {"Intercept": "b0", "Seed": "b_seed", "Extract": "b_extract", "sigma": "sigma"}
SALAMANDER = {
    "Intercept": "b0", "WSF": "b_wsf", "WSM": "b_wsm", "WSFxWSM": "b_both",
    "sigma_f": "sigma_f", "sigma_m": "sigma_m",
}  # fmt: skip
# A case's table, and the name here of each printed row.
PRINTED: dict[str, tuple[str, str, dict[str, str]]] = {
    "epil_51": ("epil", "INLA 5.1", {**EPIL, "V4_or_V/10": "b_v4", "sigma1": "sigma1"}),
    "epil_52": (
        "epil", "INLA 5.2",
        {**EPIL, "V4_or_V/10": "b_v4", "sigma0": "sigma0", "sigma1": "sigma1"},
    ),
    "epil_53": (
        "epil", "INLA 5.3", {**EPIL, "V4_or_V/10": "b_v", "sigma1": "sd1", "sigma2": "sd2"},
    ),
    "seeds_01": ("seeds", "INLA 0.1", SEEDS),
    "seeds_02": ("seeds", "INLA 0.2", {**SEEDS, "Interaction": "b_both"}),
    **{f"salamander_{k}": ("salamander", f"INLA e{k}", SALAMANDER) for k in (1, 2, 3)},
}  # fmt: skip
SDS = 'report sd1 = sqrt(S["intercept", "intercept"])\nreport sd2 = sqrt(S["slope", "slope"])\n'
MISPRINTED = {("epil_51", "sigma1")}


@pytest.mark.few(1)
@pytest.mark.parametrize("case", PRINTED)
def test_as_printed(case: str, shared: Path) -> None:
    example, table, names = PRINTED[case]
    file = shared / "reference" / "glmm_published.json"
    printed = json.loads(file.read_text())["examples"][example]["results"][table]
    text = model_text(case) + (SDS if case == "epil_53" else "")
    data = LOADERS[case][1](shared / "data")
    options = {"correct_mean": True}
    fit = lgm.fit(lgm.loads(text), data, method="laplace", hyper="integrate", options=options)
    print(f"\n{case}: {fit.seconds:.2f} s")
    assert names.keys() == printed.keys()
    for row, name in names.items():
        mean, sd = float(fit.mean(name)), float(fit.sd(name))
        wanted, spread = printed[row]["mean"], printed[row]["sd"]
        print(f"  {row:12s} {mean:7.3f} +- {sd:.3f}   printed {wanted:7.3f} +- {spread:.3f}")
        digits = len(str(spread).partition(".")[2])
        half = 0.5 * 10.0**-digits
        assert mean == pytest.approx(wanted, abs=0.1 * spread + half)
        if (case, row) not in MISPRINTED:
            assert sd == pytest.approx(spread, abs=max(0.1 * spread, half))
