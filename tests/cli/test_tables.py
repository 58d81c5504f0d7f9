"""Several tables on the command line: fit, predict, and the commands that need the data again."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from tests.cli.conftest import Run

MODEL = """lgm 1
index obs
index subject
index feat
data y[obs] : count
data X[obs, feat] : real
data who[obs] : subject
data age[subject] : real
latent b[feat] ~ normal(sd = 2)
latent u[subject] ~ normal(sd = 1)
let eta[obs] = X @ b + u[who] + 0.01 * age[who]
observe y ~ poisson(log_rate = eta)
"""
TABLES = ["--data", "who=people.csv"]
MAPS = ["--map", "X=x,contrasts(arm)"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    rows = [
        f"{'abc'[k % 3]},{rng.poisson(3)},{rng.normal():.3f},{['new', 'old'][k % 2]}"
        for k in range(30)
    ]
    Path("m.lgm").write_text(MODEL)
    Path("main.csv").write_text("\n".join(["who,y,x,arm", *rows]) + "\n")
    Path("people.csv").write_text("subject,age\nc,30\na,10\nb,20\n")
    done = run("fit", "m.lgm", "main.csv", *TABLES, *MAPS, "--method", "laplace", "-o", "f.nc")
    assert done.status == 0, done.err
    return tmp_path


def predicted(text: str) -> list[float]:
    return [float(row["eta_mean"]) for row in csv.DictReader(io.StringIO(text))]


def test_python_and_the_command_line_agree(folder: Path) -> None:
    fit = lgm.fit(
        lgm.load("m.lgm"),
        ["main.csv", {"who": "people.csv"}],
        method="laplace",
        mapping={"X": ["x", "contrasts(arm)"]},
    )
    stored = lgm.load_fit("f.nc")
    assert stored.log_evidence == fit.log_evidence
    assert np.array_equal(stored.mean("b"), fit.mean("b"))


def test_predictions_need_neither_the_mapping_nor_the_table_again(folder: Path, run: Run) -> None:
    Path("new.csv").write_text("who,x,arm\nb,0.5,new\na,0.5,new\n")
    fit = lgm.load_fit("f.nc")
    done = run("predict", "f.nc", "new.csv")
    assert done.status == 0, done.err
    wanted = [
        float(0.5 * fit.mean("b")[0] + fit.mean("u").sel(subject=s)) + 0.01 * a
        for s, a in (("b", 20), ("a", 10))
    ]
    assert np.allclose(predicted(done.out), wanted)


def test_new_members_come_in_a_table(folder: Path, run: Run) -> None:
    Path("new.csv").write_text("who,x,arm\nd,0,new\n")
    Path("more.csv").write_text("subject,age\nd,80\n")
    done = run("predict", "f.nc", "new.csv", "--data", "who=more.csv")
    assert done.status == 0 and "W307" in done.err
    assert np.allclose(predicted(done.out), [0.8])
    lacking = run("predict", "f.nc", "new.csv")
    assert lacking.status == 1 and 'give `age` for the new labels of subject: "d"' in lacking.err


def test_the_data_again(folder: Path, run: Run) -> None:
    done = run("summary", "f.nc", "--criteria", "--data", "main.csv", *TABLES, "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["criteria"]
    Path("people.csv").write_text("subject,age\nc,31\na,10\nb,20\n")
    other = run("summary", "f.nc", "--criteria", "--data", "main.csv", *TABLES)
    assert other.status == 1 and "the data are not those of the fit: `age`" in other.err


@pytest.mark.parametrize(
    "command",
    [
        ("info",),
        ("explain",),
        ("impute", "--method", "laplace"),
        ("compare", "--method", "laplace"),
        ("simulate", "-o", "s.npz"),
    ],
    ids=lambda words: words[0],
)
def test_other_commands_take_tables(folder: Path, run: Run, command: tuple[str, ...]) -> None:
    done = run(command[0], "m.lgm", "main.csv", *TABLES, *MAPS, *command[1:])
    assert done.status == 0, done.err
