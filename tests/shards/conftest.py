"""Crews that tests choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lgmdsl.workers import opened


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Let `jobs`, whatever it is, mean this crew."""

    def take(wanted: Any) -> None:
        monkeypatch.setattr(opened, "_crew", lambda _: wanted)

    return take
