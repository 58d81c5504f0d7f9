"""A line on the terminal that says how far a fit is. Nothing where stderr is no terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

from lgmdsl.api.progress import PATIENCE, Steps
from lgmdsl.visible import visible

if TYPE_CHECKING:
    from rich.status import Status

    from lgmdsl.inference.driver import TraceEntry


class Progress:
    """`on_step` is the driver's callback; the line goes when the block ends."""

    def __init__(self) -> None:
        self.wanted = sys.stderr.isatty()
        self.began = time.monotonic()
        self.line: Status | None = None
        self.steps = Steps()

    def on_step(self, entry: TraceEntry, of: str = "") -> None:
        """Show the step that was just made, and of which fit where there are several."""
        self.show(self.steps.line(entry, of))

    def show(self, text: str) -> None:
        """Show this text, once the fit has taken long enough."""
        if not self.wanted or time.monotonic() - self.began < PATIENCE:
            return
        from rich.text import Text

        line = Text(visible(text, lines=False))  # rich would read [markup] in a str
        if self.line is None:
            from rich.console import Console
            from rich.status import Status

            self.line = Status(line, console=Console(stderr=True))
            self.line.start()
        else:
            self.line.update(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self.line is not None:
            self.line.stop()
