"""A line on the terminal that says how far a fit is. Nothing where stderr is no terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.status import Status

    from lgmdsl.inference.driver import TraceEntry

# Fits that are done sooner show nothing, and need not wait for rich to be imported.
PATIENCE = 0.5


class Progress:
    """`on_step` is the driver's callback; the line goes when the block ends."""

    def __init__(self) -> None:
        self.wanted = sys.stderr.isatty()
        self.began = time.monotonic()
        self.line: Status | None = None
        self.batch: TraceEntry | None = None  # the first of the points that are fitted now

    def on_step(self, entry: TraceEntry, of: str = "") -> None:
        """Show the step that was just made, and of which fit where there are several."""
        if entry.of:
            self.show(f"{of}{': ' if of else ''}{self._points(entry)}")
            return
        self.batch = None
        stage = f" ({entry.stage})" if entry.stage else ""
        self.show(
            f"{of}{': ' if of else ''}step {entry.step}{stage}, "
            f"objective {entry.objective:.6g}, "
            f"residual {entry.residual:.1e}, {entry.seconds:.1f} s"
        )

    def _points(self, entry: TraceEntry) -> str:
        """`point 12 of 52, 3 min to go`: at the rate of those of the same batch."""
        if self.batch is None or entry.step == 1 or self.batch.of != entry.of:
            self.batch = entry
        text = f"point {entry.step} of {entry.of}, {entry.seconds:.1f} s"
        done = entry.step - self.batch.step
        if done < 1 or entry.step == entry.of:
            return text
        rest = (entry.seconds - self.batch.seconds) / done * (entry.of - entry.step)
        return f"{text}, about {duration(rest)} to go"

    def show(self, text: str) -> None:
        """Show this text, once the fit has taken long enough."""
        if not self.wanted or time.monotonic() - self.began < PATIENCE:
            return
        if self.line is None:
            from rich.console import Console
            from rich.status import Status

            self.line = Status(text, console=Console(stderr=True))
            self.line.start()
        else:
            self.line.update(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.line is not None:
            self.line.stop()


def duration(seconds: float) -> str:
    """`40 s`, `3 min`, `2 h`."""
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"
