"""Which site reaches which back end, directly or lifted by a bound: computed, never written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lgmdsl.bounds.catalogue import bounds, named
from lgmdsl.bounds.weighted import reaching
from lgmdsl.contract.bound import Bound
from lgmdsl.contract.classes import Split
from lgmdsl.contract.joint import SumsOfRows
from lgmdsl.contract.site import Property, Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import MethodError
from lgmdsl.inference.registry import BackendClass
from lgmdsl.sites.catalogue import find_site


@dataclass(frozen=True)
class Route:
    """How the sites of a family answer a back end: themselves (`bound` None) or by a bound."""

    site: type[Site]
    bound: Bound | None
    guarantee: Guarantee

    def answer(self, site: Site) -> object:
        """The object that answers the back end's question for bound sites."""
        if isinstance(site, SumsOfRows):
            return site.by(self.answer)
        return site if self.bound is None else self.bound.lift(site)

    def __str__(self) -> str:
        return "itself" if self.bound is None else f"through {self.bound.spec.name}"


@dataclass(frozen=True)
class Refusal:
    """Why a site cannot reach a back end. `code` is E501, E502 or E504."""

    site: type[Site]
    code: str
    reason: str


def route(site: type[Site], backend: BackendClass, bound: str | None = None) -> Route | Refusal:
    """The route of a family to a back end; with `bound`, only through the bound of that name."""
    spec = backend.spec
    if site.spec.vector and not spec.vector:
        why = f": {spec.only_scalar}" if spec.only_scalar else ""
        return Refusal(site, "E501", f"{site.spec.name} is vector-valued{why}")
    banned = site.spec.properties & spec.forbids
    if Property.KINKED in banned:
        return Refusal(site, "E502", f"{site.spec.name} has a kink, where it has no curvature")
    if banned:
        return Refusal(site, "E501", f"{site.spec.name} is {_words(banned)}")
    lacking = spec.requires & ~site.spec.properties
    if lacking:
        return Refusal(site, "E501", f"{site.spec.name} is not {_words(lacking)}")
    if bound is None and issubclass(site, spec.needs):
        return Route(site, None, Guarantee.EXACT)
    if bound is None and (never := site.never(spec.needs)):
        return Refusal(site, "E501", never)
    reasons = []
    for candidate in bounds() if bound is None else named(bound):
        if candidate.spec.gives is not spec.needs:
            continue
        taking = reaching(candidate, site)
        refused = taking.applies_to(site)
        if not refused:
            return Route(site, taking, candidate.spec.guarantee)
        reasons.append(f"{candidate.spec.name}: {refused}")
    if bound is not None:
        why = (
            "; ".join(r.partition(": ")[2] for r in reasons)
            or f"{spec.name} does not use what it gives"
        )
        return Refusal(site, "E504", f"bound {bound} does not apply to {site.spec.name}: {why}")
    why = "; ".join(reasons) or "no bound gives it"
    return Refusal(site, "E501", f"{site.spec.name} does not answer {spec.needs.__name__}: {why}")


def combined(claim: Guarantee, routes: Iterable[Route]) -> Guarantee:
    """What a log evidence promises whose back end claims `claim` where every site answers exactly.

    An approximate answer anywhere, or an approximate back end, leaves an approximation. Lower
    bounds of site answers bound the evidence from below, as a variational bound does. Numerical
    error takes away EXACT; a lower bound stays one, up to that error (`error_notes` tells it).
    """
    guarantees = {claim, *(r.guarantee for r in routes)}
    weakest_first = (Guarantee.APPROXIMATE, Guarantee.LOWER, Guarantee.NUMERICAL)
    return next((g for g in weakest_first if g in guarantees), Guarantee.EXACT)


def error_notes(routes: Iterable[Route]) -> tuple[str, ...]:
    """How each family that answers through a bound does, with the bound's largest error."""
    return tuple(dict.fromkeys(f"{r.site.spec.name} {r}, {_error(r)}" for r in routes if r.bound))


def _error(through: Route) -> str:
    guarantee = through.guarantee.value
    assert through.bound is not None
    error = through.bound.spec.error
    if through.guarantee is Guarantee.NUMERICAL:
        return f"{guarantee} ({error:g} relative)"
    if through.guarantee is Guarantee.LOWER and math.isfinite(error):
        return f"{guarantee} (by at most {error:.4g} a trial)"
    return guarantee


def answering(site: type[Site], question: type) -> Callable[[Site], object]:
    """How sites of a family answer a question: themselves, or through the first bound that applies.

    Raises MethodError E501 where none does.
    """
    if issubclass(site, question):
        return lambda s: s
    for candidate in bounds():
        taking = reaching(candidate, site)
        if candidate.spec.gives is question and not taking.applies_to(site):
            return taking.lift
    raise MethodError.of(
        "E501", f"{site.spec.name} does not answer {question.__name__}, and no bound does"
    )


def lifted(site: Site, question: type) -> object:
    """What answers a question for sites; sums over rows find that of their rows themselves."""
    return site if isinstance(site, SumsOfRows) else answering(type(site), question)(site)


def compiled(site: type[Site]) -> type[Site]:
    """The family whose sites the compiler makes of a family's: a potential on the distance from y,
    or logistic sites for stick breaking."""
    name = site.into if issubclass(site, Split) else site.spec.centred
    return (find_site(name) if name else None) or site


def _words(properties: Property) -> str:
    names = [p.name or "" for p in Property if p in properties and p is not Property.NONE]
    return " or ".join(n.lower().replace("_", "-") for n in names)
