"""Result files: NetCDF with the model's text, the sites' weights and shifts, and what prediction
needs, in groups index, input, hyper, site, mean, sd, trace and provenance.

Written whole or not at all: to a new file beside the target, synced, then renamed over it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lgmdsl.api.fit import Fit
from lgmdsl.api.marginals import Quantity
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.canonical.ground import GroundedModel, IndexSet
from lgmdsl.canonical.ground_usage import usage_of
from lgmdsl.canonical.lower import distinct
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import canonicalise
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.engines.choose import choose
from lgmdsl.errors import DataError, Diagnostic, NumericalError
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.inference.registry import load_entry_points
from lgmdsl.language.load import loads
from lgmdsl.sites import catalogue as sites

FORMAT = 1
PARTS = ("data", "indices", "indptr", "shape")


def save(fit: Fit, path: str | os.PathLike[str]) -> None:
    """Write a fit. A killed process leaves the old file or the new one, whole.

    Raises DataError E306 where the place cannot be written.
    """
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(".tmp", f".{target.name}-", target.parent or ".")
        os.close(handle)
    except OSError as error:
        raise DataError(_unusable(target, f"cannot be written: {error.strerror}")) from error
    try:
        _write(fit, name)
        with open(name, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(name, _mode(target))
        os.replace(name, target)
    except OSError as error:
        raise DataError(_unusable(target, f"cannot be written: {error}")) from error
    finally:
        Path(name).unlink(missing_ok=True)


def load_fit(path: str | os.PathLike[str]) -> Fit:
    """Read a fit. Stored means and sds are served as they are; anything else (quantiles, draws,
    predictions) conditions the prior on the stored sites again, when first asked for.

    Raises DataError E306 for a file that is no result file.
    """
    import h5netcdf

    place = Path(path)
    try:
        with h5netcdf.File(place, "r") as file:
            if "lgmdsl_format" not in file.attrs:
                raise DataError(_unusable(place, "is not a result file of lgmdsl"))
            if int(file.attrs["lgmdsl_format"]) != FORMAT:
                raise DataError(_unusable(place, "was written by another version of lgmdsl"))
            return _read(file)
    except FileNotFoundError as error:
        raise DataError(_unusable(place, "does not exist")) from error
    except (OSError, KeyError, ValueError) as error:
        raise DataError(_unusable(place, f"cannot be read: {error}")) from error


# ---- writing -------------------------------------------------------------------------------


def _write(fit: Fit, name: str) -> None:
    import h5netcdf

    grounded, layout = fit.canonical.grounded, fit.canonical.layout
    with h5netcdf.File(name, "w") as file:
        file.attrs.update(
            lgmdsl_format=FORMAT,
            model=fit.model.to_lgm(),
            method=fit.method,
            status=str(fit.status),
            guarantee=str(fit.guarantee),
            log_evidence=fit.log_evidence,
            steps=fit.steps,
            seconds=fit.seconds,
            seed=fit.seed,
        )
        labels = {name: i.labels for name, i in grounded.indices.items()}
        index = file.create_group("index")
        for name_, values in labels.items():
            _variable(index, name_, (name_,), values)
            index.variables[name_].attrs["origin"] = grounded.indices[name_].origin
        inputs = file.create_group("input")
        for name_ in sorted(usage_of(grounded.model).referenced & grounded.values.keys()):
            _input(inputs, name_, grounded.values[name_])
        hyper = file.create_group("hyper")
        for block in fit.canonical.hypers.blocks:
            _labelled(
                hyper, block.name, block.dims, fit.theta[block.name], layout.coords(block.dims)
            )
        site = file.create_group("site")
        for k, block_ in enumerate(fit.canonical.blocks):
            _plain(site, f"weight_{k}", fit.weight[k])
            _plain(site, f"shift_{k}", fit.shift[k])
            _plain(site, f"rows_{k}", block_.rows)
            site.variables[f"weight_{k}"].attrs["of"] = block_.name
        mean, sd = file.create_group("mean"), file.create_group("sd")
        for name_ in (*(b.name for b in fit.canonical.latents), *fit.canonical.named):
            quantity = fit.quantity(name_)
            coords = layout.coords(quantity.dims)
            _labelled(mean, name_, quantity.dims, quantity.mean, coords)
            _labelled(sd, name_, quantity.dims, quantity.sd, coords)
        trace = file.create_group("trace")
        for column in ("step", "objective", "residual", "seconds"):
            _plain(trace, column, np.array([getattr(e, column) for e in fit.trace]))
        file.create_group("provenance").attrs.update(fit.provenance)


def _labelled(
    group: Any, name: str, dims: tuple[str, ...], values: Array, coords: Mapping[str, AnyArray]
) -> None:
    axes = distinct(dims)
    for dim in axes:
        if dim not in group.variables:
            _variable(group, dim, (dim,), coords[dim])
    _variable(group, name, axes, np.asarray(values))


def _plain(group: Any, name: str, values: AnyArray) -> None:
    _variable(group, name, tuple(f"{name}_{i}" for i in range(values.ndim)), values)


def _input(group: Any, name: str, value: Any) -> None:
    if isinstance(value, np.ndarray):
        _plain(group, name, value)
        return
    for part in PARTS:
        _plain(group, f"{name}.{part}", np.asarray(getattr(value, part)))


def _variable(group: Any, name: str, dims: tuple[str, ...], values: AnyArray) -> None:
    import h5py

    for dim, size in zip(dims, values.shape, strict=True):
        if dim not in group.dimensions:
            group.dimensions[dim] = size
    if values.dtype.kind == "U":
        group.create_variable(name, dims, h5py.string_dtype(), data=values.astype(object))
    else:
        group.create_variable(name, dims, values.dtype, data=values)


# ---- reading -------------------------------------------------------------------------------


def _read(file: Any) -> Fit:
    load_entry_points()
    model = loads(str(file.attrs["model"]))
    indices = {
        n: IndexSet(n, _array(v), str(v.attrs["origin"]))
        for n, v in file["index"].variables.items()
    }
    values = _inputs(file["input"])
    provenance = {k: str(v) for k, v in file["provenance"].attrs.items()}
    grounded = GroundedModel(
        model.checked, indices, values, source=provenance.get("data_source", "a result file")
    )
    site = file["site"].variables
    count = sum(1 for name in site if name.startswith("weight_"))
    rows = [_array(site[f"rows_{k}"]).astype(np.int64) for k in range(count)]
    canonical = canonicalise(grounded, sites.find_site, rows)
    weight: Rows = tuple(_array(site[f"weight_{k}"]) for k in range(count))
    shift: Rows = tuple(_array(site[f"shift_{k}"]) for k in range(count))
    theta = {b.name: _array(file["hyper"].variables[b.name]) for b in canonical.hypers.blocks}
    names = (*(b.name for b in canonical.latents), *canonical.named)
    dims = {**canonical.layout.dims, **{n: d for n, (d, _) in canonical.named.items()}}
    mean, sd = file["mean"].variables, file["sd"].variables
    trace = file["trace"].variables
    columns = [_array(trace[c]) for c in ("step", "objective", "residual", "seconds")]
    return Fit(
        model=model,
        method=str(file.attrs["method"]),
        status=Status[str(file.attrs["status"])],
        log_evidence=float(file.attrs["log_evidence"]),
        guarantee=Guarantee[str(file.attrs["guarantee"]).upper()],
        weight=weight,
        shift=shift,
        trace=tuple(
            TraceEntry(int(a), float(b), float(c), float(d))
            for a, b, c, d in zip(*columns, strict=True)
        ),
        steps=int(file.attrs["steps"]),
        seconds=float(file.attrs["seconds"]),
        seed=int(file.attrs["seed"]),
        canonical=canonical,
        theta=theta,
        condition=lambda: recondition(canonical, theta, weight, shift),
        provenance=provenance,
        stored={n: Quantity(dims[n], _array(mean[n]), _array(sd[n])) for n in names},
    )


def recondition(
    canonical: CanonicalModel, theta: Mapping[str, Array], weight: Rows, shift: Rows
) -> Conditioned:
    """The posterior of given sites. Raises NumericalError E602 where it does not factorise."""
    engine, why = choose(canonical.linear(theta))
    outcome = Failed(why) if engine is None else engine.condition(weight, shift)
    if isinstance(outcome, Failed):
        raise NumericalError(
            Diagnostic("E602", f"the stored posterior cannot be rebuilt: {outcome.reason}")
        )
    return outcome


def _array(variable: Any) -> AnyArray:
    values = np.asarray(variable[...])
    if values.dtype.kind == "O":
        texts = [v.decode() if isinstance(v, bytes) else str(v) for v in values.ravel()]
        return np.array(texts, dtype=np.str_).reshape(values.shape)
    return values


def _inputs(group: Any) -> dict[str, Any]:
    import scipy.sparse as sp

    out: dict[str, Any] = {}
    for name, variable in group.variables.items():
        base, dot, part = name.partition(".")
        if not dot:
            out[name] = _array(variable)
        elif part == "data":
            data, indices, indptr, shape = (_array(group.variables[f"{base}.{p}"]) for p in PARTS)
            out[base] = sp.csr_array((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))
    return out


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or those a new file would get."""
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _unusable(place: Path, reason: str) -> Diagnostic:
    return Diagnostic("E306", f"{place} {reason}")
