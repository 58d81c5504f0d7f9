"""E402 for a latent that neither data nor priors fix, with a prior that would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lgmdsl.canonical.blocks.latents import FactorSpec, LatentBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering.bym2 import owner
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.structure import Shape
from lgmdsl.errors import Diagnostic, LgmError, listed
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.print_expr import show
from lgmdsl.vocabulary.lookup import signatures

_TIE = "sum_to_zero"


def improper(
    canonical: CanonicalModel, name: str, reason: str, latents: tuple[str, ...] = ()
) -> Diagnostic:
    """E402 for the block `name`; `latents`: those of the direction that nothing determines."""
    return Diagnostic(
        "E402",
        f"the posterior is improper: nothing fixes `{name}`",
        canonical.grounded.model.symbols[owner(name)].statement.span,
        reason,
        help=_remedy(canonical, name, latents),
    )


def _remedy(canonical: CanonicalModel, name: str, latents: tuple[str, ...]) -> str:
    theta = canonical.hypers.start()
    block = next((x for x in canonical.latents if x.name == name), None)
    instead = _without_trends(block, theta) if block else ""
    remedy = instead or f"give `{name}` a proper prior, e.g. normal(sd = 10)"
    untied = next((x for x in canonical.latents if x.name in latents and _untied(x)), None)
    if untied is None or (instead and untied is block):
        return remedy
    of = "" if untied is block else f" of `{untied.name}`"
    return f"remove `{_TIE} = false`{of}, or {remedy}"


def _untied(block: LatentBlock) -> bool:
    return any(f.arguments.get(_TIE) is False for f in block.factors)


def _without_trends(block: LatentBlock, theta: Theta) -> str:
    """Advice to replace structures with free directions by others of the same arguments that have
    none; "" where that is not possible, or where sums to zero leave none."""
    written, loose = [], []
    for factor in map(_tied, block.factors):
        structure = factor.name
        if not _is_proper(factor, theta):
            proper = (n for n in _alike(factor) if _is_proper(replace(factor, name=n), theta))
            structure = next(proper, "")
            loose.append(factor.name)
        if not structure:
            return ""
        written.append(show(replace(factor.factor, name=ast.Name(structure))))
    if not loose:
        return ""
    leaves = "leaves" if len(set(loose)) == 1 else "leave"
    names = listed([f"`{n}`" for n in dict.fromkeys(loose)])
    declared = f"{block.name}[{', '.join(block.dims)}] ~ {' * '.join(written)}"
    return f"{names} {leaves} trends free, which the data must show: latent {declared} has none"


def _tied(factor: FactorSpec) -> FactorSpec:
    """The factor with its sums to zero."""
    if factor.arguments.get(_TIE) is not False:
        return factor
    arguments = {k: v for k, v in factor.arguments.items() if k != _TIE}
    kept = tuple(a for a in factor.factor.arguments if a.name != _TIE)
    return replace(factor, arguments=arguments, factor=replace(factor.factor, arguments=kept))


def _alike(factor: FactorSpec) -> Iterator[str]:
    """Names of other structures that take the same arguments."""
    arguments = {p.name for p in factor.declared.parameters}
    for signature in signatures("structure"):
        same = {p.name for p in signature.parameters} == arguments
        if same and signature.whole == factor.declared.whole and signature.name != factor.name:
            yield signature.name


def _is_proper(factor: FactorSpec, theta: Theta) -> bool:
    """Whether a factor leaves no direction free; of one that is refused, no."""
    try:
        return Shape.IMPROPER not in factor.build(theta).shape
    except LgmError:
        return False
