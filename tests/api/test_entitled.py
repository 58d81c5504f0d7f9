"""Labels of an answer go with its status."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.warnings import entitled
from lgmdsl.contract.status import Guarantee, Status

TEXT = """lgm 1
index obs
data y[obs] : count
latent b ~ normal(sd = 2)
observe y ~ poisson(log_rate = b)
"""
FIELD = """lgm 1
index obs
data x[obs] : real
data y[obs] : real
latent f[obs] ~ gp(at = x, kernel = se(sd = 1, length = 1))
observe y ~ student_t(mean = f, scale = 1, df = 4)
"""


@pytest.mark.parametrize("status", Status)
def test_only_a_usable_result_has_a_guarantee(status: Status) -> None:
    fit = lgm.fit(lgm.loads(TEXT), {"y": [1, 2, 0]}, method="natural-gradient")
    assert fit.guarantee is Guarantee.LOWER
    kept = status in (Status.converged, Status.iteration_limit, Status.interrupted)
    wanted = Guarantee.LOWER if kept else Guarantee.APPROXIMATE
    assert entitled(replace(fit, status=status)).guarantee is wanted


def test_a_model_that_no_engine_takes_within_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LGM_MEMORY", "20MB")
    x = np.linspace(0.0, 1.0, 3000)
    data = {"x": x, "y": np.zeros_like(x)}
    with pytest.raises(lgm.MethodError, match="E505") as caught:
        lgm.fit(lgm.loads(FIELD), data)
    assert "`ou`" in caught.value.diagnostics[0].help
    page = str(lgm.explain(lgm.loads(FIELD), data))
    methods = page[page.index("\nmethods") :]
    assert "no engine takes it (E505)" in methods and " runs" not in methods
