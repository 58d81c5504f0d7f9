"""A model for a table: a commented skeleton to begin with, for `lgm new`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from lgmdsl.api.explain.table_columns import RESERVED, Column, columns_of, unused_name
from lgmdsl.api.page import counted, wrapped
from lgmdsl.dataset import Dataset, read
from lgmdsl.errors import DataError, Diagnostic, listed, suggestion
from lgmdsl.language.parse.parse import parse_all
from lgmdsl.language.tree.print_model import print_model

# What responses are usually called.
RESPONSES = ("y", "response", "outcome", "target", "count", "counts", "cases", "label")
ROWS = ("obs", "row", "case", "item", "record")
# Covariates that a skeleton takes; the names of the others stand in a comment.
MOST = 20


def skeleton(data: object, response: str = "") -> str:
    """The text of a model for the rows of a table, with the command that fits it.

    A generalised linear model of the response (`response`, else the column that is called like one,
    else the first that may be one): a slope for each numeric column, centred and scaled, an effect
    with an unknown sd for each column of groups, a random walk over a column of dates. Whatever is
    left out is named with the reason. Raises DataError: E305 where there is no column for a
    response, E306 where the data are no table.
    """
    dataset = data if isinstance(data, Dataset) else read(data)
    entries = {k: e for k, e in dataset.entries.items() if e.table}
    if not entries:
        message = f"{dataset.name}: a skeleton is made for a table, and this is none"
        raise DataError(Diagnostic("E306", message, help="give a .csv or .parquet file"))
    return _Skeleton(dataset.name, columns_of(dataset.name, entries), response).text()


class _Skeleton:
    """The parts of the text."""

    def __init__(self, source: str, columns: list[Column], response: str) -> None:
        self.source = source
        self.columns = columns
        self.response = self._response(response)
        self.taken = {c.name for c in columns} | {c.key for c in columns}
        self.taken |= RESERVED
        self.rows = self._name(next((r for r in ROWS if r not in self.taken), ROWS[0]))
        kinds = ("number", "count", "binary", "group", "date")
        usable = [c for c in columns if c is not self.response and c.kind in kinds]
        whole = [c for c in usable if not c.missing]
        self.used, self.spare = whole[:MOST], whole[MOST:]
        self.gaps = [c for c in usable if c.missing]

    def _name(self, name: str) -> str:
        name = unused_name(name, self.taken)
        self.taken.add(name)
        return name

    def _response(self, wanted: str) -> Column:
        candidates = [c for c in self.columns if c.kind in ("number", "count", "binary")]
        known = {c.key: c for c in self.columns}
        if wanted and wanted not in known:
            help = suggestion(wanted, known, f"it has: {', '.join(list(known)[:20])}")
            message = f"{self.source} has no column `{wanted}`"
            raise DataError(Diagnostic("E305", message, help=help))
        if wanted and known[wanted] not in candidates:
            column = known[wanted]
            reason = column.why or f"it holds {'dates' if column.kind == 'date' else 'words'}"
            raise DataError(
                Diagnostic(
                    "E305",
                    f"`{wanted}` cannot be the response of a skeleton: {reason}",
                    help="name a column of numbers, or code it as 0 and 1",
                )
            )
        if not candidates:
            raise DataError(
                Diagnostic(
                    "E305",
                    f"{self.source} has no column of numbers to be a response",
                    details=(f"it has: {', '.join(list(known)[:20])}",),
                    help="code the response as a number: 0 and 1, or counts",
                )
            )
        if wanted:
            return known[wanted]
        named = [c for name in RESPONSES for c in candidates if c.key.casefold() == name]
        return (named or candidates)[0]

    def text(self) -> str:
        y = self.response
        declared = [y, *self.used]
        renamed = [f"--map {c.name}={shlex.quote(c.key)}" for c in declared if c.name != c.key]
        command = " ".join(["lgm fit model.lgm", shlex.quote(self.source), *renamed])
        self.latents: list[str] = []
        self.hypers: list[str] = []
        self.terms: list[str] = []
        self.sets: list[str] = []
        scale = self._scale()
        level = self._name("level")
        mean = f"mean = {_number(float(y.values.mean()))}, " if self._family == "normal" else ""
        self.latents.append(f"latent {level} ~ normal({mean}sd = {_number(5.0 * scale)})")
        self.terms.append(level)
        data = [self._data(c) for c in declared]
        for column in self.used:
            self._term(column, scale)
        eta = self._name("eta")
        statement = self._observed(eta, scale)
        parts = [
            "lgm 1",
            *_comment(f"A skeleton for {self.source}: {self._about()}. Change it, then:"),
            f"#   {command}",
            *_comment("lgm check with the same arguments shows what each column is read as."),
            "",
            f"index {self.rows}" + " " * 8 + "# the rows of the table",
            *self.sets,
            "",
            *data,
            *self._left_out(),
            "",
            *self.hypers,
            "",
            *self.latents,
            "",
            f"let {eta}[{self.rows}] = " + _sum(self.terms),
            "",
            statement,
        ]
        return _formatted("\n".join(parts) + "\n", self.source)

    @property
    def _family(self) -> str:
        kinds = {"number": "normal", "count": "poisson", "binary": "bernoulli"}
        return kinds[self.response.kind]

    def _about(self) -> str:
        y = self.response
        what = {"normal": "a real response", "poisson": "counts", "bernoulli": "0 and 1"}
        return f"{what[self._family]}, `{y.key}` (--response names another)"

    def _scale(self) -> float:
        """The size of effects on the scale of the predictor: the sd of a real response, else 1."""
        if self._family != "normal":
            return 1.0
        return float(self.response.values.std()) or 1.0

    def _data(self, column: Column) -> str:
        types = {"number": "real", "count": "count", "binary": "binary"}
        if column.kind in ("group", "date"):
            ending = "level" if column.kind == "group" else "time"
            index = self._name(f"{column.name}_{ending}")
            self.sets.append(
                f"index {index}" + " " * 8 + f"# {counted(column.levels, 'level')} of {column.name}"
            )
            kind = index
        else:
            kind = types[column.kind] if column is self.response else "real"
        gaps = "?" if column is self.response and column.missing else ""
        note = f"  # {column.missing} missing, which are predicted" if gaps else ""
        return f"data {column.name}[{self.rows}] : {kind}{gaps}{note}"

    def _term(self, column: Column, scale: float) -> None:
        if column.kind in ("group", "date"):
            index = self.sets[self._place(column)].split()[1]
            sd, effect = self._name(f"sd_{column.name}"), self._name(f"u_{column.name}")
            prior = f"pc_sd(u = {_number(scale)}, alpha = 0.05)"
            self.hypers.append(f"hyper {sd} : positive ~ {prior}")
            structure = "normal" if column.kind == "group" else "rw1"
            note = "" if column.kind == "group" else "  # a smooth course"
            self.latents.append(f"latent {effect}[{index}] ~ {structure}(sd = {sd}){note}")
            self.terms.append(f"{effect}[{column.name}]")
            return
        slope = self._name(f"b_{column.name}")
        self.latents.append(f"latent {slope} ~ normal(sd = {_number(2.5 * scale)})")
        if column.kind == "binary":
            self.terms.append(f"{slope} * {column.name}")
            return
        centre, spread = float(column.values.mean()), float(column.values.std())
        sign = "-" if centre >= 0 else "+"
        shifted = f"({column.name} {sign} {_number(abs(centre))})"
        self.terms.append(f"{slope} * {shifted} / {_number(spread)}")

    def _place(self, column: Column) -> int:
        grouped = [c for c in self.used if c.kind in ("group", "date")]
        return grouped.index(column)

    def _left_out(self) -> Iterator[str]:
        out = [(c.key, c.why) for c in self.columns if c.kind == "left out"]
        out += [
            (c.key, f"{c.missing} entries missing, which no predictor can use") for c in self.gaps
        ]
        for key, why in out:
            yield from _comment(f"left out: `{key}`: {why}")
        if self.spare:
            names = [c.key for c in self.spare]
            shown = listed([f"`{n}`" for n in names[:MOST]])
            more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
            yield from _comment(
                f"left out, as there are many: {shown}{more}. As one matrix: data X[{self.rows}, "
                'feat] : real, latent b[feat], X @ b, and --map "X=a,b,c"'
            )

    def _observed(self, eta: str, scale: float) -> str:
        y = self.response.name
        if self._family == "bernoulli":
            return f"observe {y} ~ bernoulli(logit = {eta})"
        if self._family == "poisson":
            return f"observe {y} ~ poisson(log_rate = {eta})"
        noise = self._name("noise")
        prior = f"pc_sd(u = {_number(3.0 * scale)}, alpha = 0.05)"
        self.hypers.append(f"hyper {noise} : positive ~ {prior}")
        return f"observe {y} ~ normal(mean = {eta}, sd = {noise})"


def _formatted(text: str, source: str) -> str:
    """In the canonical format."""
    return print_model(parse_all(text, source).tree)


def _sum(terms: list[str]) -> str:
    return "\n  + ".join(terms)


def _comment(text: str) -> list[str]:
    clean = " ".join(text.split())
    return [f"# {line}" for line in wrapped(clean)]


def _number(value: float) -> str:
    """Three digits, as the language writes numbers."""
    text = f"{value:.3g}"
    if "e" not in text:
        return text if value >= 0 else f"-{text.lstrip('-')}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}"
