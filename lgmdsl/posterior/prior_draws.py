"""Drawing from the prior: its Gaussian, and the models whose prior cannot be drawn from."""

from __future__ import annotations

from lgmdsl.canonical.lowering.bym2 import owner
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.choose import choose
from lgmdsl.errors import Diagnostic, ModelError, NumericalError


def prior_gaussian(linear: LinearGaussian) -> Conditioned:
    """z under its prior, within the constraints: an engine that is given no sites. Raises
    NumericalError E601 where it cannot be drawn from."""
    engine, why = choose(LinearGaussian(linear.blocks, (), linear.constraints))
    outcome = Failed(why) if engine is None else engine.condition((), ())
    if isinstance(outcome, Failed):
        raise NumericalError(
            Diagnostic("E601", f"the prior cannot be drawn from: {outcome.reason}")
        )
    return outcome


def refuse_potentials(canonical: CanonicalModel) -> None:
    """A potential reshapes the prior, and no exact draw of such a prior exists in general."""
    for block in canonical.blocks:
        if block.family.spec.potential:
            raise ModelError(
                Diagnostic(
                    "E501",
                    "a model with a potential cannot be simulated",
                    block.span,
                    "makes the prior non-Gaussian",
                    help="leave it out, and give its latents a prior, e.g. normal(sd = 1)",
                )
            )


def refuse_improper(canonical: CanonicalModel, linear: LinearGaussian) -> None:
    """Raise ModelError E402 for latents whose prior is flat or intrinsic."""
    diagnostics = []
    for block in linear.blocks:
        if Shape.IMPROPER in block.shape:
            symbol = canonical.grounded.model.symbols[owner(block.name)]
            whole = Shape.DIAGONAL in block.shape
            dims = f"[{', '.join(symbol.dims)}]" if symbol.dims else ""
            diagnostics.append(
                Diagnostic(
                    "E402",
                    f"`{symbol.name}` has an improper prior, which cannot be drawn from",
                    symbol.statement.span,
                    f"has density 1 {'everywhere' if whole else 'in some directions'}",
                    help=f"give it a proper one: latent {symbol.name}{dims} ~ normal(sd = 1)",
                )
            )
    if diagnostics:
        raise ModelError(diagnostics)
