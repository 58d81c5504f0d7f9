"""What data and files hold steers no terminal; tables and JSON keep it as it is."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.cli import output
from lgmdsl.cli.tables import csv_of
from lgmdsl.visible import visible
from tests.cli.conftest import Run

MODEL = """lgm 1
index obs
index g
data y[obs] : real
data who[obs] : g
hyper s : positive ~ exponential(rate = 1)
latent u[g] ~ normal(sd = s)
observe y ~ normal(mean = u[who], sd = 1)
"""
STEERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LABELS = ["\x1b[31mred", "a\x9b2Jb", "x\u202ey", "two\nlines", "t\tab", "=1+1", "@sum", "plain"]


@pytest.fixture(scope="module")
def fit() -> lgm.Fit:
    who = np.array(LABELS)[np.arange(32) % 8]
    y = np.random.default_rng(0).normal(size=32) + np.arange(32) % 8
    return lgm.fit(lgm.loads(MODEL), {"y": y, "who": who}, hyper="map")


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(lgm.LgmError) as caught:
        call()
    return str(caught.value)


ESC = {"y": [1.0, 2.0], "wh\x1bo": ["a", "b"]}
SEEN: dict[str, Callable[[lgm.Fit], object]] = {
    "summary": lambda f: f.summary(full=True),
    "fit": repr,
    "loo by groups": lambda f: f.loo(groups="who"),
    "audit": lambda f: f.audit(),
    "prediction": lambda f: f.predict({"who": LABELS[:2]}),
    "explanation": lambda f: lgm.explain(f.model, {"y": [1.0, 2.0], "who": LABELS[:2]}),
    "warning": lambda f: f.predict({"who": ["\x1b[0mnew"]}).warnings,
    "unknown label": lambda f: refusal(lambda: f.effects("who", contrast=("plain", "\x1bz"))),
    "unknown key": lambda f: refusal(lambda: lgm.fit(f.model, ESC)),
    "unknown file": lambda f: refusal(lambda: lgm.fit(f.model, "no\x1b[2J.csv")),
    "model": lambda f: refusal(lambda: lgm.loads('lgm 1\nindex g = {"\x1b[31m"} latent')),
    "labels of the model": lambda f: refusal(
        lambda: lgm.fit(
            lgm.loads(MODEL.replace("index g", 'index g = {"a"}')), {"y": [1.0], "who": ["\x1b"]}
        )
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SEEN)
def test_nothing_printed_steers_a_terminal(name: str, fit: lgm.Fit) -> None:
    shown = SEEN[name](fit)
    for text in (str(shown), repr(shown)):
        assert STEERS.search(text) is None
        assert "\nlines" not in text


def test_a_mark_stands_under_what_it_marks() -> None:
    said = refusal(lambda: lgm.loads('lgm 1\nindex g = {"\x1b[31m"} latent'))
    line, marks = said.splitlines()[2:4]
    assert line[marks.index("^") :].startswith("latent") and "\\x1b[31m" in line


def test_text_that_reorders_is_refused_at_its_place() -> None:
    for sign in "\u202a\u202e\u2066\u2069":
        with pytest.raises(lgm.ModelError) as caught:
            lgm.loads(f'lgm 1\nindex g = {{"a{sign}"}}\n')
        (found,) = caught.value.diagnostics
        assert found.code == "E109" and (found.span.line, found.span.column) == (2, 14)
    lgm.loads('lgm 1\nindex g = {"\u05d0\u200f", "b"}\nlatent a ~ normal(sd = 1)\n')


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rows = [[k / 2, label] for k, label in enumerate(LABELS * 3)]
    with (tmp_path / "d.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["y", "who"], *rows])
    (tmp_path / "m.lgm").write_text(MODEL)
    return tmp_path


def test_tables_and_json_keep_labels(files: Path, run: Run) -> None:
    end = ("-o", files / "f.nc", "--hyper", "map", "--json")
    fitted = run("fit", files / "m.lgm", files / "d.csv", *end)
    assert fitted.status == 0 and STEERS.search(fitted.out) is None
    page, table = run("summary", files / "f.nc"), run("summary", files / "f.nc", "--csv")
    assert STEERS.search(page.out) is None and "\\x1b[31mred" in page.out
    names = [row[0] for row in csv.reader(io.StringIO(table.out))]
    assert {f"u[{label}]" for label in LABELS} <= {*names}


def test_cells_are_written_as_pandas_writes_them() -> None:
    """No quote is put before `=`, `+` or `@`, which would be another label when it is read."""
    columns = {"g": [*LABELS, "+1", "-x"], "mean": np.arange(10)}
    wanted = pd.DataFrame(columns).to_csv(index=False, lineterminator="\n")
    assert csv_of(columns) == wanted


def test_a_terminal_gets_no_raw_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output.show("a,\x1b[2J\n", end="")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    output.show("a,\x1b[2J\n", end="")
    assert capsys.readouterr().out == "a,\x1b[2J\na,\\x1b[2J\n"


def test_json_gives_labels_back(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_json({"labels": [*LABELS, "é"]})
    said = capsys.readouterr().out
    assert json.loads(said)["labels"] == [*LABELS, "é"] and STEERS.search(said) is None


def test_frames_keep_labels(fit: lgm.Fit) -> None:
    frame: Any = fit.tidy()
    assert isinstance(frame, pd.DataFrame)
    assert {f"u[{label}]" for label in LABELS} <= {*frame["term"]}


def test_escapes() -> None:
    assert visible("a\x1b\x9b\u202e\n\té") == "a\\x1b\\x9b\\u202e\n\té"
    assert visible("a\n\tb", lines=False) == "a\\n\\tb"


def test_what_is_not_known_is_no_number() -> None:
    """An integration that Ctrl-C ends has no sds of hyperparameters."""
    seen = []

    def stop(entry: object) -> None:
        seen.append(entry)
        if len(seen) == 3:
            raise KeyboardInterrupt

    data = {"y": np.arange(12.0), "who": list("abcd") * 3}
    fit = lgm.fit(lgm.loads(MODEL), data, hyper="integrate", on_step=stop)
    assert str(fit.status) == "interrupted"
    page = str(fit.summary(full=True))
    assert "nan" not in page.lower() and re.search(r"^  s +\d\S+ +- +- +- +-$", page, re.MULTILINE)
