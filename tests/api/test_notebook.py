"""What notebooks show: whole, self-contained, escaped; the cell magic; a notebook that is run."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.notebook import cards
from lgmdsl.api.notebook.magic import LgmMagic
from lgmdsl.api.predict import card

EVIL = "<script>alert('x')</script>"
TEXT = f"""lgm 1
# Counts of {EVIL} & others.
index obs
index who "{EVIL}"
data y[obs] : count
data x[obs] : real
data by[obs] : who
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent level ~ normal(sd = 3)
latent b ~ normal(sd = 1)
latent u[who] ~ normal(sd = s)
let eta[obs] = level + b * x + u[by]
observe y ~ poisson(log_rate = eta)
report rate[obs] = exp(eta)
"""


def data(size: int = 40) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    names = np.array([EVIL, "a&b", '"q"', "plain", "five", "six", "seven", "eight"])
    return {
        "y": rng.poisson(np.exp(1.0 + 0.5 * (np.arange(size) % 8 - 3.5))),
        "x": rng.normal(size=size),
        "by": names[np.arange(size) % 8],
    }


@pytest.fixture(scope="module")
def fit() -> Fit:
    return lgm.fit(lgm.loads(TEXT), data(), method="laplace", hyper="map")


class Tags(HTMLParser):
    """Checks that tags are closed in order, and collects them with the text between."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.links += [v or "" for k, v in attrs if k in ("src", "href")]
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words += data


def shown(result: Any) -> Tags:
    text = result._repr_html_()
    assert text.startswith('<div class="lgm">') and len(text) < 100_000
    tags = Tags(text)
    assert "script" not in tags.seen and "link" not in tags.seen
    assert all(link.startswith("data:image/svg+xml;base64,") for link in tags.links)
    assert "@import" not in text and "url(" not in text
    return tags


def test_a_model_shows_its_text_and_its_graph(fit: Fit) -> None:
    tags = shown(fit.model)
    assert TEXT.strip() in tags.words
    text = fit.model._repr_html_()
    for kind, word in (("k", "latent"), ("f", "poisson"), ("n", "0.05"), ("s", "&lt;script&gt;")):
        assert re.search(f'<span class="{kind}">[^<]*{re.escape(word)}', text), word
    svg = base64.b64decode(tags.links[0].partition(",")[2]).decode()
    assert svg.startswith("<svg") and "<script>" not in svg and "eta" in svg


def test_a_model_that_is_not_finished() -> None:
    model = lgm.Model()
    model.index("obs")
    tags = shown(model)
    assert "not a whole model" in tags.words and "error[" in tags.words


def test_a_fit_shows_what_was_found(fit: Fit) -> None:
    tags = shown(fit)
    assert f"u[{EVIL}]" in tags.words and "2 more" in tags.words and "u[five]" in tags.words
    assert "converged" in tags.words and "log evidence" in tags.words
    numbers = cards._numbers(np.array([12.3456, 0.0456, 1.0, 2.0, 3.0]))
    assert numbers == ["12.346", "0.046", "1.000", "2.000", "3.000"]
    assert cards._numbers(np.array([1.5, 0.0, 1.5, 1.5, 1.5]))[0] == "1.5"
    mean = float(fit.mean("u").sel(who=EVIL))
    assert tags.words.split(f"u[{EVIL}]")[1].startswith(f"{mean:.2f}")


def test_a_fit_with_warnings_names_them() -> None:
    fit = lgm.fit(
        lgm.loads(TEXT), data(), method="laplace", hyper="map", options={"learning_steps": 1}
    )
    assert "W601" in shown(fit).words and not fit.converged


def test_warnings_are_shown_once() -> None:
    fit = lgm.fit(
        lgm.loads(TEXT), data(), method="laplace", hyper="map", options={"learning_steps": 1}
    )
    assert fit.warnings and all(shown(fit).words.count(w.message) == 1 for w in fit.warnings)
    assert all(fit.summary().count(w.message) == 1 for w in fit.warnings)
    with pytest.warns(lgm.PredictionWarning, match="W307"):
        prediction = fit.predict({"x": [0.0], "by": ["new"]})
    visible, _, behind = prediction._repr_html_().partition("<details><summary>1 warning<")
    assert "W307" not in visible and "W307" in behind


