"""Parameter-expanded variational Bayes: the back end `px-vb`."""

from lgmdsl_backends.px_vb.backend import ParameterExpanded

__all__ = ["ParameterExpanded"]
