"""Mean field on random models: its bound is below that of all Gaussians, its blocks are apart."""

from __future__ import annotations

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import MethodError
from lgmdsl.testing.models import random_models
from lgmdsl.testing.random.model import RandomModel
from tests.agreement.methods import few

FAMILIES = ("normal.mean", "bernoulli.logit", "poisson.log_rate", "gamma.log_mean")
cases = random_models(families=FAMILIES, rows=(2, 15), latents=(1, 15), wild=False, missing=True)


@few(15)
@given(cases, st.booleans())
def test_the_bound_is_below_that_of_all_gaussians(case: RandomModel, expand: bool) -> None:
    try:
        narrow = case.fit("mean-field", options={"expand": expand}, tol=1e-9)
    except MethodError as refused:  # a constraint joins two latents
        assert "that a constraint joins" in str(refused)
        return
    wide = case.fit("natural-gradient", tol=1e-9)
    q = narrow.posterior.conditioned
    blocks = () if q.confinement is None else narrow.canonical.latents
    event(f"{narrow.status}, {'several blocks' if len(blocks) > 1 else 'one block'}")
    if len(blocks) < 2:
        assert narrow.guarantee is wide.guarantee
    if not (narrow.converged and wide.converged):
        return
    slack = 1e-6 * (1.0 + abs(wide.log_evidence))
    assert narrow.log_evidence <= wide.log_evidence + slack
    if len(blocks) > 1:
        assert narrow.guarantee is Guarantee.LOWER
        covariance = q.solve(np.eye(len(q.latent_mean)))
        first = narrow.canonical.layout.latent(blocks[0].name)
        away = np.delete(covariance[first], np.arange(first.start, first.stop), axis=1)
        owner = blocks[0].name.partition(".")[0]
        if not any(b.name.startswith(owner + ".") for b in blocks):
            assert not away.any()
