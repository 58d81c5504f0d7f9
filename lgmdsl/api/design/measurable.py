"""From a model and its data to what can be measured: the response, its lines, their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from lgmdsl.acquisition.measuring import Measurable
from lgmdsl.api.by_rows import check_rows
from lgmdsl.api.page import counted
from lgmdsl.api.solve.solved import solve
from lgmdsl.arrays import AnyArray, Array, BoolArray, IntArray
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.grounding.axes import BoundDatum, align, bind
from lgmdsl.canonical.grounding.errors import absent, count_of, places, wrong_shape
from lgmdsl.canonical.grounding.label_line import sorted_distinct
from lgmdsl.canonical.grounding.labels import labels_of
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Engine
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Status
from lgmdsl.dataset import Dataset
from lgmdsl.errors import NOWHERE, DataError, Diagnostic, MethodError, listed, suggestion
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.routes import answering
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.search.learning_record import LearningOptions
from lgmdsl.remedies import either


def measured_response(canonical: CanonicalModel) -> int:
    """Which site block observes what is measured. Raises MethodError E501 where not exactly one
    block observes, or its log density is not quadratic in its predictor."""
    check_rows(canonical, "a choice of measurements")
    seen = [k for k, b in enumerate(canonical.blocks) if not b.family.spec.potential]
    first = canonical.blocks[seen[0]] if seen else None
    reason = ""
    if first is None:
        message = "a choice of measurements needs an observation, and the model has none"
    elif len(seen) > 1:
        names = listed([f"`{canonical.blocks[k].name}`" for k in seen])
        message = f"measurements are chosen for one observation, not for {names}"
    elif Property.GAUSSIAN not in first.site.spec.properties or first.whole is not None:
        message = "the information of a group of measurements needs Gaussian noise"
        reason = f"this is {first.family.spec.name}, whose information depends on its values"
    else:
        return seen[0]
    help = "observe y ~ normal(mean = eta, sd = s); cases of bernoulli(logit = eta) are chosen one "
    help += f"by one, without {either('--by', 'by=')}"
    span = NOWHERE if first is None else first.span
    raise MethodError.of("E501", message, span, reason, help=help)


@dataclass(frozen=True, eq=False)
class LineSet:
    """The candidates: labels (G,), and for each the flat rows of the response not measured yet."""

    labels: AnyArray
    rows: tuple[IntArray, ...]


def lines_of(
    canonical: CanonicalModel, response: int, by: str, candidates: Dataset | None
) -> LineSet:
    """The lines of a response that have something left to measure.

    `by`: one of its indices, whose members are the lines; or a key of `candidates`, an array of the
    response's shape with the label of each entry's line, missing where it has none. Raises
    DataError E305 for neither and where nothing is left, E301 and E302 for an array that does not
    fit.
    """
    block, grounded = canonical.blocks[response], canonical.grounded
    missing: BoolArray = np.zeros(block.shape, dtype=bool)
    if candidates is not None and candidates.ask(by) is not None:
        bound = _aligned(canonical, block, candidates, by)
        labels = labels_of(replace(bound.entry.loaded, values=bound.values, missing=bound.missing))
        values, missing = labels.values, labels.missing
    elif by in block.dims:
        axis = block.dims.index(by)
        members = grounded.indices[by].labels
        shape = [1] * len(block.shape)
        shape[axis] = len(members)
        values = np.broadcast_to(members.reshape(shape), block.shape)
    else:
        raise DataError(_no_lines(block, by, candidates))
    free = ~missing.reshape(-1)
    free[block.rows] = False
    rows = np.flatnonzero(free)
    if not rows.size:
        raise DataError.of(
            "E305",
            f"no line of `{by}` has anything left to measure",
            block.span,
            details=(f"all entries of `{block.name}` that belong to one are in the data",),
            help=f"leave out of the data what can still be measured: declare `{block.name}` "
            "with the type real? and give NaN there",
            layout="plain",
        )
    names, line = sorted_distinct(values.reshape(-1)[rows])
    order = np.argsort(line, kind="stable")
    ends = np.cumsum(np.bincount(line))[:-1]
    return LineSet(names, tuple(np.split(rows[order], ends)))


def values_of(
    canonical: CanonicalModel, response: int, source: Dataset, kind: str, wanted: IntArray | None
) -> tuple[Array, BoolArray]:
    """(P,) values of the response from another source, and which of them there are.

    `wanted`: rows that have to be there. Raises DataError E305 where the source has no response,
    E301 to E303 where it does not fit, E304 where it lacks one that is wanted.
    """
    block = canonical.blocks[response]
    bound = _aligned(canonical, block, source, block.name)
    if bound.values.dtype.kind not in "biuf":
        span, help = bound.symbol.statement.span, "give numbers"
        message = f"`{block.name}` of the {kind} holds no numbers"
        raise DataError.of("E303", message, span, help=help)
    values = np.asarray(bound.values, dtype=np.float64).reshape(-1)
    there = ~np.isnan(values)
    if bound.missing is not None:
        there &= ~bound.missing.reshape(-1)
    if np.isinf(values[there]).any():
        span, help = bound.symbol.statement.span, "give finite numbers, NaN where there is none"
        message = f"`{block.name}` of the {kind} has infinite values"
        raise DataError.of("E303", message, span, help=help)
    if not there.any():
        span, help = bound.symbol.statement.span, "give values where there are any"
        message = f"`{block.name}` of the {kind} has no value"
        raise DataError.of("E304", message, span, help=help, layout="plain")
    if wanted is not None and not there[wanted].all():
        lost = np.zeros(there.size, dtype=bool)
        lost[wanted] = ~there[wanted]
        number = counted(int(lost.sum()), "entry", "entries")
        where = places(lost.reshape(block.shape), block.dims, canonical.grounded.indices)
        raise DataError.of(
            "E304",
            f"the {kind} lacks `{block.name}` in {number} that a line would measure",
            bound.symbol.statement.span,
            details=(where,),
            help="leave these entries out of the lines, or give their values",
            layout="plain",
        )
    return values, there


def check_covariance(planned: Plan) -> None:
    """Raise MethodError E501 for a method whose Gaussian has no covariance of the posterior's."""
    gaussian = all(Property.GAUSSIAN in b.site.spec.properties for b in planned.canonical.blocks)
    if planned.backend.spec.evidence or gaussian:
        return
    message = f"method `{planned.method}` has no posterior covariance to score measurements by"
    reason = planned.backend.spec.summary
    help = "take double-loop, or another one that `lgm methods` lists"
    raise MethodError.of("E501", message, details=(reason,), help=help)


