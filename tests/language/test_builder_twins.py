"""Each example model, once from its text and once in Python: the trees are equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from lgmdsl.language.builder import Model
from lgmdsl.language.load import loads
from lgmdsl.language.parse.parse import parse
from tests.language.twins import TWINS


@pytest.mark.parametrize("name", sorted(TWINS))
def test_twin(name: str, shared: Path) -> None:
    text = (shared / "examples" / f"{name}.lgm").read_text(encoding="utf-8")
    built = TWINS[name]()
    assert built.tree == parse(text, name)
    assert built == loads(text, name)


@pytest.mark.parametrize("name", sorted(TWINS))
def test_twin_survives_its_own_text(name: str) -> None:
    built = TWINS[name]()
    assert loads(built.to_lgm()) == built
    assert built.checked.tree == built.tree


def test_every_example_has_a_twin(shared: Path) -> None:
    assert {p.stem for p in (shared / "examples").glob("*.lgm")} == set(TWINS)


def test_models_differ() -> None:
    models = [make() for make in TWINS.values()]
    assert all((a == b) == (a is b) for a in models for b in models)
    assert Model() != "lgm 1\n"
