"""Workers get the caller's memory budget, whatever their own machine or control group has."""

from __future__ import annotations

import subprocess
from typing import cast

import pytest

from lgmdsl.api.calibrate import pool as calibrate_pool
from lgmdsl.api.calibrate.run import CalibrationTask


class Stopped(Exception):
    pass


def test_the_budget_goes_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, str] = {}

    def start(*_: object, env: dict[str, str], **__: object) -> None:
        seen.update(env)
        raise Stopped

    monkeypatch.delenv("LGM_MEMORY", raising=False)
    monkeypatch.setattr("lgmdsl.memory._half", lambda: 10_000_000_000)
    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(Stopped):
        calibrate_pool._start(cast("CalibrationTask", None), b"", [0])
    assert seen["LGM_MEMORY"] == "10000000000"
