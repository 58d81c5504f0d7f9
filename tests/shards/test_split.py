"""Folders of shards: whole groups, whatever the order of the rows; and tables that are refused."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lgmdsl as lgm
from lgmdsl.cli.main import main
from lgmdsl.shards import split as splitting
from lgmdsl.shards.keys import shard_of
from lgmdsl.shards.manifest import read_manifest, sha256_of
from lgmdsl.shards.split import split
from tests.shards.models import folder, rows, table, text


def test_shards_hold_whole_groups_and_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of a few rows, and groups that are split over row groups."""
    monkeypatch.setattr(splitting, "BATCH", 7)
    data = rows("crossed")
    data["row"] = np.arange(len(data["y"]))
    place = table(tmp_path / "rows.parquet", data, row_group_size=11)
    made = split(place, "who", tmp_path / "shards", 4)
    parts = [pd.read_parquet(s.path) for s in made.shards]
    assert [len(p) for p in parts] == [s.rows for s in made.shards]
    assert [p["who"].nunique() for p in parts] == [s.groups for s in made.shards]
    seen = [set(p["who"]) for p in parts]
    assert sum(map(len, seen)) == len(set.union(*seen)) == 15
    joined = pd.concat(parts).sort_values("row").reset_index(drop=True)
    pd.testing.assert_frame_equal(joined, pd.read_parquet(place))
    for part in parts:  # sorted by group, and within one in the order of the table
        assert part["who"].is_monotonic_increasing
        assert all(p["row"].is_monotonic_increasing for _, p in part.groupby("who"))
    again = read_manifest(tmp_path / "shards")
    assert again == made and all(sha256_of(s.path) == s.sha256 for s in made.shards)
    names = sorted(p.name for p in (tmp_path / "shards").iterdir())
    assert names == ["manifest.json", *(s.name for s in made.shards)]
    assert not list(tmp_path.glob(".shards*")), "no scratch is left"


def test_batches_and_row_groups_change_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = rows("poisson")
    one = split(table(tmp_path / "a.parquet", data), "who", tmp_path / "a", 3)
    monkeypatch.setattr(splitting, "BATCH", 5)
    small = table(tmp_path / "b.parquet", data, row_group_size=3)
    other = split(small, "who", tmp_path / "b", 3)
    assert [s.sha256 for s in one.shards] == [s.sha256 for s in other.shards]


@pytest.mark.parametrize(
    "labels",
    [
        pa.array(["x", "y", "x", "z"] * 5),
        pa.array(["x", "y", "x", "z"] * 5).dictionary_encode(),
        pa.array([3, -1, 3, 2**60] * 5),
        pa.array([3, 1, 3, 7] * 5, pa.uint8()),
    ],
)
def test_labels_decide_the_shard(labels: Any) -> None:
    where = shard_of(labels, 5)
    values = labels.to_pylist()
    assert all(
        len({int(w) for w, v in zip(where, values, strict=True) if v == u}) == 1
        for u in set(values)
    )
    assert ((where >= 0) & (where < 5)).all()


def test_shards_are_of_about_one_size() -> None:
    counts = np.bincount(shard_of(pa.array(np.arange(20_000)), 16), minlength=16)
    assert counts.min() > 1000 and counts.max() < 1500
    texts = pa.array([f"patient {i}" for i in range(20_000)])
    counts = np.bincount(shard_of(texts, 16), minlength=16)
    assert counts.min() > 1000 and counts.max() < 1500


def test_more_shards_than_groups_leave_none_empty(tmp_path: Path) -> None:
    made = split(table(tmp_path / "r.parquet", rows("poisson")), "who", tmp_path / "s", 500)
    assert 1 < len(made.shards) <= 15 and all(s.rows for s in made.shards)


NUMBERS = np.array([int(w[1:]) for w in rows("poisson")["who"]])
DAYS = np.datetime64("2020-01-01") + NUMBERS
LABELS: dict[str, Any] = {
    "fractions": pa.array(NUMBERS / 4),
    "whole fractions": pa.array(NUMBERS * 1.0),
    "truth": pa.array(NUMBERS > 7),
    "days": pa.array(DAYS.astype("datetime64[ns]")),
    "hours": pa.array((DAYS + np.timedelta64(6, "h") * (NUMBERS % 2)).astype("datetime64[us]")),
    "decimals": pa.array(NUMBERS / 4).cast(pa.decimal128(8, 2)),
    "long decimals": pa.array(
        [Decimal(12345678901234567890123 + int(k)) for k in NUMBERS], pa.decimal128(38, 0)
    ),
    "nanoseconds": pa.array(DAYS[0].astype("datetime64[ns]") + NUMBERS),
    "rounding": pa.array(0.1 + NUMBERS * 2.0**-55),
    "large": pa.array(NUMBERS.astype(np.uint64) + 2**63),
    "views": pa.array(rows("poisson")["who"]).cast(pa.string_view()),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("case", LABELS)
def test_groups_are_named_as_in_memory(case: str, tmp_path: Path) -> None:
    """By numbers, dates and texts of any layout: the same labels and the same evidence."""
    place = folder(tmp_path / "s", {**rows("poisson"), "who": LABELS[case]}, 4)
    model, fixed = lgm.loads(text("poisson")), {"s": 0.5}
    one = lgm.fit(model, place, fixed=fixed)
    other = lgm.fit(model, place.with_suffix(".parquet"), "laplace", fixed=fixed)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-8)
    written = pd.concat([pd.read_parquet(p) for p in one.groups(place, tmp_path / "groups")])
    known = other["u"].coords["group"].values.tolist()
    names = [str(v).removesuffix(".0") for v in written["who"].tolist()]
    assert sorted(names) == sorted(str(v).removesuffix(".0") for v in known)
    assert len(known) == len(set(NUMBERS.tolist())) or case == "truth"
    assert read_manifest(place).groups == len(known)


