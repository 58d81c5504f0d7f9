"""The back ends that ship. A new one is a file beside this one and a line here."""

from __future__ import annotations

from lgmdsl.contract.backend import Backend
from lgmdsl_backends.laplace import Laplace

BACKENDS: tuple[type[Backend], ...] = (Laplace,)  # type: ignore[type-arg]
