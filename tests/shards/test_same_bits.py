"""One hash of a fit of shards, whoever works on it; and what is sent for it."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import lgmdsl as lgm
from lgmdsl.shards import shard, shelf
from lgmdsl.shards.questions import answered
from tests.shards.models import folder, rows, text
from tests.workers.models import Kept, Killing

Take = Callable[[Any], None]


def digest(fit: lgm.Fit, shards: Path, out: Path, jobs: object) -> str:
    """Of every bit of a fit and of its groups."""
    bits = hashlib.sha256(np.float64(fit.log_evidence).tobytes())
    for point in fit.points:
        for array in (*point.weight, *point.shift, point.theta["s"], np.float64(point.share)):
            bits.update(np.asarray(array).tobytes())
    bits.update(fit.sample(3, seed=1)["a"].values.tobytes())
    for path in fit.groups(shards, out, jobs=jobs):
        for column in pq.read_table(path).columns:
            bits.update(repr(column.to_pylist()).encode())
    return bits.hexdigest()


@pytest.mark.thorough
def test_threads_and_processes_that_end_give_one_hash(tmp_path: Path, crew: Take) -> None:
    shards = folder(tmp_path / "shards", rows("poisson"), 4)
    model = lgm.loads(text("poisson"))

    def of(name: str, jobs: object) -> str:
        fit = lgm.fit(model, shards, hyper="map", start={"s": 0.5}, tol=1e-3, jobs=jobs)
        assert fit.converged
        return digest(fit, shards, tmp_path / name, jobs)

    here = of("here", None)
    with ThreadPoolExecutor(2) as executor:
        assert of("threads", executor) == here
    killing = Killing(2, lambda _, number: number == 10, 1)
    crew(Kept(killing))
    try:
        assert of("killed", 2) == here and killing.kills == 1
    finally:
        killing.close()


def test_an_observer_hears_how_many_rows_are_read(tmp_path: Path) -> None:
    """Also where workers read them, and before anything else."""
    shards, model = folder(tmp_path / "shards", rows("poisson"), 3), lgm.loads(text("poisson"))
    with ThreadPoolExecutor(2) as executor:
        for jobs in (None, executor):
            heard: list[Any] = []
            lgm.fit(model, shards, fixed={"s": 0.5}, jobs=jobs, on_step=heard.append)
            read = [e for e in heard if e.stage == "rows"]
            assert read == heard[:3] and len(heard) > 3
            assert read[-1].step == 240 and {e.of for e in read} == {240}
            assert np.all(np.diff([e.step for e in read]) > 0)


class Counting(ThreadPoolExecutor):
    """Notes the bytes of each question at beta, and of the answer."""

    def __init__(self) -> None:
        super().__init__(1)
        self.sent: list[int] = []
        self.received: list[int] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        future, payload = super().submit(fn, *args, **named), pickle.loads(args[1])
        if payload.call is answered and not payload.inline:
            self.sent.append(len(args[1]))
            future.add_done_callback(lambda f: self.received.append(len(f.result()[1])))
        return future


def test_what_is_sent_grows_with_the_shared_latents_alone(tmp_path: Path) -> None:
    """Ten times the rows: the same bytes a question, below c (p^2 + 1)."""
    for case, p, fixed in (("poisson", 2, {"s": 0.5}), ("crossed", 7, {"s": 0.5, "t": 0.5})):
        counted = []
        for count in (100, 1000):
            shards = folder(tmp_path / f"{case}{count}", rows(case, count), 2)
            with Counting() as executor:
                lgm.fit(lgm.loads(text(case)), shards, fixed=fixed, jobs=executor)
            counted.append(executor)
            assert len(executor.sent) == len(executor.received) >= 6
            assert max(executor.sent) <= 1000 + 8 * (p * p + p)
            assert max(executor.received) <= 800 + 8 * (p * p + 2 * p)
        few, many = counted
        assert abs(max(few.sent) - max(many.sent)) < 50
        assert abs(max(few.received) - max(many.received)) < 50


def test_a_shard_that_is_lost_or_changed_is_named(tmp_path: Path) -> None:
    model = lgm.loads(text("poisson"))
    shards = folder(tmp_path / "shards", rows("poisson"))
    fit = lgm.fit(model, shards, fixed={"s": 0.5})
    place = shards / "shard-00001.parquet"
    whole = place.read_bytes()
    place.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    with ThreadPoolExecutor(2) as executor:
        for jobs in (None, executor):
            with pytest.raises(lgm.WorkerError, match="other bytes than its manifest") as caught:
                lgm.fit(model, shards, fixed={"s": 0.5}, jobs=jobs)
            assert caught.value.codes == ("E703",) and "shard-00001" in str(caught.value)
    place.unlink()
    with pytest.raises(lgm.WorkerError, match="no such file") as caught:
        lgm.fit(model, shards, fixed={"s": 0.5})
    assert caught.value.codes == ("E703",)
    place.write_bytes(whole)
    other = folder(tmp_path / "other", rows("poisson", seed=1))
    with pytest.raises(lgm.WorkerError, match="not the folder that the fit was made of"):
        fit.groups(other, tmp_path / "out")
    assert not os.path.exists(tmp_path / "out")
    with pytest.raises(lgm.DataError, match="it is there already"):
        fit.groups(shards, shards)


@pytest.mark.thorough
def test_fits_are_written_read_and_pickled_without_their_shards(tmp_path: Path) -> None:
    shards = folder(tmp_path / "shards", rows("crossed"))
    fit = lgm.fit(lgm.loads(text("crossed")), shards, hyper="map", fixed={"t": 0.4})
    fit.save(tmp_path / "fit.nc")
    (shards / "manifest.json").rename(tmp_path / "kept.json")
    for other in (lgm.load_fit(tmp_path / "fit.nc"), pickle.loads(pickle.dumps(fit))):
        bare, known = (replace(f, warnings=()) for f in (other, fit))  # files keep none
        assert other == fit and bare.summary() == known.summary()
        for name in ("a", "v", "s"):
            assert np.array_equal(other.mean(name), fit.mean(name))
            assert np.array_equal(other.quantile(name, [0.1]), fit.quantile(name, [0.1]))
    (tmp_path / "kept.json").rename(shards / "manifest.json")
    again = lgm.load_fit(tmp_path / "fit.nc").groups(shards, tmp_path / "again")
    first = fit.groups(shards, tmp_path / "first")
    assert all(pq.read_table(a).equals(pq.read_table(b)) for a, b in zip(first, again, strict=True))
    warm = lgm.fit(
        lgm.loads(text("crossed")), shards, hyper="map", fixed={"t": 0.4}, start_from=fit
    )
    assert warm.log_evidence == pytest.approx(fit.log_evidence, abs=1e-6)


@pytest.mark.thorough
def test_shards_that_memory_has_no_room_for_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at a time: the same bits; and nothing is held when the fit has ended."""
    shards = folder(tmp_path / "shards", rows("poisson"), 3)
    model = lgm.loads(text("poisson"))
    plain = lgm.fit(model, shards, fixed={"s": 0.5})
    reads: list[str] = []
    whole = shard._read
    monkeypatch.setattr(shelf, "HELD", 0.0)

    def counted(source: shard.ShardSource) -> shard.Shard:
        reads.append(source.file.name)
        return whole(source)

    monkeypatch.setattr(shard, "_read", counted)
    tight = lgm.fit(model, shards, fixed={"s": 0.5})
    assert tight == plain and len(reads) >= 9
    assert not shelf.SHELF._held
