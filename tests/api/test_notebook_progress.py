"""The line that says how far a fit is, in notebooks: one output, replaced in place."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.notebook import progress
from lgmdsl.api.notebook.progress import Line, NotebookProgress, notebook_display
from lgmdsl.inference.driver import TraceEntry

MODEL = """lgm 1
index obs
index who
data y[obs] : count
data by[obs] : who
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper t : positive ~ pc_sd(u = 1, alpha = 0.05)
latent b ~ normal(sd = t)
latent u[who] ~ normal(sd = s)
observe y ~ poisson(log_rate = b + u[by])
"""


class Output:
    """Stands in for what `display(..., display_id=True)` returns."""

    def __init__(self) -> None:
        self.made = 0
        self.lines: list[str] = []

    def __call__(self, shown: object, display_id: bool = False) -> Output:
        assert display_id
        self.made += 1
        self.update(shown)
        return self

    def update(self, shown: object) -> None:
        assert repr(shown) in shown._repr_html_()  # type: ignore[attr-defined]
        self.lines.append(repr(shown))


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Output:
    """IPython with a kernel."""
    output, shell = Output(), ModuleType("shell")
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    shell.kernel = object()  # type: ignore[attr-defined]
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    ipython.display = display  # type: ignore[attr-defined]
    display.display = output  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return output


def data() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"y": rng.poisson(2.0, 60), "by": np.arange(60) % 6}


def test_one_output_with_points_and_a_last_word(
    output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "OFTEN", 0.0)
    lgm.fit(lgm.loads(MODEL), data(), method="laplace", hyper="integrate")
    assert output.made == 1
    assert any(line.startswith("point ") and "to go" in line for line in output.lines)
    assert any(line.startswith("step ") for line in output.lines)
    assert output.lines[-1].startswith("fitted after")


def test_nothing_of_what_is_done_at_once(output: Output) -> None:
    lgm.fit(lgm.loads(MODEL), data(), method="laplace", fixed={"s": 0.5, "t": 1.0})
    assert output.made == 0


def test_a_callback_of_the_caller_is_in_place_of_the_line(
    output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    entries: list[TraceEntry] = []
    lgm.fit(lgm.loads(MODEL), data(), method="laplace", hyper="map", on_step=entries.append)
    assert entries and output.made == 0


def test_a_fit_that_fails_does_not_say_fitted(
    output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    shown = NotebookProgress(lambda line: output(line, display_id=True))
    with pytest.raises(RuntimeError), shown:
        shown.on_step(TraceEntry(1, -3.0, 0.1, 0.2, "hyperparameters"))
        raise RuntimeError
    assert output.lines[-1].startswith("stopped after")


def test_lines_are_not_sent_more_often_than_they_are_read(output: Output) -> None:
    shown = NotebookProgress(lambda line: output(line, display_id=True))
    shown.began -= 10.0
    for k in range(1000):
        shown.on_step(TraceEntry(k, -3.0, 0.1, 0.2, "hyperparameters"))
    assert 1 <= len(output.lines) <= 20


def test_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert notebook_display() is None
    terminal = ModuleType("IPython")
    terminal.get_ipython = lambda: object()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert notebook_display() is None
    assert "<b>" not in Line("<b>")._repr_html_()
