"""Every kind of source gives the same grounded model, whatever the order of its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lgmdsl as lgm
from lgmdsl.api.help.topics import topics
from lgmdsl.canonical.grounding.ground import GroundedModel
from lgmdsl.cli.commands.fit import command as fit_command
from lgmdsl.dataset import Entry, read
from lgmdsl.dataset.arrow import column_types, from_table
from lgmdsl.dataset.batches import batches, undecided
from lgmdsl.dataset.sources import READERS
from lgmdsl.errors import DataError
from lgmdsl.files import DATA
from tests.data.models import GLMM, ROWS, bind


def same(a: GroundedModel, b: GroundedModel) -> None:
    assert set(a.values) == set(b.values) and set(a.missing) == set(b.missing)
    for name in a.indices:
        assert a.indices[name].labels.tolist() == b.indices[name].labels.tolist(), name
    for name, value in a.values.items():
        np.testing.assert_array_equal(_dense(value), _dense(b.values[name]), err_msg=name)
        assert value.dtype == b.values[name].dtype
    for name, mask in a.missing.items():
        np.testing.assert_array_equal(mask, b.missing[name])
    assert dict(a.hashes) == dict(b.hashes)


def _dense(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else value.toarray()


def table(n: int, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    x = np.round(rng.standard_normal(n), 6)
    x[rng.random(n) < 0.2] = np.nan
    return {
        "obs": rng.permutation(1000)[:n],
        "y": rng.poisson(3, n),
        "x": x,
        "who": rng.choice(np.array(["ann", "bob", "Zoë", 'o"k', "a,b"]), n),
        "flag": rng.integers(0, 2, n),
    }


def write(kind: str, data: dict[str, np.ndarray[Any, Any]], folder: Path) -> Any:
    if kind == "dict":
        return data
    if kind == "lists":
        return {k: [None if v != v else v for v in a.tolist()] for k, a in data.items()}
    if kind == "npz":
        np.savez(folder / "d.npz", **data)  # type: ignore[arg-type]
        return folder / "d.npz"
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data)
    match kind:
        case "pandas":
            return frame
        case "pandas index":
            return frame.set_index("obs")
        case "series":
            rows = frame.set_index("obs")
            return {name: rows[name] for name in rows.columns}
        case "nullable":
            return frame.convert_dtypes()
        case "csv":
            frame.to_csv(folder / "d.csv", index=False)
            return folder / "d.csv"
        case "parquet":
            pytest.importorskip("pyarrow")
            frame.to_parquet(folder / "d.parquet", index=False)
            return folder / "d.parquet"
        case "polars":
            return pytest.importorskip("polars").DataFrame(data, nan_to_null=True)
        case "arrow":
            return pytest.importorskip("pyarrow").Table.from_pandas(frame)
        case "xarray":
            return frame.set_index("obs").to_xarray()
        case "nc":
            dataset = frame.set_index("obs").to_xarray()
            dataset["who"] = ("obs", data["who"].astype(object))
            dataset.to_netcdf(folder / "d.nc", engine="h5netcdf")
            return folder / "d.nc"
    raise AssertionError(kind)


KINDS = [
    "lists", "npz", "csv", "parquet", "nc", "pandas", "pandas index", "series", "nullable",
    "polars", "arrow", "xarray",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_every_source_gives_the_same_model(kind: str, seed: int, tmp_path: Path) -> None:
    data = table(1 + 12 * seed, seed)
    same(bind(ROWS, data), bind(ROWS, write(kind, data, tmp_path)))


@given(st.integers(1, 9), st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_rows_are_matched_by_label(n: int, seed: int, random: Any) -> None:
    """Rows in another order are the same data, once the labels are declared in one order."""
    data = table(n, seed)
    data["obs"] = np.arange(n)
    text = ROWS.replace("index obs\n", f"index obs = 0..{n - 1}\n")
    order = np.array(random.sample(range(n), n))
    same(bind(text, data), bind(text, {k: v[order] for k, v in data.items()}))


@given(st.integers(2, 8), st.integers(0, 10**6))
def test_arrays_of_one_dict_are_matched_by_label(n: int, seed: int) -> None:
    """Series over one index in different orders agree on the labels, not on the positions."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    data = table(n, seed)
    rows = pandas.DataFrame(data).set_index("obs")
    mixed = {name: rows[name].iloc[rng.permutation(n)] for name in rows.columns}
    got, want = bind(ROWS, mixed), bind(ROWS, data)
    at = got.indices["obs"].positions(want.indices["obs"].labels)
    assert (at >= 0).all()
    for name in want.values:
        np.testing.assert_array_equal(got.values[name][at], want.values[name])


def test_axes_of_a_labelled_array_are_matched_by_name() -> None:
    xr = pytest.importorskip("xarray")
    X = np.arange(6.0).reshape(2, 3)
    plain: dict[str, Any] = {"y": [1, 2], "X": X, "who": ["a", "b"], "time": [1, 2]}
    plain |= {"feat": ["p", "q", "r"], "obs": [4, 9]}
    turned = xr.DataArray(
        X.T[[2, 0, 1]], dims=("feat", "obs"), coords={"feat": ["r", "p", "q"], "obs": [4, 9]}
    )
    same(bind(GLMM, plain), bind(GLMM, plain | {"X": turned}))
    with pytest.raises(DataError, match=r"axes \(feat, row\)") as caught:
        bind(GLMM, plain | {"X": turned.rename(obs="row")})
    assert caught.value.codes == ("E301",)
    dataset = xr.Dataset({"X": turned.rename(obs="row"), "y": ("row", [1, 2])})
    dataset["who"], dataset["time"] = ("row", ["a", "b"]), ("row", [1.0, 2.0])
    renamed = bind(GLMM, dataset, {"obs": "row"})
    assert renamed.indices["obs"].labels.tolist() == [4, 9]
    assert renamed.indices["feat"].labels.tolist() == ["r", "p", "q"]
    assert renamed.values["X"].tolist() == [[2.0, 0.0, 1.0], [5.0, 3.0, 4.0]]


