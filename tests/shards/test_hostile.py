"""Folders that were edited, damaged or are in use: a clear error, or the answer; and no file
outside of the folder is read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.shards import manifest
from lgmdsl.shards.keys import shard_of
from lgmdsl.shards.manifest import read_manifest, sha256_of
from tests.shards.models import folder, rows, table, text

MODEL, FIXED = text("poisson"), {"s": 0.5}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("whole") / "shards", rows("poisson"))


@pytest.fixture
def shards(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "shards"))


def fields(shards: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((shards / "manifest.json").read_text())
    return read


def one(**changed: Any) -> Callable[[dict[str, Any]], Any]:
    """The manifest with another first shard."""
    return lambda m: {**m, "shards": [{**m["shards"][0], **changed}, *m["shards"][1:]]}


def whole_of(**changed: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda m: {**m, **changed}


DAMAGED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "above": (one(path="../other/shard-00000.parquet"), "no name of a file in the folder"),
    "absolute": (one(path="/etc/passwd"), "no name of a file in the folder"),
    "windows": (one(path="..\\\\x.parquet"), "no name of a file in the folder"),
    "dots": (one(path=".."), "no name of a file in the folder"),
    "no name": (one(path=""), "no name of a file in the folder"),
    "no text": (one(path=None), "no name of a file in the folder"),
    "NUL": (one(path="a\0.parquet"), "no name of a file in the folder"),
    "itself": (one(path="manifest.json"), "no name of a file in the folder"),
    "digest": (one(sha256=5), "shard 1 has no sha256"),
    "rows": (one(rows="50"), "impossible numbers"),
    "fraction": (one(rows=50.5), "impossible numbers"),
    "infinite": (one(rows=float("inf")), "impossible numbers"),
    "very many": (one(rows=10**30), "impossible numbers"),
    "none": (one(rows=0, groups=0), "without rows"),
    "total": (one(rows=200), "other rows than it says for all"),
    "bucket": (one(bucket=3), "impossible numbers"),
    "twice": (lambda m: {**m, "buckets": 9, "shards": m["shards"] + m["shards"][:1]}, "twice"),
    "left out": (lambda m: {**m, "shards": m["shards"][:2]}, "other rows than it says for all"),
    "empty": (whole_of(shards=[]), "it names no shards"),
    "many": (lambda m: {**m, "shards": m["shards"] * 30_000}, "more than there can be"),
    "buckets": (whole_of(buckets=10**12), "more than there can be"),
    "no list": (whole_of(shards={"a": 1}), "of another kind"),
    "by": (whole_of(by=["who"]), "of another kind"),
    "columns": (whole_of(columns=[["x", "double"]]), "none of its columns"),
    "format": (whole_of(format=True), "fields of format 1"),
    "older": (whole_of(format=0), "fields of format 1"),
    "list": (lambda m: [1, 2], "fields of format 1"),
    "null": (lambda m: None, "fields of format 1"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_edited_manifests(case: str, shards: Path) -> None:
    change, message = DAMAGED[case]
    shutil.copytree(shards, shards.parent / "other")  # where an edited path may lead
    content = json.dumps(change(fields(shards)))
    (shards / "manifest.json").write_text(content)
    with pytest.raises(lgm.DataError, match=message) as caught:
        lgm.fit(lgm.loads(MODEL), shards, fixed=FIXED)
    assert caught.value.codes == ("E306",) and caught.value.diagnostics[0].help


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b"\xff\xfe\0", b""])
def test_manifests_that_are_no_json(content: bytes, shards: Path) -> None:
    (shards / "manifest.json").write_bytes(content)
    with pytest.raises(lgm.DataError, match="is damaged: it is no JSON") as raised:
        read_manifest(shards)
    assert "copy it again" in raised.value.diagnostics[0].help


def test_manifests_of_another_size_or_kind(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, good = shards / "manifest.json", fields(shards)
    place.write_text(json.dumps({**good, "format": 99, "lgmdsl": "9.0"}))
    with pytest.raises(lgm.DataError, match="in a later format"):
        read_manifest(shards)
    place.write_text(json.dumps(good))
    monkeypatch.setattr(manifest, "LARGEST", 10)
    with pytest.raises(lgm.DataError, match="larger than any"):
        read_manifest(shards)
    monkeypatch.undo()
    outside = shards.parent / "manifest.json"
    place.rename(outside)
    kinds: list[tuple[Callable[[], object], str]] = [
        (lambda: place.symlink_to(outside), "is a link to a file elsewhere"),
        (place.mkdir, "is a folder"),
        (lambda: os.mkfifo(place), "is a pipe"),
    ]
    for make, message in kinds:
        make()
        with pytest.raises(lgm.DataError, match=message):
            read_manifest(shards)
        place.rmdir() if place.is_dir() else place.unlink()
    with pytest.raises(lgm.DataError, match="this folder holds no shards"):
        read_manifest(shards)


FILES: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "gone": (lambda file, other: None, "no such file"),
    "a folder": (lambda file, other: file.mkdir(), "it is a folder"),
    "a pipe": (lambda file, other: os.mkfifo(file), "it is a pipe"),
    "a link": (lambda file, other: file.symlink_to(other), "it is a link to a file elsewhere"),
    "half": (lambda file, other: file.write_bytes(other.read_bytes()[:99]), "has other bytes"),
}


@pytest.mark.parametrize("case", FILES)
def test_shards_that_are_not_what_they_were(case: str, shards: Path, whole: Path) -> None:
    """Also a link to the same bytes elsewhere."""
    make, message = FILES[case]
    file = shards / "shard-00001.parquet"
    file.unlink()
    make(file, whole / "shard-00001.parquet")
    with pytest.raises(lgm.WorkerError, match=message) as caught:
        lgm.fit(lgm.loads(MODEL), shards, fixed=FIXED)
    assert caught.value.codes == ("E703",)


def made_by_hand(place: Path, tables: list[dict[str, Any]], buckets: list[int], of: int) -> None:
    """A folder whose manifest is in order."""
    place.mkdir()
    shards: list[dict[str, Any]] = []
    for k, (columns, bucket) in enumerate(zip(tables, buckets, strict=True)):
        file = table(place / f"shard-{k:05d}.parquet", columns)
        counts = {"rows": len(columns["who"]), "groups": len(set(columns["who"]))}
        shards.append({"path": file.name, "sha256": sha256_of(file), **counts, "bucket": bucket})
    total: dict[str, int] = {name: sum(s[name] for s in shards) for name in ("rows", "groups")}
    kinds = [[name, "any"] for name in tables[0]]
    about = {"format": 1, "lgmdsl": "0", "by": "who", "buckets": of, "columns": kinds}
    (place / "manifest.json").write_text(json.dumps({**about, **total, "shards": shards}))


def test_a_group_in_two_shards_is_not_two_groups(tmp_path: Path) -> None:
    """Rows dealt out by somebody else: refused; by the hashes of the labels: taken."""
    data = rows("poisson")
    half = [{n: np.asarray(v)[k::2] for n, v in data.items()} for k in range(2)]
    made_by_hand(tmp_path / "halves", half, [0, 1], 2)
    with pytest.raises(lgm.WorkerError, match="groups that belong to other shards"):
        lgm.fit(lgm.loads(MODEL), tmp_path / "halves", fixed=FIXED)
    import pyarrow as pa

    where = shard_of(pa.array(data["who"].tolist()), 2)
    parts = [{n: np.asarray(v)[where == k] for n, v in data.items()} for k in range(2)]
    made_by_hand(tmp_path / "hand", parts, [0, 1], 2)
    fits = [
        lgm.fit(lgm.loads(MODEL), place, fixed=FIXED)
        for place in (tmp_path / "hand", folder(tmp_path / "split", data))
    ]
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, abs=1e-9)


def test_files_that_no_manifest_names_are_not_read(shards: Path, whole: Path) -> None:
    shutil.copy(shards / "shard-00000.parquet", shards / "shard-00009.parquet")
    (shards / "notes.parquet").write_text("no table")
    fits = [lgm.fit(lgm.loads(MODEL), place, fixed=FIXED) for place in (shards, whole)]
    assert fits[0].log_evidence == fits[1].log_evidence


@pytest.mark.thorough
def test_two_fits_of_one_folder_at_once(whole: Path) -> None:
    def fitted(s: float) -> float:
        return lgm.fit(lgm.loads(MODEL), whole, fixed={"s": s}).log_evidence

    values = [0.3, 0.5, 0.3, 0.5]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fitted, values))
    assert found[0] == found[2] and found[1] == found[3] and found[0] != found[1]
    assert found[:2] == [fitted(s) for s in values[:2]]


def test_where_outputs_may_be(shards: Path, tmp_path: Path) -> None:
    """In the folder of the shards itself too, which stays what it was; not over what is there."""
    fit = lgm.fit(lgm.loads(MODEL), shards, fixed=FIXED)
    inside = fit.predict_shards(shards, shards / "predictions").paths
    assert len(fit.groups(shards, shards / "groups")) == len(inside) == 3
    again = lgm.fit(lgm.loads(MODEL), shards, fixed=FIXED)
    assert again.log_evidence == fit.log_evidence
    (tmp_path / "file").write_text("")
    for output in (shards, tmp_path / "file", tmp_path / "file" / "below", "/proc/none"):
        for ask in (fit.predict_shards, fit.groups):
            with pytest.raises(lgm.DataError) as caught:
                ask(shards, output)
            assert caught.value.codes == ("E306",)
    assert sorted(p.name for p in shards.glob("*.parquet")) == [
        f"shard-{k:05d}.parquet" for k in range(3)
    ]


def test_shards_of_another_model(shards: Path, tmp_path: Path) -> None:
    other = folder(tmp_path / "other", {"z": [1.0, 2.0], "who": ["a", "b"]}, 1)
    with pytest.raises(lgm.DataError, match="y") as caught:
        lgm.fit(lgm.loads(MODEL), other, fixed=FIXED)
    assert caught.value.codes == ("E305",) * len(caught.value.codes)
    two = lgm.fit(lgm.loads(text("two")), shards, fixed={"s": 0.5, "t": 1.0})
    (path, *_) = two.predict_shards(shards, tmp_path / "out").paths
    assert "eta_mean" in pd.read_parquet(path)
    with pytest.raises(lgm.MethodError, match="these are others"):
        two.predict_shards(other, tmp_path / "none")
    with pytest.raises(lgm.DataError, match="one folder of shards"):
        lgm.fit(lgm.loads(MODEL), [shards, other], fixed=FIXED)
