"""An installed distribution with one part of each kind, through the real `lgm` command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lgmdsl.vocabulary.plugins import GROUPS
from tests.plugins.conftest import SOURCE, environment

pytestmark = pytest.mark.slow
HEAD = "lgm 1\nindex g\nindex obs\ndata who[obs] : g\ndata x[obs] : real\ndata y[obs] : count\n"
COUNTS = (
    HEAD
    + """\
hyper s : positive ~ lomax(shape = 3)
hyper r : unit ~ beta(a = 2, b = 2)
latent m ~ normal(sd = 2)
latent u[g] ~ exchangeable(sd = s, share = r)
let eta[obs] = m + u[who]
observe y ~ geometric(logit = eta)
"""
)
WAVES = """\
lgm 1
index obs
data x[obs] : real
data z[obs] : real
hyper s : positive ~ lomax(shape = 3, scale = 2)
hyper w : positive ~ lomax(shape = 2)
latent f[obs] ~ gp(
  at = x,
  kernel = cosine(frequency = w) * se(sd = s, length = 3) + white(sd = 0.1),
)
observe z ~ normal(mean = f, sd = 0.5)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models with data."""
    place, rng = tmp_path_factory.mktemp("models"), np.random.default_rng(5)
    who, x = np.arange(60) % 6, rng.uniform(0, 6, 60)
    p = 1.0 / (1.0 + np.exp(0.5 - rng.normal(size=6)[who]))
    z = np.cos(1.7 * x) + 0.3 * rng.normal(size=60)
    np.savez(place / "d.npz", who=who, x=x, y=rng.geometric(p) - 1, z=z)
    (place / "counts.lgm").write_text(COUNTS)
    (place / "waves.lgm").write_text(WAVES)
    (place / "plain.lgm").write_text(
        HEAD + "latent m ~ normal(sd = 2)\nlet eta[obs] = m * x\n"
        "observe y ~ poisson(log_rate = eta)\n"
    )
    return place


def lgm(folder: Path, *arguments: str, path: Path | None = None, status: int = 0) -> Any:
    """Run `lgm` in the folder with a plug-in's folder on the path; what it wrote."""
    done = subprocess.run(
        [sys.executable, "-m", "lgmdsl", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment(*([path] if path else [])),
        timeout=300,
    )
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout) if "--json" in arguments else done.stdout + done.stderr


SEVERAL = """
import contextlib, io, json, sys
from lgmdsl.cli.main import main
done = []
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    done.append([status, out.getvalue(), err.getvalue()])
print(json.dumps(done))
"""


def several(
    folder: Path, *commands: tuple[str, ...], path: Path | None = None, status: int = 0
) -> list[Any]:
    """As `lgm`, of commands that one process runs: a start of Python costs more than most of
    them."""
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL, json.dumps(commands)],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment(*([path] if path else [])),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    said = []
    for command, (ended, out, err) in zip(commands, json.loads(done.stdout), strict=True):
        assert ended == status, f"{command}: {ended}\n{out}{err}"
        said.append(json.loads(out) if "--json" in command else out + err)
    return said


def test_nothing_but_the_module_for_authors_is_imported() -> None:
    for module in SOURCE.glob("*.py"):
        lines = [x for x in module.read_text().splitlines() if "lgmdsl" in x and "import" in x]
        assert [x for x in lines if not x.startswith(("from lgmdsl.extend import", '"""'))] == []


@pytest.mark.thorough
def test_every_group_has_an_entry(installed: Path) -> None:
    text = next(installed.glob("acme_lgm-*.dist-info/entry_points.txt")).read_text()
    assert {f"[{group}]" for group in GROUPS.values()} <= set(text.splitlines())


@pytest.mark.thorough
def test_check_fmt_methods_and_simulate(installed: Path, folder: Path) -> None:
    counts, waves, _, every, own, _ = several(
        folder,
        ("check", "counts.lgm", "d.npz"),
        ("check", "waves.lgm", "d.npz"),
        ("fmt", "counts.lgm"),
        ("methods",),
        ("methods", "counts.lgm"),
        ("simulate", "counts.lgm", "d.npz", "--sizes", "g=6,obs=60", "-o", "s.npz"),
        path=installed,
    )
    assert ": ok" in counts and ": ok" in waves
    assert "lomax(shape = 3)" in (folder / "counts.lgm").read_text()
    assert "geometric.logit" in every and "fixed-point" in own
    drawn = np.load(folder / "s.npz")
    assert drawn["truth.s"] > 0 and (drawn["y"] >= 0).all()


