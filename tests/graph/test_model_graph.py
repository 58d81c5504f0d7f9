"""What stands in the graph, and what is derived from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.errors import LgmError
from lgmdsl.graph.build import model_graph
from lgmdsl.graph.model_graph import FACTORS, ModelGraph, NodeKind
from lgmdsl.language.load import load, loads
from lgmdsl.language.tree.statements import STATEMENTS, StatementDescriptor
from tests.vocabulary.synthetic import data_for

GLMM = """lgm 1
index obs
index subject
index feat
data y[obs] : count
data X[obs, feat] : real
data who[obs] : subject
data time[obs] : positive "exposure, days"
hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)
latent b0 ~ normal(sd = 10)
latent b[feat] ~ normal(sd = 2.5)
latent u[subject] ~ normal(sd = s)
let eta[obs] = b0 + X @ b + u[who]
observe y ~ poisson(log_rate = eta, exposure = time)
"""


def graph_of(text: str) -> ModelGraph:
    return model_graph(loads(text).checked)


def test_nodes_and_edges_of_a_glmm() -> None:
    graph = graph_of(GLMM)
    assert [n.id for n in graph.nodes] == [
        "y",
        "X",
        "who",
        "time",
        "s",
        "b0",
        "b",
        "u",
        "eta",
        "observe y",
    ]
    site = graph.by_id["observe y"]
    assert (site.kind, site.label, site.dims) == ("observe", "poisson.log_rate", ("obs",))
    assert {(e.source, e.target, e.role, e.argument) for e in graph.edges} == {
        ("s", "u", "argument", "sd"),
        ("b0", "eta", "value", ""),
        ("X", "eta", "value", ""),
        ("b", "eta", "value", ""),
        ("u", "eta", "value", ""),
        ("who", "eta", "map", ""),
        ("y", "observe y", "observed", ""),
        ("eta", "observe y", "argument", "log_rate"),
        ("time", "observe y", "argument", "exposure"),
    }
    assert graph.by_id["time"].doc == "exposure, days"
    assert graph.by_id["X"].shown == "X[obs, feat]"


def test_derived_facts_of_a_glmm() -> None:
    graph = graph_of(GLMM)
    assert graph.touched == {"observe y": ("b0", "b", "u")}
    assert graph.components == (("b0", "b", "u"),)
    assert graph.observed == ("y",)
    assert graph.plates["obs"] == ("y", "X", "who", "time", "eta", "observe y")
    assert graph.plates["subject"] == ("u",)
    assert graph.latents_of("s") == ()
    assert len(graph.order) == len(graph.nodes)


def test_components_are_separated_by_sites_and_joined_by_constraints() -> None:
    apart = """lgm 1
index i
data y[i] : real
data x[i] : real
latent a[i] ~ normal(sd = 1)
latent b[i] ~ normal(sd = 1)
latent c ~ normal(sd = 1)
observe y ~ normal(mean = a, sd = 1)
observe x ~ normal(mean = b, sd = 1)
"""
    graph = graph_of(apart)
    assert graph.components == (("a",), ("b",), ("c",))
    joined = graph_of(apart + "constrain a - b = 0\n")
    assert joined.components == (("a", "b"), ("c",))
    assert joined.of_kind("constrain")[0].dims == ("i",)


@pytest.mark.parametrize(
    ("family", "site"),
    [
        ("normal(mean = eta, sd = 1)", "normal.mean"),
        ("normal(mean = 0, log_var = eta)", "normal.log_var"),
        ("normal(log_var = eta, mean = 1)", "normal.log_var"),
        ("student_t(mean = eta, scale = 1, df = 4)", "student_t.mean"),
        ("laplace(mean = eta, scale = 1)", "laplace.mean"),
    ],
)
def test_site_names_say_the_link(family: str, site: str) -> None:
    text = f"""lgm 1
index i
data y[i] : real
latent u[i] ~ normal(sd = 1)
let eta[i] = 2 * u
observe y ~ {family}
"""
    assert graph_of(text).of_kind("observe")[0].label == site


def test_a_datum_that_is_observed_and_an_input_makes_no_circle() -> None:
    graph = graph_of("""lgm 1
index i
data y[i] : real
latent a ~ normal(sd = 1)
let eta[i] = a * y
observe y ~ normal(mean = eta, sd = 1)
""")
    assert len(graph.order) == len(graph.nodes)
    assert graph.touched == {"observe y": ("a",)}


def test_potentials_take_the_indices_of_their_expression() -> None:
    graph = graph_of("""lgm 1
