"""Columns by name as a frame: of pandas, or of polars where it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from lgmdsl.arrays import AnyArray
from lgmdsl.errors import MethodError, suggestion
from lgmdsl.posterior.labelled import free_name

if TYPE_CHECKING:
    import pandas as pd

FrameLibrary = Literal["pandas", "polars"]
BACKENDS: tuple[FrameLibrary, ...] = get_args(FrameLibrary)
LEVELS = (0.05, 0.5, 0.95)  # the quantiles of pages, notebooks and frames

Columns = dict[str, Any]


def frame_of(columns: Mapping[str, Any], backend: str = "pandas") -> pd.DataFrame:
    """A frame with these columns (arrays, or lists where entries are missing), in their order.

    Raises MethodError: E104 for another `backend`, E501 where its library is not installed.
    """
    library, frame = frame_library(backend), dict(columns)
    if backend == "polars":
        made = library.DataFrame({k: _listed(v) for k, v in frame.items()}, strict=False)
        return cast("pd.DataFrame", made)
    return cast("pd.DataFrame", library.DataFrame(frame))


def frame_library(backend: str) -> Any:
    """The module of a backend, so that an absent one is reported before the work."""
    if backend not in BACKENDS:
        help = suggestion(str(backend), BACKENDS, f"there are: {', '.join(BACKENDS)}")
        raise MethodError.of("E104", f"frames are not made by `{backend}`", help=help)
    try:
        return import_module(backend)
    except ImportError:
        message = f"frames of {backend} need {backend}, which is not installed"
        help = "pip install 'lgmdsl[frames]'"
        raise MethodError.of("E501", message, help=help) from None


def joined(frames: Sequence[Any], backend: str = "pandas") -> pd.DataFrame:
    """Frames with the same columns, one below the other."""
    library = frame_library(backend)
    how = {"how": "vertical_relaxed"} if backend == "polars" else {"ignore_index": True}
    return cast("pd.DataFrame", library.concat(frames, **how))


def quantile_columns(levels: AnyArray) -> Iterator[str]:
    """What columns of quantiles are called: `q5`, `q50`, `q97.5`."""
    return (f"q{100.0 * level:.10g}" for level in levels.tolist())


def index_columns(names: Sequence[str], labels: Sequence[AnyArray]) -> Columns:
    """One column for each axis: the labels of all entries of their product, the last axis
    fastest."""
    sizes = tuple(len(x) for x in labels)
    out: Columns = {}
    for k, (name, label) in enumerate(zip(names, labels, strict=True)):
        shape = tuple(-1 if j == k else 1 for j in range(len(sizes)))
        out[name] = np.broadcast_to(label.reshape(shape), sizes).reshape(-1)
    return out


def set_apart(columns: Mapping[str, Any], taken: Iterable[str]) -> Columns:
    """The columns of labels or of the user's data next to those that a table adds (`taken`): one
    that has the name of an added one is called NAME_2, as a repeated index is."""
    added = {*taken}
    used = added | {*columns}
    return {free_name(k, used) if k in added else k: column for k, column in columns.items()}


def _listed(values: Any) -> Any:
    """polars takes no numpy text or objects."""
    listed = isinstance(values, np.ndarray) and values.dtype.kind in "UO"
    return values.tolist() if listed else values