def test_pages_read_as_they_are(fit: Fit) -> None:
    page = fit.summary()
    assert repr(page) == str(page) and "\n" in page and isinstance(page, str)
    assert shown(page).words.strip() == page.strip()
    assert repr(fit.model.to_lgm()).startswith("lgm 1\n")
    for result in (fit.loo(), fit.waic(), fit.dic(), fit.pit(), fit.impute()):
        assert str(result).strip() in shown(result).words
    methods = lgm.methods(fit.model)
    assert str(methods).strip() in shown(methods).words
    explanation = lgm.explain(fit.model, data())
    assert str(explanation).strip() in shown(explanation).words
    assert len(repr(fit.hyper_marginals)) < 100


@pytest.mark.filterwarnings("ignore:warning.W611")  # sds that are off, which is said
def test_a_prediction_shows_its_first_rows(fit: Fit) -> None:
    new = data(24)
    prediction = fit.predict({"x": new["x"], "by": new["by"]})
    tags = shown(prediction)
    assert "the first 10 of 24" in tags.words and "rate_mean" in tags.words
    assert f"{float(prediction.mean('eta')[0]):.4g}" in tags.words
    assert prediction.names == ("eta", "rate", "y")


def test_a_large_prediction_is_not_computed(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "VALUES", 5)
    prediction = fit.predict({"x": [0.0, 1.0], "by": ["plain", "plain"]})
    monkeypatch.setattr(type(prediction), "to_dataset", lambda self: pytest.fail("computed"))
    assert "eta" in shown(prediction).words


@pytest.mark.thorough
def test_other_results(fit: Fit) -> None:
    comparison = lgm.compare(fit.model, data(), ["laplace", "ep", "double-loop"], fixed={"s": 0.3})
    words = shown(comparison).words
    assert "no fit" in words and "reference" in words
    assert fit.audit(n=200).verdict in shown(fit.audit(n=200)).words
    calibration = lgm.calibrate(fit.model, sizes={"obs": 10, "who": 2}, runs=3, method="laplace")
    assert "3 of 3 runs" in shown(calibration).words


def test_errors() -> None:
    with pytest.raises(lgm.DataError) as caught:
        lgm.fit(lgm.loads(TEXT), {"y": [1], EVIL: [2.0]})
    tags = shown(caught.value)
    assert EVIL in tags.words and "E305" in tags.words and "lgm help E305" in tags.words


class Shell:
    def __init__(self) -> None:
        self.user_ns: dict[str, object] = {}
        self.magics: dict[tuple[str, str], Any] = {}

    def register_magic_function(self, function: object, kind: str, name: str) -> None:
        self.magics[kind, name] = function


def test_the_cell_magic() -> None:
    shell = Shell()
    lgm.load_ipython_extension(shell)
    magic = shell.magics["cell", "lgm"]
    assert isinstance(magic, LgmMagic)
    model = magic("counts", TEXT)
    assert shell.user_ns["counts"] is model and model == lgm.loads(TEXT)
    assert magic("", TEXT) is shell.user_ns["model"]
    with pytest.raises(lgm.ModelError, match=r"--> <bad>:2:"):
        magic("bad", "lgm 1\nlatent u ~ nrmal()\n")
    assert "bad" not in shell.user_ns
    with pytest.raises(ValueError, match="one name"):
        magic("a b", TEXT)
    assert "load_ipython_extension" not in dir(lgm)


