"""Catalogues list their parts by module and name: every line imports what it says, no part that
ships is missing, and nothing is imported before it is used."""

from __future__ import annotations

import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

import lgmdsl.priors
import lgmdsl.sites
import lgmdsl.structures
import lgmdsl_backends
from lgmdsl.contract.backend import Backend
from lgmdsl.contract.catalogue import Catalogue, part
from lgmdsl.contract.site import Site
from lgmdsl.contract.structure import Structure
from lgmdsl.inference.kinds import name_of
from lgmdsl.priors.catalogue import PRIORS
from lgmdsl.priors.prior import Prior
from lgmdsl.sites.catalogue import SITES
from lgmdsl.structures.catalogue import KERNELS, STRUCTURES, Declared
from lgmdsl.structures.kernels import Kernel, Product, Sum
from lgmdsl_backends.catalogue import BACKENDS

TABLES: list[tuple[Any, Any, type, set[type]]] = [
    (SITES, lgmdsl.sites, Site, set()),
    (PRIORS, lgmdsl.priors, Prior, set()),
    (STRUCTURES, lgmdsl.structures, Structure, set()),
    (KERNELS, lgmdsl.structures, Kernel, {Sum, Product}),  # written as + and *
    (BACKENDS, lgmdsl_backends, Backend, set()),
]


def concrete(package: Any, base: type) -> set[type]:
    """The classes of a package that can be made, by their own names."""
    names = [m.name for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
    return {
        cls
        for module in (import_module(n) for n in names)
        for cls in vars(module).values()
        if isinstance(cls, type)
        and issubclass(cls, base)
        and cls.__module__ == module.__name__
        and not inspect.isabstract(cls)
        and (hasattr(cls, "spec") or getattr(cls, "signature", None) is not None)
        and not cls.__name__.startswith("_")
    }


@pytest.mark.parametrize(("table", "package", "base", "operators"), TABLES, ids=lambda t: "")
def test_every_part_that_ships_stands_in_its_catalogue_under_its_name(
    table: Catalogue[Any], package: Any, base: type, operators: set[type]
) -> None:
    listed = {
        name: entry.part if isinstance(entry, Declared) else entry for name, entry in table.items()
    }
    assert all(name_of(entry) == name for name, entry in listed.items())
    assert set(listed.values()) == concrete(package, base) - operators


def test_a_part_is_imported_once_when_it_is_first_asked_for() -> None:
    imports: list[str] = []
    parts = {"one": "ONE", "two": "TWO"}

    def line(name: str) -> Callable[[], str]:
        def load() -> str:
            imports.append(name)
            return parts[name]

        return load

    table: Catalogue[str] = Catalogue({"one": line("one"), "two": line("two")})
    table["three"] = "mine"
    assert [*table] == ["one", "two", "three"] and "two" in table and len(table) == 3
    assert imports == []
    assert table["two"] == table["two"] == table.get("two") == "TWO" and imports == ["two"]
    assert table.ships("two", "TWO") and not table.ships("two", "other")
    assert not table.ships("three", "mine") and imports == ["two"]
    assert table.shipped() == ("ONE", "TWO") and imports == ["two", "one"]
    assert table.setdefault("one", "else") == "ONE"
    del table["one"]
    assert [*table] == ["two", "three"] and table.shipped() == ("TWO",)
    with pytest.raises(KeyError):
        table["four"]
    assert part("math", "inf")() == float("inf")


UNUSED = """
import sys
import lgmdsl as lgm
model = lgm.loads('''
lgm 1
index obs
data x[obs] : real
data y[obs] : binary
latent b ~ normal(sd = 2)
observe x ~ normal(mean = b, sd = 1)
observe y ~ bernoulli(logit = b)
''')
lgm.fit(model, {"x": [0.3, -0.2], "y": [1, 0]}, method="laplace")
print(*sys.modules)
"""


def test_a_fit_imports_the_parts_it_uses() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNUSED], capture_output=True, text=True, check=True, timeout=240
    )
    loaded = set(done.stdout.split())
    assert {"lgmdsl.sites.scalar.normal", "lgmdsl_backends.laplace"} <= loaded
    assert not loaded & {
        "lgmdsl.sites.scalar.survival",
        "lgmdsl.sites.vector.multinomial_probit",
        "lgmdsl.sites.ordinal.cumulative",
        "lgmdsl.structures.ordered.walks",
        "lgmdsl.structures.stationary",
        "lgmdsl.priors.bounded",
        "lgmdsl_backends.ep.backend",
        "lgmdsl_backends.px_vb.backend",
    }
