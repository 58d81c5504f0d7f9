"""Every back end takes the shipped conformance checks, on as many forms of problems as it can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

import lgmdsl as lgm
from lgmdsl.contract.backend import BackendSpec, option
from lgmdsl.inference import registry
from lgmdsl.testing.backend_checks import check_backend
from lgmdsl_backends.catalogue import BACKENDS
from lgmdsl_backends.inducing import Inducing
from lgmdsl_backends.stochastic import StochasticGradient

FORMS = {
    "cholesky": 5, "coordinate-ascent": 5, "coordinate-descent": 3, "double-loop": 3, "ep": 5,
    "inducing": 5, "laplace": 5, "lcl": 5, "map": 5, "mean-field": 5, "natural-gradient": 5,
    "opper-archambeau": 5, "px-vb": 2, "stochastic": 5,
}  # fmt: skip
LONG = [pytest.param(name, marks=pytest.mark.thorough) for name in ("inducing", "stochastic")]


@dataclass(frozen=True)
class Six(Inducing):
    directions: int = option(6, "latents of each dense block")
    spec: ClassVar[BackendSpec] = replace(Inducing.spec, name="inducing-six")


@dataclass(frozen=True)
class ByFours(StochasticGradient):
    minibatch: int = option(4, "rows of a batch")
    spec: ClassVar[BackendSpec] = replace(StochasticGradient.spec, name="by-fours")


@pytest.fixture
def registered() -> Iterator[None]:
    for part in (Six, ByFours):
        lgm.register(part)
    yield
    for part in (Six, ByFours):
        registry.unregister(part)


@pytest.mark.parametrize(
    "name", [*(n for n in FORMS if n not in ("inducing", "stochastic")), *LONG]
)
def test_it_conforms(name: str) -> None:
    assert check_backend(BACKENDS[name]) == FORMS[name]


@pytest.mark.thorough
@pytest.mark.parametrize("part", [Six, ByFours])
def test_it_conforms_with_fewer_directions_or_rows(part: Any, registered: None) -> None:
    assert check_backend(part) == 5


def test_every_back_end_is_checked() -> None:
    assert BACKENDS.keys() == FORMS.keys()
