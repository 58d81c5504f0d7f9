"""How columns of a table enter a matrix; a fit keeps it, so that new rows enter it alike."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Coding:
    """How a column enters a matrix: as it is (`kind` empty), or by contrasts of its `levels`, of
    which `base` has no column. `unused` are levels that no row has."""

    column: str
    kind: str = ""
    base: str = ""
    levels: tuple[str, ...] = ()
    unused: tuple[str, ...] = field(default=(), compare=False)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its columns: `age`, or `region[south]`, `region[west]`."""
        if not self.kind:
            return (self.column,)
        return tuple(f"{self.column}[{v}]" for v in self.levels if v != self.base)

    @property
    def rows(self) -> dict[str, tuple[float, ...]]:
        """The entries of its columns in a row of each level."""
        others = [v for v in self.levels if v != self.base]
        base = -1.0 if self.kind == "sum" else 0.0
        rows = {v: tuple(float(v == w) for w in others) for v in self.levels}
        return {**rows, self.base: (base,) * len(others)}

    def __str__(self) -> str:
        if not self.kind:
            return self.column
        return f"{self.kind} contrasts of {self.column}, {self.role} {self.base}"

    @property
    def role(self) -> str:
        """What the base level is."""
        return "against" if self.kind == "treatment" else "left out:"
