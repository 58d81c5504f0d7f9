"""What the graph says depends on what, against brute force on the canonical form."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import networkx as nx
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.grounding.ground import ground
from lgmdsl.canonical.lowering.bym2 import owner
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.loadings import roots
from lgmdsl.compile import canonicalise
from lgmdsl.contract.structure import Shape
from lgmdsl.dataset import read
from lgmdsl.graph.build import model_graph
from lgmdsl.graph.model_graph import SITES, ModelGraph, NodeKind
from lgmdsl.graph.warnings import warnings_of
from lgmdsl.language.tree import ast
from lgmdsl.sites.catalogue import find_site
from tests.compiled import canonical_form

RNG = np.random.default_rng(7)
DATA = {
    "y0": RNG.normal(size=6), "y1": RNG.normal(size=6), "y2": RNG.normal(size=6),
    "x0": RNG.uniform(1, 2, 6), "x1": RNG.uniform(1, 2, 6),
    "m": np.array([0, 1, 2, 0, 1, 2]),
    "adj": np.array([[0, 1], [1, 2]]),
}  # fmt: skip
HEAD = """lgm 1
index i
index j = 3
data y0[i] : real
data y1[i] : real
data y2[i] : real
data x0[i] : positive
data x1[i] : positive
data m[i] : j
data adj[j, j] : graph
"""
HYPERS = [
    "{name} : positive ~ exponential(rate = {scale})",
    "{name} : positive = 1 + 2 * {scale}",
    "{name}[j] : positive ~ exponential(rate = {scale})",
]
LATENTS = [
    ("{name}", "{name} ~ normal(sd = {scale})"),
    ("{name}[m]", "{name}[j] ~ normal(sd = {scale})"),
    ("{name}[m]", "{name}[j] ~ rw1(sd = {scale})"),
    ("{name}[m]", "{name}[j] ~ bym2(graph = adj, sd = {scale}, mix = 0.5)"),
    ("{name}", "{name}[i] ~ gp(at = {place}, kernel = se(sd = 1, length = {scale}))"),
]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A right model: lets of lets, hypers in hypers, some declared in vain. All coefficients are
    positive, so that nothing cancels."""
    lines, scales = [HEAD], ["1.5"]
    for k in range(draw(st.integers(0, 4))):
        form = draw(st.sampled_from(HYPERS))
        lines.append("hyper " + form.format(name=f"s{k}", scale=draw(st.sampled_from(scales))))
        if "[" not in form:
            scales.append(f"s{k}")
    places = ["x0"]
    if draw(st.booleans()):
        lines.append("let place[i] = x0 + 2 * x1")
        places.append("place")
    terms = []
    for k in range(draw(st.integers(1, 4))):
        value, form = draw(st.sampled_from(LATENTS))
        scale, place = draw(st.sampled_from(scales)), draw(st.sampled_from(places))
        lines.append("latent " + form.format(name=f"u{k}", scale=scale, place=place))
        terms.append(value.format(name=f"u{k}"))
    vectors = [f"s{k}[m]" for k in range(4) if any(f"hyper s{k}[j]" in line for line in lines)]
    factors = st.sampled_from([*scales, *vectors, "x0", "x1"])
    for k in range(draw(st.integers(0, 4))):
        chosen = draw(st.lists(st.sampled_from(terms), min_size=1, max_size=3))
        lines.append(f"let e{k}[i] = " + " + ".join(f"{draw(factors)} * {t}" for t in chosen))
        terms.append(f"e{k}")
    for k in range(draw(st.integers(1, 3))):
        term, scale = draw(st.sampled_from(terms)), draw(st.sampled_from(scales))
        form = draw(
            st.sampled_from(
                [
                    f"observe y{k} ~ normal(mean = {term}, sd = {scale})",
                    f"observe y{k} ~ laplace(mean = {term}, scale = {scale})",
                    f"potential {term} ~ laplace(scale = {scale})",
                ]
            )
        )
        lines.append(form)
    return "\n".join(lines) + "\n"


def compiled(text: str) -> CanonicalModel:
    data = {k: v for k, v in DATA.items() if f"data {k}[" in text}
    return canonical_form(text, data)


ANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@ANY
@given(texts())
def test_latents_enter_the_rows_that_the_graph_says(text: str) -> None:
    canonical = compiled(text)
    graph = canonical.grounded.graph
    predictors = canonical.linear(canonical.hypers.start()).predictors
    for node, predictor in zip(graph.of_kind(*SITES), predictors, strict=True):
        entered = {owner(name) for name, op in predictor.columns.items() if op.dense().any()}
        assert entered == set(graph.touched[node.id]), node.id


@ANY
@given(texts(), st.floats(1.05, 1.4))
def test_hypers_change_what_the_graph_says(text: str, factor: float) -> None:
    canonical = compiled(text)
    graph, space = canonical.grounded.graph, canonical.hypers
    theta = space.start()
    before = state(canonical, theta)
    for name in space.free:
        free = {n: theta[n] for n in space.free} | {name: factor * theta[name]}
        after = state(canonical, space.filled(free))
        changed = {
            id
            for id in before
            if any(not np.array_equal(a, b) for a, b in zip(before[id], after[id], strict=True))
        }
        said = {id for id in before if name in made_of(graph, id, space.free)}
        assert changed == said, name


