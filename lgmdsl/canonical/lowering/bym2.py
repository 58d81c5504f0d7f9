"""bym2 as two blocks and a map (Riebler et al. 2016, eq. 6):

    v = sd (sqrt(1 - mix) v.iid + sqrt(mix) v.besag),

v.iid independent and v.besag the scaled intrinsic autoregression, so that both priors stay sparse.
On an island both are independent with unit variance, and v has the variance sd^2 (Freni-Sterrantino
et al. 2018). Other factors of a product belong to both blocks.
"""

from __future__ import annotations

from collections.abc import Callable

from lgmdsl.canonical.expressions import affine as af
from lgmdsl.canonical.expressions import coefficient as co
from lgmdsl.canonical.expressions.affine import Affine
from lgmdsl.canonical.expressions.coefficient import Coefficient
from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast

NAME = "bym2"
PARTS = ("iid", "besag")


def split_factor(symbol: Symbol) -> ast.Dist | None:
    """The bym2 factor of a latent; None where it has none."""
    statement = symbol.statement
    if not isinstance(statement, ast.Latent):
        return None
    return next((f for f in statement.factors if f.name.id == NAME), None)


def part_name(latent: str, part: str) -> str:
    """The name of one of the two blocks; no user's latent can have it."""
    return f"{latent}.{part}"


def owner(block: str) -> str:
    """The latent that a block belongs to: the block itself, but for bym2's parts."""
    return block.partition(".")[0]


def mixed(
    symbol: Symbol,
    factor: ast.Dist,
    lower: Callable[[ast.Value], Coefficient],
    block: Callable[[str], Affine],
) -> Affine:
    """v as an affine form in its two blocks, which `block` gives by name."""
    values = {a.name: lower(a.value) for a in factor.arguments if a.name != "graph"}
    mix = values["mix"]
    rest = co.add(co.number(1.0), co.multiply(co.number(-1.0), mix))
    out = []
    for part, share in zip(PARTS, (rest, mix), strict=True):
        weight = co.Power(share.dims, share, co.number(0.5))
        factors = [values["sd"], weight] if "sd" in values else [weight]
        out.append(af.scale(block(part_name(symbol.name, part)), co.multiply(*factors)))
    return af.add(tuple(out))


def part_factor(factor: ast.Dist, part: str) -> tuple[str, tuple[ast.Argument, ...]]:
    """The structure of a part in bym2's place: its name and arguments."""
    if part == "iid":
        return "iid", ()
    return part, tuple(a for a in factor.arguments if a.name == "graph")


def described(symbol: Symbol) -> str:
    """A description of the rewrite."""
    iid, besag = (part_name(symbol.name, p) for p in PARTS)
    return f"bym2 to two blocks and a map: sd (sqrt(1 - mix) {iid} + sqrt(mix) {besag})"
