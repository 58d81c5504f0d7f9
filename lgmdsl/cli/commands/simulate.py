"""`lgm simulate`: a data set drawn from a model."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import click

from lgmdsl import files
from lgmdsl.cli import options
from lgmdsl.cli.data_options import data_argument
from lgmdsl.cli.exit_status import OK, REFUSED
from lgmdsl.cli.output import note

if TYPE_CHECKING:
    from pathlib import Path


@click.command("simulate")
@options.model_argument
@data_argument(required=False)
@options.sizes_option
@options.set_option
@options.seed_option
@options.map_option
@click.option("-o", "--output", metavar="OUT.npz", help="Write the data there.")
@options.json_option
def command(
    model: str,
    data: Any,
    sizes: dict[str, int],
    fixed: dict[str, object],
    seed: int,
    mapping: dict[str, str],
    output: str | None,
    as_json: bool,
) -> int:
    """Draw a data set from MODEL, ready for `lgm fit`.

    \b
    lgm simulate model.lgm --sizes obs=100,feat=3 --set s=0.5 -o data.npz
    lgm simulate model.lgm data.npz -o replicate.npz

    Covariates come from DATA, or are drawn by type; hypers without a value come from their
    priors. The file holds the latents and hypers drawn as truth.NAME. Without -o
    the data are only listed; --json prints them.
    """
    from lgmdsl.cli.files import deliver, report, writable

    place = None
    if output is not None:
        place = writable(output, (".npz",), {"the model": model, "the data": data})
    read = options.read_model(model)
    from lgmdsl.api.simulate.simulate import simulated

    simulation = simulated(read, data, sizes, fixed, seed, mapping=mapping)
    drawn = simulation.data
    for warning in simulation.warnings:
        note(warning.render())
    fields = {"data": {name: _listed(value) for name, value in drawn.items()}} if as_json else None
    page = _page(drawn) if place is None and not as_json else None
    lost = deliver(page, fields, None if place is None else lambda: _save(place, drawn))
    if place is not None:
        report(place, lost, as_json, ", ".join(drawn))
    elif not as_json:
        note("nothing is written: -o data.npz keeps the data")
    return OK if lost is None else REFUSED


def _save(place: Path, drawn: dict[str, Any]) -> None:
    import numpy as np

    arrays: dict[str, Any] = {}
    for name, value in drawn.items():
        if isinstance(value, np.ndarray):
            arrays[name] = value
        else:  # a sparse matrix is stored by its parts
            for part in ("data", "indices", "indptr", "shape"):
                arrays[f"{name}.{part}"] = np.asarray(getattr(value, part))
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    files.write(place, content.getbuffer())


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value.toarray().tolist()


def _page(drawn: dict[str, Any]) -> str:
    from lgmdsl.api.page import columns

    rows = []
    for name, value in drawn.items():
        shape = " x ".join(str(n) for n in value.shape) or "scalar"
        rows.append((name, shape, _range(value)))
    return "\n".join(columns(rows))


def _range(value: Any) -> str:
    import numpy as np

    if not isinstance(value, np.ndarray):
        return f"{value.nnz:,} non-zeros"
    if value.dtype.kind not in "if" or not value.size:
        shown = ", ".join(str(v) for v in value.reshape(-1)[:4])
        return f"{shown}, ..." if value.size > 4 else shown
    low, high = float(np.nanmin(value)), float(np.nanmax(value))
    return f"{low:.5g} to {high:.5g}" if low != high else f"{low:.5g}"
