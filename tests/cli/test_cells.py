"""Columns of csv are written in one operation, as their cells would be one by one."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.arrays import AnyArray
from lgmdsl.cli.tables import _cell, csv_of

RNG = np.random.default_rng(0)
ENDS = [
    0.0,
    -0.0,
    np.nan,
    np.inf,
    -np.inf,
    1e10,
    -1e10,
    9999999999.0,
    9999999999.5,
    1e15,
    1e14,
    5.0,
]
COLUMNS = {
    "every size": RNG.normal(size=2000) * 10.0 ** RNG.integers(-30, 30, 2000),
    "whole": RNG.integers(-(10**15), 10**15, 500).astype(np.float64),
    "ends": np.array(ENDS),
    "single": RNG.normal(size=50).astype(np.float32),
    "fractions": RNG.normal(size=50),
    "counts": np.arange(4),
    "flags": np.array([True, False]),
    "words": np.array(["a", "b, c"]),
}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_is_its_cells(column: str, exact: bool) -> None:
    values: AnyArray = COLUMNS[column]
    cells = [str(_cell(v, exact)) for v in values.tolist()]
    quoted = [f'"{c}"' if "," in c else c for c in cells]
    found = csv_of({"c": values}, exact=("c",) if exact else ()).split("\n")
    assert found == ["c", *(c or '""' for c in quoted), ""]
