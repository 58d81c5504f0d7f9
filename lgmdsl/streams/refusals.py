"""Methods and site blocks that cannot take rows by batches."""

from __future__ import annotations

from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.contract.backend import BackendSpec
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Property
from lgmdsl.errors import Diagnostic, MethodError, listed
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.registry import backends
from lgmdsl.remedies import either, setting

UNEQUAL = "rows touch different numbers of latents"
KEPT = either("--option rows=kept", 'options={"rows": "kept"}')


def reason_against(block: SiteBlock, spec: BackendSpec | None = None, hypers: bool = False) -> str:
    """Why a method (None: any) cannot take the rows of a block by batches; "" where it can.
    `hypers`: whether hyperparameters may be in the predictor."""
    if block.event or block.site.spec.vector:
        return f"{block.family.spec.name} has several predictors in a row"
    if block.whole is not None:
        return f"{block.family.spec.name} is rewritten by the compiler"
    if not block.form.latents:
        return "no latent is in the predictor"
    if block.form.depends and not hypers:
        return f"hyper `{min(block.form.depends)}` is in the predictor"
    if any(term.applied is not None for term in block.form.terms):
        return "an operator is in the predictor"
    for name, node in block.parameters.items():
        if node.depends and set(node.dims) & set(block.family_dims):
            return f"`{name}` has hypers and differs from row to row"
    if Property.LOG_CONCAVE not in block.site.spec.properties:
        family = block.family.spec.name
        return f"{family} is not log-concave: other optima are looked for row by row"
    kinked = Property.KINKED in block.site.spec.properties
    if kinked and spec is not None and spec.needs is Pointwise:
        family = block.family.spec.name
        return f"{family} has a kink, and method `{spec.name}` keeps the slope of each row at it"
    return ""


def refused(
    block: SiteBlock,
    reason: str,
    help: str = f"keep all rows in memory: {KEPT}",
    cannot: str = "be read by batches",
) -> MethodError:
    """E501 for the rows of a site block."""
    message = f"the rows of `{block.name}` cannot {cannot}"
    return MethodError(Diagnostic("E501", message, block.span, reason, help=help))


def check_streamed(planned: Plan, index: str, hyper: str) -> None:
    """Raise MethodError E501 where the rows of an index cannot be streamed: for a method that knows
    more of sites than the sum of log t, and for sites that `reason_against` names. `planned`: for
    some of the rows; `hyper`: how hyperparameters are to be learned."""
    if not planned.backend.spec.takes_sums:
        able = [n for n, b in backends().items() if b.spec.takes_sums]
        raise MethodError(_other(f"method `{planned.method}`", f"methods that can: {listed(able)}"))
    if hyper == "vb":
        raise MethodError(_other("`hyper = vb`", setting("hyper", "map")))
    for block in planned.canonical.blocks:
        reason = reason_against(block, planned.backend.spec) if index in block.dims else ""
        if reason:
            raise refused(block, reason)


def _other(what: str, help: str) -> Diagnostic:
    kept = f"or keep all rows in memory: {KEPT}"
    return Diagnostic("E501", f"{what} cannot read rows by batches", help=f"{help}; {kept}")
