"""The back ends that ship. A new one is a file next to this one and a line here."""

from __future__ import annotations

from lgmdsl.contract.backend import Backend
from lgmdsl_backends.cholesky import Cholesky
from lgmdsl_backends.coordinate_ascent import CoordinateAscent
from lgmdsl_backends.coordinate_descent import CoordinateDescent
from lgmdsl_backends.double_loop import DoubleLoop
from lgmdsl_backends.ep import ExpectationPropagation
from lgmdsl_backends.laplace import Laplace
from lgmdsl_backends.lcl import LinearlyConstrained
from lgmdsl_backends.mode import Mode
from lgmdsl_backends.natural_gradient import NaturalGradient
from lgmdsl_backends.opper_archambeau import OpperArchambeau
from lgmdsl_backends.px_vb import ParameterExpanded

BACKENDS: tuple[type[Backend], ...] = (  # type: ignore[type-arg]
    Laplace,
    NaturalGradient,
    OpperArchambeau,
    Cholesky,
    CoordinateAscent,
    LinearlyConstrained,
    ExpectationPropagation,
    DoubleLoop,
    CoordinateDescent,
    ParameterExpanded,
    Mode,
)
