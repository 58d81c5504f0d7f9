"""Synthetic covariates: a complete data set for a model whose data are missing or incomplete.

`lgm simulate` draws responses over them; `lgm explain` without data lowers the model over them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from lgmdsl.canonical.grounding.ground import GroundedModel, ground
from lgmdsl.dataset import Dataset, read
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.graph.model_graph import ModelGraph
from lgmdsl.language.checked import CheckedModel, Symbol
from lgmdsl.language.tree import ast
from lgmdsl.remedies import either

# The size of an index set without a given one, where only the form of the model matters.
SKETCH = 4


@dataclass(frozen=True, eq=False)
class Complete:
    """A grounded model all of whose covariates have values; `drawn` names the synthetic ones."""

    grounded: GroundedModel
    drawn: tuple[str, ...]


def sketch(graph: ModelGraph) -> GroundedModel:
    """A model over small synthetic data, to lower its form; its numbers are arbitrary."""
    model = graph.model
    used = labels_in_use(model)
    sizes = {name: max(SKETCH, len(used.get(name, ())) + 1) for name in _open_indices(model)}
    return complete(graph, Dataset("no data", {}), sizes, np.random.default_rng(0)).grounded


def complete(
    graph: ModelGraph,
    dataset: Dataset,
    sizes: Mapping[str, int],
    rng: np.random.Generator,
) -> Complete:
    """Ground what the dataset has, draw every covariate that it lacks.

    Raises DataError: E305 for index sets without a size, and whatever grounding finds.
    """
    model = graph.model
    absent = [
        s
        for s in model.of_kind("data")
        if dataset.ask(s.name) is None and s.name not in dataset.mapping
    ]
    names = {s.name for s in absent}
    covariates = replace(model, symbols={k: s for k, s in model.symbols.items() if k not in names})
    unsized = list(_unsized(covariates, dataset, sizes))
    if unsized:
        raise DataError(_no_size(unsized))
    labelled = _with_labels(model, dataset, sizes)
    grounded = ground(replace(graph, model=covariates), labelled, partial=True, sizes=sizes)
    values = dict(grounded.values)
    drawn = [s for s in absent if s.name not in graph.responses]
    for symbol in drawn:
        values[symbol.name] = _draw(symbol, grounded, rng)
    return Complete(replace(grounded, graph=graph, values=values), tuple(s.name for s in drawn))


def labels_in_use(model: CheckedModel) -> dict[str, tuple[str | int, ...]]:
    """The labels that the text itself names of each index set: `b["time"]` names one of attr."""
    in_use: dict[str, dict[str | int, None]] = {}
    for node in ast.parts(model.tree):
        if not isinstance(node, ast.Indexed):
            continue
        dims = model.symbols[node.base.id].dims if node.base.id in model.symbols else ()
        for slot, dim in zip(node.slots, dims, strict=False):
            if isinstance(slot, ast.String):
                in_use.setdefault(dim, {})[slot.value] = None
            elif isinstance(slot, ast.Number):
                in_use.setdefault(dim, {})[int(slot.value)] = None
    return {dim: tuple(labels) for dim, labels in in_use.items()}


def _open_indices(model: CheckedModel) -> Iterator[str]:
    """Index sets whose size the model does not say."""
    for symbol in model.of_kind("index"):
        assert isinstance(symbol.statement, ast.Index)
        if symbol.statement.definition is None:
            yield symbol.name


def _unsized(model: CheckedModel, dataset: Dataset, sizes: Mapping[str, int]) -> Iterator[Symbol]:
    """Open index sets that neither data, labels nor `sizes` say the size of."""
    sized = {d for s in model.of_kind("data") for d in (*s.dims, s.target or "")}
    for name in _open_indices(model):
        if name not in sized and name not in sizes and dataset.labels(name) is None:
            yield model.symbols[name]


def _with_labels(model: CheckedModel, dataset: Dataset, sizes: Mapping[str, int]) -> Dataset:
    """The dataset, with labels for the index sets whose labels the model's text names."""
    extra: dict[str, Any] = {}
    sized = {d for s in model.of_kind("data") if dataset.ask(s.name) for d in (*s.dims, s.target)}
    for name, used in labels_in_use(model).items():
        if name in sized or name not in sizes or dataset.labels(name) is not None:
            continue
        if name in _open_indices(model):
            extra[name] = _filled(used, sizes[name])
    if not extra:
        return dataset
    entries = {**read(extra).entries, **dataset.entries}
    return replace(dataset, entries=entries)


def _filled(used: tuple[str | int, ...], size: int) -> list[str] | list[int]:
    """The labels in use and as many others as are wanted."""
    if all(isinstance(label, int) for label in used):
        most = max((int(label) for label in used), default=-1)
        if most < size:
            return list(range(size))
        return sorted({int(x) for x in used} | set(range(most + 1, most + 1 + size - len(used))))
    return [str(x) for x in used] + [str(k) for k in range(len(used), size)]


# ---- drawing ---------------------------------------------------------------------------------


def _draw(symbol: Symbol, grounded: GroundedModel, rng: np.random.Generator) -> Any:
    """A covariate of the symbol's type, as grounding would hold it."""
    shape = tuple(grounded.indices[d].size for d in symbol.dims)
    if symbol.type == "graph":
        return _ring(shape[0])
    if symbol.target is not None:
        levels = grounded.indices[symbol.target].size
        return _map(shape, levels, rng)
    if len(shape) == 2 and symbol.dims[0] == symbol.dims[1]:
        # A matrix over one index: positive definite, and with positive row sums, as a mass has.
        root = np.abs(rng.standard_normal(shape))
        return root @ root.T / shape[0] + np.eye(shape[0])
    match symbol.type:
        case "positive" | "nonnegative":
            return rng.gamma(4.0, 0.25, shape)
        case "unit":
            return rng.uniform(0.02, 0.98, shape)
        case "count" | "integer":
            return 1.0 + rng.poisson(9.0, shape)
        case "binary":
            return (rng.random(shape) < 0.5).astype(np.float64)
    return rng.standard_normal(shape)


def _map(shape: tuple[int, ...], levels: int, rng: np.random.Generator) -> Any:
    """Uniform levels, every one of them at least once where there is room."""
    size = prod(shape)
    once = rng.permutation(levels)[:size]
    rest = rng.integers(0, levels, size - len(once))
    return rng.permutation(np.concatenate([once, rest])).reshape(shape).astype(np.int64)


def _ring(size: int) -> Any:
    """The adjacency of a ring (of a line for two members)."""
    import scipy.sparse as sp

    first = np.arange(size if size > 2 else size - 1)
    second = (first + 1) % size
    ones = np.ones(2 * len(first))
    pattern = (np.concatenate([first, second]), np.concatenate([second, first]))
    return sp.csr_array((ones, pattern), shape=(size, size))


def _no_size(unsized: list[Symbol]) -> Diagnostic:
    names = [s.name for s in unsized]
    plural = "sets" if len(names) > 1 else "set"
    sizes = {n: 20 if k == 0 else 3 for k, n in enumerate(names)}
    remedy = either(
        f"--sizes {','.join(f'{n}={size}' for n, size in sizes.items())}",
        f"sizes={json.dumps(sizes)}",
    )
    return Diagnostic(
        "E305",
        f"nothing gives the size of the index {plural} {', '.join(f'`{n}`' for n in names)}",
        unsized[0].statement.span,
        help=f"{remedy}, or data that run over {'them' if len(names) > 1 else 'it'}",
        layout="plain",
    )
