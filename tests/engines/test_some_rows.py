"""An engine at some of its rows against one that was made of these rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.contract.engine import Conditioned, Engine, Failed
from lgmdsl.contract.joint import newton_move
from lgmdsl.contract.rows import Rows
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.shared.some_rows import SomeRows
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.testing.engine_models import random_case
from tests.agreement.comparisons import compared, must_run

seeds = st.integers(0, 100_000)
ENGINES: tuple[type[Engine], ...] = (CovarianceEngine, PrecisionEngine, SparseEngine)


def close(a: object, b: object) -> None:
    a, b = np.asarray(a), np.asarray(b)
    np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8 * max(1.0, float(np.abs(b).max())))


@must_run
@pytest.mark.parametrize("engine", ENGINES)
@given(seeds, st.booleans(), st.booleans(), st.sampled_from(["", "proper"]))
def test_answers_are_those_of_these_rows_alone(
    engine: type[Engine], seed: int, signed: bool, vector: bool, tie: str
) -> None:
    """A block may lose all of its rows."""
    case = random_case(seed, gp=False, signed=signed, vector=vector, tie=tie)
    if engine.refuses(case.linear):
        return
    rng = np.random.default_rng(seed)
    rows = [np.flatnonzero(rng.random(len(b)) < rng.choice([0.0, 0.6])) for b in case.shift]
    some = SomeRows(engine.build(case.linear, 0), rows)
    alone = engine.build(some.linear, 0)
    weight, shift = some.kept.of(case.weight), some.kept.of(case.shift)
    found, wanted = some.condition(weight, shift), alone.condition(weight, shift)
    assert isinstance(found, Failed) == isinstance(wanted, Failed)
    if isinstance(found, Failed) or isinstance(wanted, Failed):
        return
    compared()
    close(found.log_normaliser, wanted.log_normaliser)
    close(found.centred, wanted.centred)
    close(found.latent_mean, wanted.latent_mean)
    close(found.latent_variance, wanted.latent_variance)
    pairs = ((found.mean, wanted.mean), (found.variance, wanted.variance))
    for ours, theirs in (*pairs, (some.prior_mean, alone.prior_mean)):
        assert len(ours) == len(some.linear.predictors)
        for a, b in zip(ours, theirs, strict=True):
            close(a, b)
    further: Rows = tuple(np.asarray(rng.normal(size=b.shape)) for b in shift)
    moved, target = found.with_shift(further), wanted.with_shift(further)
    assert isinstance(moved, Conditioned) and isinstance(target, Conditioned)
    close(moved.latent_mean, target.latent_mean)
    for a, b in zip(moved.shift, further, strict=True):
        np.testing.assert_array_equal(a, b)
    close(newton_move(some, found, further), newton_move(alone, wanted, further))


def test_estimates_are_refused() -> None:
    case = random_case(1, gp=False, signed=False, vector=False, tie="")
    whole = PrecisionEngine(case.linear)
    whole.exact = False  # type: ignore[misc]
    with pytest.raises(ValueError, match="estimates"):
        SomeRows(whole, [np.arange(len(b)) for b in case.shift])
