"""Diagnostics: one form for every error and warning, with a stable code and a position.

A `Span` points into a `Source`, so a diagnostic renders itself without further access to the
text. `LgmError` carries all diagnostics of one pass; its `str` is the rendered report.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Literal, Self

import lgmdsl.html as html
from lgmdsl.remedies import in_python, on_command_line
from lgmdsl.visible import visible

MAX_ERRORS = 20
LONGEST = 600  # characters of a message, label or help; a name may be as long as its file

PACKAGES = ("lgmdsl", "lgmdsl_backends")  # whose frames a shell does not show

Severity = Literal["error", "warning"]

# How a diagnostic is drawn: with the line of the model it points to; without it (data errors say
# the declaration themselves, the position stays in the JSON); or so with the help on the last line.
Layout = Literal["excerpt", "plain", "inline"]


@dataclass(frozen=True)
class Source:
    """A text and the name it is reported under (a path, or `<text>`)."""

    name: str
    text: str

    def line_column(self, offset: int) -> tuple[int, int]:
        """One-based line and column of a character offset."""
        before = self.text[:offset]
        return before.count("\n") + 1, offset - before.rfind("\n")

    def line(self, number: int) -> str:
        """The text of a one-based line, without its newline."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if number < len(lines) else lines[number - 1]


NO_SOURCE = Source("<builder>", "")


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of character offsets [start, end) in a source."""

    source: Source = field(default=NO_SOURCE, repr=False)
    start: int = 0
    end: int = 0

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.source, self.start, other.end)

    @property
    def known(self) -> bool:
        return self.source != NO_SOURCE

    @property
    def line(self) -> int:
        return self.source.line_column(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.line_column(self.start)[1]


NOWHERE = Span()


@dataclass(frozen=True)
class Diagnostic:
    """One error or warning.

    `label` goes below the underline; `details` are further `|` lines; `note` and `help` follow
    with `=`. Texts made with `remedies` have two wordings: the fields hold Python's, `rewordings`
    what the command line says instead.
    """

    code: str
    message: str
    span: Span = NOWHERE
    label: str = ""
    details: tuple[str, ...] = ()
    note: str = ""
    help: str = ""
    severity: Severity = "error"
    layout: Layout = "excerpt"
    rewordings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        pairs = dict(self.rewordings)
        for part in ("message", "label", "note", "help"):
            object.__setattr__(self, part, _worded(getattr(self, part), pairs, LONGEST))
        object.__setattr__(self, "details", tuple(_worded(d, pairs) for d in self.details))
        object.__setattr__(self, "rewordings", tuple(pairs.items()))

    def on_command_line(self) -> Diagnostic:
        """The diagnostic with the command line's flags in place of Python's arguments."""
        pairs = dict(self.rewordings)
        if not pairs:
            return self
        texts = {
            p: pairs.get(getattr(self, p), getattr(self, p))
            for p in ("message", "label", "note", "help")
        }
        details = tuple(pairs.get(d, d) for d in self.details)
        return replace(self, **texts, details=details, rewordings=())

    def render(self) -> str:
        lines = [f"{self.severity}[{self.code}]: {self.message}"]
        gutter = "  "
        if self.span.known and self.layout == "excerpt":
            lines += self._excerpt()
            gutter = " " * len(str(self.span.line))
        details, inline = list(self.details), self.layout == "inline" and bool(self.details)
        if inline and self.help:
            details[-1] += f" help: {self.help}"
        lines += [f"{gutter} | {detail}" for detail in details]
        if self.note:
            lines.append(f"{gutter} = note: {self.note}")
        if self.help and not inline:
            lines.append(f"{gutter} = help: {self.help}")
        return visible("\n".join(lines))

    def _excerpt(self) -> list[str]:
        source, start = self.span.source, self.span.start
        line, column = source.line_column(start)
        text = source.line(line)
        number = str(line)
        pad = " " * len(number)
        # A span over several lines is underlined to the end of its first line.
        width = max(1, min(self.span.end - start, len(text) - column + 1))
        at, end = column - 1, column - 1 + width
        first, marked, rest = map(visible, (text[:at], text[at:end], text[end:]))
        shown, before, marks = _windowed(first + marked + rest, len(first), max(1, len(marked)))
        return [
            f"{pad[1:]}--> {source.name}:{line}:{column}",
            f"{number} | {shown}",
            f"{pad} | {before}{marks} {self.label}".rstrip(),
        ]

    def as_json(self) -> dict[str, object]:
        """A JSON object with a one-based range for editors (`null` where there is no position), in
        the command line's words."""
        reworded = self.on_command_line()
        place: dict[str, object] | None = None
        if self.span.known:
            line, column = self.span.source.line_column(self.span.start)
            end_line, end_column = self.span.source.line_column(max(self.span.start, self.span.end))
            place = {
                "file": self.span.source.name,
                "start": {"line": line, "column": column},
                "end": {"line": end_line, "column": end_column},
            }
        return {
            "severity": self.severity,
            "code": self.code,
            "message": reworded.message,
            "range": place,
            "label": reworded.label,
            "details": list(reworded.details),
            "note": reworded.note,
            "help": reworded.help,
        }


