"""Which responses are left out together: by an index set, a map to it, or labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from lgmdsl.api.assess.observations import GroupPlaces, Observations
from lgmdsl.arrays import AnyArray, IntArray
from lgmdsl.assess.groups import Group
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
        labels, positions = _given(groups, where)
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
        told = f"no index set, and no map to one, is called `{name}`"
        raise ModelError(Diagnostic("E103", told, help=suggestion(name, known, has)))
    positions = []
    for datum, dims, rows in where.blocks:
        found = list(_ways(name, asked, maps, canonical, dims))
        if len(found) > 1:
            ways = listed([f"`{n}`" for n, _ in found], "or")
            told = f"`{datum}` is grouped by `{name}` in several ways"
            raise ModelError(Diagnostic("E108", told, help=f"name one: {ways}"))
        none = np.full(len(rows), -1, dtype=np.int64)
        positions.append(found[0][1].reshape(-1)[rows] if found else none)
    if all((p < 0).all() for p in positions):
        observed = listed([f"`{n}`" for n in where.names])
        told = f"`{name}` groups no entry of {observed}"
        advice = "give an array with a label for each observed entry"
        raise ModelError(Diagnostic("E108", told, help=advice))
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
        own = maps[n].dims
        if values is not None and set(own) <= set(dims) and distinct(dims) == dims:
            yield n, spread(own, np.asarray(values), dims, sizes)


def spread(
    own: tuple[str, ...], values: IntArray, dims: tuple[str, ...], sizes: Mapping[str, int]
) -> IntArray:
    """Values over some axes, at every entry of `dims`."""
    order = sorted(range(len(own)), key=lambda k: dims.index(own[k]))
    shape = [sizes[d] if d in own else 1 for d in dims]
    full = np.transpose(values, order).reshape(shape)
    return np.broadcast_to(full, [sizes[d] for d in dims])


def _given(groups: object, where: Observations) -> tuple[AnyArray, list[IntArray]]:
    if not isinstance(groups, Mapping):
        if len(where.names) > 1:
            told = f"several data are observed: {', '.join(where.names)}"
            advice = "give a dict of arrays of labels by datum, or the name of an index set"
            raise ModelError(Diagnostic("E108", told, help=advice))
        groups = {where.names[0]: groups}
    unknown = [n for n in groups if n not in where.names]
    if unknown:
        told = f"no datum `{unknown[0]}` is observed"
        raise ModelError(Diagnostic("E103", told, help=f"there are: {', '.join(where.names)}"))
    parts, present = [], []
    for datum, dims, rows in where.blocks:
        if datum not in groups:
            present.append(np.zeros(len(rows), dtype=np.bool_))
            continue
        given = np.asarray(groups[datum])
        shape = where.layout.shape(dims)
        if given.shape == shape:
            given = given.reshape(-1)[rows]
        elif given.shape != (len(rows),):
            told = f"labels of `{datum}`: wanted shape {shape}, got {given.shape}"
            raise DataError(Diagnostic("E301", told))
        parts.append(given)
        present.append(np.ones(len(rows), dtype=np.bool_))
    labels, flat = np.unique(np.concatenate(parts), return_inverse=True)
    positions, at = [], 0
    for here in present:
        found = np.full(len(here), -1, dtype=np.int64)
        found[here] = flat[at : at + int(here.sum())]
        at += int(here.sum())
        positions.append(found)
    return labels, positions
