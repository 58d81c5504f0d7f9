"""Wrong tables: each message says what was found, and its remedy works.

`LGMDSL_WRITE_GOLDEN=1` writes the messages anew.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.conftest import Run

GOLDEN = Path(__file__).parent / "golden" / "wrong_tables"
MODEL = """lgm 1
index obs
index subject
index area
index day
data cases[obs]       : count
data dose[obs]        : real
data who[obs]         : subject
data where[obs]       : area
data when[obs]        : day
data age[subject]     : real
data edges[area, area] : graph
latent level      ~ normal(sd = 3)
latent slope      ~ normal(sd = 2)
latent ageing     ~ normal(sd = 2)
latent u[subject] ~ normal(sd = 0.5)
latent v[area]    ~ besag(graph = edges, sd = 0.5)
latent f[day]     ~ rw1(sd = 0.3)
let eta[obs] = level + slope * dose + u[who] + ageing * age[who] / 50 + v[where] + f[when]
observe cases ~ poisson(log_rate = eta)
"""
MAIN = """cases,dose,who,where,when
3,0.5,ann,north,2024-01-01
1,1.5,bob,south,2024-01-02
0,2.5,ann,west,2024-01-05
2,3.5,cem,south,2024-01-03
"""
PEOPLE = "subject,age\nann,31\nbob,42\ncem,53\n"
EDGES = "from,to\nnorth,south\nsouth,west\n"
FILES = {"m.lgm": MODEL, "main.csv": MAIN, "people.csv": PEOPLE, "edges.csv": EDGES}
DATA = ("m.lgm", "main.csv", "--data", "who=people.csv", "--data", "edges=edges.csv")
DESIGN = """lgm 1
index obs
index feat
data cases[obs] : count
data X[obs, feat] : real
latent b[feat] ~ normal(sd = 1)
observe cases ~ poisson(log_rate = X @ b)
"""
PANEL = """lgm 1
index child
index visit
data height[child, visit] : real?
data age[child] : real
latent b ~ normal(sd = 5)
latent u[child] ~ normal(sd = 5)
latent growth[visit] ~ normal(sd = 20)
observe height ~ normal(mean = growth + u + b * age, sd = 1)
"""


@dataclass(frozen=True)
class Case:
    """Files that replace the good ones, those that the remedy makes of them, and its arguments."""

    files: Mapping[str, str]
    remedied: Mapping[str, str] = field(default_factory=dict)
    more: tuple[str, ...] = ()
    arguments: tuple[str, ...] = DATA
    status: int = 1
    remedied_arguments: tuple[str, ...] = ()


def shown(text: str, before: str, after: str) -> dict[str, str]:
    assert before in text
    return {"main.csv": text.replace(before, after)}


CASES = {
    "missing_column": Case(
        {
            "main.csv": "\n".join(
                ",".join((r.split(",")[0], *r.split(",")[2:])) for r in MAIN.split()
            )
        },
        {"main.csv": MAIN},
    ),
    "renamed_column": Case(shown(MAIN, "cases,dose", "cases,Dosis"), more=("--map", "dose=Dosis")),
    "repeated_key": Case({"people.csv": PEOPLE + "ann,32\n"}, {"people.csv": PEOPLE}),
    "mixed_types": Case(shown(MAIN, "1,1.5", "1,high"), shown(MAIN, "1,1.5", "1,1.5")),
    "decimal_commas": Case(
        {"main.csv": MAIN.replace(",", ";").replace(".5", ",5")},
        {"main.csv": MAIN.replace(",", ";")},
    ),
    "date_as_text": Case(
        {
            "main.csv": MAIN.replace("2024-01-0", "0")
            .replace(",01", ",1.1.2024")
            .replace(",02", ",2.1.2024")
            .replace(",03", ",3.1.2024")
            .replace(",05", ",15.1.2024")
        },
        {"main.csv": MAIN},
    ),
    "wrong_graph": Case(
        {"edges.csv": EDGES + "west,nroth\n"}, {"edges.csv": EDGES + "west,north\n"}, status=0
    ),
    "percent_signs": Case(
        {"main.csv": MAIN.replace(".5,", ".5%,")}, {"main.csv": MAIN.replace(".5%,", ".5,")}
    ),
    "open_quotes": Case(shown(MAIN, "1,1.5,bob", '1,1.5,"bob'), {"main.csv": MAIN}),
    "title_above_the_names": Case({"main.csv": "Survey of 2024,,,,\n" + MAIN}, {"main.csv": MAIN}),
    "column_of_rows": Case(
        {
            "main.csv": "\n".join(
                f"{r},{'age' if k == 0 else 30 + k}" for k, r in enumerate(MAIN.split())
            )
        },
        {"main.csv": MAIN},
        arguments=("m.lgm", "main.csv", "--data", "edges=edges.csv"),
        remedied_arguments=DATA,
    ),
    "table_without_rows": Case({"people.csv": "subject,age\n"}, {"people.csv": PEOPLE}),
    "level_of_no_row": Case({"people.csv": PEOPLE + "dan,64\n"}, {"people.csv": PEOPLE}, status=0),
    "empty_file": Case({"people.csv": ""}, {"people.csv": PEOPLE}),
    "header_alone": Case({"main.csv": MAIN.split("\n")[0] + "\n"}, {"main.csv": MAIN}),
    "wide_table": Case(
        {
            "m.lgm": PANEL,
            "main.csv": "child,age,height1,height2,height3\na,7,120,125,131\nb,8,,131,135\n",
        },
        arguments=("m.lgm", "main.csv"),
        more=("--map", "height=height1,height2,height3"),
    ),
    "words_in_a_matrix": Case(
        {"m.lgm": DESIGN, "main.csv": MAIN},
        arguments=("m.lgm", "main.csv", "--map", "X=dose,where"),
        remedied_arguments=("m.lgm", "main.csv", "--map", "X=dose,contrasts(where)"),
    ),
    "no_key_column": Case(
        {"people.csv": PEOPLE.replace("subject", "name")}, more=("--map", "subject=name")
    ),
    "label_without_entry": Case(
        {"people.csv": "subject,age\nann,31\nbob,42\n"}, {"people.csv": PEOPLE}
    ),
    "other_table": Case(
        {"m.lgm": MODEL.replace("age[subject]", "age[obs]").replace("age[who]", "age")},
        {"m.lgm": MODEL},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message_and_remedy(
    name: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    case = CASES[name]
    for file, text in {**FILES, **case.files}.items():
        Path(file).write_text(text)
    done = run("check", *case.arguments)
    assert done.status == case.status, done.err
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("LGMDSL_WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(done.err)
    assert done.err == golden.read_text()
    for file, text in case.remedied.items():
        Path(file).write_text(text)
    arguments = case.remedied_arguments or (*case.arguments, *case.more)
    done = run("check", *arguments)
    assert (done.status, done.err) == (0, "")
    fitted = run("fit", *arguments, "--method", "laplace")
    assert fitted.status == 0, fitted.err
