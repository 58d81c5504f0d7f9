"""Expectation propagation: the back end `ep`."""

from lgmdsl_backends.ep.backend import ExpectationPropagation

__all__ = ["ExpectationPropagation"]
