"""Writing result files: NetCDF with the model's text, the sites' weights and shifts, and what
prediction needs, in groups index, input, hyper, site, mean, sd, trace, provenance and drawn.

Built in memory, then written whole or not at all: HDF5 on a full disk ends the process.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lgmdsl import __version__
from lgmdsl.api.files.checkpoint_file import write_checkpoint
from lgmdsl.api.files.learning_file import write_learning
from lgmdsl.api.files.netcdf import ATTRIBUTE, Group, NewGroup, digest, new_file
from lgmdsl.api.files.rows_file import write_rows
from lgmdsl.api.positions import coordinate_pairs
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.assess.importance.moments import flat
from lgmdsl.canonical.grounding.model import GroundedModel
from lgmdsl.canonical.grounding.usage import usage_of
from lgmdsl.canonical.lowering.lower import distinct
from lgmdsl.errors import Diagnostic
from lgmdsl.files import AGAIN, write

if TYPE_CHECKING:
    from lgmdsl.api.assess.audit import Audit
    from lgmdsl.posterior.drawn import JointSample
    from lgmdsl.posterior.fit_record import FitRecord

# Raised where an earlier version could not read the file, or would read it wrongly. Files of all
# formats up to this one are read (tests/stored_fits holds some of each).
# 2: index sets say whether their order was given, and whether labels are positions.
# 3: exact draws of the latents; an earlier version would show the Gaussian's quantiles next to the
# draws' means. Files without draws are written as of format 2.
# 4: rows that were streamed. 5: rows that were spread over shards, and hyperparameters integrated
# with a covariance among them, whose coordinates are sds and partial correlations; an earlier
# version would take them for a factor's.
FORMAT, WITH_DRAWS, PLAIN = 5, 3, 2
NUMBERS = ("draws", "seed", "k_hat", "own_ess", "ess", "r_hat", "log_evidence", "log_evidence_se")
PARTS = ("data", "indices", "indptr", "shape")


def save(fit: FitRecord, audited: Audit | None, path: str | os.PathLike[str]) -> None:
    """Write a fit, with its audit where it has one. A killed process leaves the old file or the
    new one, whole.

    Raises DataError E306 where the place cannot be written.
    """
    write(path, packed(fit, audited).getbuffer())


def packed(fit: FitRecord, audited: Audit | None) -> io.BytesIO:
    """The content of a fit's file."""
    content = io.BytesIO()
    grounded, layout = fit.canonical.grounded, fit.canonical.layout
    with new_file(content) as file:
        file.set(
            lgmdsl_format=_format(fit),
            lgmdsl_version=__version__,
            model=fit.model.to_lgm(),
            model_name=_text(grounded.model.source.name),
            method=fit.method,
            status=str(fit.status),
            guarantee=str(fit.guarantee),
            log_evidence=fit.log_evidence,
            log_evidence_corrected=fit.log_evidence_corrected,
            accuracy=json.dumps(dataclasses.asdict(fit.accuracy)),
            steps=fit.steps,
            seconds=fit.seconds,
            stages=json.dumps([dataclasses.astuple(stage) for stage in fit.stages]),
            seed=fit.seed,
            reading=_reading(grounded),
        )
        labels = {name: i.labels for name, i in grounded.indices.items()}
        index = file.create_group("index")
        for name_, values in labels.items():
            index_set = grounded.indices[name_]
            index.create_variable(
                name_,
                (name_,),
                values,
                origin=_text(index_set.origin),
                given=int(index_set.given),
                spaced=int(index_set.spaced),
            )
        inputs = file.create_group("input")
        for name_ in sorted(_kept_inputs(grounded)):
            _input(inputs, name_, grounded.values[name_])
        columns = file.create_group("columns")
        for name_, design in grounded.designs.items():
            for k, values in enumerate(design.columns.values()):
                _plain(columns, f"{name_}_{k}", values, of=name_, column=[*design.columns][k])
        hyper = file.create_group("hyper")
        for block in fit.canonical.hypers.blocks:
            coords = layout.coords(block.dims)
            _labelled(hyper, block.name, block.dims, fit.theta[block.name], coords)
        site = file.create_group("site")
        for k, block_ in enumerate(fit.canonical.blocks):
            _plain(site, f"weight_{k}", fit.weight[k], of=block_.name)
            _plain(site, f"shift_{k}", fit.shift[k])
            data = block_.data
            _plain(site, f"rows_{k}", data.rows)
            moved = block_.form is not block_.written or block_.whole is not None
            if moved and data.y is not None:
                _plain(site, f"y_{k}", data.y)  # the rewritten predictor holds the response
        mean, sd = file.create_group("mean"), file.create_group("sd")
        for name_ in kept_names(fit):
            quantity = fit.quantity(name_)
            coords = layout.coords(quantity.dims)
            _labelled(mean, name_, quantity.dims, quantity.mean, coords)
            _labelled(sd, name_, quantity.dims, quantity.sd, coords)
        trace = file.create_group("trace")
        for column in ("step", "objective", "residual", "seconds"):
            _plain(trace, column, np.array([getattr(e, column) for e in fit.trace]))
        _plain(trace, "stage", np.array([e.stage for e in fit.trace], dtype=np.str_))
        if audited is not None:
            _audit(file, audited)
        write_learning(file, fit, _plain)
        write_rows(file, fit.canonical, _plain)
        if fit.drawn is not None:
            _drawn(file, fit.drawn)
        if fit.checkpoint is not None:
            write_checkpoint(file, fit.checkpoint, _plain)
        provenance = {key: _text(value) for key, value in fit.provenance.items()}
        file.create_group("provenance").set(**provenance)
        file.set(**{ATTRIBUTE: digest(Group(file.h5))})
    return content


