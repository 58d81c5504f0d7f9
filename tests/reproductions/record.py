"""What a reproduction leaves behind: tables as CSV and figures as PNG, in its own folder.

Both overwrite the same file with the same bytes for the same numbers: no dates, no versions.
matplotlib's global state is left as it is. `elsewhere` has them written next to what is kept, and
`differences` compares the two.
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
MEASURED = ("seconds", "CPU s")  # in the headings of columns that no run repeats
_ELSEWHERE: list[Path] = []


@contextmanager
def elsewhere(folder: Path) -> Iterator[None]:
    """Within it, tables and figures are written to a folder and not to their own."""
    _ELSEWHERE.append(folder)
    try:
        yield
    finally:
        _ELSEWHERE.pop()


def _written(folder: Path, name: str) -> Path:
    return (_ELSEWHERE[-1] if _ELSEWHERE else folder) / name


def differences(kept: Path, made: Path) -> list[str]:
    """Where a table that was made anew differs from the one that is kept: other rows or words, or
    numbers by more than one in a hundred and 1e-6 of the largest of the column. Columns of measured
    seconds are not compared."""
    old, new = (list(csv.reader(io.StringIO(p.read_text(encoding="utf-8")))) for p in (kept, made))
    if old[0] != new[0] or len(old) != len(new):
        return [f"{kept.name}: {len(old)} rows under {old[0]}, now {len(new)} under {new[0]}"]
    found = []
    for k, head in enumerate(old[0]):
        if any(word in head for word in MEASURED):
            continue
        pairs = [(a[0], a[k], b[k]) for a, b in zip(old[1:], new[1:], strict=True)]
        largest = max((abs(x) for _, a, _ in pairs if (x := _number(a)) is not None), default=0.0)
        found += [
            f"{kept.name}, {row}, {head}: {a}, now {b}"
            for row, a, b in pairs
            if a != b and not _near(_number(a), _number(b), 1e-6 * largest)
        ]
    return found


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _near(a: float | None, b: float | None, floor: float) -> bool:
    return a is not None and b is not None and math.isclose(a, b, rel_tol=0.01, abs_tol=floor)


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
    path = _written(folder, f"{name}.csv")
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
    _written(folder, f"{name}.png").write_bytes(data)
