"""Engines that keep q in the family of a back end (`contract.family`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lgmdsl.contract.backend import Backend
from lgmdsl.contract.engine import Engine
from lgmdsl.contract.family import Family
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.engines.choose import Terms, required
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.inference.options import configured
from lgmdsl.inference.registry import backends


def kept(backend: Backend[Any], engine: Engine, seed: int = 0) -> Engine:
    """The engine of a model with q in the back end's family; itself where that is all Gaussians.
    Raises MethodError E501 where the engine's answers are estimates."""
    family = backend.family(engine.linear)
    if family is None:
        return engine
    if not engine.exact:
        message = f"method `{backend.spec.name}` cannot run this model at its size"
        details = (f"the {engine.name} engine estimates, and {family.note}",)
        help = "fit fewer rows or latents; or a method that keeps all Gaussians: natural-gradient"
        raise MethodError(Diagnostic("E501", message, details=details, help=help))
    return within(family, engine, seed)


def within(family: Family, engine: Engine, seed: int = 0) -> Engine:
    """An exact engine with q in a family; engines of parts are the cheapest that there are."""

    def make(linear: LinearGaussian) -> Engine:
        return required(linear, Terms.of(), seed)[0]

    return family.engine(engine, make)


def kept_as(provenance: Mapping[str, str], engine: Engine, seed: int = 0) -> Engine:
    """The engine of a stored fit, with q in the family of its method and options."""
    backend = backends().get(provenance.get("method", ""))
    if backend is None or not backend.spec.restricted:
        return engine
    options: Mapping[str, object] = json.loads(provenance["options"])
    return kept(configured(backend, options), engine, seed)
