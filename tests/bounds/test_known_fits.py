"""The jaakkola entries of the known answers, through `--bound jaakkola`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.cli.main import main
from lgmdsl.contract.status import Guarantee

from ..backends.test_known_fits import CASES


@pytest.mark.parametrize("name", ["ionosphere_gp_sd_e1_len_e0.5", "a9a_logistic_sd1"])
def test_jaakkola_through_the_command_line(
    name: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, data, latents = CASES[name]
    known = json.loads((shared / "reference" / "known_fits.json").read_text())[f"{name}/jaakkola"]
    (tmp_path / "m.lgm").write_text(text)
    np.savez(tmp_path / "d.npz", **data(shared / "data"))
    monkeypatch.chdir(tmp_path)
    asked = ["--method", "natural-gradient", "--bound", "jaakkola", "-o", "o.nc"]
    assert main(["fit", "m.lgm", "d.npz", *asked]) == 0
    fit = lgm.load_fit(tmp_path / "o.nc")
    assert fit.converged and fit.guarantee is Guarantee.LOWER
    assert fit.log_evidence == pytest.approx(known["log_evidence"], abs=1e-6)
    z = np.concatenate([np.ravel(fit.mean(n).values) for n in latents])[: len(known["z"])]
    sd = np.concatenate([np.ravel(fit.sd(n).values) for n in latents])[: len(known["z"])]
    # The default tolerance of the means is 1e-4 sd.
    np.testing.assert_array_less(np.abs(z - known["z"]), 1e-4 * np.array(known["zsd"]))
    np.testing.assert_allclose(sd, known["zsd"], rtol=1e-5)
