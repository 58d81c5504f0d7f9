"""Predictions at the rows of shards against those of a fit with all rows in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.predict import by_batches
from lgmdsl.api.predict.by_shards import ShardPredictions
from lgmdsl.cli.main import main
from tests.shards.models import compiled, folder, rows, table, text

KEPT = {"merge": "off", "rows": "kept", "correction": "off"}


def in_memory(model: lgm.Model, shards: Path, hyper: str, fixed: Any) -> Fit:
    rows_of = shards.with_suffix(".parquet")
    return lgm.fit(model, rows_of, "laplace", hyper, fixed, options=KEPT, tol=1e-10)


DIGITS = 1e-6  # of mixtures: the points lie by curvatures, which differences of slopes are


def agree(written: ShardPredictions, shards: Path, other: Fit, rtol: float = 1e-8) -> None:
    """Every column at every row is that of `other` there."""
    first = 0
    for k, path in enumerate(written.paths):
        got = pd.read_parquet(path)
        wanted = other.predict(pd.read_parquet(shards / f"shard-{k:05d}.parquet")).frame()
        assert tuple(got.columns) == written.columns == tuple(wanted.columns)
        wanted["obs"] += first  # counted from shard to shard
        first += len(got)
        pd.testing.assert_frame_equal(got, wanted, check_dtype=False, rtol=rtol, atol=0.1 * rtol)


@pytest.mark.filterwarnings("ignore:warning.W611")  # sds that are off, which is said
@pytest.mark.few(2)
@pytest.mark.parametrize("case", ["vectors", "negbinomial", "walk", "binary"])
def test_predictions_are_those_of_all_rows(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the rows of a shard are read in pieces."""
    model, place = lgm.loads(text(case)), folder(tmp_path / case, rows(case))
    theta = dict(compiled(model, place)[0].hypers.start({}))
    one = lgm.fit(model, place, fixed=theta, tol=1e-10)
    monkeypatch.setattr(by_batches.predicted_pieces, "__defaults__", (37, 0))
    agree(
        one.predict_shards(place, tmp_path / "out"), place, in_memory(model, place, "fixed", theta)
    )


@pytest.fixture(scope="module")
def integrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Fit, Fit]:
    """A folder, a fit to it that was read from its file, and one with all rows in memory."""
    place = folder(tmp_path_factory.mktemp("shards") / "shards", rows("crossed"), 4)
    model = lgm.loads(text("crossed"))
    one = lgm.fit(model, place, hyper="integrate", fixed={"t": 0.4}, tol=1e-10)
    one.save(place.with_suffix(".fit.nc"))
    one = lgm.load_fit(place.with_suffix(".fit.nc"))
    return place, one, in_memory(model, place, "integrate", {"t": 0.4})


@pytest.mark.thorough
def test_mixtures_over_hyperparameters(integrated: tuple[Path, Fit, Fit], tmp_path: Path) -> None:
    place, one, other = integrated
    assert len(one.points) > 3
    agree(one.predict_shards(place, tmp_path / "out"), place, other, DIGITS)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::lgmdsl.PredictionWarning")
def test_new_rows_of_known_and_new_members(
    integrated: tuple[Path, Fit, Fit], tmp_path: Path
) -> None:
    """In shards of their own; among them groups and items that the fit does not know, and rows of
    one group in several shards."""
    place, one, other = integrated
    data = rows("crossed", 90, groups=25, seed=3)
    data["what"] = data["what"] + 2
    new = folder(tmp_path / "new", {**data, "whom": data["what"]}, 3)
    agree(one.predict_shards(new, tmp_path / "out", fitted=place), new, other, DIGITS)
    agree(other.predict_shards(new, tmp_path / "kept"), new, other, DIGITS)
    by_item = tmp_path / "items"
    assert main(["shard", f"{new}.parquet", "--by", "what", "-o", str(by_item)]) == 0
    written = one.predict_shards(by_item, tmp_path / "of items", fitted=place)
    agree(written, by_item, other, DIGITS)
    status = pd.concat([pd.read_parquet(p) for p in written.paths])["who_status"]
    assert set(status) == {"fitted", "new"}


