"""The long MCMC runs kept in `references/`, made by `mcmc/`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lgmdsl.arrays import Array

FOLDER = Path(__file__).parent / "references"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
LEVELS = (0.025, 0.25, 0.5, 0.75, 0.975)


@dataclass(frozen=True)
class Marginals:
    """Of one hyperparameter or latent, arrays of its own shape; `quantiles` with LEVELS in front.

    `error` is the Monte Carlo standard error of the mean.
    """

    mean: Array
    sd: Array
    quantiles: Array
    ess: Array

    @property
    def error(self) -> Array:
        return np.asarray(self.sd / np.sqrt(self.ess))


@dataclass(frozen=True)
class Reference:
    """One case. Hypers have other scales besides, as `log s`; a covariance `sd1 S`, `corr S`."""

    fingerprint: str
    draws: int
    rhat: float
    quantities: Mapping[str, Marginals]


def reference(case: str) -> Reference:
    """Read the file of a case."""
    kept: dict[str, Any] = json.loads((FOLDER / f"{case}.json").read_text(encoding="utf-8"))

    def marginals(q: Mapping[str, Any]) -> Marginals:
        def shaped(key: str) -> Array:
            return np.asarray(q[key], dtype=np.float64).reshape(q["shape"])

        quantiles = np.stack([shaped(f"q{100 * level:g}") for level in LEVELS])
        return Marginals(shaped("mean"), shaped("sd"), quantiles, shaped("ess"))

    quantities = kept["quantities"]
    return Reference(
        kept["fingerprint"],
        kept["chains"] * kept["draws"],
        max(q["rhat"] for q in quantities.values()),
        {name: marginals(q) for name, q in quantities.items()},
    )
