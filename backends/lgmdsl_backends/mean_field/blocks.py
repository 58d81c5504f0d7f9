"""Gaussians with independent blocks of latents, q(z) = prod_k q_k(z_k), as a confinement of q.

Priors of latent blocks are independent, so that with s_k = B_k z_k, s = sum_k s_k + c,

    KL(q || p) = sum_k KL(q_k || p_k),   E_q[s] = c + sum_k E[s_k],   Var_q[s] = sum_k Var[s_k]

For sites (W, b) the best q_k is p_k(z_k) exp(-1/2 s_k'W s_k + b_k's_k) with b_k = b - W (m - m_k),
m = E_q[s] and m_k = E[s_k]: the same weights for every block, and the shift that the means of the
others leave. These equations of the means are those of the Gaussian p(z) exp(-1/2 s'Ws + b's)
itself: so m is its exact mean, found at once, and the precision of q_k a diagonal block of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lgmdsl.contract.engine import Confinement, Engine, MakeEngine
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.errors import Diagnostic, MethodError, listed, suggestion
from lgmdsl_backends.mean_field.engine import BlockEngine

Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Blocks(Confinement):
    """`groups`: the names of the prior blocks in each block of q; `names`: those of the latents."""

    groups: Groups
    names: Groups

    @property
    def note(self) -> str:
        blocks = "; ".join(", ".join(names) for names in self.names)
        return f"q keeps blocks of latents independent ({blocks}): sds are too small"

    def engine(self, whole: Engine, make: MakeEngine) -> Engine:
        parts = tuple(make(whole.linear.alone(group)) for group in self.groups)
        return BlockEngine(whole, parts, self.groups, self)


def parsed(text: str) -> Groups:
    """The latents of each block in `a; b, c`. Raises ValueError for what is no name, or one that
    stands in it twice."""
    if not text.strip():
        return ()
    groups = tuple(tuple(name.strip() for name in block.split(",")) for block in text.split(";"))
    names = [name for group in groups for name in group]
    if not all(name.isidentifier() for name in names):
        raise ValueError("blocks are separated by `;` and the latents of a block by `,`")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{listed(twice)} stands in it more than once")
    return groups


def blocks_of(asked: Groups, linear: LinearGaussian, method: str) -> Blocks | None:
    """The blocks of a model; None where there is one. Latents that are in none have their own.

    Raises MethodError E104 for a name that is no latent, E501 where a constraint joins two blocks.
    """
    of_latent: dict[str, list[str]] = {}
    for block in linear.blocks:  # a latent may be several: `u` is `u.structured` and `u.free`
        of_latent.setdefault(block.name.partition(".")[0], []).append(block.name)
    unknown = [name for group in asked for name in group if name not in of_latent]
    if unknown:
        message = f"option `blocks` of method `{method}` names `{unknown[0]}`, which is no latent"
        latents = f"latents: {', '.join(of_latent)}"
        help = suggestion(unknown[0], of_latent, latents)
        raise MethodError(Diagnostic("E104", message, help=help))
    named = {name for group in asked for name in group}
    names = (*asked, *((name,) for name in of_latent if name not in named))
    if len(names) < 2:
        return None
    groups = tuple(tuple(b for name in group for b in of_latent[name]) for group in names)
    _check_constraints(groups, names, linear, method)
    return Blocks(groups, names)


def _check_constraints(groups: Groups, names: Groups, linear: LinearGaussian, method: str) -> None:
    if linear.constraints is None:
        return
    touched = [_touched(group, linear.constraints.columns) for group in groups]
    for k, one in enumerate(touched):
        for later, other in enumerate(touched[k + 1 :], k + 1):
            if one.any() and other.any() and bool((one & other).any()):
                joined = ", ".join((*names[k], *names[later]))
                message = (
                    f"method `{method}` cannot keep latents independent that a constraint joins"
                )
                help = f'put them into one block: the option blocks="{joined}"'
                raise MethodError(Diagnostic("E501", message, help=help))


def _touched(group: tuple[str, ...], columns: Mapping[str, object]) -> np.ndarray:
    """Which constraints a block of q enters."""
    rows = [abs(columns[n].dense()).sum(axis=1) > 0.0 for n in group if n in columns]  # type: ignore[attr-defined]
    return np.logical_or.reduce(rows) if rows else np.zeros(0, dtype=bool)
