"""A graph from every kind of source is the same graph."""

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import lgmdsl as lgm
from lgmdsl.canonical.grounding.ground import GroundedModel, ground
from lgmdsl.dataset import Keys, read
from lgmdsl.errors import DataError
from lgmdsl.graph.build import model_graph

MODEL = """lgm 1
index area
data y[area] : count
data adj[area, area] : graph
latent u[area] ~ besag(graph = adj, sd = 1)
latent b ~ normal(sd = 5)
observe y ~ poisson(log_rate = b + u)
"""
AREAS = ["d", "a", "c", "b", "e"]
EDGES = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("d", "e")]
MAIN = pd.DataFrame({"area": AREAS, "y": [4, 1, 3, 2, 5]})
PLACES = {label: k for k, label in enumerate(AREAS)}
TRUTH = np.zeros((5, 5))
for one, other in EDGES:
    TRUTH[PLACES[one], PLACES[other]] = TRUTH[PLACES[other], PLACES[one]] = 1.0


def grounded(main: Any, graph: Any, mapping: Keys | None = None) -> GroundedModel:
    data = read([main, {"adj": graph}], mapping)
    return ground(model_graph(lgm.loads(MODEL).checked), data)


def adjacency(main: Any, graph: Any, mapping: Keys | None = None) -> Any:
    return grounded(main, graph, mapping).values["adj"].toarray()


def numbered() -> pd.DataFrame:
    return MAIN.assign(area=[PLACES[a] + 1 for a in AREAS])


# ---- pairs and matrices ------------------------------------------------------------------------


def test_pairs_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("from,to\n" + "".join(f"{a},{b}\n" for a, b in EDGES))
    assert (adjacency(MAIN, path) == TRUTH).all()


def test_pairs_among_more_columns_are_named(tmp_path: Path) -> None:
    frame = pd.DataFrame(EDGES, columns=["from", "to"]).assign(km=1.5)
    with pytest.raises(DataError, match=r"E301.*`adj` wants two columns, the ends of each edge"):
        adjacency(MAIN, frame)
    assert (adjacency(MAIN, frame, {"adj": ["from", "to"]}) == TRUTH).all()
    frame.to_csv(tmp_path / "edges.csv", index=False)
    assert (adjacency(MAIN, tmp_path / "edges.csv", {"adj": "from,to"}) == TRUTH).all()


def test_an_adjacency_matrix_with_a_header(tmp_path: Path) -> None:
    order = ["a", "b", "c", "d", "e"]
    places = [PLACES[a] for a in order]
    frame = pd.DataFrame(TRUTH[np.ix_(places, places)].astype(int), columns=order, index=order)
    assert (adjacency(MAIN, frame) == TRUTH).all()
    frame.to_csv(tmp_path / "labelled.csv", index_label="area")
    assert (adjacency(MAIN, tmp_path / "labelled.csv") == TRUTH).all()
    frame.to_csv(tmp_path / "plain.csv", index=False)
    assert (adjacency(MAIN, tmp_path / "plain.csv") == TRUTH).all()


def test_rows_and_columns_of_a_matrix_may_be_in_two_orders() -> None:
    frame = pd.DataFrame(TRUTH, columns=AREAS, index=AREAS)
    assert (adjacency(MAIN, frame.loc[["b", "a", "e", "d", "c"]]) == TRUTH).all()


def test_scipy_sparse() -> None:
    assert (adjacency(MAIN, sp.csr_array(TRUTH)) == TRUTH).all()
    assert (adjacency(MAIN, sp.coo_matrix(TRUTH)) == TRUTH).all()


def test_scipy_files(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "adj.npz", sp.csr_array(TRUTH))
    assert (adjacency(MAIN, tmp_path / "adj.npz") == TRUTH).all()


def test_asymmetrical_matrices_are_refused_with_a_remedy_that_works() -> None:
    one_way = sp.csr_array(np.triu(TRUTH))
    with pytest.raises(DataError, match=r"E303.*the graph `adj` is not symmetric") as error:
        adjacency(MAIN, one_way)
    assert "adj.maximum(adj.T)" in str(error.value)
    assert (adjacency(MAIN, one_way.maximum(one_way.T)) == TRUTH).all()


