"""Crews that tests choose."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lgmdsl.workers import opened
from lgmdsl.workers.workers import Crew


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Callable[[Crew], None]:
    """Let `jobs`, whatever it is, mean this crew."""

    def take(wanted: Crew) -> None:
        monkeypatch.setattr(opened, "_crew", lambda _: wanted)

    return take