@pytest.mark.thorough
def test_workers_change_no_bit(integrated: tuple[Path, Fit, Fit], tmp_path: Path) -> None:
    place, one, _ = integrated
    written = [one.predict_shards(place, tmp_path / f"{jobs}", jobs=jobs) for jobs in (1, 2)]
    for here, there in zip(written[0].paths, written[1].paths, strict=True):
        assert pq.read_table(here).equals(pq.read_table(there))


def test_labels_of_another_type(tmp_path: Path) -> None:
    """Whole numbers and their texts are one label; a folder of other labels is refused."""
    data = rows("poisson")
    data["who"] = np.array([int(w[1:]) for w in data["who"]])
    model, place = lgm.loads(text("poisson")), folder(tmp_path / "shards", data, 5)
    one = lgm.fit(model, place, fixed={"s": 0.5})
    other = in_memory(model, place, "fixed", {"s": 0.5})
    new = folder(tmp_path / "texts", {**data, "who": data["who"].astype(str)}, 2)
    agree(one.predict_shards(new, tmp_path / "out", fitted=place), new, other)
    words = folder(tmp_path / "words", {**data, "who": [f"g{w}" for w in data["who"]]}, 2)
    with pytest.raises(lgm.DataError, match="the groups of the fit are int64") as caught:
        one.predict_shards(words, tmp_path / "none", fitted=place)
    assert caught.value.codes == ("E306",) and not (tmp_path / "none").exists()


def test_what_is_refused(integrated: tuple[Path, Fit, Fit], tmp_path: Path) -> None:
    place, one, _ = integrated
    new = folder(tmp_path / "new", rows("crossed", 30, seed=5), 2)
    for fitted, error, message, code in (
        (None, lgm.MethodError, "these are others", "E501"),
        (new, lgm.WorkerError, "not the folder that the fit was made of", "E703"),
        (tmp_path, lgm.DataError, "holds no shards", "E306"),
    ):
        with pytest.raises(error, match=message) as caught:
            one.predict_shards(new, tmp_path / "out", fitted=fitted)
        assert caught.value.codes == (code,) and caught.value.diagnostics[0].help
        assert not (tmp_path / "out").exists(), "nothing is left behind"
    with pytest.raises(lgm.DataError, match="there already"):
        one.predict_shards(place, place)
    with pytest.raises(lgm.MethodError, match="lie in shards") as refused:
        one.predict({"x": [0.0], "who": ["g1"], "what": [1]})
    assert "fit.predict_shards" in refused.value.diagnostics[0].help
    table(new.with_suffix(".parquet"), {"who": ["a"] * 9, "x": [0.0] * 9})
    assert main(["shard", f"{new}.parquet", "--by", "who", "-o", str(tmp_path / "few")]) == 0
    with pytest.raises(lgm.DataError, match="what") as lacking:
        one.predict_shards(tmp_path / "few", tmp_path / "out", fitted=place)
    assert "shard-00000.parquet" in str(lacking.value)


@pytest.mark.thorough
def test_the_command(
    integrated: tuple[Path, Fit, Fit], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, _, other = integrated
    fit, out = place.with_suffix(".fit.nc"), tmp_path / "out"

    def call(*arguments: object) -> tuple[int, str, str]:
        status = main([str(a) for a in arguments])
        return status, *capsys.readouterr()

    status, text_, err = call("predict", fit, place, "-o", out, "--json")
    assert status == 0, err
    said = json.loads(text_)
    paths = tuple(map(Path, said["files"]))
    agree(ShardPredictions(paths, tuple(said["columns"])), place, other, DIGITS)
    assert call("predict", fit, place, "-o", out)[0] == 1
    for wrong in (("-o", out / "x", "--data", fit), ()):
        assert call("predict", fit, place, *wrong)[0] == 2
    status, _, err = call("predict", fit, f"{place}.parquet", "--jobs", 2)
    assert status == 2 and "NEW is a file" in err
