"""Why a source is refused: E306, also where an array is larger than the memory budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lgmdsl.errors import DataError, LgmError, listed
from lgmdsl.files import AGAIN, DATA, irregular
from lgmdsl.memory import budget, size_text


def refused(source: str, reason: str, help: str = "", details: tuple[str, ...] = ()) -> DataError:
    """E306: `source` cannot be read, or is not read because that would be unsafe."""
    return DataError.of("E306", f"{source}: {reason}", details=details, help=help, layout="plain")


@contextmanager
def refusing(source: str, doing: str) -> Iterator[None]:
    """Turn whatever a reader raises on a damaged or foreign file into E306.

    Readers of zip, HDF5 and parquet raise dozens of unrelated types on hostile bytes, so the
    boundary catches them all; the cause stays attached.
    """
    try:
        yield
    except LgmError:
        raise
    except FileNotFoundError as error:
        raise refused(source, "there is no such file") from error
    except IsADirectoryError as error:
        help = (
            "a folder of shards is taken by lgm check, explain, fit and predict; all else needs "
            "the rows in one place: give the file that the shards were made of"
        )
        raise refused(source, "this is a directory, not a data file", help) from error
    except PermissionError as error:
        raise refused(source, "permission to read it is denied") from error
    except Exception as error:
        text = " ".join(str(error).split())[:160]
        reason = f"{doing}: {type(error).__name__}" + (f": {text}" if text else "")
        help = f"the file is damaged, incomplete or not what its name says: {AGAIN}"
        help = help if Path(source).suffix else ""
        raise refused(source, reason, help=help) from error


def check_memory(source: str, name: str, shape: tuple[int, ...], itemsize: int) -> None:
    """Raise E306 where an array of this shape would not fit, before anything is expanded."""
    size = max(1, itemsize)
    for n in shape:
        size *= max(0, n)
    limit = budget()
    if size > limit:
        shown = " x ".join(str(n) for n in shape) or "1"
        raise refused(
            source,
            f"`{name}` is larger than memory allows",
            details=(
                f"{shown} values of {itemsize} bytes are {size_text(size)}; "
                f"{size_text(limit)} may be used",
            ),
            help="store it sparse (data, indices, indptr, shape), or fit a part of the rows",
        )


def check_regular(path: Path) -> None:
    """Raise DataError E306 for a pipe or a device, which may never end; folders may be shards."""
    irregularity = irregular(path)
    if irregularity and irregularity != "a folder":
        help = f"write its content to a file that ends in {listed(DATA, 'or')}"
        raise refused(path.name, f"this is {irregularity}, not a data file", help=help)


# ---- unusable ----------------------------------------------------------------------------------
# What is no source of data, and how it would be one.


def check_mapping(mapping: Any) -> None:
    """Raise DataError E108 for a mapping that is no dict."""
    if mapping is not None and not isinstance(mapping, Mapping):
        message = f"`mapping` is a dict from names of the model, not a {type(mapping).__name__}"
        help = 'mapping={"x": "temperature"}'
        raise DataError.of("E108", message, help=help, layout="plain")


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
