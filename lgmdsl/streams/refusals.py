"""Site blocks whose rows cannot be read by batches."""

from __future__ import annotations

from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.contract.site import Property
from lgmdsl.errors import Diagnostic


def reason_against(block: SiteBlock) -> str:
    """Why the rows of a block cannot be told apart from the whole; "" where they can."""
    if block.event or block.site.spec.vector:
        return f"{block.family.spec.name} has several predictors in a row"
    if block.whole is not None or block.form is not block.written:
        return f"{block.family.spec.name} is rewritten by the compiler"
    if block.form.depends:
        return f"hyper `{min(block.form.depends)}` is in the predictor"
    if any(term.applied is not None for term in block.form.terms):
        return "an operator is in the predictor"
    for name, node in block.parameters.items():
        if node.depends and set(node.dims) & set(block.family_dims):
            return f"`{name}` has hypers and differs from row to row"
    if Property.LOG_CONCAVE not in block.site.spec.properties:
        family = block.family.spec.name
        return f"{family} is not log-concave: other optima are looked for row by row"
    return ""


def refused(block: SiteBlock, reason: str) -> Diagnostic:
    """E501 for a block whose rows cannot be streamed."""
    return Diagnostic(
        "E501",
        f"the rows of `{block.name}` cannot be read by batches",
        block.span,
        reason,
        help="keep all rows in memory: --option rows=kept",
    )
