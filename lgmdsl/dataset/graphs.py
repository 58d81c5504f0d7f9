"""Graphs of other programs: R-INLA's files, and networkx and libpysal objects, as an adjacency with
labels. Neither library is imported: what they give is read off the object itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lgmdsl.dataset.convert import from_sequence
from lgmdsl.dataset.entries import Entry, Loaded
from lgmdsl.dataset.frames import library
from lgmdsl.dataset.refusals import check_memory, refused, refusing


@dataclass(frozen=True, eq=False)
class Adjacency:
    """A graph: `labels` (n,) of its members and their neighbours as positions, in both directions.

    A value of the data like any other: `{"adj": lgm.contiguity(polygons)}`. Members are matched
    with those of the index set by label; whether all edges go in both directions is checked there.
    """

    labels: tuple[Any, ...]
    rows: Sequence[int]
    columns: Sequence[int]
    weights: Sequence[float] | None = None

    def __repr__(self) -> str:
        return f"<graph of {len(self.labels)} members, {len(self.rows)} neighbours>"

    def entry(self, source: str, name: str) -> Entry:
        """The adjacency matrix (csr) with labels on both axes."""
        labels, size = from_sequence(source, name, self.labels), len(self.labels)

        def load() -> Loaded:
            import scipy.sparse as sp

            weights = np.ones(len(self.rows)) if self.weights is None else np.array(self.weights)
            places: Any = (np.array(self.rows, dtype=np.int64), np.array(self.columns, np.int64))
            matrix: Any = sp.csr_array((weights, places), shape=(size, size))
            if self.weights is None:
                matrix.sum_duplicates()
                matrix.data[:] = 1.0
            return Loaded(matrix)

        return Entry(name, source, (size, size), load, labels=(labels, labels))


def read_graph(path: Path, name: str) -> Entry:
    """R-INLA's format: the number of members; then for each one its number, how many neighbours it
    has, and their numbers. Members are numbered from 1, or from 0 where 0 is among them, and these
    numbers are their labels.

    Raises E306 where the file is none, where a member is listed twice or not at all.
    """
    source = path.name
    with refusing(source, "not a readable graph file"):
        size_of_file = path.stat().st_size
        check_memory(source, name, (size_of_file,), 60)
        words = path.read_text(encoding="utf-8-sig").split()
        if not words or not all(word.isascii() and word.isdigit() for word in words):
            odd = next((w for w in words if not (w.isascii() and w.isdigit())), "nothing")
            raise refused(
                source,
                f"it is no graph of R-INLA's form: it holds `{odd[:30]}`",
                help="its first number is that of the members; then follow, for each of them, its "
                "number, how many neighbours it has, and their numbers",
            )
        numbers = [int(word) for word in words]
    size, neighbours = numbers[0], dict[int, list[int]]()
    position = 1
    while position + 1 < len(numbers):
        member, count = numbers[position], numbers[position + 1]
        if member in neighbours:
            raise refused(source, f"it lists member {member} twice")
        neighbours[member] = numbers[position + 2 : position + 2 + count]
        if len(neighbours[member]) < count:
            shown = f"{len(neighbours[member])} of its {count} neighbours"
            raise refused(source, f"it ends within member {member}, after {shown}")
        position += 2 + count
    first = 0 if 0 in neighbours else 1
    labels = range(first, first + size)
    lacking = [k for k in labels if k not in neighbours]
    odd_ends = sorted({k for ends in neighbours.values() for k in ends if k not in labels})
    if lacking or position != len(numbers) or len(neighbours) != size or odd_ends:
        problem = f"it lists {len(neighbours)} members, and its first number is {size}"
        if odd_ends:
            problem = f"it names a neighbour {odd_ends[0]}, and its members are {first} to "
            problem += f"{first + size - 1}"
        elif lacking:
            problem += f"; member {lacking[0]} is not listed"
        raise refused(source, problem, help="correct the file: one line for each member")
    return _of_neighbours(list(labels), neighbours).entry(source, name)


def adjacency_of(source: str, name: str, value: Any) -> Adjacency | None:
    """A graph of networkx or libpysal (`W` or `Graph`), or one of ours; None for anything else.

    Raises E306 for a directed graph, and for a multigraph or weights other than 1.
    """
    if isinstance(value, Adjacency):
        return value
    library = type(value).__module__.split(".", 1)[0]
    if hasattr(value, "is_directed") and hasattr(value, "adjacency"):
        return _of_networkx(source, name, value)
    if library == "libpysal" and hasattr(value, "id_order") and hasattr(value, "neighbors"):
        _check_weights(source, name, (w for ws in value.weights.values() for w in ws), "w")
        return _of_neighbours(list(value.id_order), value.neighbors)
    if library == "libpysal" and hasattr(value, "unique_ids"):
        weights = {k: [float(w) for w in v.values()] for k, v in _weights(value).items()}
        _check_weights(source, name, (w for ws in weights.values() for w in ws), "graph")
        neighbours = {k: list(v) for k, v in _weights(value).items()}
        return _of_neighbours(list(value.unique_ids), neighbours)
    return None


def _weights(graph: Any) -> Mapping[Any, Mapping[Any, float]]:
    """Neighbours and weights of a libpysal Graph; an isolated member has itself with weight 0."""
    out: dict[Any, dict[Any, float]] = {member: {} for member in graph.unique_ids}
    for (focal, neighbour), weight in graph.adjacency.items():
        if weight != 0:
            out[focal][neighbour] = weight
    return out


def _of_networkx(source: str, name: str, graph: Any) -> Adjacency:
    if graph.is_directed():
        raise refused(
            source,
            f"`{name}` is a directed graph, and neighbours have no direction",
            help=f"{name}.to_undirected()",
        )
    odd = [w for _, _, w in graph.edges(data="weight", default=1) if w != 1]
    if odd:
        raise refused(
            source,
            f"`{name}` has weights ({odd[0]:g}), which a graph here has not",
            help="for (_, _, edge) in graph.edges(data=True): edge.pop('weight', None)",
        )
    return _of_neighbours(list(graph.nodes), {k: list(v) for k, v in graph.adjacency()})


def _check_weights(source: str, name: str, weights: Iterable[float], call: str) -> None:
    odd = next((w for w in weights if w != 1), None)
    if odd is None:
        return
    fix = 'w.transform = "B"' if call == "w" else 'graph.transform("B")'
    raise refused(
        source, f"`{name}` has weights ({odd:g}), which a graph here has not", help=f"binary: {fix}"
    )


def _of_neighbours(labels: Sequence[Any], neighbours: Mapping[Any, Iterable[Any]]) -> Adjacency:
    place = {label: k for k, label in enumerate(labels)}
    pairs = [(place[a], place[b]) for a in labels for b in neighbours.get(a, ())]
    return Adjacency(tuple(labels), [a for a, _ in pairs], [b for _, b in pairs])


# ---- polygons ----------------------------------------------------------------------------------


# Of the intersection matrix (DE-9IM): the boundaries share a line; the interiors share an area.
LINE, AREA = "****1****", "2********"


def contiguity(polygons: Any, rule: Literal["queen", "rook"] = "queen") -> Adjacency:
    """The graph of polygons that touch, as a datum: `{"adj": lgm.contiguity(areas)}`.

    `polygons` is a GeoDataFrame or GeoSeries of geopandas, whose index gives the labels:
    `areas.set_index("name")`. Under `queen` one common point makes neighbours, under `rook` it
    takes a common line; polygons that overlap are neighbours under both. Polygons with a gap
    between them, however small, are none; members without neighbours are reported (W401).

    Raises DataError E306 for anything else, for labels that repeat, and for geometries that are
    missing, empty, invalid or no polygons; ValueError for another rule. Source: Bivand, Pebesma and
    Gomez-Rubio (2013), Applied Spatial Data Analysis with R, section 9.2.
    """
    if rule not in ("queen", "rook"):
        raise ValueError(f"rule is queen or rook, not {rule!r}")
    name = "polygons"
    if library(polygons) != "geopandas" or not hasattr(polygons, "geometry"):
        help = "pip install 'lgmdsl[geo]', and geopandas.read_file(...)"
        if find_spec("geopandas") is not None:
            help = 'geopandas.read_file("areas.gpkg").set_index("name")'
        raise refused(name, f"this is a {type(polygons).__name__}, no GeoDataFrame", help=help)
    labels = polygons.index.tolist()
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise refused(name, f"the label {twice} repeats", help=f'{name}.set_index("name")')
    shapes = polygons.geometry
    for problem, mask in (
        ("no geometry", shapes.isna() | shapes.is_empty),
        ("another geometry than a polygon", ~shapes.geom_type.isin(["Polygon", "MultiPolygon"])),
        ("an invalid geometry", ~shapes.is_valid),
    ):
        odd = np.flatnonzero(np.asarray(mask, dtype=np.bool_))
        if odd.size:
            help = f"{name}.geometry = {name}.make_valid()" if "invalid" in problem else "drop them"
            shown = ", ".join(str(labels[k]) for k in odd[:5])
            raise refused(name, f"{odd.size} of {len(labels)} have {problem}: {shown}", help=help)
    with refusing(name, "their contacts cannot be computed"):
        first, second = shapes.sindex.query(shapes, predicate="intersects")
        apart = first != second
        first, second = first[apart], second[apart]
        if rule == "rook":
            import shapely

            a, b = shapes.to_numpy()[first], shapes.to_numpy()[second]
            side = shapely.relate_pattern(a, b, LINE) | shapely.relate_pattern(a, b, AREA)
            first, second = first[side], second[side]
    return Adjacency(tuple(labels), first.tolist(), second.tolist())
