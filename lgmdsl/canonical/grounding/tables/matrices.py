"""The columns that a selection names, side by side as a matrix, and as a fit had them.

Treatment contrasts of k levels are k - 1 columns, 1 at their level; the first level (or `base`) has
0 in all of them. Sum contrasts are 1 at their level and -1 at the last one (or `base`), so that
coefficients are deviations from the mean of the levels. The contrast of a column of two levels is
one column, and may be a datum over the rows alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.canonical.grounding.errors import SHOWN, count_of, show, tally
from lgmdsl.canonical.grounding.labels import LabelArray, labels_of, meant_labels, union
from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.dataset import Entry, Loaded
from lgmdsl.dataset.dataset import Selection
from lgmdsl.dataset.refusals import check_memory
from lgmdsl.dataset.tables import Coding, side_by_side
from lgmdsl.errors import DataError, Diagnostic, listed, suggestion
from lgmdsl.remedies import either


def as_before(name: str, chosen: Sequence[Coding], known: Sequence[Coding]) -> tuple[Coding, ...]:
    """The columns with the levels of a fit. Raises DataError E303 for those coded otherwise
    than there: their coefficients mean something else, though they may have the same labels."""
    before = {coding.column: coding for coding in known}
    out = []
    for coding in chosen:
        fitted = before.get(coding.column, coding)
        if fitted.kind != coding.kind or (coding.base and coding.base != fitted.base):
            raise DataError.of(
                "E303",
                f"`{coding.column}`, a column of `{name}`, is coded otherwise than in the fit",
                details=(f"in the fit: {fitted}",),
                help=either(f"leave out --map {name}", f"leave out mapping of {name}"),
                layout="plain",
            )
        out.append(fitted)
    return tuple(out)


def matrix_of(
    name: str,
    source: str,
    codings: Sequence[Coding],
    columns: Mapping[str, Entry],
    numeric: bool,
    rows: Loaded | None,
) -> tuple[Entry, tuple[Coding, ...]]:
    """The columns side by side, labelled by them, and the codings with their levels.

    Codings that have levels (those of a fit) keep them. `numeric`: the datum holds numbers, not
    labels; `rows` are the labels of the rows. Raises DataError: E303 for text that is to be a
    number and numbers with fractions that are to be levels, E302 for levels that a fit does not
    know, E306 for columns of several lengths.
    """
    _check_joined(name, [columns[c.column] for c in codings])
    words = {c.column for c in codings if numeric and not c.kind and _is_text(columns[c.column])}
    if words:
        raise DataError(_text(name, codings, columns, words))
    parts = tuple(_coded(name, coding, columns[coding.column], numeric) for coding in codings)
    labels = tuple(label for coding, _ in parts for label in coding.labels)
    if not labels:
        alone = ", ".join(f"`{coding.column}` has {coding.base}" for coding, _ in parts)
        raise DataError.of(
            "E303",
            f"`{name}` has no columns: contrasts of a single level are none",
            details=(f"{alone} alone",),
            help="leave it out",
            layout="plain",
        )
    if all(not coding.kind for coding, _ in parts):
        whole = side_by_side(source, name, [columns[coding.column] for coding, _ in parts])
    else:
        lengths = {len(block) for _, block in parts}
        if len(lengths) > 1:
            raise DataError.of("E306", f"{source}: the columns of `{name}` differ in length")
        check_memory(source, name, (next(iter(lengths)), len(labels)), 8)
        whole = Loaded(np.concatenate([block for _, block in parts], axis=1))
    named = Loaded(np.array(labels, dtype=np.str_))
    shape = (int(whole.values.shape[0]), len(labels))
    first = columns[codings[0].column]
    weak = first.weak and bool(first.labels) and rows is first.labels[0]
    entry = Entry(
        name, source, shape, lambda: whole, labels=(rows, named), weak=weak, table=first.table
    )
    return entry, tuple(coding for coding, _ in parts)


def indicator(entry: Entry, coding: Coding) -> Entry:
    """The contrast of a column of two levels as a datum of its own: 1 at one level, 0 (of treatment
    contrasts) at the base. Raises DataError E301 where the levels are more."""
    if entry.shape[1] != 1:
        raise DataError.of(
            "E301",
            f"contrasts of `{coding.column}` are {entry.shape[1]} columns, and `{entry.name}` "
            "is one",
            details=(f"its levels: {listed([*map(show, coding.levels[:SHOWN])])}",),
            help=f"declare it over two indices, the second one an index of columns, or merge "
            f"the levels of `{coding.column}` into two",
            layout="plain",
        )
    column = Loaded(entry.loaded.values[:, 0])
    return replace(entry, shape=column.shape, loader=lambda: column, labels=entry.labels[:1])


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


def _coded(name: str, coding: Coding, entry: Entry, numeric: bool) -> tuple[Coding, Array]:
    loaded = entry.loaded
    values = loaded.values
    if not isinstance(values, np.ndarray) or values.ndim != 1:
        raise DataError.of(
            "E301",
            f"`{coding.column}`, a column of `{name}`, has the shape {loaded.shape}",
            help="give columns of one length",
            layout="plain",
        )
    if not coding.kind:
        if not numeric:
            return coding, np.zeros((values.shape[0], 1))
        return coding, _floats(values, loaded.missing)[:, None]
    labels = labels_of(loaded)
    if values.dtype.kind == "f" and labels.values.dtype.kind == "U":
        raise DataError.of(
            "E303",
            f"`{coding.column}` holds numbers with fractions, which are no levels",
            details=(f"found {tally(values[~np.isnan(values)])}",),
            help=f"a column of its own: {example(name, (coding.column, '...'))}",
            layout="plain",
        )
    whole = coding if coding.levels else _with_levels(name, coding, labels)
    places = IndexSet(coding.column, np.array(whole.levels, dtype=np.str_)).positions(
        labels.values.astype(np.str_)
    )
    unknown = (places < 0) & ~labels.missing
    if unknown.any():
        raise DataError(_unknown(whole, labels.values[unknown]))
    return whole, _contrast(whole, places, labels.missing)


def _text(
    name: str, codings: Sequence[Coding], columns: Mapping[str, Entry], words: Collection[str]
) -> Diagnostic:
    """Columns of text among those of numbers."""
    first = next(c.column for c in codings if c.column in words)
    terms = [f"contrasts({c.column})" if c.kind or c.column in words else c.column for c in codings]
    loaded = columns[first].loaded
    present = loaded.values if loaded.missing is None else loaded.values[~loaded.missing]
    return Diagnostic(
        "E303",
        f"`{first}`, a column of `{name}`, holds text",
        details=(f"found {tally(present)}",),
        help=f"its levels as columns: {example(name, terms)}",
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
    base = coding.base or (texts[0] if coding.kind == "treatment" else texts[-1])
    unused = tuple(text for text in texts if text not in used)
    return replace(coding, base=base, levels=texts, unused=unused)


def _near(level: str, known: Sequence[str], otherwise: str) -> str:
    """The known level that was meant."""
    return meant_labels([level], np.array(known, dtype=np.str_)) or otherwise


def _contrast(coding: Coding, places: IntArray, missing: AnyArray) -> Array:
    rows = coding.rows
    code = np.array([rows[level] for level in coding.levels])
    block: Array = code[places]
    block[missing] = np.nan
    return block


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
# A matrix of columns: `X = age, income, contrasts(region)`, each as it is or by contrasts.


KINDS = ("treatment", "sum")
_CALL = re.compile(r"\s*contrasts\s*\((.*)\)\s*", re.DOTALL)
_OTHER_CALL = re.compile(r"\s*\w+\s*\(.*\)\s*", re.DOTALL)
FORMS = "contrasts(region), contrasts(region, kind=sum), contrasts(region, base=x)"


def selected(name: str, key: Selection, known: Collection[str]) -> tuple[Coding, ...] | None:
    """The columns that a selection names, with levels yet unknown; None where it is one plain key.

    Raises DataError E305 for contrasts that are not written as they should be.
    """
    if isinstance(key, str):
        if key in known or not ("," in key or _CALL.fullmatch(key)):
            return None
        terms: Sequence[str] = list(_split(key))
    else:
        terms = key
    codings = [c for term in terms if term.strip() for c in _codings(name, term, known)]
    labels = [c.column for c in codings]
    twice = sorted({column for column in labels if labels.count(column) > 1})
    if twice or not codings:
        problem = f"names the column `{twice[0]}` twice" if twice else "names no column"
        raise DataError(wrong(name, problem, f"one of each: {example(name)}"))
    return tuple(codings)


def example(name: str, columns: Sequence[str] = ("a", "b")) -> str:
    """How columns are named, on the command line and in Python."""
    quoted = ", ".join(f'"{column}"' for column in columns)
    return either(f'--map "{name}={",".join(columns)}"', f'mapping={{"{name}": [{quoted}]}}')


def _split(text: str) -> Iterator[str]:
    """The parts between commas that stand outside brackets."""
    depth, start = 0, 0
    for k, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth <= 0:
            yield text[start:k].strip()
            start = k + 1
    yield text[start:].strip()


def _codings(name: str, term: str, known: Collection[str]) -> Iterator[Coding]:
    call = None if term in known else _CALL.fullmatch(term)
    if call is None:
        if term not in known and _OTHER_CALL.fullmatch(term):
            raise DataError(wrong(name, f"names `{term.strip()}`, which is no column", FORMS))
        yield Coding(term if term in known else term.strip())
        return
    columns: list[str] = []
    options = {"kind": KINDS[0], "base": ""}
    for part in _split(call[1]):
        option, sign, value = part.partition("=")
        if sign and part not in known:
            if option.strip() not in options:
                raise DataError(wrong(name, f"gives contrasts `{option.strip()}`", FORMS))
            options[option.strip()] = value.strip().strip("\"'")
        elif part in KINDS and part not in known and columns:
            help = f"contrasts({columns[0]}, kind={part})"
            raise DataError(wrong(name, f"names `{part}`, which is no column", help))
        elif part:
            columns.append(part)
    if options["kind"] not in KINDS:
        help = suggestion(options["kind"], KINDS, f"one of: {', '.join(KINDS)}")
        raise DataError(wrong(name, f"wants contrasts of the kind `{options['kind']}`", help))
    if not columns:
        raise DataError(wrong(name, "wants contrasts of no column", "contrasts(region)"))
    for column in columns:
        yield Coding(column, options["kind"], options["base"])


def wrong(name: str, problem: str, help: str) -> Diagnostic:
    """E305 for a selection."""
    option = either("--map", "mapping")
    return Diagnostic("E305", f"{option} of `{name}` {problem}", help=help, layout="plain")
