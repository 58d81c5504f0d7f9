"""Derivatives in s and a parameter: the closed forms against the default for third parties."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Property, curves_by_differences
from lgmdsl.sites.catalogue import SITES
from tests.sites.examples import example

NAMES = [
    s.spec.name
    for s in SITES.shipped()
    if s.spec.parameters
    and issubclass(s, Pointwise)
    and not s.spec.vector
    # differences in steps of 4 % leave their range, or come near its end
    and s.spec.name not in ("skew_normal.mean", "generalized_poisson.log_mean")
    and Property.KINKED not in s.spec.properties
]


@pytest.mark.few(14)
@pytest.mark.parametrize("name", NAMES)
def test_differences_are_good_enough_for_third_parties(name: str) -> None:
    for seed, s in enumerate(np.linspace(-3.0, 3.0, 9)):
        site = example(name, seed=seed)
        at = np.full(len(site), s)
        known = site.parameter_curves(at)
        found = curves_by_differences(site, site.parameter_slopes(at), at)
        assert known.keys() == found.keys()
        for parameter, curve in known.items():
            for given, wanted in zip(found[parameter], curve, strict=True):
                scale = 1.0 + np.abs(wanted)
                np.testing.assert_allclose(given / scale, wanted / scale, atol=1e-9)
