"""Every structure that ships keeps the contract, as the example of its page has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.language.load import loads
from lgmdsl.structures import catalogue
from lgmdsl.testing.structure_checks import check_structure
from lgmdsl.vocabulary.lookup import shipped
from tests.compiled import canonical_form
from tests.vocabulary.synthetic import data_for

SIGNATURES = [s for s in shipped("structure") if not s.rewritten]


def slopes_of(structure: Structure) -> set[str]:
    """The arguments that have slopes."""
    if Shape.COVARIANCE in structure.shape:
        return {*structure.pullback_covariance(np.zeros((structure.size, structure.size)))}
    return {*structure.pullback_precision(structure.precision())}


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda s: s.name)
def test_the_structure_of_the_example_conforms(
    signature: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, dict[str, Any]]] = []
    build = catalogue.structure

    def noted(name: str, size: int, **values: Any) -> Structure:
        if name == signature.name:
            made.append((size, values))
        return build(name, size, **values)

    monkeypatch.setattr(catalogue, "structure", noted)
    model = loads(signature.example)
    canonical = canonical_form(model, data_for(model))
    canonical.linear(canonical.hypers.start({}))
    assert made, "the example has no such latent"
    size, values = made[-1]
    free = slopes_of(build(signature.name, size, **values)) & {*values}
    assert free >= {"sd"} & {*values}

    def at(arguments: Any) -> Structure:
        return build(signature.name, size, **{**values, **arguments})

    # a matrix moves as a whole, in its own test: entry by entry it is not symmetric
    varied: dict[str, Array] = {k: np.asarray(values[k]) for k in free if np.ndim(values[k]) < 2}
    check_structure(at, varied)
