"""Mean field between blocks of latents: the back end `mean-field`."""

from lgmdsl_backends.mean_field.backend import MeanField

__all__ = ["MeanField"]
