"""What refusals of labels name, and the remedies that they give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.errors import DataError, ModelError, NumericalError

MODEL = """lgm 1
index obs
index school{size}
data who[obs] : school
data y[obs] : real
latent u[school] ~ {prior}
let eta[obs] = u[who]
observe y ~ normal(mean = eta, sd = 1)
"""
Y = np.arange(8.0)


def model(prior: str, size: str = "") -> lgm.Model:
    return lgm.loads(MODEL.format(prior=prior, size=size))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_new_member_that_nothing_determines_is_named_by_its_label() -> None:
    fit = lgm.fit(model("flat"), {"who": ["a", "b", "c", "d"] * 2, "y": Y})
    with pytest.raises(NumericalError, match=r"E602.*determines u\[e\]$"):
        fit.predict({"who": ["e", "a"]}).mean("eta")


def test_text_labels_of_a_sized_index_want_it_without_the_size() -> None:
    data = {"who": ["a", "b", "c", "d"] * 2, "y": Y}
    with pytest.raises(DataError, match="write `index school` without a size") as caught:
        lgm.fit(model("normal(sd = 1)", " = 5"), data)
    assert caught.value.codes == ("E302",)
    assert lgm.fit(model("normal(sd = 1)"), data).converged, "the remedy works"


@pytest.mark.parametrize("prior", ["ar1(sd = 1, rho = 0.5)", "rw1(sd = 1)", "ou(sd = 1, rate = 1)"])
@pytest.mark.parametrize("more", [{}, {"school": [False, True]}], ids=["map", "key"])
def test_truth_values_are_no_places_of_a_line(prior: str, more: dict[str, list[bool]]) -> None:
    data = {"who": [True, False] * 4, "y": Y, **more}
    with pytest.raises(DataError, match="holds truth values, which have no distances") as caught:
        lgm.fit(model(prior), data)
    assert caught.value.codes == ("E302",)


def test_truth_values_name_members_without_an_order() -> None:
    fit = lgm.fit(model("normal(sd = 1)"), {"who": [True, False] * 4, "y": Y})
    assert fit.mean("u")["school"].values.tolist() == [0, 1]


MAP = """lgm 1
index obs
index region
data y[obs] : count
data where[obs] : region
data edges[region, region] : graph
latent u[region] ~ besag(graph = edges, sd = 1)
observe y ~ poisson(log_rate = u[where])
"""


def test_a_graph_is_wanted_next_to_a_table(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("y,where\n1,a\n2,b\n0,c\n3,a\n")
    model = lgm.loads(MAP)
    with pytest.raises(DataError) as caught:
        lgm.fit(model, table)
    (problem,) = caught.value.diagnostics
    assert problem.code == "E305" and "mapping" not in problem.help
    assert problem.help.startswith("a graph is not a column: give a list, the table and")
    shown = problem.on_command_line().help
    assert shown.startswith("a graph is not a column: --data edges=FILE, two columns")
    edges = np.array([["a", "b"], ["b", "c"]])
    assert lgm.fit(model, [table, {"edges": edges}]).converged
    arrays = tmp_path / "all.npz"
    np.savez(arrays, y=[1, 2, 0, 3], where=["a", "b", "c", "a"], edges=edges)
    assert lgm.fit(model, arrays).converged


def test_a_matrix_is_not_a_column_of_a_similar_name(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("y,x1,x2\n1,0.1,0.2\n2,0.3,0.1\n")
    text = (
        "lgm 1\nindex obs\nindex feat\ndata y[obs] : real\ndata X[obs, feat] : real\n"
        "latent b[feat] ~ normal(sd = 1)\nobserve y ~ normal(mean = X @ b, sd = 1)\n"
    )
    with pytest.raises(DataError, match="if its columns are x1 to x2: mapping="):
        lgm.fit(lgm.loads(text), table)
    with pytest.raises(DataError, match="an array of 2 axes is not a column"):
        lgm.fit(lgm.loads(text.replace("X", "design")), table)
    fit = lgm.fit(lgm.loads(text), [table, {"X": [[0.1, 0.2], [0.3, 0.1]]}])
    assert fit.converged
    assert lgm.fit(lgm.loads(text), table, mapping={"X": ["x1", "x2"]}).converged


def test_words_of_a_binary_column_are_refused_with_the_values_that_are_taken(
    tmp_path: Path,
) -> None:
    text = (
        "lgm 1\nindex obs\ndata y[obs] : binary\nlatent b ~ normal(sd = 2)\n"
        "observe y ~ bernoulli(logit = b)\n"
    )
    table = tmp_path / "rows.csv"
    table.write_text("y\nyes\nno\nyes\n")
    with pytest.raises(DataError) as caught:
        lgm.fit(lgm.loads(text), table)
    (problem,) = caught.value.diagnostics
    assert problem.help == '0 and 1, or False and True, are taken: y == "yes"'
    shown = problem.on_command_line().help
    assert shown.endswith('false and true, are taken: write e.g. 1 for "yes" and 0 for "no"')
    for yes, no in (("1", "0"), ("true", "false"), ("TRUE", "FALSE"), ("True", "False")):
        table.write_text(f"y\n{yes}\n{no}\n{yes}\n")
        assert lgm.fit(lgm.loads(text), table).converged


GROUPED = """lgm 1
index obs
index region
data y[obs] : count
data where[obs] : region
latent u[region] ~ normal(sd = 1)
observe y ~ poisson(log_rate = u[where])
"""


def test_a_reversed_renaming_is_turned() -> None:
    model, table = lgm.loads(GROUPED), {"y": [1, 2, 0], "region": ["a", "b", "a"]}
    with pytest.raises(DataError) as caught:
        lgm.fit(model, table, mapping={"region": "where"})
    remedy = 'the name in the model comes first: mapping={"where": "region"}'
    assert remedy in [d.help for d in caught.value.diagnostics]
    counts = {"n": [1, 2, 0], "where": ["a", "b", "a"]}
    with pytest.raises(DataError, match="comes first") as caught:
        lgm.fit(model, counts, mapping={"n": "y"})
    assert caught.value.diagnostics[0].help.endswith('mapping={"y": "n"}')
    assert lgm.fit(model, counts, mapping={"y": "n"}).converged
    fit = lgm.fit(model, table, mapping={"where": "region"})
    assert fit.predict(table).mean("u").size == 2  # a fit keeps its mapping
    fit = lgm.fit(model, {"y": [1, 2, 0], "where": ["a", "b", "a"]})
    with pytest.raises(DataError) as caught:
        fit.predict(table)
    helps = [d.help for d in caught.value.diagnostics if d.code == "E305"]
    assert helps == ['if `region` is it: mapping={"where": "region"}']
    assert fit.predict(table, mapping={"where": "region"}).mean("u").size == 2


def test_a_covariate_that_predictions_lack_is_no_scale_of_the_response() -> None:
    text = GROUPED.replace("= u[where]", "= u[where] + x").replace(
        "latent", "data x[obs] : real\nlatent"
    )
    fit = lgm.fit(lgm.loads(text), {"y": [1, 2], "where": ["a", "b"], "x": [0.1, 0.2]})
    with pytest.raises(DataError, match="missing `x`") as caught:
        fit.predict({"where": ["a", "b", "b"]})
    assert "scale" not in str(caught.value)


def test_a_latent_over_a_map_is_shown_the_index() -> None:
    with pytest.raises(ModelError) as caught:
        lgm.loads(GROUPED.replace("u[region]", "u[where]"))
    help = caught.value.diagnostics[0].help
    assert (
        help
        == "`where` maps obs to region: write [region] here, and gather by [where] in a predictor"
    )
