"""--time-limit: a fit is stopped, its result so far is kept, and its status says so."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from lgmdsl.api.fit import fitting
from lgmdsl.api.progress import duration
from lgmdsl.cli.commands.fit import TimeLimit
from lgmdsl.cli.progress import Progress
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import TraceEntry
from tests.cli.conftest import Run


def wait() -> None:
    """Until an interrupt comes."""
    while True:
        time.sleep(0.001)


def test_an_interrupt_comes_inside_the_block_alone() -> None:
    with pytest.raises(KeyboardInterrupt), TimeLimit(0.01) as limit:
        wait()
    assert limit.passed
    with TimeLimit(1000.0) as limit:
        pass
    limit._interrupt()  # as of a timer that fires too late
    assert not limit.passed
    with TimeLimit(None) as limit:
        assert limit._timer is None


def test_an_interrupt_comes_where_those_of_others_are_ignored() -> None:
    """What a shell script starts with `&` ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), TimeLimit(0.05):
            signal.raise_signal(signal.SIGINT)
            wait()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        with TimeLimit(1000.0):
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_there_is_no_result_yet(
    run: Run, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "fit", lambda *_, **__: wait())
    ended = run("fit", model, data, "--time-limit", "0.01")
    assert ended.status == 3 and "E601" in ended.err and "time limit of 0.01 s" in ended.err


def test_the_result_so_far_is_written(
    run: Run, model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is over at the first step of the search, whatever the clock says."""
    fit, enter, limits = fitting.fit, TimeLimit.__enter__, list[TimeLimit]()

    def entered(limit: TimeLimit) -> TimeLimit:
        limits.append(limit)
        return enter(limit)

    monkeypatch.setattr(TimeLimit, "__enter__", entered)

    def slow(*arguments: Any, **named: Any) -> Any:
        def on_step(entry: TraceEntry) -> None:
            if entry.stage == "hyperparameters":
                limits[-1]._interrupt()
                wait()

        return fit(*arguments, **{**named, "on_step": on_step})

    monkeypatch.setattr(fitting, "fit", slow)
    out = tmp_path / "o.nc"
    ended = run("fit", model, data, "--hyper", "map", "--time-limit", "1000", "-o", out)
    assert ended.status == 3 and "stopped by the time limit of 1000 s" in ended.err
    assert "interrupted" in ended.out and out.exists()
    monkeypatch.setattr(fitting, "fit", fit)
    again = run("fit", model, data, "--hyper", "map", "--start-from", out, "--json")
    assert again.status == 0 and again.json["status"] == str(Status.converged)
    assert run("fit", model, data, "--time-limit", "0").status == 2


def test_points_and_the_time_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(Progress, "show", lambda self, text: said.append(text))
    line = Progress()
    for k in (1, 2, 12, 52):
        line.on_step(TraceEntry(k, 0.0, 0.0, 10.0 * k, "points", 52))
    line.on_step(TraceEntry(1, 0.0, 0.0, 600.0, "points", 7), "laplace")
    line.on_step(TraceEntry(2, 0.0, 0.0, 603.0, "points", 7), "laplace")
    for k in (1, 2):
        line.on_step(TraceEntry(k * 10**6, 0.0, 0.0, 2.0 * k, "rows", 8 * 10**6))
    assert said == [
        "point 1 of 52, 10.0 s",
        "point 2 of 52, 20.0 s, about 8 min to go",
        "point 12 of 52, 120.0 s, about 7 min to go",
        "point 52 of 52, 520.0 s",
        "laplace: point 1 of 7, 600.0 s",
        "laplace: point 2 of 7, 603.0 s, about 15 s to go",
        "row 1,000,000 of 8,000,000, 2.0 s",
        "row 2,000,000 of 8,000,000, 4.0 s, about 12 s to go",
    ]
    assert [duration(s) for s in (40.2, 200.0, 9000.0)] == ["40 s", "3 min", "2.5 h"]