def test_unknown_ends_self_loops_and_islands(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"E302.*`adj` holds a label that `area` does not have"):
        adjacency(MAIN, pd.DataFrame([*EDGES, ("a", "z")]))
    loops = grounded(MAIN, pd.DataFrame([*EDGES, ("a", "a")]))
    assert [w.code for w in loops.warnings] == ["W303"]
    assert (loops.values["adj"].toarray() == TRUTH).all()
    island = grounded(MAIN, pd.DataFrame(EDGES[:4]))
    assert [w.code for w in island.warnings] == ["W401"]
    assert "without neighbours" in island.warnings[0].message


def test_edges_given_twice_or_in_both_directions_are_one() -> None:
    both = [*EDGES, *[(b, a) for a, b in EDGES], EDGES[0]]
    assert (adjacency(MAIN, pd.DataFrame(both)) == TRUTH).all()


# ---- other programs ----------------------------------------------------------------------------

INLA = "5\n1 3 2 3 5\n2 2 1 4\n3 2 1 4\n4 2 2 3\n5 1 1\n"


@pytest.mark.parametrize("first", [1, 0])
@pytest.mark.parametrize("suffix", ["graph", "adj"])
def test_inla_files(tmp_path: Path, first: int, suffix: str) -> None:
    path = tmp_path / f"g.{suffix}"
    lines = [f"{k + first} {len(n)} {' '.join(str(m + first) for m in n)}" for k, n in _near()]
    path.write_text("5\n" + "\n".join(lines) + "\n")
    main = numbered().assign(area=numbered().area - 1 + first)
    assert (adjacency(main, path) == TRUTH).all()


def _near() -> list[tuple[int, list[int]]]:
    return [(k, np.flatnonzero(row).tolist()) for k, row in enumerate(TRUTH)]


def test_the_numbers_of_an_inla_file_are_labels_not_positions(tmp_path: Path) -> None:
    path = tmp_path / "g.graph"
    path.write_text(INLA)
    shuffled = numbered().iloc[[3, 1, 4, 0, 2]]
    order = (shuffled.area - 1).to_numpy()
    assert (adjacency(shuffled, path) == TRUTH[np.ix_(order, order)]).all()
    with pytest.raises(DataError, match=r"E302"):
        adjacency(MAIN, path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is no graph of R-INLA's form: it holds `nothing`"),
        ("2\n1 1 x\n2 1 1\n", "it holds `x`"),
        ("3\n1 1 2\n2 1 1\n", "member 3 is not listed"),
        ("2\n1 1 2\n1 1 2\n", "it lists member 1 twice"),
        ("2\n1 1 2\n2 3 1\n", "it ends within member 2, after 1 of its 3 neighbours"),
        ("2\n1 1 2\n2 1 7\n", "it names a neighbour 7, and its members are 1 to 2"),
        ("2\n1 1 2\n2 1 1\n3\n", "it lists 2 members"),
    ],
)
def test_damaged_inla_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "g.graph"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        adjacency(numbered(), path)
    assert message in str(error.value)


def test_an_inla_file_with_one_direction_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g.graph").write_text("5\n1 3 2 3 5\n2 1 4\n3 2 1 4\n4 2 2 3\n5 1 1\n")
    with pytest.raises(DataError, match=r"E303.*the graph `adj` is not symmetric"):
        adjacency(numbered(), tmp_path / "g.graph")


def test_a_graph_file_needs_a_name(tmp_path: Path) -> None:
    (tmp_path / "g.graph").write_text(INLA)
    with pytest.raises(DataError, match=r"E306.*it holds a graph alone"):
        read(tmp_path / "g.graph")


def test_networkx() -> None:
    assert (adjacency(MAIN, nx.Graph(EDGES)) == TRUTH).all()
    lonely = nx.Graph(EDGES[:4])
    lonely.add_node("e")
    assert adjacency(MAIN, lonely).sum() == 8
    with pytest.raises(DataError, match=r"E306.*`adj` is a directed graph"):
        adjacency(MAIN, nx.DiGraph(EDGES))
    with pytest.raises(DataError, match=r"E306.*`adj` has weights \(2\)"):
        adjacency(MAIN, nx.Graph([(a, b, {"weight": 2}) for a, b in EDGES]))


def test_a_graph_without_a_member_is_refused() -> None:
    with pytest.raises(DataError, match=r"E302.*`adj` lacks labels of `area`"):
        adjacency(MAIN, nx.Graph(EDGES[:4]))


