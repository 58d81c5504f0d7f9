"""simulate, fit, summary and predict, one after the other."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Run

MODELS = {
    "glmm": (
        "lgm 1\nindex obs\nindex subject\ndata y[obs] : count\ndata x[obs] : real\n"
        "data who[obs] : subject\ndata time[obs] : positive\nhyper s : positive = 0.5\n"
        "latent b ~ normal(sd = 1)\nlatent u[subject] ~ normal(sd = s)\n"
        "let eta[obs] = b * x + u[who]\nobserve y ~ poisson(log_rate = eta, exposure = time)\n",
        "obs=60,subject=8",
    ),
    "gp": (
        "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : real?\n"
        "latent f[obs] ~ gp(at = x, kernel = se(sd = 1, length = 1))\n"
        "observe y ~ normal(mean = f, sd = 0.3)\n",
        "obs=30",
    ),
    "trials": (
        'lgm 1\nindex obs\nindex arm = {"a", "b"}\ndata n[obs] : count\ndata y[obs] : count\n'
        "data which[obs] : arm\nlatent d[arm] ~ normal(sd = 1)\nconstrain sum(d, arm) = 0\n"
        "let eta[obs] = d[which]\nobserve y ~ binomial(n = n, logit = eta)\n",
        "obs=25",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_simulated_data_fit(run: Run, tmp_path: Path, name: str) -> None:
    text, sizes = MODELS[name]
    model, data, out = tmp_path / "m.lgm", tmp_path / "d.npz", tmp_path / "o.nc"
    model.write_text(text)
    assert run("simulate", model, "--sizes", sizes, "--seed", "3", "-o", data).status == 0
    assert run("check", model, data).status == 0
    fitted = run("fit", model, data, "-o", out)
    assert fitted.status == 0, fitted.err
    shown = run("summary", out)
    assert shown.status == 0 and "latents" in shown.out
    again = tmp_path / "replicate.npz"
    assert run("simulate", model, data, "--seed", "4", "-o", again).status == 0
    first, second = np.load(data), np.load(again)
    for key in ("x", "who", "time", "n", "which"):
        if key in first:
            assert np.array_equal(first[key], second[key])
    assert not np.array_equal(first["y"], second["y"])


def test_predictions_in_every_format(run: Run, model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.nc"
    assert run("fit", model, data, "--set", "s=2", "-o", out).status == 0
    new = tmp_path / "new.npz"
    np.savez(new, features=np.eye(3))
    printed = run("predict", out, new, "--map", "X=features")
    assert printed.status == 0 and printed.err == ""
    rows = list(csv.DictReader(printed.out.splitlines()))
    assert len(rows) == 3
    assert float(rows[0]["p_mean"]) == pytest.approx(float(rows[0]["y_mean"]), rel=1e-6)
    for ending in ("csv", "npz", "nc"):
        file = tmp_path / f"p.{ending}"
        assert run("predict", out, new, "--map", "X=features", "-o", file).status == 0
    assert (tmp_path / "p.csv").read_text() == printed.out
    values = np.load(tmp_path / "p.npz")
    assert values["p_mean"] == pytest.approx([float(r["p_mean"]) for r in rows], rel=1e-8)
    import xarray as xr

    with xr.open_dataset(tmp_path / "p.nc", engine="h5netcdf") as found:
        assert found["p_mean"].values == pytest.approx(values["p_mean"])


def test_simulate_refusals(run: Run, model: Path, tmp_path: Path) -> None:
    done = run("simulate", model, "--set", "s=1")
    assert done.status == 1 and "--sizes obs=20,feat=3" in done.err
    improper = tmp_path / "improper.lgm"
    improper.write_text(
        "lgm 1\nindex a\ndata y[a] : real\nhyper s : positive ~ flat\n"
        "latent u[a] ~ normal(sd = s)\nobserve y ~ normal(mean = u, sd = 1)\n"
    )
    done = run("simulate", improper, "--sizes", "a=3")
    assert done.status == 1 and "E503" in done.err and "--set s=VALUE" in done.err
    flat = tmp_path / "flat.lgm"
    flat.write_text(
        "lgm 1\nindex a\ndata y[a] : real\nlatent u[a] ~ flat\n"
        "observe y ~ normal(mean = u, sd = 1)\n"
    )
    done = run("simulate", flat, "--sizes", "a=3")
    assert done.status == 1 and "E402" in done.err and "normal(sd = 1)" in done.err


def test_the_same_seed_gives_the_same_digits(run: Run, model: Path) -> None:
    call = ("simulate", model, "--sizes", "obs=5,feat=2", "--set", "s=1", "--json", "--seed")
    assert run(*call, "7").out == run(*call, "7").out
    assert run(*call, "7").out != run(*call, "8").out


def test_predictions_are_at_the_labels_that_are_asked_for(run: Run, tmp_path: Path) -> None:
    model, data, out = tmp_path / "m.lgm", tmp_path / "d.csv", tmp_path / "o.nc"
    model.write_text(
        "lgm 1\nindex t\ndata y[t] : real\nlatent f[t] ~ ar1(sd = 1, rho = 0.8)\n"
        "let eta[t] = f\nobserve y ~ normal(mean = eta, sd = 0.5)\n"
    )
    rows = "".join(f"{k},{np.sin(k):.4f}\n" for k in range(30))
    data.write_text(f"t,y\n{rows}")
    assert run("fit", model, data, "-o", out).status == 0
    new = tmp_path / "new.csv"
    new.write_text("t,note\n31,a\n30,b\n5,c\n")
    shown = run("predict", out, new)
    assert shown.status == 0, shown.err
    assert [row["t"] for row in csv.DictReader(shown.out.splitlines())] == ["31", "30", "5"]
    new.write_text("wind,rain\n1,2\n")
    refused = run("predict", out, new)
    assert refused.status == 1 and refused.out == "" and "E305" in refused.err


def test_what_a_table_has_no_place_for_is_named(run: Run, tmp_path: Path) -> None:
    model, data, out = tmp_path / "m.lgm", tmp_path / "d.csv", tmp_path / "o.nc"
    model.write_text(
        "lgm 1\nindex obs\nindex year\ndata y[obs] : real\ndata t[obs] : year\n"
        "latent u[year] ~ ar1(sd = 1, rho = 0.8)\nlet eta[obs] = u[t]\n"
        "observe y ~ normal(mean = eta, sd = 0.5)\n"
    )
    data.write_text("t,y\n" + "".join(f"{k},{np.sin(k):.4f}\n" for k in range(9)))
    assert run("fit", model, data, "-o", out).status == 0
    new = tmp_path / "new.csv"
    new.write_text("year,t\n9,2\n12,3\n")
    shown = run("predict", out, new)
    columns = ["obs", "year", "t", "t_status", "eta_mean", "eta_sd", "eta_q5", "eta_q50", "eta_q95"]
    responses = ["y_mean", "y_sd", "y_q5", "y_q50", "y_q95"]
    assert shown.out.splitlines()[0].split(",") == [*columns, *responses]
    assert "left out, not over the rows of the table: u (-o FILE.nc has all)" in shown.err
    written = run("predict", out, new, "-o", tmp_path / "p.csv", "--quantiles", "0.025")
    assert "eta_q2.5, y_mean, y_sd, y_q2.5)" in written.err and "left out" in written.err
    assert (tmp_path / "p.csv").read_text().count("\n") == 3
    wrong = run("predict", out, new, "--quantiles", "2.5,97.5")
    assert wrong.status == 2 and "(0.025 is 2.5 %)" in wrong.err
    none = run("predict", out, new, "--quantiles", "none", "-o", tmp_path / "none.csv")
    assert none.status == 0
    assert not any("_q" in n for n in (tmp_path / "none.csv").read_text().split("\n")[0].split(","))
    bare = run("predict", out, new, "--quantiles", "none", "-o", tmp_path / "none.nc")
    assert "y_mean" in bare.err and "y_quantile" not in bare.err
    whole = run("predict", out, new, "-o", tmp_path / "p.nc")
    assert "y_mean" in whole.err and "y_quantile" in whole.err and "left out" not in whole.err
    new.write_text("t\n2\n9\n")
    assert run("predict", out, new).err == ""


def test_a_summary_as_csv(run: Run, model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.nc"
    assert run("fit", model, data, "-o", out).status == 0
    shown = run("summary", out, "--csv", "--quantiles", "0.025,0.975")
    assert shown.status == 0 and shown.err == ""
    rows = list(csv.DictReader(shown.out.splitlines()))
    assert [*rows[0]][:3] == ["term", "name", "kind"] and [*rows[0]][-2:] == ["q2.5", "q97.5"]
    learned = [r for r in rows if r["kind"] == "hyper"]
    assert learned and float(learned[0]["q2.5"]) < float(learned[0]["q97.5"])
    short = csv.DictReader(run("summary", out, "--csv", "--quantiles", "none").out.splitlines())
    assert [*next(short)][-2:] == ["mean", "sd"]
    assert run("summary", out, "--csv", "--json").status == 2
    assert run("summary", out, "--quantiles", "0.1").status == 2


def test_effects(run: Run, model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.nc"
    assert run("fit", model, data, "-o", out).status == 0
    page = run("effects", out, "X")
    assert (
        page.status == 0
        and page.err == ""
        and page.out.split()[:3]
        == [
            "term",
            "contrast",
            "estimate",
        ]
    )
    words = ["--csv", "--contrast", "0,1", "--compare", "ratio", "--draws", "500"]
    shown = run("effects", out, "X", *words)
    rows = list(csv.DictReader(shown.out.splitlines()))
    assert {r["contrast"] for r in rows} == {"1 / 0"} and len(rows) == 3
    assert float(rows[0]["q5"]) < float(rows[0]["estimate"]) < float(rows[0]["q95"])
    asked = run("effects", out, rows[0]["term"], "--json", "--scale", "link").json
    assert asked["schema"] == 1 and asked["effects"][0]["term"] == rows[0]["term"]
    wrong = run("effects", out, "Z")
    assert wrong.status == 1 and "no covariate named `Z`" in wrong.err
    assert run("effects", out, "X", "--json", "--csv").status == 2
