"""`lgm plot`: the files, JSON, what is left out, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

pytest.importorskip("matplotlib")


@pytest.fixture
def fitted(run: Run, model: Path, data: Path, tmp_path: Path) -> Path:
    place = tmp_path / "m.fit.nc"
    assert run("fit", model, data, "--method", "laplace", "-o", place).status == 0
    return place


@pytest.mark.thorough
def test_files_are_listed(run: Run, fitted: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "pictures"
    done = run("plot", fitted, "--out", out)
    names = ["latent_w.png", "let_eta.png", "report_p.png", "hyper.png"]
    assert done.status == 0 and done.out.splitlines() == [str(out / n) for n in names]
    assert done.err.startswith("left out: pit: ") and "--data" in done.err
    assert sorted(p.name for p in out.iterdir()) == sorted(names)
    whole = run("plot", fitted, "--out", out, "--data", data, "--json")
    assert whole.status == 0 and whole.err == "" and whole.json["schema"] == 1
    assert whole.json["files"] == [str(out / n) for n in [*names, "response_y.png", "pit.png"]]
    assert whole.json["left_out"] == []


def test_a_fit_with_a_mapping(run: Run, tmp_path: Path) -> None:
    model, data, place = tmp_path / "g.lgm", tmp_path / "g.csv", tmp_path / "g.fit.nc"
    model.write_text(
        "lgm 1\nindex obs\nindex group\ndata y[obs] : count\ndata who[obs] : group\n"
        "latent u[group] ~ normal(sd = 1)\nobserve y ~ poisson(log_rate = u[who])\n"
    )
    data.write_text("y,g\n" + "".join(f"{k % 4},{'abc'[k % 3]}\n" for k in range(24)))
    renamed = ("--data", data, "--map", "who=g")
    assert run("fit", model, data, "--map", "who=g", "-o", place).status == 0
    done = run("plot", place, "--out", tmp_path, *renamed)
    assert done.status == 0 and "response_y.png" in done.out and "pit.png" in done.out


@pytest.mark.thorough
def test_names_and_formats(run: Run, fitted: Path, tmp_path: Path) -> None:
    done = run("plot", fitted, "--out", tmp_path, "--names", "w, s", "--format", "pdf")
    assert done.status == 0 and done.err == ""
    assert done.out.splitlines() == [str(tmp_path / n) for n in ("latent_w.pdf", "hyper.pdf")]
    assert (tmp_path / "hyper.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.thorough
def test_refusals(
    run: Run,
    fitted: Path,
    model: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run("plot", fitted).status == 2
    assert run("plot", fitted, "--out", tmp_path, "--format", "gif").status == 2
    unknown = run("plot", fitted, "--out", tmp_path, "--names", "ww")
    assert unknown.status == 1 and "E103" in unknown.err and "`w`" in unknown.err
    assert run("plot", tmp_path / "none.nc", "--out", tmp_path).status == 1
    fixed = tmp_path / "fixed.nc"
    run("fit", model, data, "--method", "laplace", "--set", "s=1", "-o", fixed)
    done = run("plot", fixed, "--out", tmp_path, "--names", "s")
    assert done.status == 1 and "nothing to draw" in done.err and done.out == ""
    monkeypatch.setattr("lgmdsl.plot.canvas.find_spec", lambda name: None)
    without = run("plot", fitted, "--out", tmp_path)
    assert without.status == 1 and "pip install 'lgmdsl[plot]'" in without.err
