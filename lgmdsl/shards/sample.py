"""Whole groups of a folder of shards, with their rows in this process: of what estimates of a fit's
errors are made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lgmdsl.dataset import Dataset, read
from lgmdsl.shards.shard import ShardSource, model_of
from lgmdsl.streams.model import StreamedModel


def sampled_rows(sources: Sequence[ShardSource], rows: int, groups: int) -> StreamedModel:
    """The model of some `rows` in `groups` or more, those of every so-manieth label in the first
    shards that hold as many; of all rows where these are fewer. Raises WorkerError E703 for a file
    that is not here, or not what it was, and what the model of a shard raises."""
    count = held = members = 0
    while count < len(sources) and (held < rows or members < groups):
        held, members = held + sources[count].file.rows, members + sources[count].file.groups
        count += 1
    step = max(1, min(held // rows, members // groups))
    return model_of(sources[0], _few(sources[:count], step))


def _few(sources: Sequence[ShardSource], step: int) -> Dataset:
    """The rows of every so-manieth group."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    by, tables = sources[0].by_key(), []
    for source in sources:
        table = pq.read_table(source.file.checked())
        column = table[by]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        labels = pc.unique(column)
        chosen = labels.take(pa.array(np.arange(step // 2, len(labels), step)))
        tables.append(table.filter(pc.is_in(column, value_set=chosen)))
    whole, others = pa.concat_tables(tables).unify_dictionaries(), sources[0].others
    return read(whole if others is None else [whole, others], sources[0].mapping)
