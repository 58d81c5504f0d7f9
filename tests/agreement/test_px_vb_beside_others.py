"""px-vb beside the variational Gaussian, EP and Laplace: what mean field costs is shown."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.contract.status import Guarantee
from tests.backends.test_known_fits import CASES

METHODS = ["px-vb", "natural-gradient", "ep", "laplace"]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["lupus_probit_sd5", "ionosphere_gp_probit"])
def test_probit_models_of_the_known_fits(name: str, shared: Path) -> None:
    text, data, (latent,) = CASES[name]
    known = json.loads((shared / "reference" / "known_fits.json").read_text())
    found = lgm.compare(lgm.loads(text), data(shared / "data"), METHODS)
    fits = found.fits
    assert all(f.converged for f in fits.values()) and found.reference == "ep"
    for method, key in (("natural-gradient", "vg"), ("ep", "ep"), ("laplace", "laplace")):
        if f"{name}/{key}" in known:
            wanted = known[f"{name}/{key}"]["log_evidence"]
            assert fits[method].log_evidence == pytest.approx(wanted, abs=1e-5)

    # A bound, and looser than the variational Gaussian's by nats.
    loose = fits["px-vb"]
    assert loose.guarantee is Guarantee.LOWER
    assert loose.log_evidence < fits["natural-gradient"].log_evidence - 4.0
    # Its mean is the mode; its sds are those of unit weights, whatever y is.
    mode = known[f"{name}/laplace"]["z"]
    z, sd = loose.mean(latent).values, loose.sd(latent).values
    assert (np.abs(z[: len(mode)] - mode) < 3e-4 * sd[: len(mode)]).all()
    row, others = found["px-vb"].difference, [found[m].difference for m in METHODS[1:]]
    assert row is not None and row.sd_greatest < 0.8
    assert all(d is None or d.sd_least > row.sd_greatest for d in others)
    assert row.mean_largest > 20.0 * found["natural-gradient"].difference.mean_largest
    # And the page shows it: the sd ratio beside the method.
    line = next(t for t in str(found.table).splitlines() if t.startswith("px-vb"))
    assert line.split()[2] == "lower" and float(line.split()[-1]) == pytest.approx(
        row.sd_least, abs=1e-4
    )
