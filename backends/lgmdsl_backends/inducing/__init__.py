"""Posterior covariances of few directions: the back end `inducing`."""

from lgmdsl_backends.inducing.backend import Inducing

__all__ = ["Inducing"]
