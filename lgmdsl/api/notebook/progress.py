"""A line in a notebook that says how far a fit is: one output, which is replaced in place."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Protocol, Self

from lgmdsl.api.progress import PATIENCE, Steps, duration
from lgmdsl.inference.driver import TraceEntry

# Seconds between two lines: what a notebook shows goes through its kernel's socket.
OFTEN = 0.2


class Shown(Protocol):
    """An output that can be replaced."""

    def update(self, shown: object) -> None: ...


class Line:
    """A line of text, in a notebook and where there is only text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        from lgmdsl.html import line

        return line(self.text)


def notebook_display() -> Callable[[object], Shown] | None:
    """What shows an output in the notebook that this runs in; None elsewhere, also in IPython's
    terminal, and where nobody imported IPython."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    display: Any = sys.modules["IPython"].display.display
    return lambda shown: display(shown, display_id=True)


class NotebookProgress:
    """`on_step` is the driver's callback. When the block ends the line says how long it all took,
    and nothing is left of fits that were done at once."""

    def __init__(self, show: Callable[[object], Shown]) -> None:
        self.show, self.steps = show, Steps()
        self.began = self.last = time.monotonic()
        self.shown: Shown | None = None

    def on_step(self, entry: TraceEntry) -> None:
        """Show the step that was just made, unless another was shown a moment ago."""
        text, now = self.steps.line(entry), time.monotonic()
        if now - self.began < PATIENCE:
            return
        if self.shown is None:
            self.shown = self.show(Line(text))
        elif now - self.last >= OFTEN:
            self.shown.update(Line(text))
        else:
            return
        self.last = now

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self.shown is not None:
            seconds = duration(time.monotonic() - self.began)
            self.shown.update(Line(f"{'fitted' if error is None else 'stopped'} after {seconds}"))
