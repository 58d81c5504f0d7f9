"""`lgm.explain` and `lgm.methods`: what they say is what the compiler and the registry say."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.explain.explain import explain
from lgmdsl.api.explain.methods import MethodTable, ModelMethods, methods
from lgmdsl.api.explain.outline import outline_of
from lgmdsl.contract.questions import Augmented, SuperGaussian
from lgmdsl.contract.site import Property
from lgmdsl.errors import DataError, MethodError
from lgmdsl.inference.registry import backends
from lgmdsl.inference.routes import Refusal, compiled, route
from lgmdsl.sites import catalogue as sites
from tests.compiled import canonical_form

GLMM = (
    "lgm 1\nindex obs\nindex g\ndata y[obs] : count\ndata x[obs] : real\ndata who[obs] : g\n"
    "hyper s : positive ~ exponential(rate = 1)\n"
    "latent b ~ normal(sd = 1)\nlatent u[g] ~ normal(sd = s)\n"
    "let e[obs] = 2 * b * x - u[who] / 3 + 1\nobserve y ~ poisson(log_rate = e)\n"
)
DATA = {"y": np.arange(12) % 3, "x": np.ones(12), "who": np.arange(12) // 3}


def test_form_in_the_users_names() -> None:
    found = explain(lgm.loads(GLMM))
    assert found.sites[0].predictor == ("2 x[obs] b", "- u[who] / 3", "1   (no latent)")
    assert found.engines == () and found.hypers[0].value == ""
    assert found.engine_reason == ""
    assert {n: s for n, s, _ in found.sizes} == {"obs": None, "g": None}


def test_numbers_with_data() -> None:
    found = explain(lgm.loads(GLMM), DATA)
    assert {n: s for n, s, _ in found.sizes} == {"obs": 12, "g": 4}
    operators = {o.latent: (o.rows, o.columns, o.stored) for o in found.sites[0].operators}
    assert operators["u"] == (12, 4, 12) and operators["b"][:2] == (12, 1)
    assert sum(e.chosen for e in found.engines) == 1 and "s" in found.engine_note
    assert explain(lgm.loads(GLMM), DATA, {"s": 0.5}).engine_note == ""


def test_the_engine_is_the_one_that_fits() -> None:
    found = explain(lgm.loads(GLMM), DATA, {"s": 0.5})
    chosen = next(e.name for e in found.engines if e.chosen)
    from lgmdsl.inference.plan import plan

    canonical = canonical_form(GLMM, DATA)
    engine = plan(canonical).at(canonical.hypers.theta({"s": 0.5})).engine
    assert engine.name == chosen
    why = f"{chosen} engine for 12 predictor rows and 5 latents: the cheapest exact engine, "
    assert found.engine_reason.startswith(why) and "2e+11" in found.engine_reason
    assert found.as_json()["engine_reason"] == found.engine_reason
    assert " ".join(found.engine_reason.split()) in " ".join(str(found).split())


def test_wrong_data_are_refused() -> None:
    with pytest.raises(DataError):
        explain(lgm.loads(GLMM), {**DATA, "y": -np.ones(12)})


def test_every_refusal_is_named() -> None:
    model = lgm.loads(
        'lgm 1\nindex t\nindex c = {"a", "b", "d"}\ndata y[t] : real\ndata k[t] : c\n'
        "index j = 2\nhyper h[j, c] : positive = 1\nlatent w[t, c] ~ normal(sd = 1)\n"
        'index d = head(c)\nhyper e[d] : ordered ~ normal(sd = 1)\nlet v[t] = w[t, "a"]\n'
        'let s[t] = sum(conv2(w, h, boundary = "zero"), c)\nlet twice[t] = 2 * s\n'
        "observe y ~ normal(mean = twice, sd = 1)\n"
        "hyper g[c] : ordered ~ normal(sd = 1)\n"
        "observe k ~ ordinal(logit = v, cuts = e, scores = g)\n"
    )
    found = explain(model)
    told = " ".join(d.message for d in found.refused)
    assert all(
        name in told for name in ("kernel", "`ordinal.logit` does not take the argument `scores`")
    )
    assert {d.code for d in found.refused} == {"E501"}
    assert found.engines == () and found.methods.able == ()
    # A predictor that cannot be lowered is shown as it is written, never as nothing.
    assert found.sites[0].predictor == ("2 * s",)
    assert found.sites[1].predictor == ('w[t, "a"]',)


def test_what_methods_says_is_what_fit_does() -> None:
    kinked = lgm.loads(GLMM + "potential u ~ laplace(scale = 1)\n")
    found = methods(kinked)
    assert isinstance(found, ModelMethods)
    verdict = found["laplace"]
    assert not verdict.runs and verdict.reasons[0].code == "E502"
    with pytest.raises(MethodError) as caught:
        lgm.fit(kinked, DATA, method="laplace", fixed={"s": 1})
    assert caught.value.codes == ("E502",)
    smooth = methods(lgm.loads(GLMM))
    others = tuple(
        m
        for m, b in backends().items()
        if not issubclass(SuperGaussian, b.spec.needs) and b.spec.needs is not Augmented
    )
    assert isinstance(smooth, ModelMethods) and smooth.able == others  # counts are none
    assert [v.method for v in smooth] == list(backends()) and len(smooth) == len(backends())
    assert "runs" in str(smooth["laplace"]) and "kink" in str(verdict)


def test_the_table_is_the_routes() -> None:
    table = methods()
    assert isinstance(table, MethodTable)
    cells = {(site, backend): cell for site, backend, cell in table}
    assert len(cells) == len(sites.families()) * len(backends())
    for site in sites.families():
        for name, backend in backends().items():
            assert cells[site.spec.name, name] == route(compiled(site), backend)
    laplace = [isinstance(cells[s.spec.name, "laplace"], Refusal) for s in sites.families()]
    kinked = [Property.KINKED in s.spec.properties for s in sites.families()]
    assert laplace == kinked


def test_markdown_has_a_row_for_each_site() -> None:
    table = methods()
    assert isinstance(table, MethodTable)
    lines = table.markdown().splitlines()
    assert lines[0] == "| site | " + " | ".join(backends()) + " |"
    assert len(lines) == 2 + len(sites.families())
    assert len({line.count("|") for line in lines}) == 1


def test_equal_statements_are_told_apart() -> None:
    text = GLMM + "potential u ~ logistic(scale = 1)\npotential u ~ logistic(scale = 1)\n"
    outline = outline_of(lgm.loads(text))
    assert [b.name for b in outline.blocks.values()] == ["y", "potential 1", "potential 2"]


def test_pinned_values_outside_their_type_do_not_crash() -> None:
    found = explain(lgm.loads(GLMM), DATA, {"s": -1.0})
    assert found.engines == () and "outside its type" in found.engine_note