HOSTILE: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "missing": ({"who": pa.array(["a", None])}, "who", "E304", "`who` is missing in row 1"),
    "empty text": ({"who": pa.array(["a", "b", ""])}, "who", "E304", "`who` is missing in row 2"),
    "empty entry": (
        {"who": pa.array(["a", ""]).dictionary_encode()},
        "who",
        "E304",
        "`who` is missing in row 1",
    ),
    "floats": ({"who": [1.0, float("nan")]}, "who", "E304", "`who` is missing in row 1"),
    "times": ({"who": pa.array([3, 4], pa.time32("s"))}, "who", "E306", "holds time32"),
    "absent": ({"whom": ["a", "b"]}, "who", "E305", "has no column `who`"),
    "lists": ({"who": [["a"], ["b"]]}, "who", "E306", "not labels of groups"),
    "empty": ({"who": pa.array([], pa.string())}, "who", "E306", "it has no rows"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_tables_that_cannot_be_split(case: str, tmp_path: Path) -> None:
    columns, by, code, message = HOSTILE[case]
    with pytest.raises(lgm.DataError, match=message) as caught:
        split(table(tmp_path / "r.parquet", columns), by, tmp_path / "s")
    assert caught.value.codes == (code,)
    assert [p.name for p in tmp_path.iterdir()] == ["r.parquet"], "nothing is left behind"


def test_files_and_folders_that_are_refused(tmp_path: Path) -> None:
    place = table(tmp_path / "r.parquet", rows("poisson"))
    (tmp_path / "text.parquet").write_text("who\na\n")
    for path in (tmp_path / "text.parquet", tmp_path / "none.parquet", tmp_path):
        with pytest.raises(lgm.DataError) as caught:
            split(path, "who", tmp_path / "s")
        assert caught.value.codes == ("E306",)
    for shards in (0, 5000, True):
        with pytest.raises(lgm.MethodError) as refused:
            split(place, "who", tmp_path / "s", shards)
        assert refused.value.codes == ("E108",)
    split(place, "who", tmp_path / "s", 2)
    with pytest.raises(lgm.DataError, match="there already"):
        split(place, "who", tmp_path / "s", 2)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, shards = table(tmp_path / "rows.parquet", rows("poisson")), tmp_path / "shards"
    model = tmp_path / "m.lgm"
    model.write_text(text("poisson"))

    def call(*arguments: object) -> tuple[int, str, str]:
        status = main([str(a) for a in arguments])
        return status, *capsys.readouterr()

    status, out, _ = call("shard", place, "--by", "who", "-o", shards, "--shards", 3, "--json")
    assert status == 0 and json.loads(out)["rows"] == 240
    groups = tmp_path / "groups"
    status, out, err = call("fit", model, shards, "--set", "s=0.5", "--groups", groups, "--json")
    assert status == 0 and json.loads(out)["method"] == "laplace", err
    assert len(list(groups.iterdir())) == 3
    status, _, err = call("fit", model, shards, "--set", "s=0.5", "--groups", groups)
    assert status == 1 and "there already" in err
    status, _, err = call("fit", model, place, "--groups", tmp_path / "none")
    assert status == 1 and "only fits of shards" in err
    status, out, _ = call("shard", place, "--by", "who", "-o", tmp_path / "two", "--shards", 2)
    assert status == 0 and "shard-00001.parquet" in out


@pytest.mark.parametrize("twice", ["who", "x"])
def test_columns_of_one_name_are_refused(twice: str, tmp_path: Path) -> None:
    columns = pa.table({"who": ["a", "b"], "x": [1.0, 2.0]})
    place = table(tmp_path / "rows.parquet", columns.append_column(twice, columns[twice]))
    with pytest.raises(lgm.DataError, match=f"it has two columns `{twice}`") as caught:
        split(place, "who", tmp_path / "shards")
    assert caught.value.codes == ("E306",) and not (tmp_path / "shards").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """Opening one waits for its other end."""
    os.mkfifo(tmp_path / "r.parquet")
    with pytest.raises(lgm.DataError, match=r"E306.*this is a pipe"):
        split(tmp_path / "r.parquet", "who", tmp_path / "s")
