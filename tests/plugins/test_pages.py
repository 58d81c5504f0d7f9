"""Words and parts from outside have pages by the same fields."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest

import lgmdsl as lgm
from lgmdsl.api.help.pages import by_kind, elsewhere, pages
from lgmdsl.extend import also
from lgmdsl.vocabulary.lookup import register, signatures, unregister


def test_words_of_third_parties_have_pages(acme: None) -> None:
    (structure,) = pages("exchangeable")
    assert structure.kind == "structure" and structure.arguments[1].default == "0.5"
    (family,) = pages("geometric")
    assert family.takes == ("count",) and "laplace" in family.methods[0][1]
    (prior,) = pages("lomax")
    assert prior.ways == ("map", "integrate", "em", "vb")
    assert "all pairs are equally correlated" in str(structure)
    assert "exchangeable" in dict(by_kind()["structure"])


def test_another_name_of_a_third_partys_word_is_answered(acme: None) -> None:
    (declared,) = (s for s in signatures("structure") if s.name == "exchangeable")
    named = replace(declared, name="swappable", also_called=also("glmmTMB", "xs"))
    register(named)
    try:
        assert elsewhere("xs") == (("`xs` of glmmTMB is `swappable` here", "swappable"),)
        assert "swappable" in pages("share")[0].see_also
        with pytest.raises(lgm.ModelError, match="`xs` of glmmTMB is `swappable` here"):
            lgm.loads("lgm 1\nindex g\nlatent u[g] ~ xs(sd = 1)\n")
    finally:
        unregister("structure", "swappable")


def test_their_fields_are_missing_where_they_are_not_declared(acme: None) -> None:
    (prior,) = pages("lomax")
    assert "formulas" in prior.missing() and "example" in prior.missing()


def test_methods_and_engines_of_third_parties_have_pages(acme: None) -> None:
    (method,) = pages("fixed-point")
    assert method.kind == "method" and [a.name for a in method.arguments] == ["damping"]
    option = next(p for p in pages("damping") if p.kind == "option")
    assert {a.owner for a in option.arguments} == {"ep", "fixed-point"}
    assert pages("plain")[0].kind == "engine"


def test_builder_words_of_third_parties_have_signatures(acme: None) -> None:
    assert list(inspect.signature(lgm.lomax).parameters) == ["shape", "scale"]
    assert "Pareto of the second kind" in (lgm.lomax.__doc__ or "")
