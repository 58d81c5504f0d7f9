"""What a reproduction leaves behind: tables as CSV and figures as PNG, in its own folder.

Both overwrite the same file with the same bytes for the same numbers: no dates, no versions.
matplotlib's global state is left as it is.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST = 200_000  # bytes of a committed picture
# Okabe and Ito 2008: told apart by the colour-blind too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
STYLE: dict[str, object] = {
    "font.size": 9.0, "axes.titlesize": 9.0, "legend.fontsize": 8.0, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 1.4,
}  # fmt: skip


def table(
    folder: Path,
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    name: str = "table",
    digits: int = 6,
) -> Path:
    """Write `folder/name.csv` and print it (seen with -s). Floats get `digits` significant digits,
    None an empty cell; ValueError where a row is not as long as the header or holds a NaN."""
    cells = [list(header)]
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"{len(row)} cells under {len(header)} headings: {row}")
        cells.append([_cell(value, digits) for value in row])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cells)
    path = folder / f"{name}.csv"
    path.write_text(text.getvalue(), encoding="utf-8")
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{folder.name}/{path.name}")
    for line in cells:
        print("  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)))
    return path


def splits_table(
    folder: Path,
    found: Sequence[Mapping[str, float | None]],
    beside: str,
    errors: Sequence[str],
    *,
    name: str = "splits",
) -> dict[str, Array]:
    """Write `folder/name.csv`, a row for each split, then means over splits, their standard errors,
    and for the columns `errors` the mean differences to the column `beside` and theirs. None: this
    split does without, and means are over those that have it. Returns the columns, (splits,) each,
    NaN for None."""
    each = {n: np.array([one[n] for one in found], dtype=float) for n in found[0]}
    gap = {n: each[n] - each[beside] for n in errors if n != beside}

    def row(head: str, of: Mapping[str, Array], told: Callable[[Array], float]) -> list[object]:
        return [head, *(told(of[n]) if n in of else None for n in each)]

    rows: list[list[object]] = [[k, *one.values()] for k, one in enumerate(found)]
    rows.append(row("mean", each, _mean))
    rows.append(row("standard error", each, _standard_error))
    rows.append(row(f"less {beside}", gap, _mean))
    rows.append(row("standard error of that", gap, _standard_error))
    table(folder, ["split", *each], rows, name=name, digits=4)
    return each


def _mean(x: Array) -> float:
    return float(np.nanmean(x))


def _standard_error(x: Array) -> float:
    return float(np.nanstd(x, ddof=1) / math.sqrt(np.isfinite(x).sum()))


def _cell(value: object, digits: int) -> str:
    if value is None:
        return ""
    if isinstance(value, (str, bool)) or not isinstance(value, (int, float)):
        return str(value)
    if math.isnan(value):
        raise ValueError("a table holds no NaN: None for a cell without a number")
    return str(value) if isinstance(value, int) else f"{float(value):.{digits}g}"


@contextmanager
def figure(
    folder: Path, width: float = 7.0, height: float = 4.5, *, name: str = "figure", dpi: int = 110
) -> Iterator[Figure]:
    """An empty Figure (inches, constrained layout) in the house style; on leaving it is saved as
    `folder/name.png`. ValueError where the file would be larger than 200 kB.

    with figure(folder) as picture:
        axes = picture.subplots(2, 2, squeeze=False)
    """
    import matplotlib
    from cycler import cycler
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]
        matplotlib.rcParams["axes.prop_cycle"] = cycler(color=COLOURS)
        picture = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(picture)
        yield picture
        image = io.BytesIO()
        # Without the Software key, which names the version.
        picture.savefig(image, format="png", dpi=dpi, metadata={"Software": None})
    data = image.getvalue()
    if len(data) >= LARGEST:
        raise ValueError(f"{name}.png has {len(data)} bytes, more than {LARGEST}: lower dpi")
    (folder / f"{name}.png").write_bytes(data)
