"""Plans for streamed models."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lgmdsl.contract.questions import Expected, Pointwise
from lgmdsl.contract.site import Property, Site
from lgmdsl.errors import Diagnostic, MethodError, listed
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.registry import backends
from lgmdsl.inference.routes import Route
from lgmdsl.streams.collective import ExpectedPlaces, Places, PointwisePlaces
from lgmdsl.streams.model import StreamedModel

ANSWERED = {Pointwise: PointwisePlaces, Expected: ExpectedPlaces}


@dataclass(frozen=True)
class PlacesRoute(Route):
    """How the rows of places answer; places answer by them."""

    needs: type = Pointwise

    def answer(self, site: Site) -> object:
        if not isinstance(site, Places):
            return super().answer(site)
        return ANSWERED[self.needs](site.spec, site.rows, super().answer)


def streamed_plan(planned: Plan, model: StreamedModel) -> Plan:
    """The plan for a streamed model, from that for its sample.

    Raises MethodError E501 for methods that know more of sites than the sum of log t, and for sites
    that are not log-concave."""
    spec = planned.backend.spec
    if not spec.additive or spec.needs not in ANSWERED or not spec.vector:
        able = [
            n
            for n, b in backends().items()
            if b.spec.additive and b.spec.needs in ANSWERED and b.spec.vector
        ]
        raise MethodError(
            Diagnostic(
                "E501",
                f"method `{planned.method}` cannot read rows by batches",
                help=f"methods that can: {listed(able)}; or keep all rows in memory: "
                "--option rows=kept",
            )
        )
    for block, gather in zip(model.blocks, model.gathers, strict=True):
        if gather is not None and Property.LOG_CONCAVE not in block.site.spec.properties:
            raise MethodError(
                Diagnostic(
                    "E501",
                    f"the rows of `{block.name}` cannot be read by batches",
                    block.span,
                    f"{block.family.spec.name} is not log-concave: other optima would be looked "
                    "for row by row",
                    help="keep all rows in memory: --option rows=kept",
                )
            )
    routes = tuple(
        r if g is None else PlacesRoute(r.site, r.bound, r.guarantee, spec.needs)
        for r, g in zip(planned.routes, model.gathers, strict=True)
    )
    return replace(planned, canonical=model, routes=routes)
