"""A model for a table: a commented skeleton to begin with, for `lgm new`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from lgmdsl.api.explain.chosen_columns import MOST, Chosen, further_tables
from lgmdsl.api.explain.column_roles import LIKELY, notes
from lgmdsl.api.explain.nearly import in_rows
from lgmdsl.api.explain.table_columns import RESERVED, Column, columns_of, unused_name
from lgmdsl.api.page import counted, wrapped
from lgmdsl.dataset import Dataset, read
from lgmdsl.errors import DataError, LgmError, listed
from lgmdsl.language.load import loads
from lgmdsl.language.parse.parse import parse_all
from lgmdsl.language.tree.print_model import print_model

# Of which the sd can be estimated.
FEWEST_LEVELS = 5
ABOUT = {
    "normal": "a real response",
    "poisson": "counts",
    "binomial": "successes out of trials",
    "bernoulli": "0 and 1",
    "weibull": "times to an event",
    "generalized_pareto": "times to an event",
    "ordinal": "ratings, of which the order counts",
    "gamma": "amounts with zeros",
}


def skeleton(data: object, response: str = "", files: Mapping[str, str] | None = None) -> str:
    """The text of a model for the rows of a table, with the command that fits it.

    A generalised linear model of the response (`response`, else the column that is called like one,
    else the first that may be one; or of what lies between two columns of ends): a slope for each
    numeric column, centred and scaled, an effect for each column of groups (words, ids and codes 1
    to K), a random walk over a column of dates, an exposure or a number of trials where a column is
    called like one; times beside a column that is called like an event are lifetimes. `data` may be
    a list of the table and a dict of further ones: of tables that describe the groups of a column,
    and of graphs of these groups.
    Whatever is left out is named with the reason; so is what `lgm check` refuses in the end.
    `files`: how the files are written in the command, by the names of the tables ("" is the first).
    Raises DataError: E305 where there is no column for a response, or a further table describes
    nothing; E306 where the data are no table.
    """
    dataset = data if isinstance(data, Dataset) else read(data)
    entries = {k: e for k, e in dataset.entries.items() if e.table}
    if not entries:
        message = f"{dataset.name}: a skeleton is made for a table, and this is none"
        raise DataError.of("E306", message, help="give a .csv or .parquet file")
    source = next(iter(entries.values())).source
    columns = columns_of(source, entries)
    taken = {c.name for c in columns} | {c.key for c in columns} | RESERVED
    further = further_tables(dataset, columns, taken)
    promoted = {t.group.key: t.group for t in further}
    columns = [promoted.get(c.key, c) for c in columns]
    chosen = Chosen(source, columns, response, further, taken, files or {})
    text = _Text(chosen).text()
    reason = _refused(text, dataset, chosen)
    return text if not reason else _Text(chosen).text(reason)


def _refused(text: str, dataset: Dataset, chosen: Chosen) -> str:
    """Why the model does not take these tables; "" where it does."""
    from lgmdsl.api.explain.outline import outline_of

    tables = {chosen.names.get(k, k): e for k, e in dataset.tables.items()}
    try:
        outline = outline_of(loads(text), replace(dataset, tables=tables), chosen.mapping)
    except LgmError as error:
        return error.diagnostics[0].on_command_line().message
    return outline.refused[0].on_command_line().message if outline.refused else ""


class _Text:
    """The parts of the text."""

    def __init__(self, chosen: Chosen) -> None:
        self.chosen, self.roles = chosen, chosen.roles
        self.response = chosen.roles.response
        self.indices, self.further = chosen.indices, chosen.further
        self.taken = {*chosen.taken}
        self.latents: list[str] = []
        self.hypers: list[str] = []
        self.terms: list[str] = []
        self.levels = self.cut = ""

    def _name(self, name: str) -> str:
        name = unused_name(name, self.taken)
        self.taken.add(name)
        return name

    def text(self, refused: str = "") -> str:
        """The model; `refused` is why its tables are not taken as they are."""
        scale = self._scale()
        if self.roles.family == "ordinal":
            self.levels = self._name(f"{self.response.name}_level")
            self.cut = self._name("cut")
        level = self._name("level")
        if self.roles.family != "ordinal":  # the cuts are the level
            self.latents.append(
                f"latent {level} ~ normal({self._mean()}sd = {number(5.0 * scale)})"
            )
            self.terms.append(level)
        data = [self._data(c) for c in (self.response, *self.roles.special, *self.chosen.used)]
        graphs = {t.group.name: t.name for t in self.further if t.graph}
        for name, graph in graphs.items():
            data.append(f"data {graph}[{self.indices[name]}, {self.indices[name]}] : graph")
        for column in self.chosen.used:
            self._term(column, scale, graphs.get(column.name, ""))
        if self.roles.offset is not None:
            self.terms.append(self.roles.offset.name)
        if not self.terms:
            self.latents.append(f"latent {level} ~ normal(sd = 1)")
            self.terms.append(level)
        eta = self._name("eta")
        statement = self._observed(eta, scale)
        warning = _comment(f"The model refuses the tables as they are: {refused}.")
        parts = [
            "lgm 1",
            *_comment(f"A skeleton for {self.chosen.source}: {self._about()} Change it, then:"),
            f"#   {self.chosen.command()}",
            *_comment("lgm check with the same arguments shows what each column is read as."),
            *(warning if refused else []),
            "",
            f"index {self.chosen.rows}" + " " * 8 + "# the rows of the table",
            *self._sets(),
            "",
            *data,
            *self._left_out(),
            "",
            *self.hypers,
            "",
            *self.latents,
            "",
            f"let {eta}[{self.chosen.rows}] = " + "\n  + ".join(self.terms),
            "",
            *(line for note in self._decided(eta, scale) for line in _comment(note)),
            *(line for note in notes(self.roles, eta) for line in _comment(note)),
            statement,
        ]
        return _formatted("\n".join(parts) + "\n", self.chosen.source)

    def _about(self) -> str:
        y, passed = self.response, self.roles.passed
        others = [c.key for c in self.chosen.columns if c.kind in ("number", "count", "binary")]
        others = [key for key in others if key != y.key][:4]
        another = f"--response names another: {', '.join(others)}" if others else ""
        about = f"{ABOUT[self.roles.family]}, `{y.key}`"
        if self.roles.lower is not None and self.roles.upper is not None:
            ends = f"`{self.roles.lower.key}` and `{self.roles.upper.key}`"
            about = f"`{y.key}`, known to lie between {ends}"
        if not self.roles.guessed:
            return about + (f" ({another})." if another else ".")
        about += ", which is a guess" + (f" ({another})." if another else ".")
        if passed is None or passed is y:
            return about
        reason = passed.why or "it holds words; code them as 0 and 1, or as counts"
        return f"{about} `{passed.key}` cannot be the response: {reason}."

    def _scale(self) -> float:
        """The size of effects on the scale of the predictor: the sd of a real response, else 1."""
        if self.roles.family != "normal":
            return 1.0
        return float(self.response.values.std()) or 1.0

    def _mean(self) -> str:
        """The mean of the level's prior."""
        y = self.response.values
        y = y if self.roles.family == "normal" else y[y >= 0.0]
        if self.roles.family == "normal":
            return f"mean = {centre(float(y.mean()), float(y.std()))}, "
        if self.roles.family in ("weibull", "gamma", "generalized_pareto"):
            return f"mean = {number(math.log(float(y.mean())))}, "
        return ""

    def _decided(self, eta: str, scale: float) -> Iterator[str]:
        """Which whole numbers were taken as labels and which as amounts, and the other way."""
        prior = f"normal(sd = {number(2.5 * scale)})"
        outcomes = [c for c in self.chosen.used if c.kind != "date" and LIKELY.search(c.called)]
        if self.roles.guessed and outcomes:
            names = listed([f"`{c.key}`" for c in outcomes[:MOST]])
            yield (
                f"{names} {'is' if len(outcomes) == 1 else 'are'} called like a response as well. "
                "What is known only after the response is no covariate: leave it out."
            )
        for c in self.chosen.coded:
            slope, rows = f"b_{c.name}", self.indices[c.map] if c.map else self.chosen.rows
            value = f"{c.name}[{c.map}]" if c.map else c.name
            yield (
                f"`{c.key}` holds {_range(c)}, taken as codes of groups. If it is an amount: "
                f"declare data {c.name}[{rows}] : real and latent {slope} ~ {prior}, and "
                f"write {slope} * {_standardised(value, c)} in {eta}, in place of its effects."
            )
        for c in self.chosen.amounts:
            index, effect = f"{c.name}_level", f"u_{c.name}"
            yield (
                f"`{c.key}` has {c.levels} whole values, taken as amounts. If they are codes of "
                f"groups: index {index}, data {c.name}[{self.chosen.rows}] : {index}, latent "
                f"{effect}[{index}] ~ {prior}, and {effect}[{c.name}] in {eta}, in place of "
                "its slope."
            )

    def _sets(self) -> Iterator[str]:
        if self.roles.family == "ordinal":
            note = f"# the values of {self.response.name}, in their order"
            yield f"index {self.levels}" + " " * 8 + note
            yield f"index {self.cut} = head({self.levels})"
        for column in self.chosen.used:
            if column.kind in ("group", "date"):
                index = self.indices[column.name]
                yield (
                    f"index {index}"
                    + " " * 8
                    + f"# {counted(column.levels, 'level')} of {column.name}"
                )

    def _data(self, column: Column) -> str:
        rows = self.indices[column.map] if column.map else self.chosen.rows
        kind = {"number": "real", "count": "real", "binary": "real"}.get(column.kind)
        if kind is None:
            kind = self.indices.get(column.name, "real")
        if column is self.response:
            family = self.roles.family
            kind = {
                "normal": "real",
                "bernoulli": "binary",
                "weibull": "positive",
                "gamma": "nonnegative",
                "generalized_pareto": "nonnegative",
                "ordinal": self.levels,
            }.get(family, "count")
        elif column is self.roles.exposure:
            kind = "positive"
        elif column is self.roles.lower or column is self.roles.upper:
            return f"data {column.name}[{rows}] : real{'?' if column.missing else ''}"
        elif column is self.roles.trials:
            kind = "count"
        elif column is self.roles.event:
            kind = "binary"
        gaps, note = "", ""
        if column is self.response and self.roles.absent:
            gaps, note = "?", "  # no column: known by its ends alone"
        elif column is self.response and column.missing:
            known = "known by their ends" if self.roles.lower else "predicted"
            gaps, note = "?", f"  # {column.missing} missing, which are {known}"
        return f"data {column.name}[{rows}] : {kind}{gaps}{note}"

    def _term(self, column: Column, scale: float, graph: str) -> None:
        gather = f"[{column.map}]" if column.map else ""
        if column.kind in ("group", "date"):
            self._effect(column, scale, graph, gather)
            return
        slope = self._name(f"b_{column.name}")
        self.latents.append(f"latent {slope} ~ normal(sd = {number(2.5 * scale)})")
        value = f"{column.name}{gather}"
        if column.kind == "binary":
            self.terms.append(f"{slope} * {value}")
            return
        self.terms.append(f"{slope} * {_standardised(value, column)}")

    def _effect(self, column: Column, scale: float, graph: str, gather: str) -> None:
        index, effect = self.indices[column.name], self._name(f"u_{column.name}")
        few = column.kind == "group" and not graph and column.levels < FEWEST_LEVELS
        structure = f"normal(sd = {number(2.5 * scale)})"
        note = "  # few levels: their sd is not estimated" if few else ""
        if not few:
            sd = self._name(f"sd_{column.name}")
            self.hypers.append(f"hyper {sd} : positive ~ pc_sd(u = {number(scale)}, alpha = 0.05)")
            structure = f"normal(sd = {sd})"
        if graph:
            mix = self._name(f"mix_{column.name}")
            prior = f"pc_mix(graph = {graph}, u = 0.5, alpha = 0.67)"
            self.hypers.append(f"hyper {mix} : unit ~ {prior}")
            structure = f"bym2(graph = {graph}, sd = {sd}, mix = {mix})"
            note = "  # neighbours resemble one another"
        elif column.kind == "date":
            structure, note = f"rw1(sd = {sd})", "  # a smooth course"
        self.latents.append(f"latent {effect}[{index}] ~ {structure}{note}")
        if gather:
            # A group of groups: its effect on the groups first.
            of_groups = self._name(f"{effect}_of_{column.map}")
            self.latents.append(
                f"let {of_groups}[{self.indices[column.map]}] = {effect}[{column.name}]"
            )
            self.terms.append(f"{of_groups}{gather}")
        else:
            self.terms.append(f"{effect}[{column.name}]")

    def _left_out(self) -> Iterator[str]:
        everything = self.chosen.everything()
        used = {id(c) for c in self.roles.special}
        out = [(c.key, c.why) for c in everything if c.kind == "left out" and id(c) not in used]
        out += [
            (c.key, f"{counted(c.missing, 'entry', 'entries')} missing, which no predictor can use")
            for c in self.chosen.gaps
        ]
        out += [(c.key, "dates in a table of groups are not modelled") for c in self.chosen.walks]
        out += [(c.key, "another outcome, or the time of one") for c in self.roles.outcomes]
        unfit = self.roles.unfit
        if unfit is not None:
            none = in_rows(unfit.entries <= 0.0, unfit)
            out.append((unfit.key, f"an exposure is above 0, and it is not {none}"))
        for key, why in out:
            yield from _comment(f"left out: `{key}`: {why}")
        if self.chosen.spare:
            names = [c.key for c in self.chosen.spare]
            shown = listed([f"`{n}`" for n in names[:MOST]])
            more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
            matrix = f"data X[{self.chosen.rows}, feat] : real, latent b[feat], X @ b"
            yield from _comment(
                f"left out, as there are many: {shown}{more}. As one matrix: {matrix}, and "
                '--map "X=a,b,c"'
            )

    def _observed(self, eta: str, scale: float) -> str:
        y, roles = self.response.name, self.roles
        if roles.family == "bernoulli":
            return f"observe {y} ~ bernoulli(logit = {eta})"
        if roles.trials is not None:
            return f"observe {y} ~ binomial(n = {roles.trials.name}, logit = {eta})"
        if roles.family == "poisson":
            exposure = f", exposure = {roles.exposure.name}" if roles.exposure is not None else ""
            return f"observe {y} ~ poisson(log_rate = {eta}{exposure})"
        seen = [
            f", {argument} = {column.name}"
            for argument, column in (
                *(("event", roles.event), ("entry", roles.entry)),
                *(("lower", roles.lower), ("upper", roles.upper)),
            )
            if column is not None
        ]
        if roles.family in ("weibull", "gamma", "generalized_pareto"):
            shape = self._name("shape")
            self.hypers.append(f"hyper {shape} : positive ~ lognormal(mean = 0, sd = 1)")
            if roles.family != "gamma":
                family = roles.family
                return f"observe {y} ~ {family}(log_scale = {eta}, shape = {shape}{''.join(seen)})"
            zero = self._name("zero")
            self.hypers.append(f"hyper {zero} : unit ~ beta(a = 1, b = 1)")
            return f"observe {y} ~ gamma(log_mean = {eta}, shape = {shape}, hurdle = {zero})"
        if roles.family == "ordinal":
            cuts = self._name("cuts")
            self.hypers.append(f"hyper {cuts}[{self.cut}] : ordered ~ normal(sd = 3)")
            return f"observe {y} ~ ordinal(logit = {eta}, cuts = {cuts})"
        noise = self._name("noise")
        prior = f"pc_sd(u = {number(3.0 * scale)}, alpha = 0.05)"
        self.hypers.append(f"hyper {noise} : positive ~ {prior}")
        return f"observe {y} ~ normal(mean = {eta}, sd = {noise}{''.join(seen)})"


