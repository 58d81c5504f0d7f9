"""The exit statuses of `lgm`."""

from __future__ import annotations

OK = 0
REFUSED = 1  # an error in the model or the data, or a method that cannot run it
USAGE = 2
UNFINISHED = 3  # the fit did not converge or met numerical trouble
DEFECT = 70
INTERRUPTED = 130
