"""Conformance of an engine where there is no posterior: a value that says so, with a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from lgmdsl.contract.engine import Engine, Failed, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor, PriorBlock
from lgmdsl.operators.explicit import Dense, Sparse
from lgmdsl.structures.independent import Flat, Normal


def check_failure(engine: type[Engine]) -> None:
    """An indefinite posterior and an undetermined flat direction are `Failed`, with a reason."""
    make: Callable[[LinearGaussian], Engine] = engine
    proper = PriorBlock("w", (Normal(2, 0.0, 1.0),), np.zeros(2))
    rows = Predictor({"w": Dense(np.eye(2))}, np.zeros(2))
    one = LinearGaussian((proper,), (rows,))
    ones: Rows = (np.ones(2),)
    if not engine.refuses(one):
        bad = make(one).condition((np.array([-1.5, 1.0]),), ones)
        assert isinstance(bad, Failed) and bad.reason, "an indefinite posterior must be Failed"
    flat = PriorBlock("f", (Flat(2),), np.zeros(2))
    collinear = Sparse(sp.csr_array(np.array([[1.0, 1.0], [2.0, 2.0]])))
    columns = {"w": Dense(np.eye(2)), "f": collinear}
    both = LinearGaussian((proper, flat), (replace(rows, columns=columns),))
    if not engine.refuses(both):
        lost = make(both).condition(ones, ones)
        assert isinstance(lost, Failed), "an improper posterior must be Failed"
        assert "f[" in lost.reason, f"the undetermined direction is not named: {lost.reason}"
