"""`lgm summary --criteria`: DIC, WAIC and leave-one-out beside the fit."""

from __future__ import annotations

from pathlib import Path

import pytest

import lgmdsl as lgm
from tests.cli.conftest import Run


def test_criteria_of_a_saved_fit(run: Run, model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.nc"
    run("fit", model, data, "--set", "s=2", "--method", "ep", "-o", out)
    done = run("summary", out, "--criteria", "--data", data)
    assert done.status == 0 and max(map(len, done.out.splitlines())) <= 80
    for title in ("\nDIC of ", "\nWAIC of ", "\nleave-one-out of "):
        assert title in done.out
    found = run("summary", out, "--criteria", "--data", data, "--json").json["criteria"]
    fit = lgm.load_fit(out)
    assert found["dic"] == pytest.approx(fit.dic(data=data).dic)
    assert found["elpd_waic"] == pytest.approx(fit.waic(data=data).elpd)
    assert found["elpd_loo"] == pytest.approx(fit.loo(data=data).elpd)
    assert "DIC" not in run("summary", out).out
    without = run("summary", out, "--criteria")
    assert without.status == 1 and "E305" in without.err
