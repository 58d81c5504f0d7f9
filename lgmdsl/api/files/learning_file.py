"""The part of a result file that says what was learned of the hyperparameters.

Group `learning`: how (attributes), the search's steps, the mode and axes of the standardised
coordinates and, where hyperparameters were integrated, the nodes of their posterior; the statistics
of the factors over them, where they were averaged (vb). Group
`points`: theta, share, evidence and the sites' weights and shifts of every point of the mixture,
stacked along a first axis.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lgmdsl.api.files.netcdf import Group, NewGroup
from lgmdsl.arrays import AnyArray
from lgmdsl.learning.coordinates.standardised import Standardised
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.integration.asymptotic import Asymptotic, Chosen, ModeOnly
from lgmdsl.learning.integration.hyper_posterior import HyperPosterior
from lgmdsl.learning.mean_field.factors import factor
from lgmdsl.learning.mean_field.marginals import FactorMarginals
from lgmdsl.learning.search.learning_record import Learning
from lgmdsl.learning.search.maximise import LearningStep
from lgmdsl.posterior.hyper_points import HyperPoint

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

COLUMNS = ("step", "objective", "gain", "calls")


def write_learning(
    file: NewGroup, fit: FitRecord, put: Callable[[NewGroup, str, AnyArray], None]
) -> None:
    """Add the groups; `put` writes one array into a group."""
    record, hypers = fit.learning, fit.hyper_marginals
    if record is None:
        return
    group = file.create_group("learning")
    group.set(
        hyper=fit.hyper,
        fits=record.fits,
        iterations=record.iterations,
        design=record.design,
        points=record.points,
        modes=record.modes,
    )
    for column in COLUMNS:
        put(group, column, np.array([getattr(s, column) for s in record.steps]))
    if hypers is not None:
        stored = hypers.record()
        group.set(**stored.attributes)
        for name, values in stored.arrays.items():
            put(group, name, values)
    if fit.mixed:
        points = file.create_group("points")
        put(points, "share", np.array([p.share for p in fit.mixed]))
        put(points, "log_evidence", np.array([p.log_evidence for p in fit.mixed]))
        for block in fit.canonical.hypers.blocks:
            put(points, f"theta_{block.name}", np.array([p.theta[block.name] for p in fit.mixed]))
        for k in range(len(fit.weight)):
            put(points, f"weight_{k}", np.array([p.weight[k] for p in fit.mixed]))
            put(points, f"shift_{k}", np.array([p.shift[k] for p in fit.mixed]))


def read_learning(
    file: Group, fit: FitRecord, array: Callable[[Any], AnyArray], point: Callable[..., HyperPoint]
) -> FitRecord:
    """The fit with what the groups hold; `point` makes one of its mixture's, of theta, share, log
    evidence and the sites' weight and shift."""
    if "learning" not in file.groups:
        return fit
    group = file["learning"]
    held, given = {n: array(v) for n, v in group.variables.items()}, group.attrs
    steps = tuple(
        LearningStep(int(a), float(b), float(c), int(d))
        for a, b, c, d in zip(*(held[c] for c in COLUMNS), strict=True)
    )
    record = Learning(
        steps,
        int(given["fits"]),
        int(given["iterations"]),
        str(given["design"]),
        int(given["points"]),
        int(given.get("modes", 1)),
    )
    fit = replace(fit, hyper=str(given["hyper"]), learning=record)
    if "exponents" in given:
        return replace(fit, hyper_marginals=_factors(fit, given, held))
    if "pinned" in given:
        pinned = {n: fit.theta[n] for n in json.loads(given["pinned"])}
        closed = fit.hyper != "integrate"
        apart = bool(given.get("apart", False))  # earlier files say nothing
        coordinates = Coordinates(fit.canonical.hypers, pinned, closed, apart)
        if "axes" not in held:
            return replace(fit, hyper_marginals=ModeOnly(coordinates, fit.theta))
        flat = held["flat"].astype(bool)
        frame = Standardised(held["mode"], held["axes"], flat, held.get("unknown"))
        if "nodes" in held:
            integral = float(given["log_integral"])
            # Earlier files say nothing: up to two hyperparameters had a lattice.
            lattice = bool(given.get("lattice", frame.size <= 2))
            posterior = HyperPosterior(
                coordinates, frame, held["nodes"], held["shares"], integral, lattice
            )
            fit = replace(fit, hyper_marginals=posterior)
        else:
            few = frame.axes.shape[1] < frame.size
            known = Chosen(coordinates, fit.theta, frame) if few else None
            fit = replace(fit, hyper_marginals=known or Asymptotic(coordinates, fit.theta, frame))
    return replace(fit, mixed=_points(file, fit, array, point))


def _factors(
    fit: FitRecord, given: Mapping[str, Any], held: Mapping[str, AnyArray]
) -> FactorMarginals:
    space, found = fit.canonical.hypers, {}
    for name, exponent in json.loads(str(given["exponents"])).items():
        block = space.block(name)
        assert block is not None and block.prior is not None
        prior = block.prior.at(fit.theta)
        found[name] = factor(prior, exponent, held[f"count_{name}"], held[f"rate_{name}"])
    pinned = {n: fit.theta[n] for n in json.loads(str(given["fixed"]))}
    return FactorMarginals(space, pinned, found)


def _points(
    file: Group, fit: FitRecord, array: Callable[[Any], AnyArray], point: Callable[..., HyperPoint]
) -> tuple[HyperPoint, ...]:
    if "points" not in file.groups:
        return ()
    arrays = {n: array(v) for n, v in file["points"].variables.items()}

    def made(m: int) -> HyperPoint:
        theta = {b.name: arrays[f"theta_{b.name}"][m] for b in fit.canonical.hypers.blocks}
        weight, shift = (
            tuple(arrays[f"{kind}_{k}"][m] for k in range(len(fit.weight)))
            for kind in ("weight", "shift")
        )
        share, log_evidence = float(arrays["share"][m]), float(arrays["log_evidence"][m])
        return point(theta, share, log_evidence, weight, shift)

    return tuple(made(m) for m in range(len(arrays["share"])))