@pytest.mark.thorough
def test_messages_know_the_words(installed: Path, folder: Path) -> None:
    (folder / "wrong.lgm").write_text(
        COUNTS.replace("geometric", "geometrc")
        .replace("lomax(shape = 3)", "lomax(shape = -1)")
        .replace("exchangeable", "exchangable")
    )
    said = lgm(folder, "check", "wrong.lgm", path=installed, status=1)
    assert "did you mean `geometric`?" in said and "did you mean `exchangeable`?" in said
    assert "lomax" in said and "positive" in said


@pytest.mark.thorough
def test_fits_by_all_methods_and_ways_agree(installed: Path, folder: Path) -> None:
    """The third party's back end is Laplace's; its bound is below quadrature; every way runs."""
    fit = ("fit", "counts.lgm", "d.npz", "--json")
    fixed = ("--set", "s=0.8", "--set", "r=0.3", "--method")
    methods = ("laplace", "fixed-point", "natural-gradient", "ep")
    read = several(
        folder,
        *((*fit, *fixed, method) for method in methods),
        (*fit, *fixed, "natural-gradient", "--bound", "geometric-curvature"),
        *((*fit, "--hyper", way) for way in ("map", "integrate", "em")),
        path=installed,
    )
    assert {r["status"] for r in read} == {"converged"}
    laplace, same, best, ep, bound = (float(r["log_evidence"]) for r in read[:5])
    assert same == pytest.approx(laplace, rel=1e-7)
    assert ep == pytest.approx(best, abs=0.3)
    assert best - 3.0 < bound < best
    assert all(r["hyper"]["s"]["mean"] > 0 for r in read[5:])


@pytest.mark.thorough
def test_a_kernel_in_sums_and_products_is_learned(installed: Path, folder: Path) -> None:
    found = lgm(folder, "fit", "waves.lgm", "d.npz", "--json", path=installed)
    assert found["status"] == "converged"
    assert found["hyper"]["w"]["mean"] == pytest.approx(1.7, abs=0.3)


@pytest.mark.thorough
def test_a_potential_by_its_g(installed: Path, folder: Path) -> None:
    potential = "lgm 1\nindex obs\ndata z[obs] : real\nlatent m ~ flat\n"
    (folder / "robust.lgm").write_text(potential + "potential z - m ~ cauchy(scale = 0.5)\n")
    assert "the Cauchy density" in lgm(folder, "help", "cauchy", path=installed)
    said = lgm(folder, "fit", "robust.lgm", "d.npz", "--method", "ep", "--json", path=installed)
    assert said["status"] == "converged"


@pytest.mark.thorough
def test_save_load_predict_plot_and_what_to_install(installed: Path, folder: Path) -> None:
    _, summary, predicted, _ = several(
        folder,
        ("fit", "counts.lgm", "d.npz", "-o", "f.nc"),
        ("summary", "f.nc"),
        ("predict", "f.nc", "d.npz", "-o", "p.npz"),
        ("plot", "f.nc", "--out", "pictures"),
        path=installed,
    )
    assert "geometric.logit" in summary and "written" in predicted
    assert list((folder / "pictures").iterdir())
    *refused, check = several(
        folder,
        ("summary", "f.nc"),
        ("predict", "f.nc", "d.npz"),
        ("check", "counts.lgm"),
        status=1,
    )
    for said in refused:
        assert "pip install acme-lgm==1.2" in said
        assert "the hyperprior `lomax` of acme-lgm 1.2" in said
        assert "the structure `exchangeable`" in said and "the site `geometric`" in said
    assert "error[E103]" in check


@pytest.mark.thorough
def test_calibrate_in_processes(installed: Path, folder: Path) -> None:
    said = lgm(
        folder,
        "calibrate",
        "counts.lgm",
        "d.npz",
        "--sizes",
        "g=6,obs=60",
        "--runs",
        "20",
        "--jobs",
        "2",
        "--method",
        "fixed-point",
        "--set",
        "s=0.5",
        "--set",
        "r=0.3",
        "--json",
        path=installed,
        status=0,
    )
    assert said["runs"] == 20


def test_a_model_of_the_language_s_own_words_imports_no_plug_in(
    installed: Path, folder: Path
) -> None:
    program = (
        "import sys, lgmdsl as lgm; lgm.load('plain.lgm'); "
        "assert not {'acme_lgm', 'numpy', 'importlib.metadata'} & set(sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment(installed), check=True
    )