index row = 4
index col = 5
data y[row, col] : real
latent u[row, col] ~ flat
observe y ~ normal(mean = u, sd = 1)
potential sum(u, col) ~ laplace(scale = 1)
potential u["0", col] - u["1", col] ~ laplace(scale = 1)
potential u ~ laplace(scale = 2)
potential u ~ laplace(scale = 3)
""")
    found = graph.of_kind("potential")
    assert [n.dims for n in found] == [("row",), ("col",), ("row", "col"), ("row", "col")]
    assert len({n.id for n in found}) == 4
    assert all(graph.touched[n.id] == ("u",) for n in found)


def test_index_sets_know_their_sizes() -> None:
    graph = graph_of("""lgm 1
index day = 1..366
index class = {"a", "b", "c"}
index cut = head(class)
index k = 3
index obs
data y[obs] : real
latent u[day, class, k] ~ normal(sd = 1)
latent v[cut] ~ normal(sd = 1)
latent m ~ normal(sd = 1)
let eta[obs] = m
observe y ~ normal(mean = eta, sd = 1)
""")
    sizes = {i.name: i.size for i in graph.index_sets}
    assert sizes == {"day": 366, "class": 3, "cut": 2, "k": 3, "obs": None}
    labels = {i.name: i.labels for i in graph.index_sets}
    assert labels["cut"] == ("a", "b")


def test_the_longest_sums_are_read() -> None:
    terms = " + ".join(["a"] * 250)
    graph = graph_of(f"""lgm 1
index i
data y[i] : real
latent a[i] ~ normal(sd = 1)
let eta[i] = {terms}
observe y ~ normal(mean = eta, sd = 1)
potential {terms} ~ laplace(scale = 1)
""")
    assert graph.of_kind("potential")[0].dims == ("i",)
    assert graph.touched["observe y"] == ("a",)


def test_every_example_is_acyclic_and_its_sites_touch_latents(shared: Path) -> None:
    files = sorted((shared / "examples").glob("*.lgm"))
    assert len(files) >= 15
    for file in files:
        graph = model_graph(load(file).checked)
        assert len(graph.order) == len(graph.nodes), file.name
        assert graph.touched, file.name
        assert all(graph.touched.values()), file.name


def test_nodes_and_factors_are_the_statements_that_are_described() -> None:
    """What declares no name multiplies the density of the latents."""
    assert set(get_args(NodeKind)) == {s.word for s in STATEMENTS if s.in_graph}
    assert set(FACTORS) == {s.word for s in STATEMENTS if not s.declares}


@pytest.mark.parametrize("described", STATEMENTS, ids=lambda s: s.word)
def test_a_statement_mentions_what_its_text_names(described: StatementDescriptor) -> None:
    """All declared names in its text but its own, in the graph of the model of its page."""
    model = loads(described.notes.example)
    graph = model_graph(model.checked)
    for node in graph.nodes:
        if node.kind != described.word:
            continue
        text = re.sub(r"(?<=[(,])\s*\w+ =|\"[^\"]*\"", "", node.text)  # arguments' names, labels
        words = set(re.findall(r"[A-Za-z_]\w*", text))
        named = {n for n in words if n in graph.by_id and n != node.id}
        assert {e.source for e in graph.edges if e.target == node.id} == named


@pytest.mark.parametrize("word", FACTORS)
def test_the_fit_depends_on_every_factor(word: str) -> None:
    """A statement that the compiler does not read would be a wrong answer without a word."""
    (example,) = (s.notes.example for s in STATEMENTS if s.word == word)
    lines = example.splitlines()
    last = max(k for k, line in enumerate(lines) if line.startswith(f"{word} "))
    whole = loads(example)
    without = loads("\n".join(lines[:last] + lines[last + 1 :]) + "\n")
    data = {**data_for(without), **data_for(whole)}
    evidences = []
    for model in (whole, without):
        try:
            fit = lgm.fit(model, data, "natural-gradient", options={"correction": "off"})
            evidences.append(fit.log_evidence)
        except LgmError:  # no site is left
            evidences.append(float("nan"))
    assert np.isfinite(evidences[0])
    assert not abs(evidences[0] - evidences[1]) < 1e-3
