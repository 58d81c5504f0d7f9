"""Values against their declared type: float64 arrays, csr matrices, or positions of labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lgmdsl.arrays import AnyArray, Array, BoolArray
from lgmdsl.canonical.grounding.axes import BoundDatum
from lgmdsl.canonical.grounding.errors import (
    places,
    show,
    tally,
    unexpected_missing,
    wrong_labels,
    wrong_values,
)
from lgmdsl.canonical.grounding.keys import truth_values
from lgmdsl.canonical.grounding.label_line import looks_like_dates
from lgmdsl.canonical.grounding.labels import labels_of, truthful
from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.errors import Diagnostic, listed
from lgmdsl.remedies import either
from lgmdsl.vocabulary.lookup import observing

# ---- text --------------------------------------------------------------------------------------
# Text where numbers are wanted: which entries are none, and what to write instead.


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
# Numbers of other forms: what is about them, what parts their thousands, and a decimal comma.
_CURRENCY = re.compile(r"[$€£¥₹₩]|\b(?:USD|EUR|GBP|CHF|JPY|CAD|AUD|SEK|NOK|DKK|kr)\b\.?")
_BRACKETS = re.compile(r"\((.*)\)")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}([,'’ \u00a0\u202f])\d{3}(?:\1\d{3})*(?:\.\d+)?")
_THOUSANDS_BY_POINTS = re.compile(
    r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+,\d+|[-+]?[1-9]\d{0,2}(?:\.\d{3}){2,}"
)
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
# What other programs write for a missing entry.
_ABSENT = frozenset(
    ["#n/a", "#na", "#div/0!", "#value!", "#ref!", "#null!", ".", "-", "--", "?", "none", "n.a.",
     "n/a", "na", "nan", "null", "nil", "missing", "unknown"]
)  # fmt: skip


def _iso(texts: list[str]) -> bool:
    """Whether dates are written with the year first."""
    return all(re.match(r"\d{4}-", text) for text in texts)


def _plain(text: str) -> tuple[str, str] | None:
    """The number that a text is, as it is written here, and what has to go ("" where it is written
    so); None for text that is none."""
    number, signs = text.strip(), list[str]()
    if bracketed := _BRACKETS.fullmatch(number):
        number = f"-{bracketed[1]}"
        signs.append("brackets")
    if _CURRENCY.search(number):
        number = re.sub(r"^([-+]?)\s*", r"\1", _CURRENCY.sub("", number, count=1).strip())
        signs.append("currency signs")
    if number.endswith("%"):
        number = number[:-1].rstrip()
        signs.append("percent signs")
    if _THOUSANDS.fullmatch(number):
        number = re.sub(r"[,'’\s]", "", number)
        signs.append("commas" if "," in text else "spaces or marks between thousands")
    elif _THOUSANDS_BY_POINTS.fullmatch(number):
        number = number.replace(".", "").replace(",", ".")
        signs.append("points between thousands and decimal commas")
    elif _DECIMAL_COMMA.fullmatch(number):
        number = number.replace(",", ".")
        signs.append("decimal commas")
    return (number, listed(signs)) if _NUMBER.fullmatch(number) else None


def _dressed(distinct: list[str]) -> tuple[str, str, str] | None:
    """Where all texts are numbers and some have another form: one of these, the number that it is,
    and what has to go; None otherwise."""
    known = [_plain(text) for text in distinct]
    if any(plain is None for plain in known):
        return None
    other = [(t, *p) for t, p in zip(distinct, known, strict=True) if p is not None and p[1]]
    return max(other, key=lambda form: len(form[2]), default=None)


def no_numbers(values: AnyArray) -> BoolArray:
    """The entries that do not read as numbers; all of them where all do, being text still."""
    distinct, where = np.unique(values, return_inverse=True)
    odd = np.array([_NUMBER.fullmatch(v.strip()) is None for v in distinct.tolist()], dtype=bool)
    faulty: BoolArray = (odd if odd.any() else ~odd)[where].reshape(values.shape)
    return faulty


def remedy(name: str, kind: str, odd: AnyArray, all_odd: bool) -> str:
    """What to do about these texts of a datum of this type; `all_odd`: it holds no number."""
    distinct = [v.strip() for v in np.unique(odd).tolist()]
    if kind == "binary" and all_odd and len(distinct) <= 2:
        one, zero = show(np.unique(odd)[-1]), show(np.unique(odd)[0])
        other = zero if zero != one else "all others"
        return either(
            f"0 and 1, or false and true, are taken: write e.g. 1 for {one} and 0 for {other}",
            f"0 and 1, or False and True, are taken: {name} == {one}",
        )
    if all(_NUMBER.fullmatch(v) for v in distinct):
        return f"np.asarray({name}, dtype=float)"
    if (dressed := _dressed(distinct)) is not None:
        text, number, signs = dressed
        return f"write numbers without {signs}: {number} for {show(text)}"
    if all(v.lower() in _ABSENT for v in distinct):
        return "an entry that is missing is empty or NA"
    if looks_like_dates(odd):
        iso = "" if _iso(distinct) else "write 2024-01-31, "
        return f"dates are labels: {iso}declare index day, and data {name}[obs] : day"
    if all_odd:
        return f"give numbers; for groups declare an index: index group, data {name}[obs] : group"
    return "give numbers in their place, or NA where they are missing"


def why_no_numbers(values: AnyArray) -> str:
    """What is odd in text most of whose entries read as numbers, or all as numbers of another
    form; empty for labels."""
    distinct = [v.strip() for v in np.unique(values).tolist()]
    odd = [v for v in distinct if _NUMBER.fullmatch(v) is None]
    if not odd or not distinct:
        return ""
    if (dressed := _dressed(distinct)) is not None:
        text, number, signs = dressed
        return f"its numbers are written with {signs}: write {number} for {show(text)}"
    if len(odd) == len(distinct):
        other = looks_like_dates(values) and not _iso(distinct)
        return "its dates are not written as 2024-01-31" if other else ""
    if 2 * len(odd) >= len(distinct):
        return ""
    shown = ", ".join(show(v) for v in odd[:3])
    return f"it holds text among numbers: {shown}{', ...' if len(odd) > 3 else ''}"


# ---- values ------------------------------------------------------------------------------------

Checked = tuple[Any, BoolArray | None]


class Place(NamedTuple):
    """What a datum is for. `observed`: it is a response; `typed`: it stands in an argument that
    wants its type, so that another is no remedy; `hurdle`: its family may have a hurdle for zeros;
    `seen`: arguments that say how it was observed, which another family has to take; `end`: an
    infinite value that says of an end of an interval that it is open, as a missing one does."""

    observed: bool = False
    typed: bool = False
    hurdle: bool = False
    seen: tuple[str, ...] = ()
    end: float | None = None


COVARIATE = Place()


class UntypedDatum(NamedTuple):
    """A datum whose type its `values` do not keep, and its `place`."""

    name: str
    values: Array
    place: Place

    def declared(self, kind: str) -> str:
        """`, or declare ...`: another type where that ends in a model; a response then needs
        another family too."""
        if self.place.observed:
            families = " ".join(observing(kind, self.place.seen)[:3])
            return (
                f", or declare `{self.name} : {kind}` and observe it with a family of {kind} data: "
                f"{families}"
                if families
                else ""
            )
        return "" if self.place.typed else f", or declare `{self.name} : {kind}`"


@dataclass(frozen=True)
class TypeRule:
    """What a type allows: `outside` marks the values it does not, `remedy` is the help line."""

    outside: Callable[[Array], BoolArray]
    remedy: Callable[[UntypedDatum], str]


def numbers_of(
    bound: BoundDatum,
    indices: Mapping[str, IndexSet],
    place: Place = COVARIATE,
) -> Checked | list[Diagnostic]:
    """A dense datum of a number type as float64, NaN where missing.

    Raises nothing: returns E303 for values outside the type, E304 for missing ones without `?`.
    A response leaves 0 and 1 out of `unit`, which beta and dirichlet responses cannot be; of others
    `?` is no remedy: a covariate is whole.
    """
    symbol, values = bound.symbol, bound.values
    missing = np.zeros(values.shape, dtype=bool)
    if bound.missing is not None:
        missing |= bound.missing
    if values.dtype.kind == "U":
        parsed = _parsed(values, missing, bound, indices)
        if isinstance(parsed, Diagnostic):
            return [parsed]
        values, missing = parsed[0], np.asarray(parsed[1], dtype=bool)
    with np.errstate(over="ignore", invalid="ignore"):
        result: Array = np.array(values, dtype=np.float64)
    missing |= np.isnan(result)
    result[missing] = np.nan
    lacking = missing
    if place.end is not None:
        missing = missing | (result == place.end)
        result[missing] = np.nan
    problem = _outside(bound, result, missing, indices, place)
    problems = [] if problem is None else [problem]
    if _unexpected(lacking, bound).any() and not bound.symbol.optional:
        problems.append(unexpected_missing(symbol, lacking, indices, place.observed))
    return problems or (result, missing if missing.any() else None)


def _unexpected(missing: BoolArray, bound: BoundDatum) -> BoolArray:
    """Missing entries, but for those of steps without data."""
    return missing if bound.added is None else missing & ~bound.added


def _parsed(
    values: AnyArray, missing: BoolArray, bound: BoundDatum, indices: Mapping[str, IndexSet]
) -> Checked | Diagnostic:
    """Text where numbers are wanted: empty text is missing, other text is refused."""
    gone = missing | (np.char.strip(values) == "") | (values == "NA")
    odd = ~gone
    if not odd.any():
        return np.full(values.shape, np.nan), gone
    odd[odd] = no_numbers(values[odd])
    symbol = bound.symbol
    return wrong_values(
        symbol,
        "text: " + tally(values[odd]),
        places(odd, symbol.dims, indices),
        remedy(symbol.name, symbol.type, values[odd], bool((odd | gone).all())),
    )


def _outside(
    bound: BoundDatum,
    result: Array,
    missing: BoolArray,
    indices: Mapping[str, IndexSet],
    place: Place,
) -> Diagnostic | None:
    symbol = bound.symbol
    infinite = np.isinf(result)
    if infinite.any():
        remedy = "drop these rows, or put finite numbers there"
        if place.observed:
            remedy = f"drop these rows, or mark them as missing: NaN, and `{symbol.type}?`"
        elif place.end is not None:
            remedy = f"an open end is {place.end:g} there, or missing (`{symbol.type}?`)"
        return wrong_values(
            symbol,
            tally(result[infinite]),
            places(infinite, symbol.dims, indices),
            remedy,
            f"`{symbol.name}` holds infinite values",
        )
    rule = UNIT_OPEN if place.observed and symbol.type == "unit" else RULES[symbol.type]
    # Missing entries are replaced by a value inside every type, which costs a copy.
    present = np.where(missing, _harmless(symbol.type), result) if missing.any() else result
    odd = rule.outside(present) & ~missing
    if not odd.any():
        return None
    known_values = result[~missing] if missing.any() else result
    remedy = rule.remedy(UntypedDatum(symbol.name, known_values, place))
    # A column coded otherwise throughout is reported by its values alone; strays by position.
    whole = symbol.type == "binary" and np.unique(known_values).size <= 2
    where = "" if whole else places(odd, symbol.dims, indices)
    return wrong_values(symbol, tally(known_values if whole else result[odd]), where, remedy)


def _harmless(kind: str) -> float:
    return 0.5 if kind == "unit" else 1.0


def sparse_numbers(bound: BoundDatum, indices: Mapping[str, IndexSet]) -> Any | Diagnostic:
    """A sparse datum as a csr matrix of float64, duplicates summed."""
    import scipy.sparse as sp

    symbol = bound.symbol
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = sp.csr_array(bound.values, dtype=np.float64)
        if matrix is bound.values or np.shares_memory(matrix.data, bound.values.data):
            matrix = matrix.copy()
        matrix.sum_duplicates()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    odd = ~np.isfinite(matrix.data)
    summary, message = (
        "values that are not finite",
        f"`{symbol.name}` holds values that are not finite",
    )
    if not odd.any():
        implicit = np.zeros(1 if matrix.nnz < int(np.prod(matrix.shape, dtype=object)) else 0)
        outside = RULES[symbol.type].outside
        odd, message = outside(matrix.data), ""
        summary = tally(matrix.data[odd]) if odd.any() else ""
        if not odd.any():
            if not outside(implicit).any():
                return matrix
            summary = "0 where the sparse matrix has no entry"
    first = np.unique(rows[odd])[:5]
    dim = symbol.dims[0]
    where = f"at {dim} " + ", ".join(str(indices[dim].labels[k]) for k in first)
    remedy = "give it dense, NaN where missing" if bound.symbol.optional else "drop these entries"
    return wrong_values(symbol, summary, where if first.size else "", remedy, message)


def positions_of(
    bound: BoundDatum, target: IndexSet, indices: Mapping[str, IndexSet], observed: bool = False
) -> Checked | Diagnostic:
    """An index-valued datum as int64 positions, -1 where missing; labels are matched by label."""
    symbol = bound.symbol
    labels = labels_of(bound.raw)
    if labels.truth and not truthful(target.labels):
        return truth_values(symbol, symbol.name, target)
    positions = target.positions(labels.values)
    missing = labels.missing.copy()
    known = positions >= 0
    if labels.values.dtype.kind == "i":
        missing |= (labels.values == -1) & ~known
    else:
        missing |= (labels.values == "NA") & ~known
    positions = np.where(missing, -1, positions)
    unknown = (positions < 0) & ~missing
    if unknown.any():
        return wrong_labels(
            symbol,
            target,
            labels.values[unknown],
            places(unknown, symbol.dims, indices),
            _map_remedy(symbol.name, target, labels.values[~missing]),
        )
    if not missing.any():
        return positions, None
    if _unexpected(missing, bound).any() and not bound.symbol.optional:
        return unexpected_missing(symbol, missing, indices, observed)
    return positions, missing


def _map_remedy(name: str, target: IndexSet, values: AnyArray) -> str:
    if values.dtype.kind == "U" and target.sized:
        return f"write `index {target.name}` without a size: its labels then come from the data"
    if values.dtype.kind != "i" or not values.size:
        return ""
    low, high = int(values.min()), int(values.max())
    if target.labels.dtype.kind == "U" and low >= 0 and high <= target.size:
        shift = "" if low == 0 else " - 1"
        listed = ", ".join(show(v) for v in target.labels[:4].tolist())
        more = ", ..." if target.size > 4 else ""
        if high - (low > 0) < target.size:
            return f"give the labels: np.array([{listed}{more}])[{name}{shift}]"
    if target.counted and low >= 1 and high == target.size:
        return f"{name} - 1"
    if target.labels.dtype.kind == "i" and low == 0 and target.labels.size:
        first = int(target.labels.min())
        if high + first <= int(target.labels.max()):
            return f"{name} + {first}"
    return ""


def _binary_remedy(found: UntypedDatum) -> str:
    name, values = found.name, found.values
    distinct = [float(v) for v in np.unique(values)[:4]]
    if set(distinct) <= {-1.0, 1.0}:
        return f"({name} + 1) / 2"
    if set(distinct) <= {1.0, 2.0}:
        return f"{name} - 1"
    if set(distinct) == {-1.0, 0.0, 1.0}:
        return f"if -1 means missing: np.where({name} == -1, np.nan, {name}), and `binary?`"
    if len(distinct) <= 2:
        return f"{name} == {show(distinct[-1])}"
    return f"a truth value for each entry, e.g. {name} > {show(float(np.median(values)))}"


def _count_remedy(found: UntypedDatum) -> str:
    name, values = found.name, found.values
    whole = bool((values == np.round(values)).all())
    if whole and values.min() == -1:
        return f"if -1 means missing: np.where({name} == -1, np.nan, {name}), and `count?`"
    if whole or values.min() < 0:
        other = found.declared("integer" if whole else "real")
        return f"counts are 0, 1, 2 ...: drop these rows{other}"
    return f"counts are 0, 1, 2 ...: np.round({name}){found.declared('real')}"


def _positive_remedy(found: UntypedDatum) -> str:
    if found.values.min() == 0 and found.place.observed:
        return _zeros_remedy(found)
    if found.values.min() == 0:
        return f"0 is not positive: drop these rows{found.declared('nonnegative')}"
    return f"negative values are not positive: drop these rows{found.declared('real')}"


def _zeros_remedy(found: UntypedDatum) -> str:
    """Remedy for a response that is 0 in some rows and positive in the others."""
    name = found.name
    if found.place.hurdle:
        return (
            f"0 is not positive: declare `{name} : nonnegative` and give its family hurdle = p, "
            "the probability of 0 (lgm help zero-inflation); or drop these rows"
        )
    above = found.values[found.values > 0.0]
    half = ""
    if above.size:
        value = show(0.5 * float(above.min()))
        half = f", or put half the smallest value there: np.where({name} == 0, {value}, {name})"
    return f"0 is not positive: drop these rows{half}{found.declared('nonnegative')}"


def _nonnegative_remedy(found: UntypedDatum) -> str:
    return f"negative values: drop these rows{found.declared('real')}"


def _integer_remedy(found: UntypedDatum) -> str:
    return f"np.round({found.name}){found.declared('real')}"


def _unit_remedy(found: UntypedDatum) -> str:
    if found.values.min() >= 0 and 1 < found.values.max() <= 100:
        return f"{found.name} / 100"
    return f"unit means between 0 and 1: rescale `{found.name}`{found.declared('real')}"


def _open_remedy(found: UntypedDatum) -> str:
    name, values = found.name, found.values
    if values.min() < 0 or values.max() > 1:
        return _unit_remedy(found)
    if values.ndim > 1 and np.isclose(values.sum(axis=-1), 1.0).all():  # rows of shares
        clipped = f"{name} = np.clip({name}, 1e-6, None)"
        return f"shares are above 0: {clipped}, then {name} / {name}.sum(axis=-1, keepdims=True)"
    return f"a beta response lies inside (0, 1): np.clip({name}, 1e-6, 1 - 1e-6)"


RULES: Mapping[str, TypeRule] = {
    "real": TypeRule(lambda v: np.zeros(v.shape, dtype=bool), lambda found: ""),
    "positive": TypeRule(lambda v: v <= 0, _positive_remedy),
    "nonnegative": TypeRule(lambda v: v < 0, _nonnegative_remedy),
    "unit": TypeRule(lambda v: (v < 0) | (v > 1), _unit_remedy),
    "count": TypeRule(lambda v: (v < 0) | (v != np.round(v)), _count_remedy),
    "integer": TypeRule(lambda v: v != np.round(v), _integer_remedy),
    "binary": TypeRule(lambda v: (v != 0) & (v != 1), _binary_remedy),
}
UNIT_OPEN = TypeRule(lambda v: (v <= 0) | (v >= 1), _open_remedy)
