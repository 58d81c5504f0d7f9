"""How far a fit is, in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lgmdsl.inference.driver import TraceEntry

# Fits that are done sooner show nothing.
PATIENCE = 0.5


class Steps:
    """Lines for the entries of a trace, in their order."""

    def __init__(self) -> None:
        self.batch: TraceEntry | None = None  # the first of the points that are fitted now

    def line(self, entry: TraceEntry, of: str = "") -> str:
        """The step that was just made, and of which fit where there are several: `step 7
        (hyperparameters), ...`, or `point 12 of 52, 40 s, about 3 min to go`, or `row ...`."""
        before = f"{of}: " if of else ""
        if entry.of:
            return before + self._point(entry)
        self.batch = None
        stage = f" ({entry.stage})" if entry.stage else ""
        return (
            f"{before}step {entry.step}{stage}, objective {entry.objective:.6g}, "
            f"residual {entry.residual:.1e}, {entry.seconds:.1f} s"
        )

    def _point(self, entry: TraceEntry) -> str:
        """With the time to go at the rate of those of the same batch."""
        if self.batch is None or entry.step == 1 or self.batch.of != entry.of:
            self.batch = entry
        one = entry.stage.removesuffix("s") or "point"
        text = f"{one} {entry.step:,} of {entry.of:,}, {entry.seconds:.1f} s"
        done = entry.step - self.batch.step
        if done < 1 or entry.step == entry.of:
            return text
        rest = (entry.seconds - self.batch.seconds) / done * (entry.of - entry.step)
        return f"{text}, about {duration(rest)} to go"


def duration(seconds: float) -> str:
    """`40 s`, `3 min`, `2 h`."""
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"
