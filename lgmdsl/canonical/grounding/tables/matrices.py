"""The columns that a selection names, side by side as a matrix, and as a fit had them.

A selection lists terms: a column as it is, a function of it, its contrasts or its polynomials
(`dataset.codings`), and products of these, `a:b`, where `a*b` is short for `a`, `b` and `a:b`. A
term that is one column may be a datum over the rows alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.grounding.errors import SHOWN, count_of, show, tally
from lgmdsl.canonical.grounding.labels import LabelArray, labels_of, meant_labels, union
from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.dataset import Entry, Loaded
from lgmdsl.dataset.codings import BASED, CONTRASTS, FUNCTIONS, Coding, Design, Term, Unfit
from lgmdsl.dataset.dataset import Selection
from lgmdsl.dataset.refusals import check_memory
from lgmdsl.dataset.tables import side_by_side
from lgmdsl.errors import DataError, Diagnostic, listed, nearest, suggestion
from lgmdsl.remedies import either


def as_before(name: str, chosen: Sequence[Term], known: Sequence[Term]) -> tuple[Term, ...]:
    """The terms as a fit had them, with their levels and numbers. Raises DataError E303 for columns
    that are coded otherwise than there: their coefficients mean something else, though they may
    have the same labels."""
    before = {_asked(term): term for term in known}
    coded = {term.columns: term for term in known}
    out = []
    for term in chosen:
        fitted = before.get(_asked(term)) or coded.get(term.columns, term)
        pairs = zip(term.codings, fitted.codings, strict=True)
        if any(c.asked != f.asked or (c.base and c.base != f.base) for c, f in pairs):
            raise DataError.of(
                "E303",
                f"`{term.columns[0]}`, a column of `{name}`, is coded otherwise than in the fit",
                details=(f"in the fit: {fitted}",),
                help=either(f"leave out --map {name}", f"leave out mapping of {name}"),
                layout="plain",
            )
        out.append(fitted)
    return tuple(out)


def _asked(term: Term) -> tuple[object, ...]:
    return tuple(coding.asked for coding in term.codings)


def matrix_of(
    name: str,
    source: str,
    terms: Sequence[Term],
    columns: Mapping[str, Entry],
    numeric: bool,
    rows: Loaded | None,
) -> tuple[Entry, Design]:
    """The terms side by side, labelled by their columns, and how they are made.

    Terms that have levels and numbers (those of a fit) keep them. `numeric`: the datum holds
    numbers, not labels; `rows` are the labels of the rows. Raises DataError: E303 for text that is
    to be a number, numbers with fractions that are to be levels, and numbers that a function or a
    polynomial cannot take, E302 for levels that a fit does not know, E306 for columns of several
    lengths.
    """
    _check_joined(name, [columns[c] for term in terms for c in term.columns])
    of_numbers = {c.column for term in terms for c in term.codings if not c.of_levels}
    words = {c for c in of_numbers if numeric and _is_text(columns[c])}
    if words:
        raise DataError(_text(name, terms, columns, words))
    if all(term.plain for term in terms):
        whole = side_by_side(source, name, [columns[term.columns[0]] for term in terms])
        design = Design(tuple(terms))
    else:
        design, values = _design(name, terms, columns, of_numbers)
        if not design.labels:
            raise _no_columns(name, design)
        lengths = {len(column) for column in values.values()}
        if len(lengths) > 1:
            raise DataError.of("E306", f"{source}: the columns of `{name}` differ in length")
        check_memory(source, name, (next(iter(lengths)), len(design.labels)), 8)
        design, matrix = design.of(values)
        whole = Loaded(matrix)
    named = Loaded(np.array(design.labels, dtype=np.str_))
    shape = (int(whole.values.shape[0]), len(design.labels))
    first = columns[terms[0].columns[0]]
    weak = first.weak and bool(first.labels) and rows is first.labels[0]
    entry = Entry(
        name, source, shape, lambda: whole, labels=(rows, named), weak=weak, table=first.table
    )
    return entry, design


def _design(
    name: str, terms: Sequence[Term], columns: Mapping[str, Entry], of_numbers: Collection[str]
) -> tuple[Design, dict[str, AnyArray]]:
    """The terms with all that they keep, and the columns."""
    values: dict[str, AnyArray] = {}
    learned: list[Term] = []
    for term in terms:
        codings = []
        for coding in term.codings:
            loaded = _column(name, coding.column, columns)
            if coding.of_levels:
                labels = _labels(name, coding, loaded)
                coding = coding if coding.levels else _with_levels(name, coding, labels)
                places = _places(coding, labels)
                if coding.column not in of_numbers:
                    values[coding.column] = places
            else:
                numbers = _floats(loaded.values, loaded.missing)
                values[coding.column] = numbers
                coding = coding if coding.memory else _learned(name, coding, numbers)
            codings.append(coding)
        learned.append(Term(tuple(codings)))
    return Design(tuple(learned)), values


def _column(name: str, column: str, columns: Mapping[str, Entry]) -> Loaded:
    loaded = columns[column].loaded
    if not isinstance(loaded.values, np.ndarray) or loaded.values.ndim != 1:
        raise DataError.of(
            "E301",
            f"`{column}`, a column of `{name}`, has the shape {loaded.shape}",
            help="give columns of one length",
            layout="plain",
        )
    return loaded


def _labels(name: str, coding: Coding, loaded: Loaded) -> LabelArray:
    labels = labels_of(loaded)
    if loaded.values.dtype.kind == "f" and labels.values.dtype.kind == "U":
        raise DataError.of(
            "E303",
            f"`{coding.column}` holds numbers with fractions, which are no levels",
            details=(f"found {tally(loaded.values[~np.isnan(loaded.values)])}",),
            help=f"a column of its own: {example(name, (coding.column, '...'))}",
            layout="plain",
        )
    return labels


def _places(coding: Coding, labels: LabelArray) -> IntArray:
    """The positions of the labels among the levels, -1 where missing."""
    index = IndexSet(coding.column, np.array(coding.levels, dtype=np.str_))
    places = index.positions(labels.values.astype(np.str_))
    unknown = (places < 0) & ~labels.missing
    if unknown.any():
        raise DataError(_unknown(coding, labels.values[unknown]))
    return np.asarray(np.where(labels.missing, -1, places), dtype=np.int64)


def _learned(name: str, coding: Coding, numbers: Array) -> Coding:
    try:
        return coding.learned(numbers)
    except Unfit as unfit:
        raise DataError.of(
            "E303",
            f"`{coding.column}`, a column of `{name}`: {unfit.problem}",
            help=unfit.help,
            layout="plain",
        ) from None


def _no_columns(name: str, design: Design) -> DataError:
    alone = (f"`{c.column}` has {c.levels[0]}" for t in design.terms for c in t.codings if c.levels)
    return DataError.of(
        "E303",
        f"`{name}` has no columns: contrasts of a single level are none",
        details=(f"{', '.join(dict.fromkeys(alone))} alone",),
        help="leave it out",
        layout="plain",
    )


def one_column(entry: Entry, design: Design) -> Entry:
    """A matrix of one column as a datum over the rows: a function, or the contrast of a column of
    two levels. Raises DataError E301 where the columns are more."""
    if entry.shape[1] != 1:
        (term,) = design.terms
        what, merge = f"`{term.written}` is", ""
        levels: tuple[str, ...] = ()
        if term.alone is not None and term.alone.of_levels:
            column, shown = f"`{term.alone.column}`", map(show, term.alone.levels[:SHOWN])
            what, levels = f"contrasts of {column} are", (f"its levels: {listed([*shown])}",)
            merge = f", or merge the levels of {column} into two"
        raise DataError.of(
            "E301",
            f"{what} {entry.shape[1]} columns, and `{entry.name}` is one",
            details=levels,
            help=f"declare it over two indices, the second one an index of columns{merge}",
            layout="plain",
        )
    only = Loaded(entry.loaded.values[:, 0])
    return replace(entry, shape=only.shape, loader=lambda: only, labels=entry.labels[:1])


def _check_joined(name: str, columns: Sequence[Entry]) -> None:
    """Columns of two tables have no common rows."""
    sources = {entry.table: entry.source for entry in columns if entry.table}
    if len(sources) > 1:
        raise DataError.of(
            "E302",
            f"the columns of `{name}` are in {listed([*sources.values()])}, whose rows nothing "
            "joins",
            help="put them into one table",
            layout="plain",
        )


def _text(
    name: str, terms: Sequence[Term], columns: Mapping[str, Entry], words: Collection[str]
) -> Diagnostic:
    """Columns of text among those of numbers."""
    first = next(c for term in terms for c in term.columns if c in words)
    meant = [
        ":".join(f"contrasts({c.column})" if c.column in words else c.written for c in t.codings)
        for t in terms
    ]
    loaded = columns[first].loaded
    present = loaded.values if loaded.missing is None else loaded.values[~loaded.missing]
    return Diagnostic(
        "E303",
        f"`{first}`, a column of `{name}`, holds text",
        details=(f"found {tally(present)}",),
        help=f"its levels as columns: {example(name, meant)}",
        layout="plain",
    )


def _is_text(entry: Entry) -> bool:
    values, missing = entry.loaded.values, entry.loaded.missing
    if not isinstance(values, np.ndarray) or values.dtype.kind != "U":
        return False
    try:
        _floats(values, missing)
    except ValueError:
        return True
    return False


def _floats(values: AnyArray, missing: AnyArray | None) -> Array:
    gone = np.zeros(values.shape, dtype=np.bool_) if missing is None else missing
    if values.dtype.kind == "U":
        gone = gone | (np.char.strip(values) == "") | (values == "NA")
    out = np.full(values.shape, np.nan)
    out[~gone] = values[~gone].astype(np.float64)
    return out


def _with_levels(name: str, coding: Coding, labels: LabelArray) -> Coding:
    """The levels, of an ordered categorical or sorted, and the base among them."""
    present = union([labels.present])
    levels = present if labels.levels is None else labels.levels
    texts = tuple(str(v) for v in levels.tolist())
    used = {str(v) for v in present.tolist()}
    if not texts:
        raise DataError.of(
            "E303",
            f"`{coding.column}`, a column of `{name}`, has no entries",
            help="leave it out",
            layout="plain",
        )
    if coding.base and coding.base not in texts:
        raise DataError(
            wrong(
                name,
                f"names the level {show(coding.base)}, which `{coding.column}` does not have",
                _near(coding.base, texts, f"it has {listed([*map(show, texts[:SHOWN])])}"),
            )
        )
    kind = coding.kind
    base = coding.base or (texts[0] if kind == "treatment" else texts[-1] if kind == "sum" else "")
    unused = tuple(text for text in texts if text not in used)
    return replace(coding, base=base, levels=texts, unused=unused)


def _near(level: str, known: Sequence[str], otherwise: str) -> str:
    """The known level that was meant."""
    return meant_labels([level], np.array(known, dtype=np.str_)) or otherwise


def _unknown(coding: Coding, unknown: AnyArray) -> Diagnostic:
    first = str(unknown[0])
    shown = ", ".join(show(v) for v in coding.levels[:SHOWN])
    more = ", ..." if len(coding.levels) > SHOWN else ""
    return Diagnostic(
        "E302",
        f"`{coding.column}` holds a level that the fit does not know",
        details=(
            f"found {tally(unknown)}",
            f"the fit has {count_of(len(coding.levels), 'level')}: {shown}{more}",
        ),
        help=_near(
            first,
            coding.levels,
            "a latent over its levels, with a map, takes new ones: contrasts do not",
        ),
        layout="plain",
    )


# ---- selections --------------------------------------------------------------------------------
# A matrix of columns: `X = age, contrasts(region), age:contrasts(region), poly(dose, 2)`.


_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
FORMS = "contrasts(region), contrasts(region, kind=sum), contrasts(region, base=x)"
CALLS = ("contrasts", "poly", *FUNCTIONS)


def selected(name: str, key: Selection, known: Collection[str]) -> tuple[Term, ...] | None:
    """The terms that a selection names, with levels yet unknown; None where it is one plain key.

    Raises DataError E305 for terms that are not written as they should be.
    """
    if not isinstance(key, str):
        return _terms(name, key, known)
    return _terms(name, [*_split(key)], known) if _names_terms(key, known) else None


def _names_terms(key: str, known: Collection[str]) -> bool:
    """Whether a text is of terms, not one key."""
    if key in known:
        return False
    call = _CALL.fullmatch(key)
    factors = [part for whole in _split(key, "*") for part in _split(whole, ":")]
    product = len(factors) > 1 and any(p in known or _CALL.fullmatch(p) for p in factors)
    return product or "," in key or (call is not None and call[1] in CALLS)


def _terms(name: str, written: Sequence[str], known: Collection[str]) -> tuple[Term, ...]:
    terms: list[Term] = []
    crossed: set[tuple[object, ...]] = set()
    for text in written:
        if not text.strip():
            continue
        parts = [text] if text in known else [*_split(text, "*")]
        products = [_product(name, part, known) for part in parts]
        for size in range(1, len(products) + 1):
            for chosen in combinations(products, size):
                for term in map(_joined, product(*chosen)):
                    if _asked(term) not in crossed:
                        terms.append(term)
                    if len(parts) > 1:
                        crossed.add(_asked(term))
    labels = [_asked(term) for term in terms]
    twice = next((t.written for t in terms if labels.count(_asked(t)) > 1), "")
    if twice or not terms:
        problem = f"names the column `{twice}` twice" if twice else "names no column"
        raise DataError(wrong(name, problem, f"one of each: {example(name)}"))
    return tuple(terms)


def _joined(terms: Iterable[Term]) -> Term:
    return Term(tuple(coding for term in terms for coding in term.codings))


def _product(name: str, text: str, known: Collection[str]) -> list[Term]:
    """The terms that a product without `*` stands for: several where contrasts are of several
    columns."""
    parts = [text] if text in known else [*_split(text, ":")]
    return [Term(codings) for codings in product(*(_codings(name, part, known) for part in parts))]


def example(name: str, columns: Sequence[str] = ("a", "b")) -> str:
    """How columns are named, on the command line and in Python."""
    quoted = ", ".join(f'"{column}"' for column in columns)
    return either(f'--map "{name}={",".join(columns)}"', f'mapping={{"{name}": [{quoted}]}}')


def _split(text: str, by: str = ",") -> Iterator[str]:
    """The parts between signs that stand outside brackets."""
    depth, start = 0, 0
    for k, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == by and depth <= 0:
            yield text[start:k].strip()
            start = k + 1
    yield text[start:].strip()


def _codings(name: str, term: str, known: Collection[str]) -> list[Coding]:
    """The codings that one factor of a product stands for."""
    call = None if term in known else _CALL.fullmatch(term)
    if call is None:
        return [Coding(term if term in known else term.strip())]
    if call[1] not in CALLS:
        close = nearest(call[1], CALLS)
        help = FORMS if close is None or "contrasts" in call[1] else f"did you mean `{close}`?"
        raise DataError(wrong(name, f"names `{term.strip()}`, which is no column", help))
    columns: list[str] = []
    options: dict[str, str] = {}
    for part in _split(call[2]):
        option, sign, value = part.partition("=")
        if sign and part not in known:
            options[option.strip()] = value.strip().strip("\"'")
        elif part:
            columns.append(part)
    if call[1] == "contrasts":
        return _contrasts(name, columns, options, known)
    if call[1] == "poly":
        return [_polynomial(name, columns, options)]
    if len(columns) != 1 or options:
        raise DataError(wrong(name, f"writes `{term.strip()}`", f"{call[1]}(age)"))
    return [Coding(columns[0], call[1])]


def _contrasts(
    name: str, columns: Sequence[str], options: Mapping[str, str], known: Collection[str]
) -> list[Coding]:
    for option in options:
        if option not in ("kind", "base"):
            raise DataError(wrong(name, f"gives contrasts `{option}`", FORMS))
    kind, base = options.get("kind", CONTRASTS[0]), options.get("base", "")
    if kind not in CONTRASTS:
        help = suggestion(kind, CONTRASTS, f"one of: {', '.join(CONTRASTS)}")
        raise DataError(wrong(name, f"wants contrasts of the kind `{kind}`", help))
    stray = next((c for c in columns[1:] if c in CONTRASTS and c not in known), None)
    if stray is not None:
        help = f"contrasts({columns[0]}, kind={stray})"
        raise DataError(wrong(name, f"names `{stray}`, which is no column", help))
    if base and kind not in BASED:
        help = f"leave out base, or kind={' or kind='.join(BASED)}"
        raise DataError(wrong(name, f"gives contrasts of the kind `{kind}` a base", help))
    if not columns:
        raise DataError(wrong(name, "wants contrasts of no column", "contrasts(region)"))
    return [Coding(column, kind, base) for column in columns]


def _polynomial(name: str, columns: Sequence[str], options: Mapping[str, str]) -> Coding:
    column, *rest = columns or [""]
    degree = options.get("degree", rest[0] if rest else "2")
    raw = options.get("raw", "false").lower()
    if (
        not column
        or len(rest) > 1
        or {*options} - {"degree", "raw"}
        or not (degree.isdigit() and int(degree))
        or raw not in ("true", "false")
    ):
        written = ", ".join([*columns, *(f"{k}={v}" for k, v in options.items())])
        forms = "poly(age, 2), poly(age, 2, raw=true)"
        raise DataError(wrong(name, f"writes `poly({written})`", forms))
    return Coding(column, "polynomial", degree=int(degree), raw=raw == "true")


def wrong(name: str, problem: str, help: str) -> Diagnostic:
    """E305 for a selection."""
    option = either("--map", "mapping")
    return Diagnostic("E305", f"{option} of `{name}` {problem}", help=help, layout="plain")
