"""Models with their data, compiled: canonical forms, and problems that back ends are given."""

from __future__ import annotations

from typing import Any

import lgmdsl as lgm
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import compile_model
from lgmdsl.contract.problem import Problem
from lgmdsl.dataset import read
from lgmdsl.inference.plan import plan
from lgmdsl.sites.catalogue import find_site


def canonical_form(model: str | lgm.Model, data: Any) -> CanonicalModel:
    """The canonical form of a model or of its text."""
    loaded = lgm.loads(model) if isinstance(model, str) else model
    return compile_model(loaded.checked, read(data), find_site)


def problem_for(
    method: str, model: str | lgm.Model, data: Any, values: dict[str, Any] | None = None
) -> Problem:
    """What the driver hands to a back end, hyperparameters pinned at `values`."""
    canonical = canonical_form(model, data)
    return plan(canonical, method).at(canonical.hypers.theta(values))
