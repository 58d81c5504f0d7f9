"""`lgm check MODEL DATA` shows what every datum and index set was read as."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

MODEL = """lgm 1
index obs
index subject
index feat
index area
index day
data y[obs] : count?
data X[obs, feat] : real
data who[obs] : subject
data age[subject] : real
data where[obs] : area
data when[obs] : day
data adj[area, area] : graph
latent b[feat] ~ normal(sd = 2)
latent c ~ normal(sd = 1)
latent u[subject] ~ normal(sd = 1)
latent v[area] ~ besag(graph = adj, sd = 1)
latent f[day] ~ ar1(sd = 1, rho = 0.5)
observe y ~ poisson(log_rate = X @ b + u[who] + c * age[who] + v[where] + f[when])
"""
MAIN = """who,y,x,arm,where,when
b,3,0.5,new,north,2024-01-01
a,,1.5,old,south,2024-01-02
a,1,2.5,new,west,2024-01-05
"""
ARGUMENTS = ["--data", "who=people.csv", "--data", "adj=edges.csv", "--map", "X=x,contrasts(arm)"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("m.lgm").write_text(MODEL)
    Path("main.csv").write_text(MAIN)
    Path("people.csv").write_text("subject,age\nb,20\na,30\n")
    Path("edges.csv").write_text("from,to\nnorth,south\nsouth,west\n")
    return tmp_path


PAGE = """\
data
  y[obs]            count    main.csv:y       whole numbers, 1 to 3, 1 missing    in their order
  X[obs, feat]      real     main.csv         numbers, 0 to 2.5             in their order
                               x
                               treatment contrasts of arm, against new
  who[obs]          subject  main.csv:who     text, 2 of 2 labels           in their order
  age[subject]      real     people.csv:age   whole numbers, 20 to 30       by label
  where[obs]        area     main.csv:where   text, 3 of 3 labels           in their order
  when[obs]         day      main.csv:when    text, 3 of 5 labels           in their order
  adj[area, area]   graph    edges.csv        text, 2 edges, connected      by label
"""


def test_the_page(folder: Path, run: Run) -> None:
    done = run("check", "m.lgm", "main.csv", *ARGUMENTS)
    assert done.status == 0, done.err
    lines = [" ".join(line.split()) for line in done.out.splitlines()[1:]]
    for wanted in PAGE.splitlines():
        assert " ".join(wanted.split()) in lines
    for part in (
        "obs 3 0, 1, 2 numbered from main.csv:y",
        "subject 2 b, a in the order given from people.csv:subject",
        "feat 2 x, arm[old] in the order read from main.csv:X",
        "area 3 north, south, west sorted as text from the values of where",
        "dates by the day, 2 without data from the values of when",
    ):
        assert any(part in line for line in lines), part


def test_json(folder: Path, run: Run) -> None:
    fields = json.loads(run("check", "m.lgm", "main.csv", *ARGUMENTS, "--json").out)
    by_name = {entry["name"]: entry for entry in fields["read"]}
    assert by_name["y[obs]"]["missing"] == 1 and by_name["who[obs]"]["missing"] == 0
    assert by_name["X[obs, feat]"]["columns"] == ["x", "treatment contrasts of arm, against new"]
    assert [i["name"] for i in fields["indices"]] == ["obs", "subject", "feat", "area", "day"]
    assert next(i for i in fields["indices"] if i["name"] == "day")["added"] == 2


def test_data_may_be_named_alone(folder: Path, run: Run) -> None:
    done = run("check", "m.lgm", "--data", "obs=main.csv", *ARGUMENTS)
    assert done.status == 0, done.err


def test_wrong_usage(folder: Path, run: Run) -> None:
    assert run("fit", "m.lgm").status == 2
    assert run("fit", "m.lgm", "main.csv", "--data", "people.csv").status == 2
    assert run("fit", "m.lgm", "main.csv", "--data", "a=b.csv", "--data", "a=c.csv").status == 2


def test_an_output_never_replaces_a_table(folder: Path, run: Run) -> None:
    Path("t.nc").write_text("")
    done = run("fit", "m.lgm", "main.csv", "--data", "who=t.nc", "-o", "t.nc")
    assert done.status == 1 and "it is the data" in done.err
