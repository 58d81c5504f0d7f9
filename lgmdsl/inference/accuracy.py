"""How accurate methods are, best first, read off the question that each asks of the sites.

1. those that match the moments of tilted sites (Tilted: ep);
2. variational Gaussians (Expected: natural-gradient, ...);
3. other bounds of the whole function (double-loop, px-vb), and confined Gaussians;
4. those that know the mode only (Pointwise: laplace).
"""

from __future__ import annotations

from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.contract.questions import Expected, Pointwise, Tilted
from lgmdsl.inference.plan import AUTO, verdict
from lgmdsl.inference.registry import BackendClass, backends


def rank(backend: BackendClass | None) -> int:
    """1 to 4, see the module; 3 for a method that is not known."""
    if backend is None or backend.spec.confined:
        return 3
    asks: object = backend.spec.needs
    return 1 if asks is Tilted else 2 if asks is Expected else 4 if asks is Pointwise else 3


def more_accurate(blocks: tuple[SiteBlock, ...], method: str) -> tuple[str, ...]:
    """The methods of a better rank that can run these sites, the best first; of equal ones the
    first that `auto` tries."""
    known = backends()
    present = rank(known.get(method))
    able = [m for m, b in known.items() if rank(b) < present and verdict(blocks, b, None).runs]
    tried = [*AUTO, *known]
    return tuple(sorted(able, key=lambda m: (rank(known[m]), tried.index(m))))
