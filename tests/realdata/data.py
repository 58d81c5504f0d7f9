"""The real data sets as the models beside this file name them: one function for each, which takes
the folder `../shared/data`. Sources and oddities of the files are told in that folder's README."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Data = dict[str, NDArray[Any]]
MODELS = Path(__file__).parent / "models"


def _read(folder: Path, name: str) -> Data:
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        return dict(file)


def epil(folder: Path, counts: str = "y") -> Data:
    """Models 5.1 and 5.2. `counts` "y_thall_vail" takes the other version of one count."""
    d = _read(folder, "epil")
    return {
        "y": d[counts], "base": np.log(d["Base"] / 4.0), "trt": d["Trt"],
        "age": np.log(d["Age"]), "who": d["Ind"], "v4": d["V4"],
    }  # fmt: skip


def epil_slopes(folder: Path) -> Data:
    """Model 5.3: the visit as a number, and the prior's scale (as in the paper's code)."""
    d = epil(folder)
    del d["v4"]
    visit = np.tile([-0.3, -0.1, 0.1, 0.3], len(d["y"]) // 4)
    return {**d, "v": visit, "R": np.diag([1.0 / 0.439, 1.0 / 0.591])}


def seeds(folder: Path) -> Data:
    d = _read(folder, "seeds")
    return {name: d[name] for name in ("r", "n", "x1", "x2")}


def salamander(folder: Path, experiment: int = 1) -> Data:
    """One of the three experiments: 120 matings."""
    d = _read(folder, "salamander")
    rr, rw, wr, ww = np.asarray(d["x"], dtype=np.int64).T  # female / male
    female, male = d["z"][:, :20].argmax(axis=1), d["z"][:, 20:].argmax(axis=1)
    assert ((rr + rw + wr + ww) == 1).all()
    return {"y": d["y"][:, experiment - 1], "wsf": wr + ww, "wsm": rw + ww, "f": female, "m": male}


def tokyo(folder: Path) -> Data:
    d = _read(folder, "tokyo")
    return {"y": d["y"], "n": d["n"]}


def scotland(folder: Path, graph: str = "edges") -> Data:
    """`graph`: "edges" (GeoBUGS: three islands), "edges_stan_connected", or "edges_inla_demodata",
    which numbers the counties in another order: not their map, kept because it is used."""
    d = _read(folder, "scotland_lip")
    return {"y": d["y"], "E": d["E"], "x": d["x"] / 10.0, "edges": d[graph]}


def germany(folder: Path) -> Data:
    d = _read(folder, "germany_oral")
    return {name: d[name] for name in ("y", "E", "edges")}


def pound_dollar(folder: Path) -> Data:
    return {"r": _read(folder, "svpound")["ret"]}


def coal(folder: Path) -> Data:
    d = _read(folder, "coal_disasters")
    return {"y": d["count"], "year": d["year"]}


def coal_gp(folder: Path) -> Data:
    d = coal(folder)
    return {**d, "t": d["year"] - 1906.5}


def leukaemia(folder: Path) -> Data:
    d = _read(folder, "leuk_nw_england")
    return {
        "time": d["time"] / 365.25, "died": d["cens"].astype(np.int64),
        "age": (d["age"] - 60.0) / 10.0, "sex": d["sex"], "wbc": (d["wbc"] - 40.0) / 100.0,
        "tpi": d["tpi"], "where": d["district"].astype(np.int64) - 1, "edges": d["edges"],
    }  # fmt: skip


def rats(folder: Path) -> Data:
    d = _read(folder, "rats")
    animals, weeks = d["y"].shape
    return {
        "y": d["y"].astype(np.float64).ravel(),
        "x": np.tile((d["x"] - d["xbar"]) / 7.0, animals),
        "who": np.repeat(np.arange(animals), weeks),
    }


def toenail(folder: Path) -> Data:
    d = _read(folder, "toenail")
    return {
        "y": d["outcome"], "time": d["time"], "trt": d["treatment_terb"], "who": d["patient"],
    }  # fmt: skip


def drivers(folder: Path) -> Data:
    """The last twelve months are missing."""
    d = _read(folder, "drivers")
    return {"y": np.log(d["y"]), "belt": d["belt"].astype(np.int64)}


LOADERS: dict[str, tuple[str, Callable[[Path], Data]]] = {
    "epil_51": ("epil_51", epil),
    "epil_52": ("epil_52", epil),
    "epil_53": ("epil_53", epil_slopes),
    "seeds_01": ("seeds_01", seeds),
    "seeds_02": ("seeds_02", seeds),
    **{f"salamander_{k}": ("salamander", partial(salamander, experiment=k)) for k in (1, 2, 3)},
    "tokyo": ("tokyo", tokyo),
    "scotland": ("scotland", scotland),
    "scotland_connected": ("scotland", partial(scotland, graph="edges_stan_connected")),
    "scotland_demodata": ("scotland", partial(scotland, graph="edges_inla_demodata")),
    "germany": ("germany", germany),
    "pound_dollar": ("pound_dollar", pound_dollar),
    "coal": ("coal", coal),
    "coal_gp": ("coal_gp", coal_gp),
    "leukaemia_weibull": ("leukaemia_weibull", leukaemia),
    "leukaemia_exponential": ("leukaemia_exponential", leukaemia),
    "rats": ("rats", rats),
    "toenail": ("toenail", toenail),
    "drivers": ("drivers", drivers),
}  # a case's name: its model's file, and its data


def model_text(case: str) -> str:
    return (MODELS / f"{LOADERS[case][0]}.lgm").read_text(encoding="utf-8")


def fingerprint(case: str, folder: Path) -> str:
    """Of a case's model, without comments and blanks, and of its data."""
    lines = (line.partition("#")[0].split() for line in model_text(case).splitlines())
    found = hashlib.sha256("\n".join(" ".join(words) for words in lines if words).encode())
    for name, values in sorted(LOADERS[case][1](folder).items()):
        found.update(f"{name} {values.shape}".encode())
        found.update(np.ascontiguousarray(values, dtype=np.float64).tobytes())
    return found.hexdigest()
