"""What shards do not take is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.shards import eliminate, gathered
from tests.shards.models import S, folder, rows, text

METHODS: dict[str, tuple[dict[str, Any], str]] = {
    "opper": ({"method": "opper-archambeau"}, "method `opper-archambeau` cannot fit shards"),
    "ep": ({"method": "ep", "options": {"mode": "sequential"}}, "mode=sequential cannot walk"),
    "cholesky": ({"method": "cholesky"}, "method `cholesky` cannot fit shards"),
    "mean": ({"method": "laplace", "options": {"correct_mean": True}}, "option of `laplace`"),
    "vb": ({"hyper": "vb"}, "`hyper = vb` cannot fit shards"),
    "em": ({"hyper": "em"}, "`hyper = em` cannot fit shards"),
    "rows": ({"options": {"rows": "streamed"}}, "`rows = streamed` is for one table"),
}


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = rows("crossed", 120)
    data["other"] = data["who"]
    return folder(tmp_path_factory.mktemp("shards") / "shards", data)


@pytest.mark.parametrize("case", METHODS)
def test_methods_and_options(case: str, shards: Path) -> None:
    arguments, message = METHODS[case]
    with pytest.raises(lgm.MethodError, match=message) as caught:
        lgm.fit(lgm.loads(text("poisson")), shards, **arguments)
    assert caught.value.codes == ("E501",) and caught.value.diagnostics[0].help


def test_hypers_in_the_predictor_have_no_slope_of_an_average(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where modes take them."""
    latents, eta = "u[group] ~ normal(sd = 1)", "a + b * x + s * u[who]"
    model = lgm.loads(text("poisson", latents=latents, eta=eta))
    monkeypatch.setattr(gathered, "reason_against", lambda *_: "")
    with pytest.raises(lgm.MethodError, match="hyper `s` is in the predictor") as caught:
        lgm.fit(model, shards, "natural-gradient")
    assert "laplace and map" in str(caught.value.diagnostics[0].help)


def test_methods_that_can_are_named(shards: Path) -> None:
    with pytest.raises(lgm.MethodError) as caught:
        lgm.fit(lgm.loads(text("poisson")), shards, "lcl")
    assert caught.value.diagnostics[0].help == (
        "methods that can: laplace, natural-gradient, ep, double-loop and map"
    )


MODELS = {
    "no map": (
        text("poisson").replace("who", "what"),
        "groups of `who`, which is no map in the model",
    ),
    "two maps": (
        text(
            "poisson",
            declared=f"{S}\ndata other[obs] : group",
            eta="a + b * x + u[who] - u[other]",
        ),
        "`other` leads to `group` too",
    ),
    "no group": (
        text("poisson", latents="u ~ normal(sd = s)", eta="a + b * x + u"),
        "no latent is over `group`",
    ),
    "flat": (text("poisson", latents="u[group] ~ flat", declared=""), "is improper"),
    "hypers": (
        text(
            "poisson",
            declared="hyper s[group] : positive ~ gamma(shape = 2, rate = 2)",
            latents="u[group] ~ normal(sd = s)",
        ),
        "hyper `s` is over `group`",
    ),
    "heavy tails": (
        text("gaussian", family="student_t(mean = eta, scale = t, df = 4)"),
        "student_t.mean is not log-concave",
    ),
    "constraint": (text("poisson") + "constrain sum(u, group) = 0\n", "joined by a sum"),
    "not in the predictor": (
        text("poisson", eta="a + b * x"),
        "no latent over `group` is in the predictor",
    ),
    "data of groups": (
        text(
            "poisson",
            declared=f"{S}\ndata n[group] : real",
            latents="u[group] ~ normal(mean = n, sd = s)",
        ),
        "`n` is over `group`, and a shard holds rows alone",
    ),
    "report": (text("poisson") + "report r[group] = exp(u)\n", "report `r` is of the groups"),
    "sum": (
        text("poisson", eta="a + b * (x - sum(x, obs)) + u[who]"),
        "joined by a sum",
    ),
    "all over groups": (
        text("poisson")
        .replace("latent a ~ normal(sd = 5)", "")
        .replace("latent b ~ normal(sd = 2)", "")
        .replace("a + b * x + u[who]", "u[who]")
        .replace("data x[obs] : real\n", ""),
        "all latents are over `group`",
    ),
    "twice": (
        text("poisson", declared=f"{S}\ndata n[obs] : count")
        + "observe n ~ poisson(log_rate = eta)\n",
        "observed over the same rows",
    ),
}