def _formatted(text: str, source: str) -> str:
    """In the canonical format."""
    return print_model(parse_all(text, source).tree)


def _range(codes: Column) -> str:
    """The codes of a column: 1 to K, or as many up to one."""
    low, high = int(codes.values.min()), int(codes.values.max())
    every = high - low + 1 == codes.levels
    return f"{low} to {high}" if every else f"{codes.levels} of the whole numbers to {high}"


def _standardised(value: str, column: Column) -> str:
    """A value less about its mean, by about its sd."""
    spread = float(column.values.std())
    shift = centre(float(column.values.mean()), spread)
    shifted = f"({value} + {shift[1:]})" if shift.startswith("-") else f"({value} - {shift})"
    divisor = number(spread, 2)
    return shifted if divisor == "1" else f"{shifted} / {divisor}"


def _comment(text: str) -> list[str]:
    clean = " ".join(text.split())
    return [f"# {line}" for line in wrapped(clean)]


# ---- written numbers ---------------------------------------------------------------------------
# Numbers in the text of a model that a person reads.


def centre(value: float, spread: float) -> str:
    """A number near the value, within a tenth of the spread, with as few digits as that takes."""
    places = -math.floor(math.log10(spread / 5.0)) if spread > 0 else 15
    size = math.floor(math.log10(abs(value))) if value else 0
    digits = max(1, size + places + 1)
    rounded = round(value, places)
    return number(rounded, min(digits, 17)) if rounded else "0"


def number(value: float, digits: int = 3) -> str:
    """So many digits, as the language writes numbers: without an exponent from 0.0001 to 10
    million."""
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    power = int(exponent)
    if -4 <= power < 7:
        text = f"{float(f'{mantissa}e{power}'):.{max(0, digits - 1 - power)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{power}"
