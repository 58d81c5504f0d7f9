"""The part of a result file that an interrupted integration goes on from.

Group `checkpoint`: the mode, its curvature and what the search left, and of every fit its place,
density, slope, evidence and the sites' weights and shifts, stacked along a first axis. Fits that
ended have none, and versions that do not know it start from the mode.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from lgmdsl.api.files.netcdf import Group, NewGroup
from lgmdsl.arrays import AnyArray
from lgmdsl.learning.integration.checkpoint import Checkpoint, Point, Search

NAME = "checkpoint"


def write_checkpoint(
    file: NewGroup, known: Checkpoint, put: Callable[[NewGroup, str, AnyArray], None]
) -> None:
    """Add the group; `put` writes one array into it."""
    group, search, points = file.create_group(NAME), known.search, known.points
    group.set(
        roughest=search.roughest,
        refined=int(search.refined),
        conflict=json.dumps(search.conflict),
        apart=1,
        points=len(points),
    )
    arrays: dict[str, Any] = {
        "mode": known.mode,
        "hessian": known.hessian,
        "others": known.others,
        "curved": known.curved,
        "centre": search.centre,
        "spanned": np.array(search.spanned),
        "scales": search.scales,
        "edges": np.array(search.edges, dtype=np.int64),
        "alone": np.array(search.alone, dtype=np.float64),
        "x": np.array([p.x for p in points]).reshape(-1, len(known.mode)),
        "density": np.array([p.density for p in points]),
        "gradient": np.array([p.gradient for p in points]).reshape(-1, len(known.mode)),
        "log_evidence": np.array([p.log_evidence for p in points]),
        "converged": np.array([p.converged for p in points], dtype=np.int64),
    }
    for k in range(len(points[0].weight) if points else 0):
        arrays[f"weight_{k}"] = np.array([p.weight[k] for p in points])
        arrays[f"shift_{k}"] = np.array([p.shift[k] for p in points])
    for name, values in arrays.items():
        if values.size:
            put(group, name, values)


def read_checkpoint(
    file: Group, array: Callable[[Any], AnyArray], covariances: bool
) -> Checkpoint | None:
    """What the group holds; None of a file without, and of one with `covariances` among its
    hyperparameters that says nothing of their coordinates: an earlier version had others."""
    if NAME not in file.groups:
        return None
    group = file[NAME]
    if covariances and "apart" not in group.attrs:
        return None
    held, given = {n: array(v) for n, v in group.variables.items()}, group.attrs
    size = len(held["mode"])
    blocks = sum(name.startswith("weight_") for name in held)
    search = Search(
        held["centre"],
        (held["spanned"][0], held["spanned"][1]),
        held["scales"],
        float(given["roughest"]),
        bool(given["refined"]),
        tuple(held.get("edges", np.zeros(0, dtype=np.int64)).tolist()),
        tuple(json.loads(str(given["conflict"]))),
        tuple(held.get("alone", np.zeros(0)).tolist()),
    )
    points = tuple(
        Point(
            held["x"][m],
            float(held["density"][m]),
            held["gradient"][m],
            float(held["log_evidence"][m]),
            bool(held["converged"][m]),
            tuple(held[f"weight_{k}"][m] for k in range(blocks)),
            tuple(held[f"shift_{k}"][m] for k in range(blocks)),
        )
        for m in range(int(given["points"]))
    )
    others = held.get("others", np.zeros((0, size)))
    curved = held.get("curved", np.zeros((0, size, size)))
    return Checkpoint(held["mode"], held["hessian"], others, curved, search, points)
