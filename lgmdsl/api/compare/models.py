"""lgm.compare_models: several models of the same responses, by evidence and by prediction."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

import lgmdsl.html as html
from lgmdsl.api.assess.loo import Loo
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.page import columns, several, wrapped
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.assess.criteria import stacked
from lgmdsl.contract.structure import Shape
from lgmdsl.dataset import Keys
from lgmdsl.errors import Diagnostic, LgmError, MethodError, listed
from lgmdsl.posterior.fit_record import FitRecord
from lgmdsl.state import FieldState, made_by

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class ComparedModel:
    """One model. `probability`: its share of the evidences of all, under equal prior odds; `elpd`,
    with its standard error `se`: log density of what was left out; `difference`: from the best
    model's, with the standard error of this difference over the responses; `weight`: of stacking.
    NaN where models may not be compared so."""

    name: str
    fit: Fit
    probability: float
    elpd: float
    se: float
    difference: float
    difference_se: float
    weight: float
    loo: Loo | None = field(default=None, repr=False)

    def as_json(self) -> dict[str, object]:
        """Plain values."""
        numbers = ("probability", "elpd", "se", "difference", "difference_se", "weight")
        values = {n: getattr(self, n) for n in numbers}
        return {
            "name": self.name,
            "method": self.fit.method,
            "hyper": self.fit.hyper,
            "log_evidence": self.fit.log_evidence,
            **{n: v if math.isfinite(v) else None for n, v in values.items()},
        }


@made_by("lgm.compare_models")
@dataclass(frozen=True, eq=False)
class ModelComparison(FieldState):
    """Models, the best first: by leave-one-out, or by evidence where there is none.

    Iterates over its rows; `comparison["name"]` is one of them. `warnings`: why evidences, or
    predictions, may not be compared, or what is doubtful in either (W610).
    """

    rows: tuple[ComparedModel, ...]
    warnings: tuple[Diagnostic, ...] = ()

    def __iter__(self) -> Iterator[ComparedModel]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> ComparedModel:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    @property
    def weights(self) -> dict[str, float]:
        """The weights of stacking, by name."""
        return {r.name: r.weight for r in self.rows}

    def frame(self) -> pd.DataFrame:
        """A row for each model, as a pandas frame."""
        import pandas as pd

        return pd.DataFrame([r.as_json() for r in self.rows]).set_index("name")

    def as_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "models": [r.as_json() for r in self.rows],
            "warnings": [w.as_json() for w in self.warnings],
        }

    def __repr__(self) -> str:
        return f"ModelComparison({several([r.name for r in self.rows])})"

    @cached_property
    def table(self) -> str:
        """The comparison as text in 80 columns."""
        rows = [
            ("model", "log evidence", "share", "elpd", "se", "diff.", "se", "weight"),
            *(self.cells(r) for r in self.rows),
        ]
        lines = columns(rows, 0, tuple(range(1, 8)))
        for warning in self.warnings:
            lines += ["", *wrapped(f"{warning.code}: {warning.message}", 0, 2)]
            lines += [text for d in warning.details for text in wrapped(d, 2, 4)]
        legend = (
            "elpd: log density of each response given the others, summed; diff.: from the first; "
            "weight: of stacking; share: of the evidences, under equal prior odds"
        )
        return "\n".join([*lines, "", *wrapped(legend, 0, 2)])

    def cells(self, row: ComparedModel) -> tuple[str, ...]:
        """A row of the table."""
        return (
            row.name,
            _shown(row.fit.log_evidence, ".2f"),
            _shown(row.probability, ".3f"),
            _shown(row.elpd, ".2f"),
            _shown(row.se, ".2f"),
            _shown(row.difference, ".2f"),
            _shown(row.difference_se, ".2f"),
            _shown(row.weight, ".3f"),
        )

    def __str__(self) -> str:
        return self.table

    def _repr_html_(self) -> str:
        header = ("model", "log evidence", "share", "elpd", "se", "diff.", "se", "weight")
        rows = [self.cells(row) for row in self.rows]
        reasons = [
            html.paragraph("; ".join((w.message, *w.details)), bad=True) for w in self.warnings
        ]
        return html.card("Comparison of models", "", [html.table(header, rows), *reasons])


def _shown(value: float, form: str) -> str:
    return f"{value:{form}}" if math.isfinite(value) else "-"


EXAMPLE = 'lgm.compare_models({"a": fit_a, "b": fit_b})'


def _check_named(fits: object) -> None:
    if not isinstance(fits, Mapping):
        message = "the fits of a comparison are given by name"
        got = f"got {type(fits).__name__}"
        raise MethodError.of("E108", message, details=(got,), help=EXAMPLE)


def compare_models(
    fits: Mapping[str, Fit], data: object = None, mapping: Keys | None = None
) -> ModelComparison:
    """Compare fits of different models to the same responses: `lgm.compare_models({"a": fit_a,
    "b": fit_b})`.

    By log p(y), as shares under equal prior odds; by leave-one-out (`fit.loo()`), with the standard
    error of each difference from the best (Vehtari, Gelman and Gabry 2017); and by stacking: the
    weights w that maximise sum_i log sum_k w_k p_k(i), p_k(i) being the density of response i given
    the others under model k (Yao, Vehtari, Simpson and Gelman 2018). What may not be compared is
    NaN, and `warnings` say why (W610): different responses, densities against probabilities,
    improper priors, hyperparameters that were maximised.

    Fits that come from files need their `data` again for leave-one-out (`mapping` renames
    keys). Raises MethodError E108 for fewer than two fits, TypeError for what is none.
    """
    _check_named(fits)
    if len(fits) < 2:
        help = EXAMPLE
        raise MethodError.of("E108", "a comparison takes two fits or more", help=help)
    for name, fit in fits.items():
        if not isinstance(fit, Fit):
            raise TypeError(f"`{name}` is no Fit but {type(fit).__name__}")
    named = {str(name): fit for name, fit in fits.items()}
    loos: dict[str, Loo | None] = {}
    lacking: dict[str, str] = {}
    for name, fit in named.items():
        try:
            loos[name] = fit.loo(data=data, mapping=mapping)
        except LgmError as error:
            loos[name], lacking[name] = None, error.diagnostics[0].message
    known = {name: responses_of(fit) for name, fit in named.items()}
    local = {name: _local(known[name], loo) for name, loo in loos.items()}
    evidences, why_not = evidence_doubts(named, known)
    predictions, why_no_loo = prediction_doubts(named, known, loos, lacking)
    shares = _shares([f.log_evidence for f in named.values()]) if evidences else _none(len(named))
    weights = _none(len(named))
    if predictions:
        weights = stacked(np.stack([_array(part) for part in local.values()], axis=1))
    best = max(named, key=lambda n: float(_array(local[n]).sum())) if predictions else ""
    rows = []
    for k, (name, fit) in enumerate(named.items()):
        loo = loos[name]
        gap, spread = _difference(local[name], local[best]) if best else (math.nan, math.nan)
        rows.append(
            ComparedModel(
                name=name,
                fit=fit,
                probability=float(shares[k]),
                elpd=math.nan if loo is None else loo.elpd,
                se=math.nan if loo is None else loo.se,
                difference=gap,
                difference_se=spread,
                weight=float(weights[k]),
                loo=loo,
            )
        )
    order = "elpd" if predictions else "probability" if evidences else ""
    if order:
        rows.sort(key=lambda r: -getattr(r, order))
    return ModelComparison(tuple(rows), (*why_not, *why_no_loo))


def _local(known: Responses, loo: Loo | None) -> Array | None:
    """log p(y_i | y_-i) of every response, in the order of the responses."""
    if loo is None or len(known.names) == 0:
        return None
    parts = [np.asarray(part, dtype=np.float64) for part in loo.log_density]
    return np.concatenate([parts[k] for k in known.order])


def _array(local: Array | None) -> Array:
    assert local is not None, "predictions are compared where every model has them"
    return local


def _difference(local: Array | None, best: Array | None) -> tuple[float, float]:
    """Difference of the sums of two models, and its standard error over the responses."""
    gap = _array(local) - _array(best)
    spread = float(np.sqrt(len(gap) * np.var(gap, ddof=1))) if len(gap) > 1 else math.nan
    return float(gap.sum()), spread


def _shares(log_evidences: Sequence[float]) -> Array:
    size = np.array(log_evidences)
    relative = np.exp(size - size.max())
    return np.asarray(relative / relative.sum())


def _none(count: int) -> Array:
    return np.full(count, np.nan)


# ---- comparable --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Responses:
    """What a model observes: `names` in their order, entries and values of each, whether they are
    discrete; `order`: their places among the model's own. `values` is None in fits from files,
    whose `hashes` name the data, and so is `rows` where these were streamed."""

    names: tuple[str, ...]
    order: tuple[int, ...]
    rows: tuple[AnyArray | None, ...]
    values: tuple[AnyArray | None, ...]
    hashes: tuple[str, ...]
    discrete: tuple[bool, ...]

    def same(self, other: Responses) -> bool:
        """Whether both have observed the same: one value by value where both know them."""
        if len(self.names) != len(other.names):
            return False
        for k in range(len(self.names)):
            at, there = self.rows[k], other.rows[k]
            if at is not None and there is not None and not np.array_equal(at, there):
                return False
            mine, theirs = self.values[k], other.values[k]
            if mine is not None and theirs is not None:
                if not np.array_equal(mine, theirs, equal_nan=True):
                    return False
            elif self.hashes[k] != other.hashes[k]:
                return False
        return True


def responses_of(fit: FitRecord) -> Responses:
    """The observed data of a fit, by name."""
    blocks = [b for b in fit.canonical.blocks if not b.family.spec.potential]
    order, held = sorted(range(len(blocks)), key=lambda k: blocks[k].name), fit.canonical.rows.kept
    return Responses(
        names=tuple(blocks[k].name for k in order),
        order=tuple(order),
        rows=tuple(blocks[k].data.rows if held else None for k in order),
        values=tuple(blocks[k].data.y if held else None for k in order),
        hashes=tuple(fit.provenance.get(f"sha256_{blocks[k].name}", "") for k in order),
        discrete=tuple(blocks[k].family.spec.discrete for k in order),
    )


def warning(message: str, *details: str, help: str = "") -> Diagnostic:
    """W610."""
    return Diagnostic("W610", message, details=details, help=help, severity="warning")


def evidence_doubts(
    fits: Mapping[str, FitRecord], known: Mapping[str, Responses]
) -> tuple[bool, tuple[Diagnostic, ...]]:
    """Whether log evidences may be compared, with why not, or what is doubtful in it."""
    reasons = _different(known)
    improper = {name: _improper(fit) for name, fit in fits.items()}
    first = next(iter(improper.values()))
    if any(parts != first for parts in improper.values()):
        which = [
            f"{name}: {listed([f'`{p}`' for p, *_ in sorted(parts)]) or 'none'}"
            for name, parts in improper.items()
        ]
        reasons.append("they have different improper priors, whose constants are arbitrary")
        reasons += which
    lost = [name for name, fit in fits.items() if not math.isfinite(fit.log_evidence)]
    if lost:
        reasons.append(f"{_listed(lost)} {'has' if len(lost) == 1 else 'have'} no evidence")
    if reasons:
        return False, (warning("log evidences of these models may not be compared", *reasons),)
    doubts = []
    maximised = [n for n, f in fits.items() if f.learning is not None and f.hyper != "integrate"]
    if maximised:
        doubts.append(
            f"hyperparameters of {_listed(maximised)} were maximised over: the evidence "
            'is at their values, which favours models with more of them (hyper="integrate")'
        )
    potentials = {
        n: sum(b.family.spec.potential for b in f.canonical.blocks) for n, f in fits.items()
    }
    if any(potentials.values()):
        doubts.append("potentials are part of the prior as they stand, without its constant")
    guarantees = {n: str(f.guarantee) for n, f in fits.items()}
    if len(set(guarantees.values())) > 1:
        doubts.append(f"guarantees differ: {', '.join(f'{n} {g}' for n, g in guarantees.items())}")
    doubts += _unconverged(fits)
    return True, ((warning("shares of the evidences are doubtful", *doubts),) if doubts else ())


def prediction_doubts(
    fits: Mapping[str, FitRecord],
    known: Mapping[str, Responses],
    loos: Mapping[str, Loo | None],
    lacking: Mapping[str, str],
) -> tuple[bool, tuple[Diagnostic, ...]]:
    """Whether predictions may be compared, with why not, or what is doubtful in leave-one-out."""
    reasons = [f"{name}: {message}" for name, message in lacking.items()]
    reasons += _different(known)
    broken = [n for n, loo in loos.items() if loo is not None and not math.isfinite(loo.elpd)]
    if broken:
        reasons.append(f"a response of {_listed(broken)} has no predictive density")
    if reasons:
        return False, (warning("predictions of these models may not be compared", *reasons),)
    doubts = [
        f"{name}: {loo.flagged} flagged; fit.loo(exact=True) fits again without each of them"
        for name, loo in loos.items()
        if loo is not None and loo.flagged
    ]
    return True, ((warning("leave-one-out is doubtful", *doubts),) if doubts else ())


def _different(known: Mapping[str, Responses]) -> list[str]:
    """How the responses differ, if they do."""
    names = list(known)
    first = known[names[0]]
    other = [n for n in names[1:] if not first.same(known[n])]
    if other:
        return [f"{_listed([names[0]])} and {_listed(other)} observe different responses"]
    kinds = [n for n in names[1:] if known[n].discrete != first.discrete]
    if kinds:
        return [
            f"{_listed([names[0]])} and {_listed(kinds)} take the responses differently: "
            "one as discrete (probabilities), the other as continuous (densities)"
        ]
    return []


def _improper(fit: FitRecord) -> frozenset[tuple[str, ...]]:
    """The improper priors of latents (with structures and sizes) and of free hyperparameters."""
    linear = fit.canonical.linear(fit.theta)
    loose = {b.name for b in linear.blocks if Shape.IMPROPER in b.shape}
    parts = {
        (b.name, *(f"{f.name} of {f.size}" for f in b.factors))
        for b in fit.canonical.reported
        if b.name in loose
    }
    if fit.learning is not None:
        for block in fit.canonical.hypers.blocks:
            if block.prior is not None and not block.prior.at(fit.theta).proper:
                parts.add((block.name, str(block.sizes)))
    return frozenset(parts)


def _unconverged(fits: Mapping[str, FitRecord]) -> list[str]:
    stopped = [name for name, fit in fits.items() if not fit.converged]
    return [f"{_listed(stopped)} did not converge"] if stopped else []


def _listed(names: list[str]) -> str:
    return listed([f"`{n}`" for n in names])
