"""Which methods can read the rows of a file by batches, and what they hold of each row."""

from __future__ import annotations

from lgmdsl.api.streaming import MANY
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.dataset import Dataset
from lgmdsl.errors import listed
from lgmdsl.graph.model_graph import ModelGraph
from lgmdsl.inference.plan import verdict
from lgmdsl.inference.registry import backends
from lgmdsl.memory import size_text
from lgmdsl.streams.refusals import reason_against
from lgmdsl.streams.row_sites import BYTES, COPIES, on_disk
from lgmdsl.streams.streamable import table_of


def batches_of(graph: ModelGraph, dataset: Dataset, canonical: CanonicalModel) -> tuple[str, ...]:
    """Sentences about the rows of a file that can be read by batches; none for other data."""
    if not any(entry.batched for entry in dataset.entries.values()):
        return ()
    table = table_of(graph, dataset)
    if isinstance(table, str):
        return (f"kept in memory: {table}",)
    if table is None or not table.batched:
        return ()
    blocks = [b for b in canonical.blocks if table.index in b.dims]
    able, reasons = [], dict[str, None]()
    for backend in backends().values():
        spec = backend.spec
        if not spec.takes_sums or not verdict(canonical.blocks, backend, None).runs:
            continue
        against = [reason for b in blocks if (reason := reason_against(b, spec))]
        reasons |= dict.fromkeys(against)
        able += [] if against else [spec]
    if not able:
        return tuple(f"kept in memory: {reason}" for reason in reasons)
    when = "by themselves" if table.rows >= MANY else "with `--option rows=streamed`"
    names = listed([spec.name for spec in able])
    out = [f"{table.rows:,} rows over `{table.index}`, read by batches {when} by {names}"]
    out += reasons
    for spec in able:
        if spec.row_sites:
            size = size_text(BYTES * COPIES * table.rows)
            where = "in temporary files" if on_disk(table.rows) else "in memory"
            out.append(f"{spec.name} holds a Gaussian of each row then: about {size} {where}")
    return tuple(out)
