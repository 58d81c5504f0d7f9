"""Tiny data for a model, by the types of what it declares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.language.builder import Model
from lgmdsl.language.tree import ast

SIZE = 8
SMALL = {"krow": 3, "kcol": 3, "group": 4, "letter": 5, "person": 40}


def data_for(model: Model) -> dict[str, Any]:
    """Data of eight members to an index, drawn with one seed."""
    rng = np.random.default_rng(20)
    sizes, labels, out = dict[str, int](), dict[str, Sequence[Any]](), dict[str, Any]()
    for statement in model.tree.statements:
        if isinstance(statement, ast.Index):
            sizes[statement.name.id] = _size(statement, sizes)
            match statement.definition:
                case ast.Labels(labels=listed):
                    labels[statement.name.id] = listed
                case ast.Range(first=first, last=last):
                    labels[statement.name.id] = range(first, last + 1)
        elif isinstance(statement, ast.Data):
            shape = tuple(sizes[d.id] for d in statement.dims)
            name, kind = statement.name.id, statement.type.name
            out[name] = _entries(kind, shape, sizes, rng)
            if kind in labels:
                out[name] = np.asarray(labels[kind])[out[name]]
    return _suited(out)


def _size(statement: ast.Index, sizes: dict[str, int]) -> int:
    match statement.definition:
        case ast.Size(size=size):
            return size
        case ast.Labels(labels=labels):
            return len(labels)
        case ast.Head(of=of):
            return sizes[of.id] - 1
        case ast.Range(first=first, last=last):
            return last - first + 1
    return SMALL.get(statement.name.id, SIZE)


def _entries(
    kind: str, shape: tuple[int, ...], sizes: dict[str, int], rng: np.random.Generator
) -> Any:
    if kind in sizes:
        return np.arange(int(np.prod(shape))).reshape(shape) % sizes[kind]
    match kind:
        case "positive":
            return rng.gamma(2.0, 0.5, shape)
        case "nonnegative":
            return np.maximum(rng.gamma(2.0, 0.5, shape) - 0.5, 0.0)
        case "unit":
            return rng.uniform(0.1, 0.9, shape)
        case "count":
            return rng.poisson(3.0, shape)
        case "integer":
            return rng.integers(-3, 4, shape)
        case "binary":
            return np.arange(int(np.prod(shape))).reshape(shape) % 2
        case "graph":
            n = shape[0]
            return np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
    return rng.standard_normal(shape)


def _suited(data: dict[str, Any]) -> dict[str, Any]:
    """What more than a type is wanted of: trials, precisions, matrices of a mesh, breaks."""
    if "y" in data and data["y"].ndim == 2 and data["y"].dtype.kind == "f":
        data["y"] /= data["y"].sum(axis=1, keepdims=True)  # shares
    if "joined" in data:
        data["joined"] = 0.5 * data["y"]  # at risk before the event
    if "breaks" in data:
        data["breaks"] = np.sort(data["breaks"])
    if "n" in data and "y" in data:
        total = data["y"].sum(axis=-1) if data["y"].ndim == 2 else data["y"] + 3
        data["n"] = total
    if "Q" in data:
        size = len(data["Q"])
        data["Q"] = 2.5 * np.eye(size) - np.eye(size, k=1) - np.eye(size, k=-1)
    if "kin" in data:
        data["kin"] = 0.75 * np.eye(len(data["kin"])) + 0.25
    if "Psi" in data:
        data["Psi"] = np.eye(len(data["Psi"]))
    if "C" in data:
        mass, stiffness = lgm.grid_matrices((2, SIZE // 2))
        data |= {"C": mass.toarray(), "G": stiffness.toarray()}
    if "time" in data and "y" in data and data["time"].dtype == np.float64:
        data["time"] = np.sort(np.abs(data["time"])) + 0.1 * np.arange(len(data["time"]))
    return data
