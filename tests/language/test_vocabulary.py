"""Signatures: complete, consistent, found by name, and open to third parties."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lgmdsl.errors import ModelError
from lgmdsl.graph.build import model_graph
from lgmdsl.graph.warnings import warnings_of
from lgmdsl.language.check.check import check
from lgmdsl.language.parse.parse import parse
from lgmdsl.vocabulary.lookup import (
    CATEGORIES,
    DATA_TYPES,
    HYPER_TYPES,
    elsewhere,
    kin,
    links,
    lookup,
    observing,
    register,
    signatures,
    suited,
    summary,
    unregister,
)
from lgmdsl.vocabulary.signature import Parameter, Signature

EVERY = [s for c in CATEGORIES for s in signatures(c)]

# Names, arguments and defaults are kept in `lgmdsl/__init__.pyi`: `test_stubs_are_up_to_date`.


def test_what_may_be_censored_has_both_ends_and_an_event() -> None:
    """All three or none, and none of them required."""
    ends = ("event", "lower", "upper")
    taken = {s.name: [p for p in ends if s.parameter(p)] for s in signatures("family")}
    assert {n for n, known in taken.items() if known == [*ends]} >= {"normal", "weibull", "gamma"}
    assert all(known in ([], ["event"], [*ends]) for known in taken.values())
    for name, known in taken.items():
        signature = lookup("family", name)
        assert signature is not None
        assert not any(signature.parameter(p).required for p in known)


def test_every_name_of_the_manual_is_known(shared: Path) -> None:
    text = (shared / "LANGUAGE.md").read_text(encoding="utf-8")
    section = text.partition("## Names in the language")[2].partition("- **rewrites**")[0]
    known = {s.name for s in EVERY}
    for code in re.findall(r"`([^`]*)`", section):
        for name in re.findall(r"(?:^|  | )([a-z][a-z0-9_]*)(?=\()", code):
            assert name in known, name


@pytest.mark.parametrize("signature", EVERY, ids=lambda s: f"{s.category}-{s.name}")
def test_signatures_are_consistent(signature: Signature) -> None:
    own = [p.name for p in signature.parameters]
    assert len(set(own)) == len(own)
    assert signature.summary
    assert set(signature.carries_scale) <= set(own)
    for p in signature.parameters:
        assert not (p.required and p.default is not None), p.name
        if p.choices and p.default is not None:
            assert p.default in p.choices
        if p.one_of:
            assert sum(q.one_of == p.one_of for q in signature.parameters) > 1
    if signature.category == "family":
        assert any(p.type == "latent" for p in signature.parameters)
        assert set(signature.observed) <= {*DATA_TYPES, "index"}
    if signature.category == "prior":
        assert signature.observed and set(signature.observed) <= set(HYPER_TYPES)


def test_show() -> None:
    poisson, bernoulli, iid = (
        lookup("family", "poisson"),
        lookup("family", "bernoulli"),
        lookup("structure", "iid"),
    )
    assert poisson and poisson.show() == "poisson(log_rate: latent, exposure: positive = 1)"
    assert bernoulli
    links_of = " | ".join(f"{p.name}: latent" for p in bernoulli.parameters)
    assert bernoulli.show() == f"bernoulli({links_of})"
    assert iid and iid.show() == "iid"
    rw1 = lookup("structure", "rw1")
    assert rw1 and rw1.show() == (
        "rw1(sd: positive, cyclic: bool = false, [at: real], sum_to_zero: bool = true)"
    )


def test_form_is_chosen_by_the_arguments_given() -> None:
    normal = lookup("family", "normal")
    assert normal
    assert normal.form(frozenset(("mean", "sd"))) is normal
    volatility = normal.form(frozenset(("mean", "log_var")))
    assert volatility.parameter("log_var") and not volatility.parameter("sd")
    assert volatility.parameter("mean").type == "real"
    assert normal.form(frozenset()) is normal


def test_lines_for_messages() -> None:
    assert (
        kin("structure", "rw2")
        == "Structures over one ordered axis: rw1 rw2 seasonal ar1 ar ou toeplitz"
    )
    assert kin("structure", "besag") == "Structures over a graph: besag car bym2"
    assert kin("structure", "nothing").startswith("Structures: normal iid")
    assert kin("prior", "pc_cor0").startswith("Hyperpriors for `correlation`: pc_cor0 pc_cor1")
    assert summary("family").startswith("Observation families: normal")
    assert suited("simplex") == ("dirichlet", "flat")
    assert observing("binary") == ("bernoulli",)
    assert observing("index") == ("ordinal", "categorical")
    assert observing("real")[0] == "normal"
    assert elsewhere("structure", "poisson") == "family"
    assert elsewhere("structure", "nothing") is None


def test_a_registered_family_and_structure_can_be_used_in_a_model() -> None:
    gumbel = Signature(
        "gumbel",
        "family",
        (Parameter("location", "latent"), Parameter("scale", "positive")),
        observed=("real",),
        summary="Gumbel",
    )
    wave = Signature(
        "wave",
        "structure",
        (Parameter("sd", "positive", over="none"),),
        ordered_axis=True,
        carries_scale=("sd",),
        summary="a wave",
    )
    text = """lgm 1
index t
data y[t] : real
latent f[t] ~ wave(sd = 1)
observe y ~ gumbel(location = f, scale = 1)
"""
    with pytest.raises(ModelError) as refused:
        check(parse(text))
    assert refused.value.codes == ("E103", "E103")
    try:
        register(gumbel)
        register(gumbel)
        register(wave)
        assert warnings_of(model_graph(check(parse(text)))) == ()
        assert "wave" in kin("structure", "rw1")
        with pytest.raises(ModelError) as twice:
            register(Signature("gumbel", "family", summary="another"))
        assert twice.value.codes == ("E106",)
    finally:
        unregister("family", "gumbel")
        unregister("structure", "wave")
    assert lookup("family", "gumbel") is None
    unregister("family", "gumbel")


LINK = """lgm 1
index obs
data y[obs] : binary
latent a ~ normal(sd = 1)
let eta[obs] = wrylit(a)
observe y ~ coin(p = a)
"""


def test_messages_know_the_links_that_families_declare() -> None:
    coin = Signature(
        "coin",
        "family",
        (
            Parameter("logit", "latent", one_of="link"),
            Parameter("wrylit", "latent", one_of="link"),
        ),
        observed=("binary",),
        summary="a coin",
    )
    register(coin)
    try:
        with pytest.raises(ModelError, match="`wrylit` is a link, not a function") as refused:
            check(parse(LINK))
        assert "the name of an argument: coin(wrylit = eta)" in str(refused.value)
        with pytest.raises(ModelError, match="`a` is on the wrylit scale here"):
            check(parse(LINK.replace("wrylit(a)", "a").replace("p =", "wryli =")))
    finally:
        unregister("family", "coin")
    assert links()["logit"] == "bernoulli" and "softmax" not in links() and "wrylit" not in links()
