"""The tables of a page: a row for each entry, with digits of its own, in columns aligned at the
decimal point."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lgmdsl.api.columns import LEVELS
from lgmdsl.api.page import width
from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.grounding.label_line import natural_key
from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.canonical.model import CanonicalModel

HEADER = ("mean", "sd", *(f"{100.0 * level:g}%" for level in LEVELS))
# Whether decimal points are aligned, and which columns are left out, where a page is too narrow for
# all of it: first the quantiles between the outer two, then all of them.
NARROWER = ((True, ()), (False, ()), (False, HEADER[3:-1]), (False, HEADER[2:]))
LABEL = 14  # columns for labels, at least
DIGITS = 3  # of an sd
MOST = 15  # digits behind the first

Row = tuple[str, ...]


def cells(mean: float, sd: float, quantiles: Sequence[float], digits: int = DIGITS) -> Row:
    """The numbers of one entry, each to the place of the last of so many digits of its sd; powers
    of ten, with the same places, where there are many decimals, or the numbers very large or small;
    `-` for what is not known, as the sds of an integration that was interrupted."""
    numbers = (mean, sd, *quantiles)
    spread = sd if math.isfinite(sd) and sd > 0.0 else abs(mean)
    largest = max((abs(x) for x in (mean, sd) if math.isfinite(x)), default=0.0)
    if not math.isfinite(spread) or spread <= 0.0:
        spread = largest or 1.0
    decimals = digits - 1 - math.floor(math.log10(spread))
    powers = decimals > 9 or largest >= 1e7 or 0.0 < largest < 1e-3
    return tuple(_text(x, decimals, powers) for x in numbers)


def _text(value: float, decimals: int, powers: bool) -> str:
    """A number rounded at a place behind (or, below 0, before) its decimal point."""
    if not math.isfinite(value):
        return "-" if math.isnan(value) else str(float(value))
    if powers:
        size = math.floor(math.log10(abs(value))) if value else -decimals
        return f"{value:.{min(max(size + decimals, 0), MOST)}e}"
    text = f"{value:.{max(decimals, 0)}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text


def joined(title: str, tables: Sequence[Sequence[Row]]) -> list[str]:
    """The tables under one header: a row is a label and its numbers, or a label alone. No line is
    longer than the page: long labels are cut, and columns left out where it is very narrow."""
    rows = [row for table in tables for row in table]
    if not rows:
        return []
    numbered = [row for row in rows if len(row) > 1]
    page = width()
    wanted = max([len(title), *(len(r[0]) + 2 for r in numbered)])
    for points, left_out in NARROWER:
        kept = [(k, name) for k, name in enumerate(HEADER, 1) if name not in left_out]
        columns = [_aligned(name, [r[k] for r in numbered], points) for k, name in kept]
        room = page - sum(2 + len(c[0]) for c in columns)
        if room >= min(wanted, LABEL):
            break
    label = min(max(wanted, LABEL), max(room, 8))
    lines = ["", _line(title, [c[0] for c in columns], label)]
    place = 1
    for row in rows:
        if len(row) == 1:
            lines.append(_cut(f"  {row[0]}", page))
            continue
        lines.append(_line(f"  {row[0]}", [c[place] for c in columns], label))
        place += 1
    return lines


def _aligned(header: str, texts: Sequence[str], points: bool) -> list[str]:
    """A column with its header first, the decimal points in one place where `points`."""
    fixed = {t: t.partition(".") for t in texts if points and t[-1:].isdigit() and "e" not in t}
    after = max((len(p[1] + p[2]) for p in fixed.values()), default=0)
    whole = [t + " " * (after - len(fixed[t][1] + fixed[t][2])) if t in fixed else t for t in texts]
    size = max([len(header), *(len(x) for x in whole)])
    return [x.rjust(size) for x in (header, *whole)]


def _line(label: str, numbers: Sequence[str], size: int) -> str:
    return f"{_cut(label, size):<{size}}  {'  '.join(numbers)}"


def _cut(label: str, size: int) -> str:
    """The beginning and the end of a label that is too long, as ends tell more labels apart."""
    if len(label) <= size:
        return label
    tail = max(0, (size - 1) // 3)
    return f"{label[: size - 1 - tail]}…{label[len(label) - tail :]}"


def entry_rows(
    labels: Sequence[str], values: tuple[Array, Array, Array], shown: Sequence[int], left_out: str
) -> list[Row]:
    """The rows of some entries, by their flat positions; -1 stands for those left out. `values`:
    means, sds and quantiles (Q, n)."""
    mean, sd, quantiles = values
    rows: list[Row] = []
    for k in shown:
        if k < 0:
            rows.append((f"  ... {left_out}",))
        else:
            numbers = cells(float(mean[k]), float(sd[k]), [float(q) for q in quantiles[:, k]])
            rows.append((f"  {labels[k]}", *numbers))
    return rows


# ---- labels ------------------------------------------------------------------------------------
# The entries of something over index sets as readers expect them: in natural order (m2 before
# m10), and cuts between ordered classes by the classes on both sides.


def labels_of(canonical: CanonicalModel, name: str, dims: Sequence[str]) -> list[AnyArray]:
    """The labels along each axis of a quantity: `low|mid` of the cut between them."""
    out = [canonical.layout.labels[d] for d in dims]
    for block in canonical.blocks:
        for parameter in block.family.spec.indexed:
            node = block.parameters.get(parameter)
            if node is None or name not in node.depends or not dims or not block.classes:
                continue
            classes = canonical.layout.labels[block.classes]
            if len(out[-1]) == len(classes) - 1:
                pairs = zip(classes[:-1].tolist(), classes[1:].tolist(), strict=True)
                out[-1] = np.array([f"{a}|{b}" for a, b in pairs])
    return out


def entry_labels(labels: Sequence[AnyArray]) -> list[str]:
    """The label of every entry, row by row: `1, walk`; one empty label of a scalar."""
    out = [""]
    for members in labels:
        out = [f"{a}, {b}" if a else str(b) for a in out for b in members.tolist()]
    return out


def natural_order(canonical: CanonicalModel, dims: Sequence[str]) -> IntArray:
    """The flat positions of all entries in natural order along each axis: that of the index set,
    and of text that is in the order of its characters alone, as in older files of fits, by the
    numbers in it."""
    orders = [index_order(canonical.grounded.indices[d]) for d in dims]
    shape = tuple(len(o) for o in orders)
    grid = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
    return np.asarray(grid[np.ix_(*orders)].reshape(-1)) if dims else np.zeros(1, dtype=np.int64)


def index_order(index: IndexSet) -> IntArray:
    """The positions of the members in natural order."""
    labels = index.labels
    plain = np.arange(index.size)
    if labels.dtype.kind != "U" or index.ordered or not (labels[:-1] <= labels[1:]).all():
        return plain
    texts = labels.tolist()
    return np.array(sorted(plain.tolist(), key=lambda k: natural_key(texts[k])), dtype=np.int64)
