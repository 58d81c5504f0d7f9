"""Reading result files back into a Fit."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lgmdsl import __version__
from lgmdsl.accuracy.errors import Accuracy
from lgmdsl.api.files.checkpoint_file import read_checkpoint
from lgmdsl.api.files.learning_file import read_learning
from lgmdsl.api.files.netcdf import ATTRIBUTE, Group, array, digest, opened
from lgmdsl.api.files.rows_file import read_rows
from lgmdsl.api.files.store import FORMAT, PARTS, damaged, unusable
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.fit.merging import reconditioning
from lgmdsl.api.third_parties import unreadable
from lgmdsl.arrays import AnyArray
from lgmdsl.assess.importance.moments import unflat
from lgmdsl.assess.importance.verdict import Outcome
from lgmdsl.canonical.blocks.sites import Observed
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.grounding.ground import GroundedModel, IndexSet
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.compile import canonicalise
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.dataset.codings import Coding, Design, Term
from lgmdsl.errors import DataError, LgmError, ModelError
from lgmdsl.files import irregular, similar
from lgmdsl.graph.build import model_graph
from lgmdsl.inference.driver import TraceEntry
from lgmdsl.inference.registry import load_entry_points
from lgmdsl.inference.stages import Ran
from lgmdsl.language.load import loads
from lgmdsl.memory import during
from lgmdsl.posterior.drawn import JointSample
from lgmdsl.posterior.fit_record import FitRecord
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.posterior.marginals import Quantity
from lgmdsl.posterior.unfolded import Expanded
from lgmdsl.sites import catalogue as sites

if TYPE_CHECKING:
    from lgmdsl.api.assess.audit import Audit


@during("reading the fit")
def load_fit(path: str | os.PathLike[str]) -> Fit:
    """Read a fit. Stored means and sds are served as they are; anything else (quantiles, draws,
    predictions) conditions the prior on the stored sites again, when first asked for.

    Raises DataError E306 for a file that is no result file, and for one whose model uses a part of
    a third party that is not installed, with the package that provides it.
    """
    place = Path(path)
    irregularity = irregular(place)
    if irregularity:
        raise DataError(unusable(place, f"is {irregularity}, not a result file"))
    try:
        with opened(place) as file:
            if "lgmdsl_format" not in file.attrs:
                raise DataError(unusable(place, "is not a result file of lgmdsl"))
            _check_format(place, file)
            if file.attrs.get(ATTRIBUTE) != digest(file):
                raise DataError(damaged(place, "it is not as it was written"))
            return _read(file, place)
    except FileNotFoundError as error:
        help = similar(place, (".nc",))
        raise DataError(unusable(place, "does not exist", help)) from error
    except (LgmError, MemoryError):
        raise
    except Exception as error:  # a damaged file makes the library fail in many ways
        if place.is_file() and place.stat().st_size and not h5_signature(place):
            raise DataError(unusable(place, "is not a result file of lgmdsl")) from error
        reason = str(error).partition("\n")[0][:200] or type(error).__name__
        raise DataError(damaged(place, reason)) from error


def _check_format(place: Path, file: Group) -> None:
    """A file of a later format is refused; those of all earlier ones are read."""
    number = int(file.attrs["lgmdsl_format"])
    if 1 <= number <= FORMAT:
        return
    writer = str(file.attrs.get("lgmdsl_version", "a later version"))
    if number < 1:
        raise DataError(unusable(place, f"is not a result file of lgmdsl: format {number}"))
    least = f"'lgmdsl>={writer}'" if "lgmdsl_version" in file.attrs else "--upgrade lgmdsl"
    raise DataError.of(
        "E306",
        f"`{place}` was written by lgmdsl {writer} in format {number}; "
        f"lgmdsl {__version__} reads formats up to {FORMAT}",
        help=f"pip install {least}, or fit the model again with this version",
    )


def h5_signature(place: Path) -> bool:
    """Whether a file begins like an HDF5 file, which is what NetCDF 4 is."""
    with place.open("rb") as file:
        return file.read(8) == b"\x89HDF\r\n\x1a\n"


def _read(file: Group, place: Path) -> Fit:
    load_entry_points()
    provenance = {k: str(v) for k, v in file["provenance"].attrs.items()}
    try:
        model = loads(str(file.attrs["model"]), str(file.attrs["model_name"]))
    except ModelError as error:
        raise unreadable(error, provenance, place) from error
    # Files without these attributes are of a version that took every order as given, and all
    # steps as equal.
    indices = {
        n: IndexSet(
            n,
            array(v),
            str(v.attrs["origin"]),
            given=bool(v.attrs.get("given", 1)),
            spaced=bool(v.attrs.get("spaced", 0)),
        )
        for n, v in file["index"].variables.items()
    }
    values = _inputs(file["input"])
    grounded = GroundedModel(
        model_graph(model.checked),
        indices,
        values,
        source=provenance.get("data_source", "a result file"),
        **_reading(file),
    )
    site = file["site"].variables
    count = sum(1 for name in site if name.startswith("weight_"))
    observed = [
        Observed(
            array(site[f"rows_{k}"]).astype(np.int64),
            array(site[f"y_{k}"]) if f"y_{k}" in site else None,
        )
        for k in range(count)
    ]
    canonical = read_rows(file, canonicalise(grounded, sites.find_site, observed), array)
    weight: Rows = tuple(array(site[f"weight_{k}"]) for k in range(count))
    shift: Rows = tuple(array(site[f"shift_{k}"]) for k in range(count))
    seed = int(file.attrs["seed"])
    theta = {b.name: array(file["hyper"].variables[b.name]) for b in canonical.hypers.blocks}
    dims = {
        **canonical.layout.dims,
        **{n: d for n, (d, _) in canonical.named.items()},
        **{b.name: b.dims for b in canonical.hypers.blocks},
    }
    mean, sd = file["mean"].variables, file["sd"].variables
    trace = file["trace"].variables
    columns = [array(trace[c]) for c in ("step", "objective", "residual", "seconds")]
    columns.append(array(trace["stage"]) if "stage" in trace else np.full(len(columns[0]), ""))
    record = FitRecord(
        model=model,
        method=str(file.attrs["method"]),
        status=Status[str(file.attrs["status"])],
        log_evidence=float(file.attrs["log_evidence"]),
        guarantee=Guarantee[str(file.attrs["guarantee"]).upper()],
        weight=weight,
        shift=shift,
        trace=tuple(
            TraceEntry(int(a), float(b), float(c), float(d), str(e))
            for a, b, c, d, e in zip(*columns, strict=True)
        ),
        steps=int(file.attrs["steps"]),
        seconds=float(file.attrs["seconds"]),
        seed=seed,
        canonical=canonical,
        theta=theta,
        condition=reconditioning(canonical, theta, weight, shift, seed, provenance),
        provenance=provenance,
        stored={n: Quantity(d, array(mean[n]), array(sd[n])) for n, d in dims.items() if n in sd},
        accuracy=_accuracy(file),
        drawn=_drawn(file),
        log_evidence_corrected=float(file.attrs.get("log_evidence_corrected", math.nan)),
        stages=tuple(Ran(*s) for s in json.loads(str(file.attrs.get("stages", "[]")))),
    )
    covariances = any(b.type == "covariance" for b in canonical.hypers.blocks)
    record = replace(record, checkpoint=read_checkpoint(file, array, covariances))
    fit = Fit.of(read_learning(file, record, array, partial(_point, record)))
    return replace(fit, audited=_audit(file, canonical)) if "audit" in file.groups else fit


def _point(
    fit: FitRecord, theta: Theta, share: float, log_evidence: float, weight: Rows, shift: Rows
) -> HyperPoint:
    """A point of the mixture that a fit is, conditioned when asked for, by the fit's engine."""
    folded = fit.condition.folded if isinstance(fit.condition, Expanded) else None
    again = reconditioning(fit.canonical, theta, weight, shift, fit.seed, fit.provenance, folded)
    return HyperPoint(theta, share, log_evidence, weight, shift, again)