@pytest.mark.parametrize("case", MODELS)
def test_models(case: str, shards: Path) -> None:
    model, message = MODELS[case]
    with pytest.raises(lgm.LgmError, match=message) as caught:
        lgm.fit(lgm.loads(model), shards)
    assert set(caught.value.codes) <= {"E501", "E306"} and caught.value.diagnostics[0].help


def test_next_to_hypers_in_the_predictor_the_remedy_works(shards: Path) -> None:
    """Rows by batches are none: they do not take these."""
    declared = f"{S}\nhyper l[group] : positive ~ gamma(shape = 2, rate = 2)"
    model = lgm.loads(text("poisson", declared=declared, eta="a + b * x + l[who] * u[who]"))
    with pytest.raises(lgm.MethodError, match="hyper `l` is over `group`") as caught:
        lgm.fit(model, shards, fixed={"s": 0.5, "l": 1.0})
    assert '{"rows": "kept"}' in (caught.value.diagnostics[0].help or "")
    kept = lgm.fit(
        model,
        shards.with_suffix(".parquet"),
        fixed={"s": 0.5, "l": 1.0},
        options={"rows": "kept"},
    )
    assert kept.converged


@pytest.mark.parametrize("prior", ["rw1(sd = s)", "ar1(sd = s, rho = 0.5)"])
def test_priors_that_join_groups(prior: str, tmp_path: Path) -> None:
    data = rows("poisson", 90)
    data["who"] = np.array([int(label[1:]) for label in data["who"]])
    model = lgm.loads(text("poisson", latents=f"u[group] ~ {prior}"))
    with pytest.raises(lgm.MethodError, match=r"is improper|joins members of `group`") as caught:
        lgm.fit(model, folder(tmp_path / "shards", data))
    assert caught.value.codes == ("E501",)


def test_lets_reports_and_potentials_of_shared_latents_are_kept(shards: Path) -> None:
    more = "let c = a + 2 * b\nreport e = exp(b)\npotential b ~ normal(sd = 0.5)\n"
    model = lgm.loads(text("poisson") + more)
    one = lgm.fit(model, shards, fixed={"s": 0.5})
    other = lgm.fit(model, shards.with_suffix(".parquet"), "laplace", fixed={"s": 0.5})
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)
    for name in ("c", "e"):
        np.testing.assert_allclose(one.mean(name), other.mean(name), rtol=1e-5)


def test_what_a_fit_does_not_hold(shards: Path) -> None:
    fit = lgm.fit(lgm.loads(text("poisson")), shards, fixed={"s": 0.5})
    questions = (
        lambda: fit.predict({"x": [0.1], "who": ["g1"]}),
        lambda: fit.loo(),
        lambda: fit.audit(),
        lambda: fit.sample_predictive(3),
        lambda: fit.augment(),
    )
    for question in questions:
        with pytest.raises(lgm.MethodError, match="lie in shards") as caught:
            question()
        assert caught.value.codes == ("E501",)
    with pytest.raises(lgm.ModelError, match="`u`, which is of groups that lie in shards"):
        fit["u"]
    with pytest.raises(lgm.ModelError, match="does not hold `eta`"):
        fit["eta"]
    other = lgm.fit(lgm.loads(text("poisson")), rows("poisson"), "laplace", fixed={"s": 0.5})
    with pytest.raises(lgm.MethodError, match="holds the latents of its groups"):
        other.groups(shards, shards / "none")


def test_a_label_that_one_shard_alone_names_is_a_member_everywhere(tmp_path: Path) -> None:
    data = rows("crossed", 120)
    data["what"] = np.where(data["who"] == "g3", 77, data["what"])
    place = folder(tmp_path / "shards", data, 4)
    model = lgm.loads(text("crossed"))
    fixed = {"s": 0.5, "t": 0.5}
    one = lgm.fit(model, place, fixed=fixed)
    other = lgm.fit(model, place.with_suffix(".parquet"), "laplace", fixed=fixed)
    assert 77 in one["v"].coords["item"].values
    labels = other["v"].coords["item"].values
    np.testing.assert_allclose(one.mean("v").sel(item=labels), other.mean("v"), atol=1e-6)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)


