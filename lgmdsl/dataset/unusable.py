"""What is no source of data, and how it would be one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lgmdsl.dataset.refusals import refused
from lgmdsl.errors import DataError, Diagnostic


def check_mapping(mapping: Any) -> None:
    """Raise DataError E108 for a mapping that is no dict."""
    if mapping is not None and not isinstance(mapping, Mapping):
        message = f"`mapping` is a dict from names of the model, not a {type(mapping).__name__}"
        help = 'mapping={"x": "temperature"}'
        raise DataError(Diagnostic("E108", message, help=help, layout="plain"))


def check_tables(sources: Sequence[object]) -> None:
    """Raise DataError E306 for a list of rows in place of a list of tables."""
    if len(sources) > 1 and all(map(_is_row, sources)):
        kind = type(sources).__name__
        raise refused(kind, "it holds one dict for each row", help="pandas.DataFrame(rows)")


def _is_row(part: object) -> bool:
    """Whether this is a dict of single numbers and words, among them a number."""
    scalars = (bool, int, float, str, np.generic, type(None))
    values = list(part.values()) if isinstance(part, dict) else []
    return all(isinstance(v, scalars) for v in values) and any(
        not isinstance(v, str) for v in values
    )


def no_source(source: object, suffixes: Sequence[str]) -> DataError:
    """E306 for an object that is none of those that hold data by name."""
    if hasattr(source, "__array__"):
        help = 'name it, {"y": array}, or its columns, pandas.DataFrame(array, columns=[...])'
        return refused(
            type(source).__name__, "an array without names is not a source of data", help=help
        )
    return refused(
        type(source).__name__,
        "this is not a source of data",
        help=f"give a path ({' '.join(suffixes)}), a dict, a frame or an xarray Dataset",
    )
