"""How a model is fitted, as one value that is handed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lgmdsl.inference.driver import Tolerances

# Names for editors to complete; third parties add methods, and the registry knows them all.
MethodName = Literal[
    "auto", "laplace", "natural-gradient", "opper-archambeau", "cholesky", "coordinate-ascent",
    "lcl", "stochastic", "ep", "double-loop", "coordinate-descent", "px-vb", "mean-field",
    "inducing", "map",
]  # fmt: skip
HyperName = Literal["auto", "fixed", "map", "integrate", "em", "vb"]


@dataclass(frozen=True)
class FitSettings:
    """What `fit` is asked for, but for the model, its data and an earlier fit.

    `method`, `hyper`: words, `auto` among them. `fixed`, `start`: values of hyperparameters that
    are pinned, and that a search starts from. `bound`: the one through which sites answer.
    `options`: of the method, the engine and the learning. `seed`: of draws and estimates. `tol`:
    relative, of the log evidence. `max_steps`: of each run of the method. None: the default.
    """

    method: str = "auto"
    hyper: str = "auto"
    fixed: Mapping[str, object] = field(default_factory=dict)
    bound: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    seed: int = 0
    tol: float | None = None
    max_steps: int | None = None
    start: Mapping[str, object] = field(default_factory=dict)

    @property
    def tolerances(self) -> Tolerances:
        """Tolerances of the evidence and of the means."""
        return Tolerances.scaled(self.tol)