@pytest.mark.thorough
def test_libpysal() -> None:
    weights = pytest.importorskip("libpysal.weights")
    graph = pytest.importorskip("libpysal.graph")
    near = {AREAS[k]: [AREAS[m] for m in n] for k, n in _near()}
    w = weights.W(near, id_order=["b", "a", "c", "e", "d"])
    assert (adjacency(MAIN, w) == TRUTH).all()
    w.transform = "r"
    with pytest.raises(DataError, match=r"`adj` has weights.*\n.*w.transform = \"B\""):
        adjacency(MAIN, w)
    assert (adjacency(MAIN, graph.Graph.from_dicts(near)) == TRUTH).all()
    standardised = graph.Graph.from_dicts(near).transform("R")
    with pytest.raises(DataError, match=r"`adj` has weights"):
        adjacency(MAIN, standardised)


@pytest.mark.thorough
def test_an_isolate_of_libpysal_has_no_neighbours() -> None:
    graph = pytest.importorskip("libpysal.graph")
    near = {"a": ["b"], "b": ["a", "c"], "c": ["b", "d"], "d": ["c"], "e": []}
    assert adjacency(MAIN, graph.Graph.from_dicts(near)).sum() == 6


# ---- polygons ----------------------------------------------------------------------------------


def squares() -> Any:
    geopandas = pytest.importorskip("geopandas")
    from shapely.geometry import box

    boxes = {"a": (0, 0), "b": (1, 0), "c": (1, 1), "d": (0, 1), "e": (3, 3)}
    shapes = [box(x, y, x + 1, y + 1) for x, y in boxes.values()]
    return geopandas.GeoDataFrame({"name": [*boxes]}, geometry=shapes).set_index("name")


def pairs_of(graph: Any) -> set[tuple[Any, Any]]:
    ends = zip(graph.rows, graph.columns, strict=True)
    return {(graph.labels[a], graph.labels[b]) for a, b in ends}


def test_queen_and_rook() -> None:
    sides = {("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")}
    both = {pair[::-1] for pair in sides} | sides
    assert pairs_of(lgm.contiguity(squares(), rule="rook")) == both
    corners = {("a", "c"), ("c", "a"), ("b", "d"), ("d", "b")}
    assert pairs_of(lgm.contiguity(squares())) == both | corners


def test_sides_need_no_common_vertices() -> None:
    geopandas = pytest.importorskip("geopandas")
    from shapely.geometry import box

    frame = geopandas.GeoSeries([box(0, 0, 1, 3), box(1, 1, 2, 2), box(0.5, 0, 1.5, 0.5)])
    assert pairs_of(lgm.contiguity(frame, "rook")) == {(0, 1), (1, 0), (0, 2), (2, 0)}


def test_polygons_bind_by_label() -> None:
    graph = lgm.contiguity(squares().loc[["e", "c", "b", "d", "a"]], "rook")
    whole = grounded(MAIN, graph)
    wanted = TRUTH.copy()
    wanted[PLACES["d"], PLACES["e"]] = wanted[PLACES["e"], PLACES["d"]] = 0.0
    assert (whole.values["adj"].toarray() == wanted).all()


def test_wrong_polygons() -> None:
    geopandas = pytest.importorskip("geopandas")
    from shapely.geometry import Point, Polygon

    frame = squares()
    with pytest.raises(ValueError, match="queen or rook"):
        lgm.contiguity(frame, rule="bishop")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="this is a DataFrame, no GeoDataFrame"):
        lgm.contiguity(pd.DataFrame({"a": [1]}))
    with pytest.raises(DataError, match="the label a repeats"):
        lgm.contiguity(frame.rename(index={"b": "a"}))
    with pytest.raises(DataError, match="another geometry than a polygon: 0"):
        lgm.contiguity(geopandas.GeoSeries([Point(0, 0)]))
    with pytest.raises(DataError, match="have no geometry: 1"):
        lgm.contiguity(geopandas.GeoSeries([frame.geometry.iloc[0], None]))
    bow = Polygon([(0, 0), (1, 1), (1, 0), (0, 1)])
    with pytest.raises(DataError, match=r"an invalid geometry: 0\n.*make_valid"):
        lgm.contiguity(geopandas.GeoSeries([bow]))


def test_a_geopandas_frame_is_a_table() -> None:
    frame = squares().reset_index().rename(columns={"name": "area"}).assign(y=[1, 2, 3, 4, 5])
    whole = grounded(frame, lgm.contiguity(squares()))
    assert whole.indices["area"].labels.tolist() == ["a", "b", "c", "d", "e"]