def _reading(file: Group) -> dict[str, Any]:
    """How the data were read; files of earlier versions do not say."""
    kept = json.loads(str(file.attrs.get("reading", "{}")))
    mapping = {
        name: key if isinstance(key, str) else tuple(key)
        for name, key in kept.get("mapping", {}).items()
    }
    terms = {
        name: tuple(Term(tuple(map(_coding, codings))) for codings in parts)
        for name, parts in kept.get("designs", {}).items()
    } or {
        name: tuple(Term((_coding(c),)) for c in parts)
        for name, parts in kept.get("codings", {}).items()
    }
    columns: dict[str, dict[str, AnyArray]] = {name: {} for name in terms}
    for part in file["columns"].variables.values() if "columns" in file.groups else ():
        columns[str(part.attrs["of"])][str(part.attrs["column"])] = array(part)
    return {
        "mapping": mapping,
        "designs": {name: Design(parts, columns[name]) for name, parts in terms.items()},
    }


def _coding(kept: dict[str, Any]) -> Coding:
    lists = {k: tuple(v) for k, v in kept.items() if isinstance(v, list)}
    return Coding(**{**kept, **lists})


def _accuracy(file: Group) -> Accuracy:
    """Accuracy as it was estimated; of files of earlier versions nothing is known."""
    if "accuracy" not in file.attrs:
        return Accuracy.none("the file is of an earlier version")
    return Accuracy(**json.loads(str(file.attrs["accuracy"])))