def made_of(graph: ModelGraph, id: str, free: tuple[str, ...]) -> tuple[str, ...]:
    """What a prior or a site is made of at given values of the free hypers and the latents; sd and
    mix of a bym2 are coefficients of its two blocks, in the sites that they enter."""
    maps = {node.id for node in graph.of_kind("latent") if "bym2" in node.text}
    if id in maps:
        return ()
    parts = [id, *(maps & {*graph.touched.get(id, ())})]
    return graph.behind(parts, through=("let", "hyper"), stop=free)


def state(canonical: CanonicalModel, theta: Theta) -> dict[str, list[Array]]:
    """The numbers of every prior and of every site, without the latents."""
    graph, linear = canonical.grounded.graph, canonical.linear(theta)
    out: dict[str, list[Array]] = {node.id: [] for node in graph.of_kind("latent", *SITES)}
    for block in linear.blocks:
        for structure in block.factors:
            proper = Shape.COVARIANCE in structure.shape
            matrix = structure.covariance() if proper else structure.precision()
            dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
            out[owner(block.name)].append(dense)
    sites = zip(graph.of_kind(*SITES), canonical.blocks, linear.predictors, strict=True)
    for node, site, predictor in sites:
        out[node.id] += [op.dense() for op in predictor.columns.values()]
        out[node.id] += [predictor.offset, *site.parameter_values(theta).values()]
    return out


@ANY
@given(texts(), st.sets(st.sampled_from(["s0", "s1", "s2", "s3"])))
def test_free_hypers_behind_names(text: str, pinned: set[str]) -> None:
    """Against a walk over the values in the space of hyperparameters."""
    canonical = compiled(text)
    space = canonical.hypers

    def walked(name: str) -> set[str]:
        block = space.block(name)
        assert block is not None
        if name in pinned:
            return set()
        if block.value is None:
            return {name}
        return {root for below in block.value.depends for root in walked(below)}

    for block in space.blocks:
        assert roots(canonical, [block.name], pinned) == walked(block.name)


@ANY
@given(texts())
def test_reachability_is_that_of_networkx(text: str) -> None:
    graph = model_graph(lgm.loads(text).checked)
    own: nx.DiGraph[str] = nx.DiGraph(
        (e.source, e.target) for e in graph.edges if e.role != "observed"
    )
    own.add_nodes_from(node.id for node in graph.nodes)
    for node in graph.nodes:
        assert set(graph.depends(node.id)) == nx.ancestors(own, node.id)
        assert set(graph.ahead([node.id], graph_kinds(graph))) == nx.descendants(own, node.id)
    assert set(graph.digraph.nodes) == {node.id for node in graph.nodes}
    assert graph.digraph.number_of_edges() == len(graph.edges)
    joined: nx.Graph[str] = nx.Graph()
    joined.add_nodes_from(node.id for node in graph.of_kind("latent"))
    for factor in graph.of_kind(*SITES, "constrain"):
        nx.add_path(joined, [n for n in nx.ancestors(own, factor.id) if n in joined])
    assert {frozenset(part) for part in graph.components} == {
        frozenset(part) for part in nx.connected_components(joined)
    }


def graph_kinds(graph: ModelGraph) -> tuple[NodeKind, ...]:
    return tuple({node.kind for node in graph.nodes})


@ANY
@given(texts(), st.randoms())
def test_lowering_follows_the_graph_and_not_the_text(text: str, random: Random) -> None:
    """The language wants names declared before they are used; the compiler does not."""
    model = lgm.loads(text).checked
    data = {k: v for k, v in DATA.items() if f"data {k}[" in text}
    statements = list(model.tree.statements)
    movable = [k for k, s in enumerate(statements) if isinstance(s, ast.Let | ast.Hyper)]
    turned = list(movable)
    random.shuffle(turned)
    shuffled = list(statements)
    for k, other in zip(movable, turned, strict=True):
        shuffled[k] = statements[other]
    symbols = dict(sorted(model.symbols.items(), key=lambda item: item[0], reverse=True))
    tree = replace(model.tree, statements=tuple(shuffled))
    graph = model_graph(replace(model, tree=tree, symbols=symbols))
    position = {node.id: k for k, node in enumerate(graph.order)}
    assert len(position) == len(graph.nodes)
    assert all(position[e.source] < position[e.target] for e in graph.edges if e.role != "observed")
    one = canonicalise(ground(model_graph(model), read(data)), find_site)
    two = canonicalise(ground(graph, read(data)), find_site)
    theta = one.hypers.start()
    assert two.hypers.start().keys() == theta.keys()
    first, second = one.linear(theta), two.linear(two.hypers.start())
    for a, b in zip(first.predictors, second.predictors, strict=True):
        assert a.columns.keys() == b.columns.keys()
        assert all(np.array_equal(a.columns[n].dense(), b.columns[n].dense()) for n in a.columns)
        assert np.array_equal(a.offset, b.offset)


@ANY
@given(texts())
def test_warnings_say_what_the_canonical_form_shows(text: str) -> None:
    canonical = compiled(text)
    graph = canonical.grounded.graph
    predictors = canonical.linear(canonical.hypers.start()).predictors
    seen = {owner(name) for predictor in predictors for name in predictor.columns}
    warned = {(w.code, w.span.start) for w in warnings_of(graph)}
    for node in graph.of_kind("latent"):
        assert isinstance(node.statement, ast.Latent)
        place, used = node.statement.name.span.start, bool(graph.targets[node.id])
        assert (("W102", place) in warned) == (used and node.id not in seen)
        assert (("W101", place) in warned) == (not used)
    idle = [k for k, p in enumerate(predictors) if not p.columns]
    assert len(idle) == sum(code == "W104" for code, _ in warned)
