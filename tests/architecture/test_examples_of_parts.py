"""The example in the docstring of each kind's base class is a part that runs."""

from __future__ import annotations

import doctest
from collections.abc import Iterator

import pytest

from lgmdsl import extend
from lgmdsl.inference import registry
from lgmdsl.testing.engine_checks import check_engine

OBJECTS = {
    **{n: getattr(extend, n) for n in ("Site", "Bound", "Structure", "Elementwise", "Kernel")},
    "Engine": extend,
    "Backend": extend.Backend,
}


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What an example registers is taken out again."""
    before = registry.registered()
    yield
    for entry in registry.registered():
        if entry not in before:
            registry.unregister(entry.part)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", OBJECTS)
def test_the_example_runs(name: str) -> None:
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(OBJECTS[name], name, globs={})
    assert any("register" in e.source for e in example.examples)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    outcome = runner.run(example, out=said.append, clear_globs=False)
    assert outcome.failed == 0, "".join(said)
    if name == "Engine":
        assert check_engine(example.globs["Plain"]) >= 6
