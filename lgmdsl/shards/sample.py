"""Whole groups of a folder of shards, with their rows in this process: of what estimates of a fit's
errors are made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.dataset import Dataset, read
from lgmdsl.graph.build import model_graph
from lgmdsl.language.load import loads
from lgmdsl.shards.keys import plain
from lgmdsl.shards.shard import ShardSource, model_of
from lgmdsl.streams.prepare import BATCH
from lgmdsl.streams.streamable import Table, table_of


def sampled_rows(sources: Sequence[ShardSource], rows: int, groups: int) -> CanonicalModel:
    """The model of some `rows` in `groups` or more, those of every k-th label in the first
    shards that hold as many; of all rows where these are fewer. Raises WorkerError E703 for a file
    that is not here, or not what it was, and what the model of a shard raises."""
    count = held = members = 0
    while count < len(sources) and (held < rows or members < groups):
        held, members = held + sources[count].file.rows, members + sources[count].file.groups
        count += 1
    step = max(1, min(held // rows, members // groups))
    return model_of(sources[0], _few(sources[:count], step))


def _few(sources: Sequence[ShardSource], step: int) -> Dataset:
    """The rows of every k-th group, with the columns that the model names: never more than a
    batch of the others is in memory."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    first = sources[0]
    by, tables = first.by_key(), []
    table = table_of(model_graph(loads(first.text, first.name).checked), first.dataset())
    assert isinstance(table, Table), "the coordinator has seen one of its like"
    columns = list(dict.fromkeys((*table.keys, by)))
    for source in sources:
        with pq.ParquetFile(source.file.checked()) as file:
            labels = pc.unique(plain(file.read([by])[by]))
            chosen = labels.take(pa.array(np.arange(step // 2, len(labels), step)))
            for batch in file.iter_batches(BATCH, columns=columns):
                part = pa.Table.from_batches([batch])
                tables.append(part.filter(pc.is_in(plain(part[by]), value_set=chosen)))
    whole = pa.concat_tables(tables).unify_dictionaries()
    return read(whole if first.others is None else [whole, first.others], first.mapping)
