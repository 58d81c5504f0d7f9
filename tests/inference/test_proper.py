"""Improper posteriors are found at the mode, before a dear method goes to infinity for them."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl_backends.natural_gradient import NaturalGradient

TEXT = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent b[feat] ~ flat
let s[obs] = X @ b
observe y ~ bernoulli(logit = s)
"""


def test_separated_classes_are_refused_before_the_method_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object) -> NoReturn:
        raise AssertionError("the method was started")

    monkeypatch.setattr(NaturalGradient, "start", never)
    X = np.random.default_rng(0).normal(size=(40, 2))
    separated = {"X": X, "y": (X[:, 0] > 0).astype(int)}
    with pytest.raises(lgm.ModelError) as caught:
        lgm.fit(lgm.loads(TEXT), separated, "natural-gradient")
    assert caught.value.codes == ("E402",)
    mixed = {"X": X, "y": np.arange(40) % 2}
    with pytest.raises(AssertionError, match="started"):
        lgm.fit(lgm.loads(TEXT), mixed, "natural-gradient")
