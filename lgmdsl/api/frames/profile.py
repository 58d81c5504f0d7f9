"""fit.profile(): profile-likelihood intervals of the hyperparameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.columns import Columns, frame_library, frame_of
from lgmdsl.api.response_data import with_responses
from lgmdsl.api.solve.again import maximised_objective
from lgmdsl.api.summary.table import entry_labels, labels_of
from lgmdsl.arrays import Array
from lgmdsl.canonical.lowering.hypers import HyperBlock, unknown_hyper
from lgmdsl.dataset import Keys
from lgmdsl.errors import MethodError, ModelError
from lgmdsl.learning.coordinates.vector import Coordinates, sparse
from lgmdsl.learning.objective.log_posterior import Objective
from lgmdsl.learning.profile import Profile, ProfileEnd, Reached
from lgmdsl.remedies import either

if TYPE_CHECKING:
    import pandas as pd

    from lgmdsl.posterior.fit_record import FitRecord

COLUMNS = ("term", "name", "estimate", "lower", "upper", "note")


def profile(
    fit: FitRecord,
    names: Sequence[str] | None,
    level: float,
    data: object,
    mapping: Keys | None,
    backend: str,
) -> pd.DataFrame:
    """See `Fit.profile`."""
    frame_library(backend)
    return frame_of(profile_columns(fit, names, level, data, mapping), backend)


def profile_columns(
    fit: FitRecord,
    names: Sequence[str] | None,
    level: float,
    data: object,
    mapping: Keys | None,
) -> Columns:
    """The columns of `Fit.profile`."""
    if not isinstance(level, float | int) or isinstance(level, bool) or not 0.0 < level < 1.0:
        raise ModelError.of(
            "E108",
            "the level of an interval is a number between 0 and 1",
            details=(f"got {level!r}",),
            help=either("--level 0.95", "level=0.95"),
        )
    caller = either("--profile", "fit.profile()")
    how = either("lgm summary FIT --profile --data DATA", "fit.profile(data=...)")
    fit, canonical = with_responses(fit, data, mapping, caller, how)
    plain = maximised_objective(fit, canonical, caller).coordinates
    wanted = _entries(fit, plain, names)
    known: dict[tuple[str, int], Profile] = {}
    out: Columns = {name: [] for name in COLUMNS}
    for entry in wanted:
        name = entry.block.name
        key = (name if entry.leading else "", entry.leading)
        if key not in known:
            leading = {name: entry.leading}
            objective = maximised_objective(fit, canonical, caller, leading)
            known[key] = _about(objective, fit, caller)
        row = _row(entry, known[key], float(level))
        for column, value in zip(out.values(), row, strict=True):
            column.append(value)
    return {k: np.array(v) for k, v in out.items()}


def _about(objective: Objective, fit: FitRecord, caller: str) -> Profile:
    """Profiles about the maximum that a fit is."""
    top = objective.at(objective.coordinates.pack(fit.theta), fit.posterior)
    about = None if top is None else Profile.about(objective, top)
    if about is None:
        message = f"{caller} starts from the curvature at the maximum, which cannot be had here"
        raise MethodError.of("E501", message, help="look at the warnings of the fit")
    return about


def _row(entry: _Entry, about: Profile, level: float) -> tuple[str | float, ...]:
    """The entries of COLUMNS."""
    coordinates = about.objective.coordinates
    whose = entry.term, entry.block.name, entry.value(coordinates, about.top.x)
    if entry.refused:
        return *whose, np.nan, np.nan, entry.refused
    ends = about.interval(entry.coordinate, level)
    pairs = [(end, entry.value(coordinates, end.x)) for end in ends]
    notes = "; ".join(note for pair in pairs if (note := entry.note(*pair)))
    return *whose, *(entry.end(*pair) for pair in pairs), notes


@dataclass(frozen=True, eq=False)
class _Entry:
    """One number with a coordinate of its own: entry `place` of a block, or of a covariance the sd
    of member `place[-1]`, or the correlation of two, the first of which is `leading` in these
    coordinates. `refused`: why it has no profile, or ""."""

    term: str
    block: HyperBlock
    coordinate: int
    place: tuple[int, ...]
    refused: str = ""
    leading: int = 0

    def value(self, coordinates: Coordinates, x: Array) -> float:
        """The number at x, (d,)."""
        value = np.asarray(coordinates.unpack(x)[self.block.name])
        if self.block.type != "covariance":
            return float(value[self.place])
        i, j = self.place[-2:]
        matrix = value[self.place[:-2]]
        sds = np.sqrt(np.diag(matrix))
        return float(sds[i] if i == j else matrix[i, j] / (sds[i] * sds[j]))

    def end(self, end: ProfileEnd, value: float) -> float:
        """What is reported of an end of the interval, `value` being the number there."""
        if end.reached is Reached.EDGE:
            return self._edge(end.side, value)
        return value if end.reached is Reached.ROOT else np.nan

    def note(self, end: ProfileEnd, value: float) -> str:
        """What there is to say of an end of the interval; "" of one that was found."""
        if end.reached is Reached.ROOT:
            return ""
        which = "lower" if end.side < 0.0 else "upper"
        if end.reached is Reached.EDGE:
            return f"{which}: {self._edge(end.side, value):g} is the end of its range"
        more = f" ({end.why})" if end.why else ""
        return f"{which}: not found, {end.reached.value} {value:.4g}{more}"

    def _edge(self, side: float, value: float) -> float:
        """The end of the range on a side, where `value` is close to it."""
        if self.block.type == "covariance":
            return 0.0 if self.place[-1] == self.place[-2] else side
        assert self.block.prior is not None, "a free hyper has a prior"
        bounds = self.block.prior.at({}).bounds[0 if side < 0.0 else 1]
        return float(np.broadcast_to(bounds, self.block.sizes)[self.place])


def _entries(fit: FitRecord, coordinates: Coordinates, names: Sequence[str] | None) -> list[_Entry]:
    """What is asked for: everything that was learned where names are None. Raises ModelError E103
    for an unknown name and MethodError E501 for a hyperparameter that was not learned."""
    blocks = {b.name: b for b in coordinates.blocks}
    asked = list(blocks) if names is None else [names] if isinstance(names, str) else list(names)
    out: list[_Entry] = []
    for name in asked:
        if fit.canonical.hypers.block(name) is None:
            known = tuple(b.name for b in fit.canonical.hypers.blocks)
            raise ModelError((unknown_hyper(name, known),))
        if name not in blocks:
            message = f"hyper `{name}` was not learned, so it has no profile"
            raise MethodError.of("E501", message, help=f"learned ones: {', '.join(blocks)}")
        out += _entries_of(fit, coordinates, blocks[name])
    return out


def _entries_of(fit: FitRecord, coordinates: Coordinates, block: HyperBlock) -> Iterator[_Entry]:
    first = coordinates.slices[block.name].start
    if block.type != "covariance":
        size = int(np.prod(block.sizes, dtype=np.int64))
        refused = _refused(block)
        labels = entry_labels(labels_of(fit.canonical, block.name, block.dims))
        for k, (label, place) in enumerate(zip(labels, np.ndindex(*block.sizes), strict=True)):
            term = f"{block.name}[{label}]" if label else block.name
            yield _Entry(term, block, first + min(k, size - 1), place, refused)
        return
    members = [str(m) for m in fit.canonical.layout.labels[block.dims[-1]].tolist()]
    outer = entry_labels(labels_of(fit.canonical, block.name, block.dims[:-2]))
    size, refused = len(members) * (len(members) + 1) // 2, _refused(block)
    for label, before in zip(outer, np.ndindex(*block.sizes[:-2]), strict=True):
        inside = f"{label}, " if label else ""
        for i, a in enumerate(members):
            for j, b in enumerate(members[:i]):
                term = f"correlation({block.name}[{inside}{b}, {a}])"
                place = (*before, i, j)
                yield _Entry(term, block, first + i * (i + 1) // 2, place, refused, j)
            term = f"sd({block.name}[{inside}{a}])"
            yield _Entry(term, block, first + i * (i + 1) // 2 + i, (*before, i, i), refused)
        first += size


def _refused(block: HyperBlock) -> str:
    """Why the entries of a block have no profiles, or ""."""
    if sparse(block):
        return "not profiled: its prior has corners"
    if block.type in ("simplex", "ordered"):
        return f"not profiled: entries of a {block.type} hyper do not move one by one"
    if block.prior is not None and block.prior.depends:
        return "not profiled: its prior depends on other hyperparameters"
    return ""
