"""`lgm summary --profile`, `--df` and `--smooths`: the tables of `fit.profile`, `fit.tidy(df=...)`
and of `fit.smooths(test=True)`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import lgmdsl as lgm
from tests.api import mixed_models as mixed
from tests.cli.conftest import Run


def test_tables_of_a_saved_fit(run: Run, tmp_path: Path) -> None:
    model, data, out = (tmp_path / name for name in ("m.lgm", "d.csv", "o.nc"))
    model.write_text(mixed.restricted(mixed.CROSSED))
    pd.DataFrame(mixed.crossed()).to_csv(data, index=False)
    run("fit", model, data, "--hyper", "map", "-o", out)
    asked = ("summary", out, "--profile", "--df", "kenward-roger", "--data", data)
    done = run(*asked)
    assert done.status == 0 and max(map(len, done.out.splitlines())) <= 80
    assert "profile intervals, 95 %" in done.out and "t-tests (kenward-roger)" in done.out
    found, fit = run(*asked, "--json", "--level", "0.9").json, lgm.load_fit(out)
    profile = fit.profile(level=0.9, data=data)
    assert [row["lower"] for row in found["profile"]] == pytest.approx(profile["lower"].tolist())
    tests = fit.tidy(df="kenward-roger", data=data)
    assert [row["df"] for row in found["tests"]] == pytest.approx(tests["df"].tolist())
    without = run("summary", out, "--df", "satterthwaite")
    assert without.status == 1 and "E305" in without.err
    assert "lgm summary FIT --df satterthwaite --data DATA" in without.err


def test_effects_of_a_saved_fit(run: Run, tmp_path: Path) -> None:
    model, data, out = (tmp_path / name for name in ("m.lgm", "d.csv", "o.nc"))
    model.write_text(mixed.restricted(mixed.CROSSED))
    pd.DataFrame(mixed.crossed()).to_csv(data, index=False)
    run("fit", model, data, "--hyper", "map", "-o", out)
    asked = ("effects", out, "x", "--contrast", "2", "--df", "kenward-roger")
    left_out = ("--without", "u", "--without", "v")
    done = run(*asked, *left_out, "--data", data)
    test = lgm.load_fit(out).tidy(["b"], df="kenward-roger", data=data).iloc[0]
    shown = dict(zip(*(line.split() for line in done.out.splitlines()), strict=True))
    assert shown["df"] == f"{test.df:.4g}" and shown["p_value"] == f"{test.p_value:.4g}"
    found = run(*asked, *left_out, "--data", data, "--json").json["effects"][0]
    assert [found[n] for n in ("estimate", "sd")] == pytest.approx(
        [2.0 * test["mean"], 2.0 * test.sd]
    )
    for wrong, code, words in (
        (left_out, "E305", "--df kenward-roger --data DATA"),
        (("--contrast", "levels", "--data", data), "E501", "--without u --without v"),
    ):
        refused = run(*asked, *wrong)
        assert refused.status == 1 and code in refused.err and words in refused.err


def test_smooths_of_a_saved_fit(run: Run, tmp_path: Path) -> None:
    model, data, out = (tmp_path / name for name in ("m.lgm", "d.csv", "o.nc"))
    model.write_text(
        "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : count\nlatent a ~ flat\n"
        "latent f[obs] ~ spline(at = x, sd = 0.5, size = 5)\n"
        "observe y ~ poisson(log_rate = a + f)\n"
    )
    x = [k / 29.0 for k in range(30)]
    pd.DataFrame({"x": x, "y": [k * k % 7 for k in range(30)]}).to_csv(data, index=False)
    run("fit", model, data, "-o", out)
    done = run("summary", out, "--smooths")
    assert done.status == 0 and "smooths, approximate tests" in done.out and "p_value" in done.out
    found = run("summary", out, "--smooths", "--json").json["smooths"]
    wanted = lgm.load_fit(out).smooths(test=True)
    assert [row["edf"] for row in found] == pytest.approx(wanted["edf"].tolist())
    assert [row["p_value"] for row in found] == pytest.approx(wanted["p_value"].tolist())


def test_wrong_usage(run: Run, tmp_path: Path) -> None:
    for asked in (("--level", "0.9"), ("--csv", "--profile"), ("--csv", "--smooths")):
        done = run("summary", tmp_path / "o.nc", *asked)
        assert done.status == 2
