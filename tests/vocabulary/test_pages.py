"""Pages: every word has every field of its kind, from its declaration; none is forgotten."""

from __future__ import annotations

import dataclasses

import pytest

from lgmdsl.api.fit.hyper_ways import WAYS
from lgmdsl.api.help.concepts import CONCEPTS, Concept
from lgmdsl.api.help.pages import by_kind, elsewhere, every_page, known_names, near, pages
from lgmdsl.api.help.words import sites_of
from lgmdsl.bounds.catalogue import bounds as all_bounds
from lgmdsl.bounds.catalogue import series
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.engines import choose
from lgmdsl.inference.registry import backends
from lgmdsl.language.catalogue.codes import CATALOGUE
from lgmdsl.language.parse.grammar import RESERVED
from lgmdsl.sites import catalogue as sites
from lgmdsl.vocabulary.lookup import (
    CATEGORIES,
    DATA_TYPES,
    HYPER_TYPES,
    declared,
    lookup,
    names,
    shipped,
    signatures,
    translations,
)
from lgmdsl.vocabulary.page import FIELDS, WIDTH, Page, page_of
from lgmdsl.vocabulary.signature import Alias, Signature

PAGES = every_page()


EACH = pytest.mark.parametrize("page", PAGES, ids=lambda p: f"{p.kind} {p.name}".replace(" ", "-"))


@EACH
def test_no_field_is_missing(page: Page) -> None:
    assert page.missing() == ()
    assert all(a.meaning for a in page.arguments)
    # What is said not to apply is not said all the same.
    assert not [f for f in page.without if getattr(page, f)]
    assert set(page.without) <= set(FIELDS[page.kind])


@EACH
def test_a_page_names_only_what_there_is(page: Page) -> None:
    known = {*(p.name for p in PAGES), *CATALOGUE}
    assert set(page.see_also) <= known
    assert page.name not in page.see_also or len(pages(page.name)) > 1


@EACH
def test_a_page_as_text_holds_its_fields(page: Page) -> None:
    text = str(page)
    joined = " ".join(text.split())
    assert joined.startswith(f"{page.kind} `{page.name}`: ")
    for field in (page.summary, page.scale, page.support, page.source, page.advice):
        assert " ".join(field.split()) in joined
    for _, formula in page.formulas:
        assert " ".join(formula.split()) in joined
    assert len(text) > 200
    shown = [line for line in text.splitlines() if "`" not in line[:40]]
    fixed = (*page.example.splitlines(), *page.text.splitlines(), *page.call.splitlines())
    assert all(len(line) <= WIDTH or line.strip() in {f.strip() for f in fixed} for line in shown)


@EACH
def test_summaries_are_sentences_not_formulas(page: Page) -> None:
    if page.kind == "function" or page.name == "normal":
        return
    assert len(page.summary.split()) >= 2
    assert not page.summary.startswith(("P(", "sd^2", "exp(", "log("))
    assert not page.summary.endswith(".")


def test_every_word_and_part_has_a_page() -> None:
    wanted: dict[str, set[str]] = {
        **{str(c): set(names(c)) for c in CATEGORIES},
        "methods": set(backends()),
        "bounds": {b.spec.name for b in all_bounds()} | {f"{s.stem}-R" for s in series()},
        "engines": set(choose.names()),
        "options": {f.name for b in backends().values() for f in dataclasses.fields(b)},  # type: ignore[arg-type]
        "ways": set(WAYS),
        "statuses": {s.name for s in Status},
        "guarantees": {str(g) for g in Guarantee},
        "types": {*DATA_TYPES, *HYPER_TYPES},
        "reserved": set(RESERVED),
        "topics": {"language", "indices", "data", "hyperparameters", "choosing-a-method"},
        "concepts": {"frailty", "offset", "random-effect", "smooth", "overdispersion", "missing"},
        "arguments": {
            p.name
            for c in CATEGORIES
            for s in signatures(c)
            for form in (s, s.other)
            for p in (form.accepted if form else ())
        },
    }
    known = set(known_names())
    assert {kind: sorted(all_ - known) for kind, all_ in wanted.items() if all_ - known} == {}
    assert {p.name for p in PAGES} == known
    listed = {name for rows in by_kind().values() for name, _ in rows}
    assert listed == known


def test_a_word_with_several_roles_has_a_page_for_each() -> None:
    assert [p.kind for p in pages("normal")] == [
        "observation family", "structure", "hyperprior", "potential",
    ]  # fmt: skip
    assert [p.kind for p in pages("laplace")] == ["observation family", "potential", "method"]
    assert [p.kind for p in pages("gamma")] == ["observation family", "hyperprior"]
    assert [p.kind for p in pages("log")] == ["function", "bound"]
    assert [p.kind for p in pages("data")] == ["statement", "topic"]
    assert pages("no_such_word") == ()


def test_a_series_has_one_page_for_all_its_members() -> None:
    assert pages("piecewise-quadratic-12") == pages("piecewise-quadratic-R") != ()
    assert pages("piecewise-quadratic-99") == ()


