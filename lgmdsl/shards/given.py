"""A folder of shards as data, by itself or next to data that its rows do not hold: a graph, a table
over another index."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from lgmdsl.dataset import Dataset, Entry, Loaded, read
from lgmdsl.dataset.refusals import refused
from lgmdsl.errors import DataError


class Given(NamedTuple):
    """`folder`: a path; `others`: what was given next to it, in memory."""

    folder: str
    others: Dataset | None


def is_sharded(data: object) -> bool:
    """Whether data are the path of a folder, or a list with one."""
    return bool(_folders(data))


def given_shards(data: object) -> Given:
    """Data that `is_sharded`, or that should be. Raises DataError E306 for several folders, or
    others that cannot be read."""
    folders = _folders(data)
    if not isinstance(data, list | tuple):
        return Given(os.fsdecode(folders[0] if folders else str(data)), None)
    if len(folders) != 1:
        names = " and ".join(os.fsdecode(f) for f in folders)
        raise refused(names or "the data", "there has to be one folder of shards")
    others = [part for part in data if part is not folders[0]]
    return Given(os.fsdecode(folders[0]), _in_memory(read(others)) if others else None)


def _folders(data: object) -> list[Any]:
    parts = data if isinstance(data, list | tuple) else [data]
    paths = [p for p in parts if isinstance(p, str | os.PathLike)]
    return [p for p in paths if Path(os.fsdecode(p)).is_dir()]


def _in_memory(dataset: Dataset) -> Dataset:
    """The data set with all entries loaded, so that each process has the same."""
    entries = {key: _held(e) for key, e in dataset.entries.items()}
    return replace(
        dataset, entries=entries, tables={n: _held(e) for n, e in dataset.tables.items()}
    )


def _held(entry: Entry) -> Entry:
    columns = entry.columns and {name: _held(e) for name, e in entry.columns.items()}
    try:
        loader: Any = partial(_itself, entry.loaded)
    except DataError as error:  # what no model asks for may be anything
        loader = partial(_raise, error)
    return replace(entry, loader=loader, columns=columns, batched=False)


def _itself(loaded: Loaded) -> Loaded:
    return loaded


def _raise(error: DataError) -> NoReturn:
    raise error
