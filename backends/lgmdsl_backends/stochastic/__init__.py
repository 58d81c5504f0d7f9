"""Natural gradients from batches of rows: the back end `stochastic`."""

from lgmdsl_backends.stochastic.backend import StochasticGradient

__all__ = ["StochasticGradient"]