CELLS = (
    "%load_ext lgmdsl\nimport numpy as np, lgmdsl as lgm",
    f"%%lgm counts\n{TEXT}",
    "rng = np.random.default_rng(2)\n"
    f"names = np.array([{EVIL!r}, 'a&b', 'c'])\n"
    "data = {'y': rng.poisson(3.0, 30), 'x': rng.normal(size=30), 'by': names[np.arange(30) % 3]}\n"
    "fit = lgm.fit(counts, data, method='laplace', hyper='map')\nfit",
    "fit.predict({'x': np.zeros(12), 'by': names[np.arange(12) % 3]})",
    "fit.audit(n=200)",
    "lgm.compare(counts, data, ['laplace', 'ep'], fixed={'s': 0.3})",
    "lgm.calibrate(counts, sizes={'obs': 10, 'who': 2}, runs=3, method='laplace')",
    "try:\n    lgm.fit(counts, {})\nexcept lgm.LgmError as error:\n    display(error)",
    "get_ipython().complete('fit[\"l')[1]",
    "fit.summary()",
)
FAULTS = (
    f"import lgmdsl as lgm\nmodel = lgm.loads({TEXT!r})",
    "def ours():\n    return lgm.fit(model, {})\nours()",
    "lgm.loads('lgm 1\\nlatent u ~ nrmal()')",
    "lgm.load(3)",
)


@pytest.fixture(scope="module")
def outputs() -> list[list[dict[str, Any]]]:
    """What a kernel answers to the cells."""
    return run(CELLS)


def run(cells: Sequence[str], **options: Any) -> list[list[dict[str, Any]]]:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", **options).execute()
    return [cell.outputs for cell in notebook.cells]


def blocks(outputs: list[list[dict[str, Any]]]) -> Iterator[str]:
    for cell in outputs:
        for output in cell:
            assert output["output_type"] in ("execute_result", "display_data"), output
            if "text/html" in output["data"]:
                yield output["data"]["text/html"]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_notebook_runs(outputs: list[list[dict[str, Any]]]) -> None:
    shown = [b for b in blocks(outputs) if "<header>" in b]  # without lines of progress
    assert len(shown) == 7
    titles = [re.search("<header>(.*?)[<(]", block) for block in shown]
    assert [t and t.group(1).strip() for t in titles] == [
        "lgmdsl.Model of 12 statements", "Fit by laplace, map", "Prediction", "Audit",
        "Comparison of methods", "Calibration of laplace", "DataError",
    ]  # fmt: skip
    assert "level" in outputs[-2][0]["data"]["text/plain"]
    page = outputs[-1][0]["data"]
    assert page["text/plain"].splitlines()[0].split() == ["method", "laplace"]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_error_shows_the_frames_of_the_user_alone() -> None:
    cells = run(FAULTS, allow_errors=True)
    traces = ["\n".join(cell[0]["traceback"]) for cell in cells[1:]]
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", trace) for trace in traces]
    for text, code in zip(plain[:2], ("E305", "E103"), strict=True):
        assert code in text and "lgmdsl/" not in text
    assert "ours()" in plain[0] and "return lgm.fit(model, {})" in plain[0]
    assert "lgmdsl/" in plain[2]  # a TypeError is Python's own


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_browser_shows_it(outputs: list[list[dict[str, Any]]], tmp_path: Path) -> None:
    """Light and dark, as the browser has it: no label ran, and colours follow the theme."""
    page = tmp_path / "page.html"
    body = "".join(f"<section>{block}</section>" for block in blocks(outputs))
    probe = (
        "<script>const c=[...document.querySelectorAll('.k,.good,.bad')].map(e=>"
        "getComputedStyle(e).color);document.title=[...new Set(c)].sort().join(';')</script>"
    )
    found = {}
    for theme in ("light", "dark"):
        start = f"<!doctype html><meta charset=utf-8><html data-theme={theme}><body>"
        page.write_text(f"{start}{body}{probe}</body></html>", encoding="utf-8")
        out = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
             "--disable-background-networking", f"--user-data-dir={tmp_path / theme}",
             page.as_uri()],
            capture_output=True, text=True, timeout=120, check=True,
        ).stdout  # fmt: skip
        found[theme] = re.search("<title>(.*?)</title>", out)
        assert "&lt;script&gt;alert" in out
    light, dark = (m.group(1) if m else "" for m in found.values())
    assert "rgb" in light and "rgb" in dark and not set(light.split(";")) & set(dark.split(";"))
