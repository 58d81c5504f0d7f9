"""Which responses are left out together: by an index set, a map to it, or labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from lgmdsl.api.assess.observations import GroupPlaces, Observations
from lgmdsl.arrays import AnyArray, IntArray
from lgmdsl.assess.groups import Group
from lgmdsl.canonical.grounding.label_line import sorted_distinct
from lgmdsl.canonical.lowering.lower import distinct
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.errors import DataError, Diagnostic, ModelError, listed, suggestion
from lgmdsl.language.checked import Symbol


def grouped(
    groups: object, canonical: CanonicalModel, where: Observations
) -> tuple[GroupPlaces, tuple[Group, ...]]:
    """The groups' labels, and the rows of each datum that belong to each group.

    `groups`: an index set, a datum that maps to one, an array with a label for each entry of the
    one observed datum (its shape, or one for each observed entry), or a dict of such arrays.
    Entries without a group (a map that is missing, a datum that has not the index) stay.

    Raises ModelError E103 or E108 for a name that groups nothing, or in several ways; DataError
    E301 for arrays of another shape.
    """
    if isinstance(groups, str):
        axis, labels, positions = _named(groups, canonical, where)
    else:
        axis = "group"
        labels, positions = _from_labels(groups, where)
    members = [g for g in range(len(labels)) if any((p == g).any() for p in positions)]
    rows = tuple(tuple(np.flatnonzero(p == g) for p in positions) for g in members)
    return GroupPlaces(axis, labels[np.array(members, dtype=np.int64)]), rows


def _named(
    name: str, canonical: CanonicalModel, where: Observations
) -> tuple[str, AnyArray, list[IntArray]]:
    indices = canonical.grounded.indices
    maps = {s.name: s for s in canonical.grounded.model.of_kind("data") if s.target is not None}
    if name in maps:
        target = maps[name].target
        assert target is not None
        asked = [name]
    elif name in indices:
        target = name
        asked = [n for n, s in maps.items() if s.target == name]
    else:
        known = (*indices, *maps)
        has = f"there are: {', '.join(known)}"
        message = f"no index set, and no map to one, is called `{name}`"
        raise ModelError(Diagnostic("E103", message, help=suggestion(name, known, has)))
    positions = []
    for datum, dims, rows in where.blocks:
        candidates = list(_ways(name, asked, maps, canonical, dims))
        if len(candidates) > 1:
            ways = listed([f"`{n}`" for n, _ in candidates], "or")
            message = f"`{datum}` is grouped by `{name}` in several ways"
            raise ModelError(Diagnostic("E108", message, help=f"name one: {ways}"))
        none = np.full(len(rows), -1, dtype=np.int64)
        positions.append(candidates[0][1].reshape(-1)[rows] if candidates else none)
    if all((p < 0).all() for p in positions):
        observed = listed([f"`{n}`" for n in where.names])
        message = f"`{name}` groups no entry of {observed}"
        advice = "give an array with a label for each observed entry"
        raise ModelError(Diagnostic("E108", message, help=advice))
    return target, indices[target].labels, positions


def _ways(
    name: str,
    maps_asked: list[str],
    maps: Mapping[str, Symbol],
    canonical: CanonicalModel,
    dims: tuple[str, ...],
) -> Iterator[tuple[str, IntArray]]:
    """The ways in which an axis, or maps over the axes, give each entry a position."""
    sizes = canonical.sizes
    if name in dims:
        yield name, spread((name,), np.arange(sizes[name]), dims, sizes)
        return
    for n in maps_asked:
        values = canonical.grounded.values.get(n)
        axes = maps[n].dims
        if values is not None and set(axes) <= set(dims) and distinct(dims) == dims:
            yield n, spread(axes, np.asarray(values), dims, sizes)


def spread(
    axes: tuple[str, ...], values: IntArray, dims: tuple[str, ...], sizes: Mapping[str, int]
) -> IntArray:
    """Values over some axes, at every entry of `dims`."""
    order = sorted(range(len(axes)), key=lambda k: dims.index(axes[k]))
    shape = [sizes[d] if d in axes else 1 for d in dims]
    full = np.transpose(values, order).reshape(shape)
    return np.broadcast_to(full, [sizes[d] for d in dims])


def _from_labels(groups: object, where: Observations) -> tuple[AnyArray, list[IntArray]]:
    if not isinstance(groups, Mapping):
        if len(where.names) > 1:
            message = f"several data are observed: {', '.join(where.names)}"
            advice = "give a dict of arrays of labels by datum, or the name of an index set"
            raise ModelError(Diagnostic("E108", message, help=advice))
        groups = {where.names[0]: groups}
    unknown = [n for n in groups if n not in where.names]
    if unknown:
        message = f"no datum `{unknown[0]}` is observed"
        raise ModelError(Diagnostic("E103", message, help=f"there are: {', '.join(where.names)}"))
    parts, present = [], []
    for datum, dims, rows in where.blocks:
        if datum not in groups:
            present.append(np.zeros(len(rows), dtype=np.bool_))
            continue
        column = np.asarray(groups[datum])
        shape = where.layout.shape(dims)
        if column.shape == shape:
            column = column.reshape(-1)[rows]
        elif column.shape != (len(rows),):
            message = f"labels of `{datum}`: wanted shape {shape}, got {column.shape}"
            raise DataError(Diagnostic("E301", message))
        parts.append(column)
        present.append(np.ones(len(rows), dtype=np.bool_))
    labels, flat = sorted_distinct(np.concatenate(parts))
    positions, start = [], 0
    for labelled_rows in present:
        group = np.full(len(labelled_rows), -1, dtype=np.int64)
        group[labelled_rows] = flat[start : start + int(labelled_rows.sum())]
        start += int(labelled_rows.sum())
        positions.append(group)
    return labels, positions