@pytest.mark.parametrize(("column", "value"), [("x", np.nan), ("x", np.inf), ("y", -1), ("y", 0.5)])
def test_numbers_that_cannot_be_are_refused_with_their_shard(
    column: str, value: float, tmp_path: Path
) -> None:
    data = rows("poisson", 120)
    data[column] = data[column].astype(float)
    data[column][50] = value
    with pytest.raises(
        lgm.DataError, match=r"those of shards that were read first|in shard-0000\d.parquet"
    ):
        lgm.fit(lgm.loads(text("poisson")), folder(tmp_path / "s", data), fixed={"s": 0.5})


def test_a_column_that_is_absent(tmp_path: Path) -> None:
    data = rows("poisson", 60)
    del data["x"]
    with pytest.raises(lgm.DataError) as caught:
        lgm.fit(lgm.loads(text("poisson")), folder(tmp_path / "s", data))
    assert caught.value.codes == ("E305",)


def test_columns_of_other_names(tmp_path: Path) -> None:
    data = rows("poisson", 120)
    plain = lgm.fit(lgm.loads(text("poisson")), folder(tmp_path / "a", data), fixed={"s": 0.5})
    named = {"age": data["x"], "who": data["who"], "y": data["y"]}
    mapped = lgm.fit(
        lgm.loads(text("poisson").replace("who", "patient")),
        folder(tmp_path / "b", named),
        fixed={"s": 0.5},
        mapping={"x": "age", "patient": "who"},
    )
    assert mapped.log_evidence == plain.log_evidence
    out = mapped.groups(tmp_path / "b", tmp_path / "g", mapping={"x": "age", "patient": "who"})
    assert len(out) == 3


def test_a_posterior_that_is_improper_is_refused(tmp_path: Path) -> None:
    """Classes that are separated, and two latents for one level."""
    data = rows("binary", 90)
    data["y"] = (data["x"] > 0.0).astype(float)
    declared = text("binary", a="flat").replace("latent b ~ normal(sd = 2)", "latent b ~ flat")
    with pytest.raises(lgm.ModelError, match="does not fall") as caught:
        lgm.fit(lgm.loads(declared), folder(tmp_path / "apart", data), fixed={"s": 0.5})
    assert caught.value.codes == ("E402",)
    level = {**rows("binary", 90), "x": np.ones(90)}
    with pytest.raises(lgm.ModelError) as caught:
        lgm.fit(lgm.loads(declared), folder(tmp_path / "level", level), fixed={"s": 0.5})
    assert caught.value.codes == ("E402",)


def test_groups_that_the_model_names_are_written_once(tmp_path: Path) -> None:
    data = rows("poisson", 120, 6)
    names = ", ".join(f'"g{i}"' for i in range(8))
    model = lgm.loads(text("poisson").replace("index group", f"index group = {{{names}}}"))
    place = folder(tmp_path / "shards", data)
    fit = lgm.fit(model, place, fixed={"s": 0.5})
    other = lgm.fit(model, place.with_suffix(".parquet"), "laplace", fixed={"s": 0.5})
    assert fit.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)
    parts = [pd.read_parquet(p) for p in fit.groups(place, tmp_path / "groups")]
    groups = pd.concat(parts).set_index("who")
    assert sorted(groups.index) == sorted(set(data["who"]))
    order = other.mean("u").sel(group=groups.index.values)
    np.testing.assert_allclose(groups["u.mean"], order, atol=1e-5)


def test_a_mode_that_is_not_reached_is_no_answer(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups given two steps where they take some six: no value, rather than a wrong one."""
    monkeypatch.setattr(eliminate, "STEPS", 2)
    with pytest.raises(lgm.NumericalError) as caught:
        lgm.fit(lgm.loads(text("poisson")), shards, fixed={"s": 0.5})
    assert caught.value.codes == ("E601",)