def _windowed(text: str, start: int, width: int, room: int = 160) -> tuple[str, str, str]:
    """Cut a very long line around its underlined part; tabs are kept so the marks line up."""
    if len(text) > room:
        begin = max(0, start - 60)
        cut = text[begin : begin + room]
        text = ("..." if begin else "") + cut + ("..." if begin + room < len(text) else "")
        start = start - begin + (3 if begin else 0)
        width = min(width, max(1, len(text) - start))
    before = "".join("\t" if c == "\t" else " " for c in text[:start])
    return text, before, "^" * width


def _worded(text: str, rewordings: dict[str, str], room: int = 0) -> str:
    """The text in Python's words; the command line's, where they differ, go to `rewordings`."""
    words = (in_python(text), on_command_line(text))
    python, command_line = (f"{w[:room]}..." if 0 < room < len(w) else w for w in words)
    if python != command_line:
        rewordings[python] = command_line
    return python


class LgmError(Exception):
    """Everything lgmdsl refuses: a wrong model, wrong data, or a method that cannot run.

    Its subclasses say who has to act; `diagnostics` holds every finding of the pass (20 at most).
    """

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        collected = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        self.diagnostics: tuple[Diagnostic, ...] = collected[:MAX_ERRORS]
        self.left_out = max(0, len(collected) - MAX_ERRORS)
        super().__init__(self.render())

    @classmethod
    def of(
        cls,
        code: str,
        message: str,
        span: Span = NOWHERE,
        label: str = "",
        details: tuple[str, ...] = (),
        note: str = "",
        help: str = "",
        layout: Layout = "excerpt",
    ) -> Self:
        """The error of one diagnostic, which is made of the arguments."""
        return cls(Diagnostic(code, message, span, label, details, note, help, layout=layout))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled as its diagnostics, not as its text."""
        return type(self), (self.diagnostics,), {"left_out": self.left_out, "args": self.args}

    def placed(self, span: Span) -> tuple[Diagnostic, ...]:
        """The diagnostics; those that know no position at `span`."""
        return tuple(d if d.span.known else replace(d, span=span) for d in self.diagnostics)

    def _repr_html_(self) -> str:
        """What a notebook shows of an error that was caught."""
        codes = tuple(dict.fromkeys(self.codes))
        more = [html.paragraph(f"more of it: lgm help {code}") for code in codes[:1]]
        parts = [html.page(self.render()), *more]
        return html.card(type(self).__name__, ", ".join(codes), parts, good=False)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of an error that nobody caught: the user's own frames, and the
        message. `%debug` and `sys.last_traceback` have all frames."""
        shell: Any = sys.modules["IPython"].get_ipython()
        own = _before_this_package(self.__traceback__)
        shown: list[str] = shell.InteractiveTB.structured_traceback(type(self), self, own)
        return shown

    def render(self) -> str:
        text = "\n\n".join(d.render() for d in self.diagnostics)
        if self.left_out:
            text += f"\n\n... and {self.left_out} more"
        return text

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(d.code for d in self.diagnostics)


def _before_this_package(trace: TracebackType | None) -> TracebackType | None:
    """A traceback that ends where it enters this package."""
    if trace is None or trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] in PACKAGES:
        return None
    rest = _before_this_package(trace.tb_next)
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


class ModelError(LgmError):
    """The model text (or what the builder was given) is wrong: E1xx, E2xx, E4xx."""


class DataError(LgmError):
    """The data are wrong, missing or refused: E3xx."""


class MethodError(LgmError):
    """The method, bound or hyperparameter setting cannot run this model: E5xx."""


class TooLong(MethodError):
    """E501: a fit that would take much longer than is usually waited for."""


class NumericalError(LgmError):
    """Numerical trouble that leaves no usable result: E6xx."""


class WorkerError(LgmError):
    """Worker processes or machines died, were lost, or lack what they need: E7xx."""


def with_note(error: DataError, note: str) -> DataError:
    """The error, with what its rows are, after what its diagnostics note already."""
    return DataError(
        replace(d, note=f"{d.note}; {note}" if d.note else note) for d in error.diagnostics
    )


def nearest(word: object, known: Iterable[str]) -> str | None:
    """The known word that `word` most likely means, whatever its case, or None."""
    words = list(known)
    close = difflib.get_close_matches(str(word), words, n=1, cutoff=0.6)
    if not close:
        lowered = {w.casefold(): w for w in reversed(words)}
        matches = difflib.get_close_matches(str(word).casefold(), lowered, n=1, cutoff=0.6)
        close = [lowered[w] for w in matches]
    return close[0] if close else None


def meant(close: object, otherwise: str = "", then: str = "", quote: str = "`") -> str:
    """The help that asks whether a close word was meant, and goes on with `then`; where nothing is
    close, `otherwise`, or `then` alone."""
    if not close:
        return otherwise or then
    return f"did you mean {quote}{close}{quote}?{' ' if then else ''}{then}"


def suggestion(word: object, known: Iterable[str], otherwise: str = "", then: str = "") -> str:
    """`meant` of the nearest of the known words."""
    return meant(nearest(word, known), otherwise, then)


def listed(words: Sequence[str], last: str = "and") -> str:
    """`a, b and c` for a sentence."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
