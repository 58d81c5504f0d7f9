"""Comparison: what `lgm.compare` returns. Rows, a table, a picture, plain values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.page import several
from lgmdsl.arrays import Array
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.files import unwritable, write
from lgmdsl.language.builder import Model
from lgmdsl.state import FieldState, made_by

FORMATS = ("png", "svg", "pdf")


@dataclass(frozen=True)
class Difference:
    """A method's latents against the reference's, m0 and s0: `mean` is |m - m0| / s0, `sd` s / s0.

    Latents that the model fixes (s0 = 0) are left out; without any other all are nan.
    """

    mean_largest: float
    mean_rms: float
    sd_least: float
    sd_median: float
    sd_greatest: float

    @property
    def sd_farthest(self) -> float:
        """The sd ratio that is farthest from 1, as a factor."""
        low, high = self.sd_least, self.sd_greatest
        return low if low * high < 1.0 else high


@dataclass(frozen=True, eq=False)
class Compared:
    """One method: its fit and how far that is from the reference; `failure` says why there is no
    fit, or no audit of it."""

    method: str
    fit: Fit | None
    failure: Diagnostic | None = None
    difference: Difference | None = None

    @property
    def converged(self) -> bool:
        return self.fit is not None and self.fit.converged

    def as_json(self) -> dict[str, object]:
        """Plain values; values that a failed method lacks are None."""
        fit, d, trace = self.fit, self.difference, self.fit.trace if self.fit else ()
        audit = None if fit is None else fit.audited
        return {
            "method": self.method,
            "status": None if fit is None else str(fit.status),
            "guarantee": None if fit is None else str(fit.guarantee),
            "log_evidence": None if fit is None else fit.log_evidence,
            "steps": None if fit is None else fit.steps,
            "seconds": None if fit is None else fit.seconds,
            "mean_difference": None
            if d is None
            else {"largest": d.mean_largest, "rms": d.mean_rms},
            "sd_ratio": None
            if d is None
            else {"least": d.sd_least, "median": d.sd_median, "greatest": d.sd_greatest},
            "trace": {
                "seconds": [e.seconds for e in trace],
                "objective": [e.objective for e in trace],
                "residual": [e.residual for e in trace],
            },
            "error": None if self.failure is None else self.failure.as_json(),
            **({} if audit is None else {"audit": audit.as_json(0)}),
        }


@made_by("lgm.compare")
@dataclass(frozen=True, eq=False)
class Comparison(FieldState):
    """The methods in the order asked for; `unable` are those that cannot run the model and were
    not asked for. Iterates over its rows; `comparison["laplace"]` is one of them."""

    model: Model
    rows: tuple[Compared, ...]
    reference: str
    reason: str
    unable: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Compared]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, method: str) -> Compared:
        for row in self.rows:
            if row.method == method:
                return row
        raise KeyError(method)

    @property
    def fits(self) -> dict[str, Fit]:
        """The fits that succeeded, by method."""
        return {r.method: r.fit for r in self.rows if r.fit is not None}

    @property
    def converged(self) -> bool:
        """Whether at least one method did."""
        return any(r.converged for r in self.rows)

    def __repr__(self) -> str:
        rows = [f"{r.method}: {'no fit' if r.fit is None else r.fit.status}" for r in self.rows]
        return f"Comparison({several(rows)}; reference {self.reference})"

    def _repr_html_(self) -> str:
        from lgmdsl.api.compare.page import card

        return card(self)

    @cached_property
    def table(self) -> str:
        """The comparison as text in 80 columns."""
        from lgmdsl.api.compare.page import table

        return table(self)

    def __str__(self) -> str:
        return self.table

    def as_json(self) -> dict[str, object]:
        """Plain values for `lgm compare --json`."""
        return {
            "reference": self.reference,
            "reference_reason": self.reason,
            "methods": [r.as_json() for r in self.rows],
            "unable": list(self.unable),
        }

    def picture(self, format: str = "png") -> bytes:
        """Runs and marginals as the bytes of a png, svg or pdf; see `plot`."""
        from lgmdsl.api.compare.picture import picture

        return picture(self, format)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw runs and marginals into a .png, .svg or .pdf file (needs matplotlib).

        Left: objective against time, a marker for each step. Right: marginals of the latents that
        the methods disagree on most. Raises DataError E306 where the place cannot be written,
        MethodError E501 without matplotlib.
        """
        place = Path(path)
        kind = place.suffix.removeprefix(".").lower()
        if kind not in FORMATS:
            raise DataError(unwritable(place, "a picture's name ends in .png, .svg or .pdf"))
        write(place, self.picture(kind))


def moments(fit: Fit) -> tuple[Array, Array]:
    """(n,) means and sds of all latents, blocks in order."""
    quantities = [fit.quantity(b.name) for b in fit.canonical.reported]
    return (
        np.concatenate([q.mean.reshape(-1) for q in quantities]),
        np.concatenate([q.sd.reshape(-1) for q in quantities]),
    )


def difference(moments: tuple[Array, Array], base: tuple[Array, Array]) -> Difference:
    """|m - m0| / s0 and s / s0 over the latents that are not fixed."""
    free = base[1] > 1e-12 * base[1].max(initial=0.0)
    if not free.any():
        return Difference(*[float("nan")] * 5)
    off = np.abs(moments[0] - base[0])[free] / base[1][free]
    ratio = moments[1][free] / base[1][free]
    return Difference(
        float(off.max()),
        float(np.sqrt(np.mean(off**2))),
        float(ratio.min()),
        float(np.median(ratio)),
        float(ratio.max()),
    )
