"""fit.tidy(): one row for each number that was estimated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lgmdsl.api.assess.coefficient_tests import (
    TESTED,
    CoefficientTests,
    coefficient_tests,
    contrasts_of,
)
from lgmdsl.api.columns import (
    Columns,
    frame_library,
    frame_of,
    index_columns,
    quantile_columns,
    set_apart,
)
from lgmdsl.api.summary.table import entry_labels, labels_of, natural_order
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.canonical.grounding.usage import usage_of
from lgmdsl.canonical.lowering.lower import distinct
from lgmdsl.dataset import Keys
from lgmdsl.errors import MethodError
from lgmdsl.posterior.marginals import column_levels
from lgmdsl.remedies import either

if TYPE_CHECKING:
    import pandas as pd

    from lgmdsl.posterior.fit_record import FitRecord

FIXED = 1e-10  # of an entry: the sd of one that constraints fix


def tidy(
    fit: FitRecord,
    names: Sequence[str] | None,
    quantiles: Sequence[float] | None,
    backend: str = "pandas",
    df: str | None = None,
    data: object = None,
    mapping: Keys | None = None,
) -> pd.DataFrame:
    """See `Fit.tidy`."""
    levels = column_levels(quantiles)
    frame_library(backend)
    return frame_of(tidy_columns(fit, names, levels, df, data, mapping), backend)


def tidy_columns(
    fit: FitRecord,
    names: Sequence[str] | None,
    levels: Array,
    df: str | None = None,
    data: object = None,
    mapping: Keys | None = None,
) -> Columns:
    """The columns of `Fit.tidy`."""
    wanted = (names,) if isinstance(names, str) else names
    if df is None:
        chosen = default_names(fit) if wanted is None else wanted
        tables = [_table(fit, name, levels) for name in chosen]
        tested: tuple[str, ...] = ()
    else:
        caller = either("--df", "fit.tidy(df=...)")
        how = either(f"lgm summary FIT --df {df} --data DATA", "fit.tidy(df=..., data=...)")
        tests = coefficient_tests(fit, df, data, mapping, caller, how)
        tables = list(_tested(fit, wanted, tests, levels))
        tested = TESTED
    indices = tuple(dict.fromkeys(k for t in tables for k in t.labels))
    sizes = [len(t.columns["mean"]) for t in tables]
    whose = ("term", "name", "kind")
    numbers = ("mean", "sd", *tested, *quantile_columns(levels))
    labels: Columns = {}
    for index in indices:
        pairs = zip(tables, sizes, strict=True)
        labels[index] = _with_gaps([t.labels.get(index, n) for t, n in pairs])
    out: Columns = {k: _stacked([t.columns[k] for t in tables]) for k in whose}
    out |= set_apart(labels, (*whose, *numbers))
    out |= {k: _stacked([t.columns[k] for t in tables]) for k in numbers}
    return out


def default_names(fit: FitRecord) -> tuple[str, ...]:
    """Hypers, latents, and the reports that do not run over the rows of the data."""
    canonical = fit.canonical
    model, rows = canonical.grounded.model, usage_of(canonical.grounded.graph).rows
    reports = (s.name for s in model.of_kind("report") if not rows & {*s.dims})
    return (*(b.name for b in canonical.hypers.blocks), *canonical.latent_names, *reports)


class _Table:
    """The rows of one name: its labels by index, and its columns."""

    def __init__(self, labels: Columns, columns: Columns) -> None:
        self.labels, self.columns = labels, columns


def _table(fit: FitRecord, name: str, levels: Array) -> _Table:
    quantity = fit.quantity(name)
    dims, values = quantity.dims, np.zeros(0)
    if len(levels):
        dims, values = fit.marginals.quantile(name, levels)
    layout = fit.canonical.layout
    order = natural_order(fit.canonical, dims)
    every = index_columns(distinct(dims), [layout.labels[d] for d in dims])
    labels = {k: v[order] for k, v in every.items()}
    entries = np.array(entry_labels(labels_of(fit.canonical, name, dims)))[order]
    size = quantity.mean.size
    columns: Columns = {
        "term": np.array([f"{name}[{entry}]" if dims else name for entry in entries.tolist()]),
        "name": np.full(size, name),
        "kind": np.full(size, fit.canonical.grounded.model.symbols[name].kind),
        "mean": quantity.mean.reshape(-1)[order],
        "sd": quantity.sd.reshape(-1)[order],
    }
    for key, row in zip(quantile_columns(levels), values, strict=True):
        columns[key] = row.reshape(-1)[order]
    return _Table(labels, columns)


def _tested(
    fit: FitRecord, names: Sequence[str] | None, tests: CoefficientTests, levels: Array
) -> Iterator[_Table]:
    """The tables of what is affine in the coefficients alone. Raises MethodError E501 for a name
    that is not."""
    for name in default_names(fit) if names is None else names:
        table = _table(fit, name, np.zeros(0))
        contrasts = contrasts_of(fit, tests, name)
        if contrasts is None:
            if names is None:
                continue
            message = f"`{name}` has no degrees of freedom: it is not made of coefficients alone"
            details = ("coefficients are the latents whose prior is flat",)
            raise MethodError.of("E501", message, details=details, help="leave `df` out")
        contrasts = contrasts[natural_order(fit.canonical, fit.quantity(name).dims)]
        table.columns |= tests.columns(table.columns["mean"], contrasts, levels)
        estimated = table.columns["sd"] > FIXED * np.abs(table.columns["mean"])
        yield _Table(
            {k: v[estimated] for k, v in table.labels.items()},
            {k: v[estimated] for k, v in table.columns.items()},
        )


def _stacked(parts: Sequence[AnyArray]) -> AnyArray:
    return np.concatenate(parts) if parts else np.zeros(0)


def _with_gaps(parts: Sequence[AnyArray | int]) -> Any:
    """Labels one below the other; a number stands for so many rows without."""
    known = [p for p in parts if not isinstance(p, int)]
    if len(known) == len(parts):
        return np.concatenate(known)
    out = np.empty(sum(p if isinstance(p, int) else len(p) for p in parts), dtype=object)
    start = 0
    for part in parts:
        size = part if isinstance(part, int) else len(part)
        out[start : start + size] = None if isinstance(part, int) else part.tolist()
        start += size
    return out