def _drawn(file: Group) -> JointSample | None:
    if "drawn" not in file.groups:
        return None
    group = file["drawn"]
    centre, away, point = (array(group.variables[n]) for n in ("centre", "away", "point"))
    numbers = group.attrs
    return JointSample(
        centre, away, point, int(numbers["chains"]), float(numbers["ess"]), float(numbers["r_hat"])
    )


def _audit(file: Group, canonical: CanonicalModel) -> Audit:
    from lgmdsl.api.assess.audit import Audit, judged_names

    attributes = file["audit"].attrs
    kinds = [name for name in file.groups if name.startswith("audit_")]
    groups = {kind.removeprefix("audit_"): file[kind].variables for kind in kinds}
    dims = {
        **canonical.layout.dims,
        **{n: d for n, (d, _) in canonical.named.items()},
        **{b.name: b.dims for b in canonical.hypers.blocks},
    }
    return Audit(
        draws=int(attributes["draws"]),
        seed=int(attributes["seed"]),
        k_hat=float(attributes["k_hat"]),
        own_ess=float(attributes["own_ess"]),
        ess=float(attributes["ess"]),
        r_hat=float(attributes.get("r_hat", 1.0)),
        log_evidence=float(attributes["log_evidence"]),
        log_evidence_se=float(attributes["log_evidence_se"]),
        along=json.loads(str(attributes["along"])),
        proposal=str(attributes["proposal"]),
        outcome=Outcome.read(str(attributes["outcome"])),
        verdict=str(attributes["verdict"]),
        corrected={
            n: unflat({kind: array(group[n]).reshape(-1) for kind, group in groups.items()})
            for n in dims
        },
        dims=dims,
        layout=canonical.layout,
        judged=judged_names(canonical),
    )


def _inputs(group: Group) -> dict[str, Any]:
    import scipy.sparse as sp

    out: dict[str, Any] = {}
    for name, variable in group.variables.items():
        base, dot, part = name.partition(".")
        if not dot:
            out[name] = array(variable)
        elif part == "data":
            data, indices, indptr, shape = (array(group.variables[f"{base}.{p}"]) for p in PARTS)
            out[base] = sp.csr_array((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))
    return out
