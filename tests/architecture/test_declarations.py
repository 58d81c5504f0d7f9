"""One declaration of each part: no class and no builder holds a name, a default or a type of its
own that could differ from it."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lgmdsl.contract.site import Site
from lgmdsl.priors.catalogue import PRIORS
from lgmdsl.priors.prior import Prior
from lgmdsl.sites.catalogue import SITES
from lgmdsl.structures.catalogue import KERNELS, STRUCTURES, Declared
from lgmdsl.vocabulary.lookup import declared, shipped, signatures
from lgmdsl.vocabulary.signature import Category

BUILT = [("structure", b) for b in STRUCTURES.values()] + [("kernel", b) for b in KERNELS.values()]


@pytest.mark.parametrize("site", SITES.shipped(), ids=lambda s: s.spec.name)
def test_sites(site: type[Site]) -> None:
    spec = site.spec
    assert spec.signature is declared("potential" if spec.potential else "family", spec.family)
    assert spec.form is not None and spec.summary
    assert spec.observed == (() if spec.potential else spec.signature.observed[:1])
    for name, value in spec.parameters.items():
        known = spec.form.parameter(name)
        assert known is not None
        wanted = known.left_out
        assert value == wanted or (wanted is not None and math.isnan(wanted) and value is not None)
    held = {f.name for f in dataclasses.fields(site)} - ({"y"} - set(spec.parameters))
    assert held == set(spec.parameters)
    assert all(f.default is dataclasses.MISSING for f in dataclasses.fields(site))


@pytest.mark.parametrize(("category", "builder"), BUILT, ids=lambda b: getattr(b, "part", b))
def test_structures_and_kernels(category: Category, builder: Declared) -> None:
    signature = declared(category, builder.part.name)
    assert builder.part.signature is signature
    given = inspect.signature(builder.make).parameters.values()
    # an argument without a value has none to differ; any other default is the declaration's
    assert all(p.default in (inspect.Parameter.empty, None) for p in given)
    takes = {p.name for p in given if p.kind is not inspect.Parameter.VAR_KEYWORD} - {"size"}
    takes -= {"order"}  # the size, of classes that are their own builders
    assert takes <= {p.name for p in signature.parameters}
    expected: dict[str, Any] = {**dict.fromkeys(signature.scales, 1.0), **signature.defaults}
    assert {k: np.asarray(v).item() for k, v in builder.defaults.items()} == expected


@pytest.mark.parametrize("prior", PRIORS.values(), ids=lambda p: p.name)
def test_priors(prior: type[Prior]) -> None:
    signature = declared("prior", prior.name)
    assert prior.signature is signature
    held = {f.name: f for f in dataclasses.fields(prior) if f.name != "type"}
    assert set(held) == {p.name for p in signature.parameters}
    for parameter in signature.parameters:
        default = held[parameter.name].default_factory
        if default is not dataclasses.MISSING:
            assert float(default()) == parameter.left_out
        assert held[parameter.name].default is dataclasses.MISSING


@pytest.mark.parametrize("category", ["structure", "kernel", "prior"])
def test_every_word_has_a_class(category: Category) -> None:
    tables: dict[str, Any] = {"structure": STRUCTURES, "kernel": KERNELS, "prior": PRIORS}
    assert {s.name for s in signatures(category) if not s.rewritten} == set(tables[category])


@pytest.mark.parametrize("category", ["family", "potential"])
def test_every_link_has_a_site(category: Category) -> None:
    known = {s.spec.name for s in SITES.shipped()}
    for signature in signatures(category):
        forms = [f for f in (signature, signature.other) if f is not None]
        links = [p.name for f in forms for p in f.parameters if p.linking]
        wanted = {f"{signature.name}.{link}" for link in links} or {signature.name}
        assert wanted <= known
        assert all(signature.formula(link) for link in links or [""])


@pytest.mark.parametrize("category", ["family", "potential", "structure", "kernel", "prior"])
def test_arguments_say_what_they_mean(category: Category) -> None:
    for signature in signatures(category):
        assert signature.summary
        assert [p.name for p in signature.parameters if not p.meaning] == []


# Pages by hand that list all words of a kind, or the part that ships them.
LISTS: list[tuple[Category, str]] = [
    ("structure", "docs/mathematics/structures.md"),
    ("structure", "docs/language/structures.md"),
    ("structure", "lgmdsl/structures/README.md"),
    ("kernel", "docs/language/structures.md"),
    ("family", "lgmdsl/sites/README.md"),
    ("potential", "docs/language/potentials-and-constraints.md"),
    ("potential", "lgmdsl/sites/README.md"),
    ("prior", "lgmdsl/priors/README.md"),
    ("operator", "docs/language/algebra.md"),
]


@pytest.mark.parametrize(("category", "page"), LISTS)
def test_every_word_is_on_the_pages_that_list_its_kind(
    root: Path, category: Category, page: str
) -> None:
    words = set(re.findall(r"\w+", (root / page).read_text(encoding="utf-8")))
    assert [s.name for s in shipped(category) if s.name not in words] == []
