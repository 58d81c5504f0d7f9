"""Engines under the restriction of a back end (`contract.restriction`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lgmdsl.contract.backend import Backend
from lgmdsl.contract.engine import Engine
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.restriction import Restriction
from lgmdsl.engines.choose import Terms, required
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.inference.options import configured
from lgmdsl.inference.registry import backends


def kept(backend: Backend[Any], engine: Engine, seed: int = 0) -> Engine:
    """The engine of a model under the back end's restriction; itself where there is none. Raises
    MethodError E501 where the engine's answers are estimates."""
    restriction = backend.restriction(engine.linear)
    if restriction is None:
        return engine
    if not engine.exact:
        message = f"method `{backend.spec.name}` cannot run this model at its size"
        details = (f"the {engine.name} engine estimates, and {restriction.note}",)
        help = "fit fewer rows or latents; or a method that keeps all Gaussians: natural-gradient"
        raise MethodError(Diagnostic("E501", message, details=details, help=help))
    return within(restriction, engine, seed)


def within(restriction: Restriction, engine: Engine, seed: int = 0) -> Engine:
    """An exact engine under a restriction; engines of parts are the cheapest that there are."""

    def make(linear: LinearGaussian) -> Engine:
        return required(linear, Terms.of(), seed)[0]

    return restriction.engine(engine, make)


def kept_as(provenance: Mapping[str, str], engine: Engine, seed: int = 0) -> Engine:
    """The engine of a stored fit, under the restriction of its method and options."""
    backend = backends().get(provenance.get("method", ""))
    if backend is None or not backend.spec.restricted:
        return engine
    options: Mapping[str, object] = json.loads(provenance["options"])
    return kept(configured(backend, options), engine, seed)
