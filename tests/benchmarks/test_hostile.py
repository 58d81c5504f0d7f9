"""1,000 random small models in hostile units, every method, against brute-force quadrature. Never
run unless asked for: python -m pytest tests/benchmarks/test_hostile.py -m reproduction -s"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.agreement.hostile import hostile, log_evidence, verdict
from tests.agreement.methods import METHODS

MODELS = 1000


@pytest.mark.reproduction
def test_hostile_scales() -> None:
    tally, wrong = Counter[str](), []
    for seed in range(MODELS):
        one = hostile(seed)
        truth = log_evidence(one.plain)
        for method in METHODS:
            found = verdict(one, method, truth)
            tally[found.partition(":")[0]] += 1
            if found.startswith("wrong"):
                wrong.append(f"seed {seed}, {method}: {found}")
                print(wrong[-1])
    print(dict(tally))
    assert not wrong
