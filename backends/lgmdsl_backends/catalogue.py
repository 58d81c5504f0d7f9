"""The back ends that ship. A new one is a file next to this one and a line here."""

from __future__ import annotations

from typing import Any

from lgmdsl.contract.backend import Backend
from lgmdsl.contract.catalogue import Catalogue, part

BACKENDS: Catalogue[type[Backend[Any]]] = Catalogue(
    {
        "laplace": part("lgmdsl_backends.laplace", "Laplace"),
        "natural-gradient": part("lgmdsl_backends.natural_gradient", "NaturalGradient"),
        "opper-archambeau": part("lgmdsl_backends.opper_archambeau", "OpperArchambeau"),
        "cholesky": part("lgmdsl_backends.cholesky", "Cholesky"),
        "coordinate-ascent": part("lgmdsl_backends.coordinate_ascent", "CoordinateAscent"),
        "lcl": part("lgmdsl_backends.lcl.backend", "LinearlyConstrained"),
        "stochastic": part("lgmdsl_backends.stochastic", "StochasticGradient"),
        "ep": part("lgmdsl_backends.ep.backend", "ExpectationPropagation"),
        "double-loop": part("lgmdsl_backends.double_loop", "DoubleLoop"),
        "coordinate-descent": part("lgmdsl_backends.coordinate_descent", "CoordinateDescent"),
        "px-vb": part("lgmdsl_backends.px_vb.backend", "ParameterExpanded"),
        "mean-field": part("lgmdsl_backends.mean_field.backend", "MeanField"),
        "inducing": part("lgmdsl_backends.inducing", "Inducing"),
        "map": part("lgmdsl_backends.mode", "Mode"),
    }
)
