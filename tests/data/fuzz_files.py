"""Mutated data files: each ends in a grounded model or an LgmError.

    python tests/data/fuzz_files.py 2000 [seed]

writes `count` damaged or odd files of all four formats, grounds a model on each, and prints how
many were read, how many refused and with which codes, and the slowest. Anything but LgmError is
printed with its seed, and the exit status is 1.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lgmdsl.canonical.grounding.ground import ground
from lgmdsl.dataset import read
from lgmdsl.errors import LgmError
from lgmdsl.graph.build import model_graph
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.load import loads

TEXT = """lgm 1
index obs
index subject
index feat
data y[obs] : count
data X[obs, feat] : real
data who[obs] : subject
data b[obs] : binary?
data adj[subject, subject] : graph
latent w[feat] ~ normal(sd = 1)
latent u[subject] ~ besag(graph = adj, sd = 1)
let eta[obs] = X @ w + u[who]
observe y ~ poisson(log_rate = eta)
observe b ~ bernoulli(logit = eta)
"""
TABLE = """lgm 1
index obs
index subject
data y[obs] : count
data x[obs] : real
data who[obs] : subject?
data b[obs] : binary?
latent u[subject] ~ normal(sd = 1)
let eta[obs] = u[who] + 0.1 * x
observe y ~ poisson(log_rate = eta)
observe b ~ bernoulli(logit = eta)
"""
SUFFIXES = ("npz", "npz", "csv", "parquet", "nc")


@dataclass
class Outcome:
    read: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    slowest_case: str = ""
    escaped: list[str] = field(default_factory=list)


def good(rng: np.random.Generator, table: bool) -> dict[str, Any]:
    """A data set that fits its model, of 1 to 30 rows."""
    n = int(rng.integers(1, 31))
    data: dict[str, Any] = {"y": rng.poisson(2, n), "b": rng.integers(0, 2, n).astype(float)}
    data["who"] = (
        rng.choice(np.array(["a", "b", "c"]), n) if rng.random() < 0.5 else (rng.integers(0, 3, n))
    )
    if table:
        return data | {"x": rng.standard_normal(n)}
    data["adj"] = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    data["subject"] = np.array(["a", "b", "c"]) if data["who"].dtype.kind == "U" else np.arange(3)
    X = rng.standard_normal((n, 2))
    if rng.random() < 0.3:
        return data | {
            "X.data": X.reshape(-1), "X.indices": np.tile([0, 1], n),
            "X.indptr": 2 * np.arange(n + 1), "X.shape": np.array([n, 2]),
        }  # fmt: skip
    return data | {"X": X}


def bend(data: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Change types, shapes or values of one array."""
    key = str(rng.choice(sorted(data)))
    value = np.asarray(data[key])
    flat = value.reshape(-1)
    choice = int(rng.integers(0, 14))
    if choice == 0:
        kinds = [
            "i1", "u8", "f4", "f2", "U3", "S2", "c8", "?", ">i2", "M8[s]", "O", "g", "V4",
        ]  # fmt: skip
        changed: Any = np.zeros(value.shape, dtype=str(rng.choice(kinds)))
    elif choice == 1:
        changed = value[..., None]
    elif choice == 2:
        changed = flat[: max(0, flat.size - int(rng.integers(1, 4)))]
    elif choice == 3:
        changed = value.T if value.ndim > 1 else value[None]
    elif choice == 4:
        changed = np.zeros((0, *value.shape[1:]), dtype=value.dtype)
    elif choice == 5:
        return {k: v for k, v in data.items() if k != key}
    elif choice == 6:
        changed = value.reshape(-1)[0] if value.size else value
    elif choice == 7:
        changed = np.array([{"a": 1}, None, "x"], dtype=object)
    elif value.dtype.kind in "iuf" and value.size:
        odd = [np.nan, np.inf, -np.inf, -1.0, 2.0, 0.5, 1e308, 2.0**63][choice % 8]
        changed = value.astype(float)
        changed.reshape(-1)[int(rng.integers(0, value.size))] = odd
    else:
        changed = np.array([f"{v}" * int(rng.integers(0, 3)) for v in flat]).reshape(value.shape)
    return data | {key: changed}