def _format(fit: FitRecord) -> int:
    covariances = any(b.type == "covariance" for b in fit.canonical.hypers.blocks)
    if fit.hyper == "integrate" and covariances:
        return FORMAT
    stored = fit.canonical.rows.stored()
    return (PLAIN if fit.drawn is None else WITH_DRAWS) if stored is None else stored.format


def _reading(grounded: GroundedModel) -> str:
    """The mapping of the data, and how matrices are made of columns, as JSON."""
    designs = {
        name: [[dataclasses.asdict(coding) for coding in term.codings] for term in design.terms]
        for name, design in grounded.designs.items()
    }
    return json.dumps({"mapping": dict(grounded.mapping), "designs": designs})


def _kept_inputs(grounded: GroundedModel) -> frozenset[str]:
    """Data that predictions need, and coordinates that maps are drawn by."""
    placed = {name for pair in coordinate_pairs(grounded.graph).values() for name in pair}
    return (usage_of(grounded.graph).referenced | placed) & grounded.values.keys()


def kept_names(fit: FitRecord) -> tuple[str, ...]:
    """The names whose means and sds a file holds: hypers only where they were learned."""
    latents = (b.name for b in fit.canonical.reported)
    hypers = (b.name for b in fit.canonical.hypers.blocks) if fit.learning is not None else ()
    return (*latents, *fit.canonical.named, *hypers)


def _audit(file: NewGroup, audit: Audit) -> None:
    """The audit: numbers and words as attributes, the corrections in a group for each kind."""
    file.create_group("audit").set(
        **{name: getattr(audit, name) for name in NUMBERS},
        outcome=str(audit.outcome),
        verdict=audit.verdict,
        proposal=audit.proposal,
        along=json.dumps(dict(audit.along)),
    )
    kept = {name: flat(corrected) for name, corrected in audit.corrected.items()}
    for kind in next(iter(kept.values()), {}):
        part = file.create_group(f"audit_{kind}")
        for name, arrays in kept.items():
            dims = audit.dims[name]
            values = arrays[kind].reshape(audit.layout.shape(dims))
            _labelled(part, name, dims, values, audit.layout.coords(dims))


def _drawn(file: NewGroup, sample: JointSample) -> None:
    """The draws in single precision, as the fit has them, about their mean."""
    group = file.create_group("drawn")
    group.set(chains=sample.chains, ess=sample.ess, r_hat=sample.r_hat)
    for name in ("centre", "away", "point"):
        _plain(group, name, getattr(sample, name))


def _text(value: str) -> str:
    """A text that a file can hold: the name of a file may have bytes that are no characters."""
    return value.encode("utf-8", "replace").decode("utf-8")


def _labelled(
    group: NewGroup, name: str, dims: tuple[str, ...], values: Array, coords: Mapping[str, AnyArray]
) -> None:
    axes = distinct(dims)
    for dim in axes:
        if dim not in group.dimensions:
            group.create_variable(dim, (dim,), coords[dim])
    group.create_variable(name, axes, np.asarray(values))


def _plain(group: NewGroup, name: str, values: AnyArray, **attrs: str | float) -> None:
    dims = tuple(f"{name}_{i}" for i in range(values.ndim))
    group.create_variable(name, dims, values, **attrs)


def _input(group: NewGroup, name: str, value: Any) -> None:
    if isinstance(value, np.ndarray):
        _plain(group, name, value)
        return
    for part in PARTS:
        _plain(group, f"{name}.{part}", np.asarray(getattr(value, part)))


def damaged(place: Path, reason: str) -> Diagnostic:
    """E306 for a result file of which a part is lost or changed; `reason`: what reading it said."""
    size = place.stat().st_size if place.is_file() else 0
    whole = re.search(r"eof = (\d+).*stored_eof = (\d+)", reason)  # HDF5's words
    what = f"is damaged or incomplete: {reason}"
    if whole is not None:
        what = f"is incomplete: it has {int(whole[1]):,} of {int(whole[2]):,} bytes"
    elif not size:
        what = "is empty"
    return Diagnostic(
        "E306",
        f"`{place}` {what}",
        help=f"{AGAIN}; without a whole copy, fit again: lgm fit MODEL DATA -o {place.name}",
    )


def unusable(place: Path, reason: str, help: str = "") -> Diagnostic:
    """E306 for a result file."""
    if reason.startswith("is not"):
        help = "give a file that `lgm fit -o OUT.nc` or fit.save wrote"
    return Diagnostic("E306", f"`{place}` {reason}", help=help)
