"""Routes are computed from declarations: directly, through a bound, or a refusal with its code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from lgmdsl.bounds.catalogue import bounds
from lgmdsl.bounds.softmax import SoftmaxByQuadrature
from lgmdsl.bounds.vector_quadrature import VectorByQuadrature
from lgmdsl.bounds.vector_tilted import VectorTilted
from lgmdsl.contract.backend import Backend, BackendSpec
from lgmdsl.contract.questions import Augmented, Expected, Pointwise, SuperGaussian, Tilted
from lgmdsl.contract.site import Property, Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.inference.routes import Refusal, Route, route
from lgmdsl.sites.catalogue import find_site, sites
from tests.sites.examples import example


def backend(needs: type, **spec: object) -> type[Backend]:  # type: ignore[type-arg]
    @dataclass(frozen=True)
    class Made(Backend):  # type: ignore[type-arg]
        spec: ClassVar[BackendSpec]

    Made.spec = BackendSpec("made", needs, **spec)  # type: ignore[arg-type]
    return Made


def site(name: str) -> type[Site]:
    found = find_site(name)
    assert found is not None
    return found


SCALAR = [s.spec.name for s in sites() if not s.spec.vector]


@pytest.mark.parametrize("question", [Pointwise, Expected, Tilted])
@pytest.mark.parametrize("name", SCALAR)
def test_every_site_reaches_the_questions_of_this_version(question: type, name: str) -> None:
    found = route(site(name), backend(question))
    if Property.LIMITED in site(name).spec.properties and question is Expected:
        assert isinstance(found, Refusal) and "-inf under every Gaussian" in found.reason
        return
    assert isinstance(found, Route)
    if issubclass(site(name), question):
        assert found.bound is None and found.guarantee is Guarantee.EXACT
    else:
        assert found.bound is not None and found.bound.spec.gives is question


@pytest.mark.parametrize("name", [s.spec.name for s in sites() if s.spec.vector])
def test_vector_sites_have_expectations_and_tilted_moments(name: str) -> None:
    through = route(site(name), backend(Expected))
    assert isinstance(through, Route) and through.bound is not None
    best = "tilted" if name.startswith("admixture") else "quadrature"
    assert through.bound.spec.name == best
    tilting = route(site(name), backend(Tilted))
    if site(name).spec.shared:
        assert isinstance(tilting, Refusal) and "shared by all rows" in tilting.reason
    elif not issubclass(site(name), Tilted):
        assert isinstance(tilting, Route) and isinstance(tilting.bound, VectorTilted)


@pytest.mark.parametrize("name", SCALAR)
def test_an_answer_is_what_the_back_end_asked_for(name: str) -> None:
    cls = site(name)
    for question in (Expected, Tilted):
        found = route(cls, backend(question))
        if Property.LIMITED in cls.spec.properties and question is Expected:
            continue
        assert isinstance(found, Route)
        assert isinstance(found.answer(example(name, 3)), question)


def test_refusals_name_the_property() -> None:
    kinked = route(site("laplace.mean"), backend(Pointwise, forbids=Property.KINKED))
    assert isinstance(kinked, Refusal) and kinked.code == "E502"
    lacking = route(site("poisson.log_rate"), backend(Tilted, requires=Property.SUPER_GAUSSIAN))
    assert isinstance(lacking, Refusal) and "not super-gaussian" in lacking.reason
    assert isinstance(route(site("poisson.log_rate"), backend(SuperGaussian)), Refusal)
    assert isinstance(route(site("bernoulli.logit"), backend(SuperGaussian)), Route)
    assert isinstance(route(site("bernoulli.logit"), backend(Augmented)), Refusal)


def test_a_named_bound_is_used_or_refused_with_e504() -> None:
    through = route(site("bernoulli.logit"), backend(Tilted), "quadrature")
    assert isinstance(through, Route) and through.bound is not None
    wrong = route(site("bernoulli.logit"), backend(Pointwise), "quadrature")
    assert isinstance(wrong, Refusal) and wrong.code == "E504"


def test_bounds_declare_their_error() -> None:
    for b in bounds():
        assert b.spec.guarantee in Guarantee
        if b.spec.guarantee is Guarantee.NUMERICAL:
            of_vectors = isinstance(b, SoftmaxByQuadrature | VectorByQuadrature)
            assert 0.0 < b.spec.error < (1e-2 if of_vectors else 1e-6)
