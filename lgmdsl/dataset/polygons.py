"""Polygons to a graph of neighbours: rook or queen contiguity (extra `geo`)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from lgmdsl.dataset.frames import library
from lgmdsl.dataset.graphs import Adjacency
from lgmdsl.dataset.refusals import refused, refusing

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
