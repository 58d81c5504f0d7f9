"""Fits whose rows are read by batches: when, and what is said of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lgmdsl.api.settings import one_of
from lgmdsl.canonical.grounding.ground import ground
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import canonicalise
from lgmdsl.dataset import Dataset
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.graph.build import model_graph
from lgmdsl.graph.model_graph import ModelGraph
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.language.builder import Model
from lgmdsl.sites import catalogue as sites

if TYPE_CHECKING:
    from lgmdsl.streams.streamable import Table

ROWS = ("auto", "kept", "streamed")
STREAMED = "streamed"
MANY = 2_000_000  # rows of a .parquet file from which on `auto` streams them


def rows_option(options: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """The option `rows`, and those left. Raises MethodError E104 for a value that it cannot be."""
    rest = dict(options)
    return one_of(rest, "rows", ROWS), rest


def streamed(
    model: Model,
    dataset: Dataset,
    settings: FitSettings,
    planning: Callable[[CanonicalModel], Plan],
    on_step: Callable[[TraceEntry], None] | None = None,
) -> CanonicalModel | None:
    """The model with its rows read by batches, where that was asked for, or where there are many in
    a .parquet file and model and method allow for it; None where all are to be kept. `planning`:
    the plan for a model, which is asked of a sample.

    Raises MethodError E501 where it was asked for and cannot be."""
    wanted, _ = rows_option(settings.options)
    many = any(e.batched and e.shape[0] >= MANY for e in dataset.entries.values())
    if wanted == "kept" or (wanted != STREAMED and not many):
        return None
    from lgmdsl.streams.prepare import prepare
    from lgmdsl.streams.refusals import check_streamed
    from lgmdsl.streams.streamable import table_of

    graph = model_graph(model.checked)
    table = table_of(graph, dataset)
    if isinstance(table, str):
        if wanted == STREAMED:
            raise MethodError(_refused(table))
        return None
    if table is None or (wanted != STREAMED and not (table.batched and table.rows >= MANY)):
        return None
    try:
        glance = _glance(graph, dataset, table)
        check_streamed(planning(glance), table.index, settings.hyper)
        return prepare(graph, dataset, table, sites.find_site, reporting(on_step))
    except MethodError:
        if wanted == STREAMED:
            raise
        return None


def reporting(on_step: Callable[[TraceEntry], None] | None) -> Callable[[int, int], None]:
    """What hears how many rows are read, of how many, and informs a fit's observer."""
    began = time.perf_counter()

    def on_rows(done: int, of: int) -> None:
        if on_step is not None:
            seconds = time.perf_counter() - began
            on_step(TraceEntry(done, float("nan"), float("nan"), seconds, "rows", of))

    return on_rows


def _glance(graph: ModelGraph, dataset: Dataset, table: Table) -> CanonicalModel:
    """The model with the first rows alone."""
    from lgmdsl.streams.prepare import SAMPLE

    first = next(dataset.batches(SAMPLE, table.keys, table.index))
    return canonicalise(ground(graph, first.dataset), sites.find_site)


def _refused(reason: str) -> Diagnostic:
    return Diagnostic(
        "E501",
        "the rows cannot be read by batches",
        details=(reason,),
        help="leave out `rows=streamed`",
    )
