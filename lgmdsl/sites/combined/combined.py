"""Families made from other families: a factory for each way, and how such classes are pickled.

A derived family is made once from a base family (`functools.cache` of its factory) and named after
it, `poisson.log_rate.truncated`. Its fields are those of the base and what the combination adds.
No catalogue lists it: the compiler makes it from the arguments that a model gives.
"""

from __future__ import annotations

import copyreg
import dataclasses
from abc import ABCMeta
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.site import Site, SiteSpec
from lgmdsl.sites.formula import Formula

Factory = Callable[[type[Site]], type[Site]]


class Combined(ABCMeta):
    """The class of derived families: pickled as the factory and the base that made them."""

    recipe: tuple[Callable[..., Any], tuple[type[Site]]]


def _recipe(cls: Combined) -> str | tuple[Callable[..., Any], tuple[Any, ...]]:
    return cls.recipe if "recipe" in vars(cls) else cls.__qualname__


copyreg.pickle(Combined, _recipe)


class CombinedSite(Site, metaclass=Combined):
    """Sites made from those of `base`; its fields are the base's, then what is added."""

    base: ClassVar[type[Site]]

    @classmethod
    def never(cls, question: type) -> str:
        return cls.base.never(question)

    @cached_property
    def plain(self) -> Site:
        """The sites of the base family, without what was added."""
        return self.base(**self.base_fields())

    def base_fields(self) -> dict[str, Any]:
        """What `plain` is made of."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self.base)}

    @property
    def evaluations(self) -> int:
        return self.plain.evaluations

    def reason(self, row: int) -> str:
        return self.plain.reason(row)

    def landmark(self) -> tuple[Array, Array] | None:
        return self.plain.landmark()

    @property
    def censored(self) -> BoolArray:
        return self.plain.censored

    def conditional_mean(self, s: Array) -> Array:
        return self.plain.conditional_mean(s)

    def conditional_variance(self, s: Array) -> Array:
        return self.plain.conditional_variance(s)

    def sample(self, s: Array, rng: np.random.Generator) -> Array:
        return self.plain.sample(s, rng)

    def cdf(self, s: Array) -> Array:
        return self.plain.cdf(s)

    def endless(self, s: Array) -> Array:
        return self.plain.endless(s)


def derived(
    factory: Factory,
    base: type[Site],
    parts: Sequence[type],
    spec: SiteSpec,
    added: Sequence[str],
    more: Mapping[str, object],
) -> type[Site]:
    """The class of sites with the fields of `base` and those `added`, made of `parts`."""
    fields = [(f.name, Array) for f in dataclasses.fields(base)]
    fields += [(name, Array) for name in added]
    words = spec.name.replace(".", " ").replace("_", " ").title().replace(" ", "")
    namespace = {
        "base": base,
        "spec": spec,
        "broadcasts": base.broadcasts,
        "infinite_in": infinite_in(base),
        "recipe": (factory, (base,)),
        "__module__": __name__,
        "__doc__": spec.summary,
        **more,
    }
    if base.cdf is Site.cdf:  # a family need not have one
        namespace |= {"cdf": Site.cdf, "distribution": Site.distribution}
    made = dataclasses.make_dataclass(
        words, fields, bases=tuple(parts), namespace=namespace, frozen=True, eq=False
    )
    return cast("type[Site]", made)


def infinite_in(base: type[Site]) -> frozenset[str]:
    """`Formula.infinite_in` of a family, none where it has no formula."""
    return base.infinite_in if issubclass(base, Formula) else frozenset()


def spec_of(
    base: type[Site], suffix: str, added: Mapping[str, float | None], **more: Any
) -> SiteSpec:
    """Specification of a family with further parameters, `added`."""
    spec = base.spec
    return dataclasses.replace(
        spec,
        name=f"{spec.name}.{suffix}",
        parameters={**spec.parameters, **added},
        takes=(),
        rewrite="",
        centred="",
        **more,
    )
