"""Decoupled variational Gaussian inference (Khan 2014): see README.md."""

from lgmdsl_backends.lcl.backend import LinearlyConstrained

__all__ = ["LinearlyConstrained"]
