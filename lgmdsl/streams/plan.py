"""Plans for streamed models."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lgmdsl.contract.backend import BackendSpec
from lgmdsl.contract.questions import Expected, Pointwise
from lgmdsl.contract.site import Site
from lgmdsl.errors import Diagnostic, MethodError, listed
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.registry import backends
from lgmdsl.inference.routes import Route
from lgmdsl.remedies import setting
from lgmdsl.streams.collective import ExpectedPlaces, Places, PointwisePlaces
from lgmdsl.streams.model import StreamedModel
from lgmdsl.streams.refusals import reason_against, refused

ANSWERED = {Pointwise: PointwisePlaces, Expected: ExpectedPlaces}


@dataclass(frozen=True)
class PlacesRoute(Route):
    """How the rows of places answer; places answer by them."""

    needs: type = Pointwise

    def answer(self, site: Site) -> object:
        if not isinstance(site, Places):
            return super().answer(site)
        return ANSWERED[self.needs](site.spec, site.rows, super().answer)


def check_streamed(planned: Plan, index: str, hyper: str) -> None:
    """Raise MethodError E501 where the rows of an index cannot be streamed: for a method that knows
    more of sites than the sum of log t, and for sites that `reason_against` names. `planned`: for
    some of the rows; `hyper`: how hyperparameters are to be learned."""
    if not _able(planned.backend.spec):
        able = [n for n, b in backends().items() if _able(b.spec)]
        raise MethodError(_other(f"method `{planned.method}`", f"methods that can: {listed(able)}"))
    if hyper == "vb":
        raise MethodError(_other("`hyper = vb`", setting("hyper", "map")))
    for block in planned.canonical.blocks:
        reason = reason_against(block) if index in block.dims else ""
        if reason:
            raise MethodError(refused(block, reason))


def _able(spec: BackendSpec) -> bool:
    return spec.additive and spec.needs in ANSWERED and spec.vector and spec.evidence


def _other(what: str, help: str) -> Diagnostic:
    kept = "or keep all rows in memory: --option rows=kept"
    return Diagnostic("E501", f"{what} cannot read rows by batches", help=f"{help}; {kept}")


def streamed_plan(planned: Plan) -> Plan:
    """The plan for a streamed model, whose routes are those of its rows."""
    model, needs = planned.canonical, planned.backend.spec.needs
    assert isinstance(model, StreamedModel), "of a streamed model"
    routes = tuple(
        r if g is None else PlacesRoute(r.site, r.bound, r.guarantee, needs)
        for r, g in zip(planned.routes, model.gathers, strict=True)
    )
    return replace(planned, routes=routes)