def test_near_names() -> None:
    assert near("rw", known_names())[:2] == ("rw1", "rw2")
    assert "besag" in near("bessag", known_names())
    assert near("qqqqqq", known_names()) == near("", known_names()) == ()


def test_methods_are_those_that_sites_and_methods_declare() -> None:
    (family, *_) = pages("laplace")
    assert family.methods[0][1].endswith("; not laplace, px-vb")
    (potential,) = (p for p in pages("normal") if p.kind == "potential")
    assert potential.methods == (("", "all"),)
    (structure,) = pages("rw2")
    assert structure.methods == (("", "all"),)
    shown = {s.spec.name for c in ("family", "potential") for d in shipped(c) for s in sites_of(d)}
    assert shown == {s.spec.name for s in sites.families()}


def test_priors_say_which_treatments_take_them() -> None:
    (page,) = pages("graphical_lasso")
    assert page.ways == ("map", "em")
    (page,) = pages("pc_sd")
    assert page.ways == ("map", "integrate", "em", "vb")


def test_an_empty_field_of_a_declaration_is_missing() -> None:
    """The test above can fail: a declaration that lacks a field is found."""
    bare = dataclasses.replace(declared("structure", "rw2"), scale="", example="")
    assert page_of(bare).missing() == ("scale", "methods", "example")
    assert "source" in page_of(Signature("x", "prior", summary="a prior")).missing()


def test_a_page_is_plain_data() -> None:
    (page,) = pages("rw2")
    fields = page.as_json()
    assert fields["kind"] == "structure" and fields["arguments"][0]["name"] == "sd"
    assert set(FIELDS["structure"]) <= set(fields)


DECLARED = [
    (s, p)
    for c in CATEGORIES
    for s in signatures(c)
    for form in (s, s.other)
    for p in (form.accepted if form else ())
]


@pytest.mark.parametrize("name", sorted({p.name for _, p in DECLARED}))
def test_every_argument_is_answered_with_the_words_that_take_it(name: str) -> None:
    (page,) = (p for p in pages(name) if p.kind == "argument")
    takers = [(s, p) for s, p in DECLARED if p.name == name]
    assert set(page.see_also) == {s.name for s, _ in takers}
    text = " ".join(str(page).split())
    for signature, parameter in takers:
        row = next(a for a in page.arguments if a.meaning.startswith(parameter.meaning))
        assert parameter.show() in text and row.meaning in text
        assert any(
            signature.name in a.meaning.rpartition("(")[2]
            for a in page.arguments
            if a.meaning.startswith(f"{parameter.meaning} (")
        )


ALIASES = [(s, a) for c in CATEGORIES for s in shipped(c) for a in s.also_called]


@pytest.mark.parametrize(
    ("signature", "alias"), ALIASES, ids=[f"{s.category}-{a.name}" for s, a in ALIASES]
)
def test_a_name_of_other_software_leads_to_the_word(signature: Signature, alias: Alias) -> None:
    assert lookup(signature.category, alias.name) is not signature
    for written in (alias.name, alias.name.replace(".", "_"), alias.name.upper()):
        rows = [e for e in elsewhere(written) if e.name == signature.name]
        assert any(alias.of in e.sentence and alias.name in e.sentence for e in rows)
    assert f"{alias.name} ({alias.of})" in page_of(signature).also_called
    # One name of one software has one meaning within a category.
    same = [t for t in translations(alias.name, signature.category) if t.alias.of == alias.of]
    assert [t.signature for t in same] == [signature]


def test_names_of_other_software() -> None:
    meant = {
        "pc_prec": "pc_sd", "loggamma": "inv_gamma", "besagproper": "car", "z": "normal",
        "generic0": "gmrf", "nbinom2": "negbinomial", "ordered_logistic": "ordinal",
        "zero_inflated_poisson": "poisson", "zeroinflatednbinomial0": "negbinomial",
        "student": "student_t", "lkj": "lkj_cov", "RBF": "se", "bym": "bym2",
    }  # fmt: skip
    assert {name: elsewhere(name)[0].name for name in meant} == meant
    assert ("`iid` of R-INLA is `normal` here", "normal") in elsewhere("iid")
    assert elsewhere("trials")[0].name == "n"
    assert elsewhere("map") == (("--map is the option `mapping`", "mapping"),)
    assert elsewhere("no_such_word") == elsewhere("") == elsewhere(".") == ()
    assert [e.name for e in elsewhere("y ~ x")] == ["formula"]


@pytest.mark.parametrize("concept", CONCEPTS, ids=lambda c: c.name)
def test_a_concept_is_found_by_each_of_its_names(concept: Concept) -> None:
    assert "concept" in [p.kind for p in pages(concept.name)]
    for name in concept.names[1:]:
        for written in (name, name.upper(), name.replace(" ", "_"), name.replace(" ", "-")):
            assert concept.name in {e.name for e in elsewhere(written)}, written