def save(data: dict[str, Any], file: Path) -> None:
    """Write a data set; what a format cannot hold stays out of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if file.suffix == ".npz":
            np.savez(file, **data)
            return
        import pandas as pd

        columns = {k: v for k, v in data.items() if np.asarray(v).ndim == 1}
        longest = max((len(v) for v in columns.values()), default=0)
        frame = pd.DataFrame({k: v for k, v in columns.items() if len(v) == longest})
        for name in frame.columns:
            if not getattr(frame[name].dtype, "isnative", True):
                frame[name] = frame[name].astype("i8")
            if frame[name].dtype.kind in "cVM" or str(frame[name].dtype) in ("float16", "object"):
                frame[name] = frame[name].astype(str)
        if file.suffix == ".csv":
            frame.to_csv(file, index=False)
        elif file.suffix == ".parquet":
            frame.astype({n: "f8" for n in frame.columns if frame[n].dtype.kind == "f"}).to_parquet(
                file
            )
        else:
            dataset = frame.to_xarray().rename({"index": "obs"})
            for variable in dataset.data_vars:
                if dataset[variable].dtype.kind not in "iuf":
                    text = dataset[variable].values.astype(str).astype(object)
                    dataset[variable] = ("obs", text)
            dataset.to_netcdf(file, engine="h5netcdf")


def damage(raw: bytes, rng: np.random.Generator) -> bytes:
    """Flip, cut, repeat or overwrite bytes; headers are hit as often as the rest."""
    content = bytearray(raw)
    if not content:
        return raw
    for _ in range(int(rng.integers(1, 5))):
        size = len(content)
        if not size:
            break
        near = (
            int(rng.integers(0, min(size, 400)))
            if rng.random() < 0.5
            else (int(rng.integers(0, size)))
        )
        match int(rng.integers(0, 7)):
            case 0 | 1:
                content[near] ^= 1 << int(rng.integers(0, 8))
            case 2:
                del content[near:]
            case 3:
                content[near : near + 4] = rng.bytes(4)
            case 4:
                content[near : near + 8] = b"\xff" * 8
            case 5:
                content[near:near] = content[near : near + int(rng.integers(1, 64))]
            case 6:
                for old, new in ((b"shape': (", b"shape': (9"), (b"<f8", b"|O"), (b"<i8", b"<U9")):
                    if old in content:
                        at = content.find(old)
                        content[at : at + len(old)] = new
    return bytes(content)


def attempt(
    case: int, seed: int, folder: Path, models: tuple[CheckedModel, CheckedModel], outcome: Outcome
) -> None:
    """One file: made, bent, damaged, read and grounded."""
    rng = np.random.default_rng([seed, case])
    suffix = SUFFIXES[case % len(SUFFIXES)]
    file = folder / f"d{case}.{suffix}"
    table = suffix != "npz"
    data = good(rng, table)
    mode = int(rng.integers(0, 3))
    for _ in range(int(rng.integers(0, 3)) if mode != 1 else 0):
        data = bend(data, rng)
    save(data, file)
    if mode:
        file.write_bytes(damage(file.read_bytes(), rng))
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ground(model_graph(models[1 if table else 0]), read(file))
        outcome.read += 1
    except LgmError as error:
        outcome.codes.update(set(error.codes))
    except Exception as error:  # noqa: BLE001 -- finding these is what this is for
        outcome.escaped.append(f"case {case} seed {seed} {suffix}: {error!r}")
    took = time.perf_counter() - started
    if took > outcome.slowest:
        outcome.slowest, outcome.slowest_case = took, f"case {case} {suffix}"
    file.unlink()


def run(count: int, seed: int) -> Outcome:
    """`count` cases from a seed."""
    outcome = Outcome()
    models = loads(TEXT).checked, loads(TABLE).checked
    with tempfile.TemporaryDirectory() as name:
        for case in range(count):
            attempt(case, seed, Path(name), models, outcome)
    return outcome


if __name__ == "__main__":
    result = run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(f"read {result.read}, refused by code {dict(sorted(result.codes.items()))}")
    print(f"slowest {result.slowest:.3f} s ({result.slowest_case})")
    for line in result.escaped:
        print("ESCAPED", line)
    sys.exit(bool(result.escaped))
