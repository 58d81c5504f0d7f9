"""The same bits from this process, threads, processes, and processes that end on the way."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.workers.pool import Pool
from tests.workers.models import (
    COUNTS,
    GAUSSIAN,
    Kept,
    Killing,
    alone,
    calibrated,
    counts,
    integrated,
    left_out,
    same_fit,
)

Take = Callable[[Any], None]


def calls(crew: Take, pool: Pool) -> None:
    """Three calls in one pool."""
    calibration, fit, loo = alone()
    crew(Kept(pool))
    try:
        assert calibrated(jobs=2).outcomes == calibration.outcomes
        assert same_fit(integrated(jobs=2), fit)
        assert all(map(np.array_equal, left_out(fit, 2), loo))
    finally:
        pool.close()


@pytest.mark.thorough
def test_processes_compute_the_same_bits(crew: Take) -> None:
    calls(crew, Pool(3))


@pytest.mark.thorough
def test_processes_that_end_on_the_way_change_nothing(crew: Take) -> None:
    """One ends in the middle of each call."""
    pool = Killing(2, lambda _, number: number in (6, 25, 60), 3)
    calls(crew, pool)
    assert pool.kills == 3


@pytest.mark.thorough
def test_two_processes_that_end_together_change_nothing(crew: Take) -> None:
    pool = Killing(2, lambda _, number: number == 6, 1, 2)
    crew(pool)
    assert calibrated(jobs=2).outcomes == alone()[0].outcomes and pool.kills == 1


@pytest.mark.thorough
def test_one_process_gives_what_none_gives(crew: Take) -> None:
    crew(Pool(1))
    assert same_fit(integrated(jobs=2), alone()[1])


@pytest.mark.thorough
def test_threads_compute_the_same_bits() -> None:
    calibration, fit, loo = alone()
    with ThreadPoolExecutor(2) as executor:
        assert calibrated(jobs=executor).outcomes == calibration.outcomes
        assert same_fit(integrated(jobs=executor), fit)
        assert all(map(np.array_equal, left_out(fit, executor), loo))


@pytest.mark.thorough
def test_posteriors_of_draws_are_drawn_again_alike() -> None:
    text = (
        GAUSSIAN.split("index feat")[0]
        + """data n[obs] : count
data y[obs] : count
latent a ~ normal(sd = 10)
observe y ~ binomial(n = n, logit = a)
"""
    )
    fit = lgm.fit(lgm.loads(text), {"n": [20, 27], "y": [0, 0]})
    assert fit.drawn is not None
    with ThreadPoolExecutor(2) as executor:
        one, other = fit.loo(exact="all"), fit.loo(exact="all", jobs=executor)
    assert sum(map(np.sum, one.refitted)) == 2 and one.error == other.error
    assert np.array_equal(one.log_density[0], other.log_density[0])


def test_data_from_a_file_go_as_their_path(tmp_path: Path) -> None:
    place = tmp_path / "data.npz"
    np.savez(place, **counts())
    model = lgm.loads(COUNTS)
    with ThreadPoolExecutor(2) as executor:
        shared = lgm.fit(model, place, "laplace", "integrate", jobs=executor)
    assert same_fit(shared, lgm.fit(model, place, "laplace", "integrate"))


def test_methods_compared_by_workers_are_those_compared_here() -> None:
    def compared(jobs: object) -> lgm.Comparison:
        methods = ["laplace", "ep", "opper-archambeau"]
        options = {"ep": {"damping": 0.9}}
        return lgm.compare(
            lgm.loads(COUNTS), counts(), methods, fixed={"s": 1.0}, options=options, jobs=jobs
        )

    with ThreadPoolExecutor(2) as executor:
        one, other = compared(None), compared(executor)
    assert one.fits == other.fits and one.reference == other.reference
    assert [r.difference for r in one] == [r.difference for r in other]


@pytest.mark.thorough
def test_a_run_that_ends_its_workers_is_named_and_the_record_goes_on(
    tmp_path: Path, crew: Take
) -> None:
    place = tmp_path / "runs.jsonl"
    crew(Killing(1, lambda payload, _: payload.arguments == (7,), 99))
    with pytest.raises(lgm.WorkerError, match="run 7 ended its worker three times") as caught:
        calibrated(jobs=2, record=place)
    assert caught.value.codes == ("E701",)
    done = place.read_text().splitlines()[1:]
    assert len(done) >= 6 and all('"run": 7,' not in line for line in done)
    before = len(done)
    made: list[int] = []
    whole = calibrated(record=place, on_run=lambda done, _: made.append(done))
    assert made[0] == before + 1 and whole.outcomes == alone()[0].outcomes


@pytest.mark.thorough
def test_tasks_carry_no_arrays(crew: Take) -> None:
    """Of 5,000 rows: each fit of the integral is sent by x and coefficients."""
    sizes: list[int] = []

    class Counting(Pool):
        def submit(self, fn: Callable[..., Any], *args: Any, **named: Any) -> Any:
            content = args[1]
            assert isinstance(content, bytes)
            payload = pickle.loads(content)
            sizes.append(len(content) - sum(map(len, payload.inline.values())))
            return super().submit(fn, *args, **named)

    rng = np.random.default_rng(1)
    who = rng.integers(0, 50, 5000)
    rows = {"y": rng.poisson(np.exp(0.3 * rng.normal(size=50))[who]), "who": who}
    pool = Counting(2)
    crew(pool)
    options = {"merge": "off", "effort": "low"}
    lgm.fit(lgm.loads(COUNTS), rows, "laplace", "integrate", options=options, jobs=2)
    assert len(sizes) > 10 and max(sizes) < 4000