def test_sparse_in_npz_by_parts_by_prefix_and_by_scipy(tmp_path: Path) -> None:
    sp = pytest.importorskip("scipy.sparse")
    dense = np.array([[1, 0, 2], [0, 0, 3]], dtype=np.int8)
    csr = sp.csr_array(dense)
    parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape}
    rest = {"y": [1, 2], "who": ["a", "b"], "time": [1.0, 2.0]}
    want = bind(GLMM, rest | {"X": csr})
    assert want.values["X"].dtype == np.float64 and not isinstance(want.values["X"], np.ndarray)
    file = tmp_path / "d.npz"
    for prefix, mapping in (("X.", {}), ("t_", {"X": "t_"}), ("", {"X": "."}), ("", {"X": ""})):
        np.savez(file, **rest, **{prefix + k: v for k, v in parts.items()})  # type: ignore[arg-type]
        same(want, bind(GLMM, file, mapping))
    for kind in ("csr", "csc", "coo", "bsr", "dia"):
        sp.save_npz(tmp_path / "s.npz", csr.asformat(kind))
        np.savez(file, **rest)  # type: ignore[arg-type]
        same(want, bind(GLMM, [tmp_path / "s.npz", file], {"X": "."}))


def test_duplicate_entries_of_a_sparse_matrix_are_summed() -> None:
    sp = pytest.importorskip("scipy.sparse")
    X = sp.coo_array(([1.0, 2.0, 5.0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    got = bind(GLMM, {"y": [1, 2], "X": X, "who": [0, 1], "time": [1, 2]}).values["X"]
    assert got.toarray().tolist() == [[3.0, 0.0], [0.0, 5.0]] and got.nnz == 2


def test_real_data(shared: Path) -> None:
    """Files as they lie there: sparse by prefix, edges and adjacency agree, integers widen."""
    logistic = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : integer
latent w[feat] ~ normal(sd = 1)
let eta[obs] = X @ w
observe y ~ normal(mean = eta, sd = 1)
"""
    train = bind(logistic, shared / "data" / "a9a.npz", {"X": "."})
    assert train.values["X"].shape == (32561, 123) and train.values["X"].nnz == 451592
    test = bind(logistic, shared / "data" / "a9a.npz", {"X": "t_", "y": "t_y"})
    assert test.values["X"].shape == (16281, 123) and test.values["X"].dtype == np.float64
    lip = """lgm 1
index region
data y[region] : count
data adj[region, region] : graph
latent v[region] ~ besag(graph = adj, sd = 1)
let eta[region] = v
observe y ~ poisson(log_rate = eta)
"""
    file = shared / "data" / "scotland_lip.npz"
    same(bind(lip, file), bind(lip, file, {"adj": "edges"}))


@pytest.mark.parametrize(
    ("source", "mapping", "message"),
    [
        ([{"y": 1, "g": "a"}, {"y": 2, "g": "b"}], None, r"one dict for each row\n.*DataFrame"),
        (np.ones((3, 2)), None, r"without names is not a source of data\n.*columns=\[...\]"),
        (pd.Series([1.0]), None, r"without names is not a source of data"),
        ({"y": [1.0]}, "y=z", r"E108.*not a str\n.*mapping=\{"),
        (pd.DataFrame({"t": pd.to_timedelta([1, 2], "D")}), None, r"durations\n.*/ 86400"),
    ],
)
def test_what_is_no_source(source: Any, mapping: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        for entry in read(source, mapping).entries.values():
            assert entry.loaded


def test_every_ending_has_a_reader_and_is_in_the_manual(root: Path) -> None:
    assert set(READERS) == set(DATA)
    (topic,) = (page for page in topics() if page.name == "data")
    pages = [
        root / "README.md",
        root / "docs/language/data.md",
        root / "docs/reference/data-files.md",
    ]
    texts = {str(p): p.read_text(encoding="utf-8") for p in pages}
    texts |= {
        "lgm.fit": lgm.fit.__doc__ or "",
        "lgm fit --help": fit_command.help or "",
        "lgm help data": topic.text,
    }
    assert [(where, e) for where, text in texts.items() for e in DATA if e not in text] == []


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_batches_come_from_any_file_that_pyarrow_reads_by_batches(
    ending: str, tmp_path: Path
) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    table = pa.table({"y": np.arange(7), "who": [f"m{k}" for k in range(7)]})
    place = tmp_path / f"rows.{ending}"
    {"parquet": parquet.write_table, "feather": feather.write_feather}[ending](table, place)
    entries = {
        name: Entry(name, place.name, entry.shape, entry.loader, table=str(place), batched=True)
        for name, entry in from_table(place.name, table).items()
    }
    assert undecided(entries, entries) == ""
    assert column_types(entries) == {"y": pa.int64(), "who": pa.string()}
    parts = list(batches(place.name, entries, 3, entries))
    assert [(rows.start, rows.stop) for rows, _ in parts] == [(0, 3), (3, 6), (6, 7)]
    read_back = np.concatenate([part["y"].loaded.values for _, part in parts])
    np.testing.assert_array_equal(read_back, np.arange(7))