def measurable(
    planned: Plan, settings: FitSettings, response: int, lines: LineSet, theta: Theta
) -> Measurable:
    """The pool of a model's lines at theta. Raises DataError E303 where the predictor or the
    precision of an entry is not finite, or an observation cannot occur."""
    canonical = planned.canonical
    block = canonical.blocks[response]
    every = np.sort(np.concatenate([block.rows, *lines.rows]))
    weight, _ = _quadratic(block, every, np.ones(len(every)), theta)
    _check_precision(block, every, weight)
    precision = np.zeros(int(np.prod(block.shape, dtype=np.int64)))
    precision[every] = weight
    _at(planned, response, every, np.ones(len(every))).canonical.linear(theta)  # E303

    def engine(rows: IntArray) -> Engine:
        at = _at(planned, response, rows, np.ones(len(rows)))
        return at.at(theta, seed=settings.seed).engine

    def shift(rows: IntArray, y: Array) -> Array:
        return _quadratic(block, rows, y, theta)[1]

    def refit(
        rows: IntArray, y: Array, start: GaussianPosterior
    ) -> tuple[GaussianPosterior, Status]:
        again = _at(planned, response, rows, y)
        solved = solve(again, "fixed", settings, LearningOptions(), start)
        return solved.posterior, solved.run.status

    return Measurable(
        canonical.predictor(block.form, block.dims, theta),
        precision,
        response,
        lines.rows,
        engine,
        shift,
        refit,
    )


