"""Structures declared as a mixture of two (`vocabulary.signature.Mixed`): two blocks and a map.

Of the language's own that is bym2 (Riebler et al. 2016, eq. 6):

    v = sd (sqrt(1 - mix) v.iid + sqrt(mix) v.besag),

v.iid independent and v.besag the scaled intrinsic autoregression, so that both priors stay sparse.
On an island both are independent with unit variance, and v has the variance sd^2 (Freni-Sterrantino
et al. 2018). Other factors of a product belong to both blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lgmdsl.canonical.expressions import affine as af
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.signature import Mixed, Signature


@dataclass(frozen=True)
class MixedFactor:
    """A factor of a latent that stands for two blocks, as its signature declares."""

    factor: ast.Dist
    signature: Signature
    mixed: Mixed

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the structures of the two blocks."""
        return tuple(name for name, _ in self.mixed.parts)

    def arguments(self, part: str) -> tuple[ast.Argument, ...]:
        """The factor's arguments that the structure of a part takes."""
        taken = dict(self.mixed.parts)[part]
        return tuple(a for a in self.factor.arguments if a.name in taken)

    def map(
        self,
        latent: str,
        lower: Callable[[ast.Value], Coefficient],
        block: Callable[[str], Affine],
    ) -> Affine:
        """The latent as an affine form in its two blocks, which `block` gives by name."""
        values = {a.name: a.value for a in self.factor.arguments}
        share = lower(values[self.mixed.share])
        rest = co.add(co.number(1.0), co.multiply(co.number(-1.0), share))
        scales = [lower(values[name]) for name in self.signature.scales if name in values]
        out = []
        for part, weight in zip(self.parts, (rest, share), strict=True):
            root = co.Power(weight.dims, weight, co.number(0.5))
            form = block(part_name(latent, part))
            out.append(af.scale(form, co.multiply(*scales, root)))
        return af.add(tuple(out))

    def described(self, latent: str) -> str:
        """A description of the rewrite."""
        first, second = (part_name(latent, p) for p in self.parts)
        share, scale = self.mixed.share, " ".join(self.signature.scales)
        return (
            f"{self.signature.name} to two blocks and a map: "
            f"{scale} (sqrt(1 - {share}) {first} + sqrt({share}) {second})"
        )


def mixed_factor(symbol: Symbol) -> MixedFactor | None:
    """The factor of a latent that stands for two blocks; None where it has none."""
    statement = symbol.statement
    for factor in statement.factors if isinstance(statement, ast.Latent) else ():
        signature = lookup("structure", factor.name.id)
        if signature is not None and signature.mixed is not None:
            return MixedFactor(factor, signature, signature.mixed)
    return None


def part_name(latent: str, part: str) -> str:
    """The name of one of the two blocks; no user's latent can have it."""
    return f"{latent}.{part}"


def owner(block: str) -> str:
    """The latent that a block belongs to: the block itself, but for the parts of a
    mixture."""
    return block.partition(".")[0]
