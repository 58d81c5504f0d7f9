"""Data drawn for a simulation where none are given: covariates, exposures, maps and graphs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.ground_usage import usage_of
from lgmdsl.dataset import Dataset, Entry, Loaded
from lgmdsl.language import ast
from lgmdsl.language.checked import CheckedModel, Symbol

# Arguments of families whose plain value is better than a drawn one.
PLAIN = {"exposure": 1.0, "available": 1.0, "event": 1.0, "n": 10.0}


def fill_absent(
    model: CheckedModel, dataset: Dataset, sizes: Mapping[str, int], seed: int = 0
) -> Dataset:
    """The dataset, with data that it lacks drawn wherever the sizes of their indices are known.

    real ~ N(0, 1); positive ~ exp(N(0, 1/4)); unit ~ U(0.05, 0.95); count = Poisson(10) + 1;
    integer ~ U{-5..5}; binary ~ Bernoulli(1/2); exposures and availabilities 1, binomial n 10;
    maps run through their targets in turn; graphs are rings. Responses are left out.
    """
    rng = np.random.default_rng(seed)
    usage, known = usage_of(model), _known_sizes(model, dataset, sizes)
    entries = dict(dataset.entries)
    plain = _plain_values(model)
    for symbol in model.of_kind("data"):
        response = symbol.name in usage.observed and symbol.name not in usage.referenced
        if response or dataset.ask(symbol.name) is not None:
            continue
        wanted = [*symbol.dims, *([symbol.target] if symbol.target else [])]
        if all(dim in known for dim in wanted):
            shape = tuple(known[dim] for dim in symbol.dims)
            values = _drawn(symbol, shape, known, plain.get(symbol.name), rng)
            key = dataset.key(symbol.name)
            entries[key] = Entry(key, "simulated", shape, partial(Loaded, values))
    return Dataset(dataset.name, entries, dataset.mapping, dataset.assemblies)


def _known_sizes(model: CheckedModel, dataset: Dataset, sizes: Mapping[str, int]) -> dict[str, int]:
    known = dict(sizes)
    for symbol in model.of_kind("data"):
        entry = dataset.ask(symbol.name)
        if entry is not None and len(entry.shape) == len(symbol.dims):
            for dim, size in zip(symbol.dims, entry.shape, strict=True):
                known.setdefault(dim, size)
    for symbol in model.of_kind("index"):
        assert isinstance(symbol.statement, ast.Index)
        match symbol.statement.definition:
            case ast.Size(size=size):
                known[symbol.name] = size
            case ast.Range(first=first, last=last):
                known[symbol.name] = last - first + 1
            case ast.Labels(labels=labels):
                known[symbol.name] = len(labels)
            case ast.Head(of=of) if of.id in known:
                known[symbol.name] = known[of.id] - 1
            case _:
                key = dataset.entries.get(dataset.key(symbol.name))
                if key is not None and len(key.shape) == 1:
                    known[symbol.name] = key.shape[0]
    return {name: size for name, size in known.items() if 0 < size <= 1 << 24}


def _plain_values(model: CheckedModel) -> dict[str, float]:
    """Data that stand behind an argument in PLAIN, with its value."""
    found: dict[str, float] = {}
    for statement in model.tree.statements:
        if isinstance(statement, ast.Observe):
            for argument in statement.family.arguments:
                if argument.name in PLAIN and isinstance(argument.value, ast.Name):
                    found[argument.value.id] = PLAIN[argument.name]
    return found


def _drawn(
    symbol: Symbol,
    shape: tuple[int, ...],
    known: Mapping[str, int],
    plain: float | None,
    rng: np.random.Generator,
) -> AnyArray:
    if symbol.target is not None:
        count = int(np.prod(shape))
        return np.arange(count, dtype=np.int64).reshape(shape) % known[symbol.target]
    if plain is not None:
        return np.full(shape, plain)
    match symbol.type:
        case "positive":
            return np.asarray(np.exp(0.5 * rng.standard_normal(shape)))
        case "unit":
            return np.asarray(rng.uniform(0.05, 0.95, shape))
        case "count":
            return np.asarray(rng.poisson(10.0, shape) + 1)
        case "integer":
            return np.asarray(rng.integers(-5, 6, shape))
        case "binary":
            return np.asarray(rng.integers(0, 2, shape))
        case "graph":
            ends = np.arange(shape[0])
            ring = np.zeros(shape, dtype=np.int64)
            ring[ends, (ends + 1) % shape[0]] = 1
            np.fill_diagonal(ring, 0)
            return np.maximum(ring, ring.T)
    return np.asarray(rng.standard_normal(shape))