def tester(
    canonical: CanonicalModel, response: int, truth: Array, there: BoolArray, theta: Theta
) -> Callable[[Array], float]:
    """The root mean square error of the posterior mean of the predictor at test values, by z."""
    block, rows = canonical.blocks[response], np.flatnonzero(there)
    predictor = canonical.predictor(block.form, block.dims, theta, rows)
    weight, shift = _quadratic(block, rows, truth[rows], theta)
    _check_precision(block, rows, weight)
    slices, centre = canonical.linear(theta).slices, shift / weight

    def error(z: Array) -> float:
        return float(np.sqrt(np.mean((predictor.values(z, slices) - centre) ** 2)))

    return error


def _at(planned: Plan, response: int, rows: IntArray, y: Array) -> Plan:
    """The plan of the model with these rows of the response observed, in rising order."""
    canonical = planned.canonical
    blocks = list(canonical.blocks)
    blocks[response] = replace(blocks[response], rows=rows, y=y)
    return replace(planned, canonical=replace(canonical, blocks=tuple(blocks)))


def _quadratic(block: SiteBlock, rows: IntArray, y: Array, theta: Theta) -> tuple[Array, Array]:
    """(W, b) of the sites exp(b s - W s^2 / 2) of some rows with these values, (d,) each."""
    site = replace(block, rows=rows, y=y).bind(theta)
    answer = cast(Pointwise, answering(type(site), Pointwise)(site)).pointwise(np.zeros(len(rows)))
    return -answer.curvature, answer.slope


def _check_precision(block: SiteBlock, rows: IntArray, weight: Array) -> None:
    bad = ~np.isfinite(weight) | (weight <= 0.0)
    if bad.any():
        first = block.place(int(rows[np.flatnonzero(bad)[0]]))
        raise DataError.of(
            "E303",
            f"the precision of the noise of `{block.name}` is not a positive number in "
            f"{count_of(int(bad.sum()), 'row')}",
            block.span,
            f"first at {first}",
            help="look for sds or weights that are 0, or whose squares overflow",
        )


def _aligned(canonical: CanonicalModel, block: SiteBlock, source: Dataset, name: str) -> BoundDatum:
    """An array of the response's axes from another source, in the order of the model's labels."""
    indices = canonical.grounded.indices
    symbol = canonical.grounded.model.symbols[block.name]
    entry = source.ask(name)
    if entry is None:
        close, key = source.suggestion(name), source.key(name)
        raise DataError(absent(symbol, source.name, source.keys, close, key))
    bound = bind(symbol, entry, source)
    if isinstance(bound, Diagnostic):
        raise DataError(bound)
    if bound.sparse or bound.shape != block.shape:
        raise DataError(wrong_shape(replace(symbol, name=name), bound.shape, indices))
    keyed = {}
    for dim in block.dims:
        labels = source.entries.get(source.key(dim))
        if labels is not None and labels is not entry:
            keyed[dim] = labels_of(labels.loaded)
    aligned = align(bound, indices, keyed)
    if isinstance(aligned, Diagnostic):
        raise DataError(aligned)
    return aligned


def _no_lines(block: SiteBlock, by: str, candidates: Dataset | None) -> Diagnostic:
    over = listed([f"`{d}`" for d in block.dims])
    keys = () if candidates is None else candidates.keys
    given = either("--candidates", "candidates=")
    help = f"name an index of `{block.name}` ({over}), or a key of {given} whose array has the "
    help += "label of each entry's line"
    return Diagnostic(
        "E305",
        f"`{by}` names no lines of `{block.name}`",
        block.span,
        details=(f"the candidates have: {', '.join(keys[:20])}",) if keys else (),
        help=suggestion(by, (*block.dims, *keys), help),
        layout="plain",
    )
