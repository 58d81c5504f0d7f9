"""What notebooks show of a result: one self-contained block, for light and dark pages.

Colours are those of the page (Jupyter's and VS Code's themes, else the reader's scheme); every text
is escaped here, so that labels and names are shown as they are whatever they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

_LIGHT = (
    "--lgm-soft:#57606a;--lgm-key:#8250df;--lgm-name:#0550ae;--lgm-text:#0a5c2b;"
    "--lgm-number:#953800;--lgm-good:#116329;--lgm-bad:#b3261e"
)
_DARK = (
    "--lgm-soft:#9da7b3;--lgm-key:#d2a8ff;--lgm-name:#79c0ff;--lgm-text:#7ee787;"
    "--lgm-number:#ffa657;--lgm-good:#7ee787;--lgm-bad:#ff9a92"
)
_STYLE = (
    f".lgm{{{_LIGHT};font-size:13px;line-height:1.45;max-width:60em}}"
    f"@media (prefers-color-scheme:dark){{.lgm{{{_DARK}}}}}"
    f'[data-jp-theme-light="true"] .lgm,.vscode-light .lgm,[data-theme="light"] .lgm{{{_LIGHT}}}'
    f'[data-jp-theme-light="false"] .lgm,.vscode-dark .lgm,[data-theme="dark"] .lgm{{{_DARK}}}'
    ".lgm header{font-weight:600;margin:0 0 .3em}.lgm header span{font-weight:400;"
    "color:var(--lgm-soft);margin-left:.7em}.lgm .good{color:var(--lgm-good)}"
    ".lgm .bad{color:var(--lgm-bad)}.lgm pre{white-space:pre;overflow-x:auto;margin:.3em 0;"
    "padding:.6em .8em;border:1px solid rgba(127,127,127,.3);border-radius:6px;"
    "background:rgba(127,127,127,.07);color:inherit;font-size:12px;line-height:1.4}"
    ".lgm table{border-collapse:collapse;margin:.3em 0}.lgm th,.lgm td{padding:.15em .7em;"
    "text-align:right;border:0;border-bottom:1px solid rgba(127,127,127,.2);"
    "font-variant-numeric:tabular-nums;background:none}"
    ".lgm th{color:var(--lgm-soft);font-weight:500}"
    ".lgm th:first-child,.lgm td:first-child,.lgm .words td{text-align:left}"
    ".lgm details{margin:.3em 0}.lgm summary{cursor:pointer;color:var(--lgm-soft)}"
    ".lgm p{margin:.3em 0}.lgm .scroll{overflow-x:auto}.lgm img{max-width:100%;height:auto}"
    ".lgm .k{color:var(--lgm-key)}.lgm .f{color:var(--lgm-name)}.lgm .n{color:var(--lgm-number)}"
    ".lgm .s{color:var(--lgm-text)}.lgm .c{color:var(--lgm-soft);font-style:italic}"
)


@dataclass(frozen=True)
class Html:
    """A piece of HTML; `of` and the functions below make it, escaped."""

    text: str

    @classmethod
    def of(cls, text: object) -> Html:
        """Plain text."""
        return cls(escape(str(text)))


def card(title: str, note: str = "", parts: Iterable[Html] = (), good: bool | None = None) -> str:
    """A block with a title, a note behind it (`good`: in which colour), and parts below."""
    colour = "" if good is None else f' class="{"good" if good else "bad"}"'
    behind = f"<span{colour}>{escape(note)}</span>" if note else ""
    body = "".join(part.text for part in parts)
    head = f"<header>{escape(title)}{behind}</header>" if title or behind else ""
    return f'<div class="lgm"><style>{_STYLE}</style>{head}{body}</div>'


class Page(str):
    """Text of several lines: shells and notebooks show it as it reads, not as a quoted string."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return str.__str__(self)

    def _repr_html_(self) -> str:
        return card("", parts=[page(self)])


class Paged:
    """A result whose text is a page, `str(result)`: notebooks show it."""

    def _repr_html_(self) -> str:
        return card(type(self).__name__, parts=[page(str(self))])


def table(header: Sequence[str], rows: Iterable[Sequence[object]], words: bool = False) -> Html:
    """Numbers to the right, the first column to the left; `words`: all of them to the left."""
    head = "".join(f"<th>{escape(h)}</th>" for h in header)
    top = f"<thead><tr>{head}</tr></thead>" if header else ""
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(c))}</td>" for c in row) + "</tr>" for row in rows
    )
    kind = ' class="words"' if words else ""
    return Html(f'<div class="scroll"><table{kind}>{top}<tbody>{body}</tbody></table></div>')


def line(text: str) -> str:
    """A line of its own, such as how far a fit is."""
    return f'<div class="lgm"><style>{_STYLE}</style><p class="c">{escape(text)}</p></div>'


def page(text: str) -> Html:
    """Text as a terminal shows it."""
    return Html(f"<pre>{escape(text)}</pre>")


def paragraph(text: str, bad: bool = False) -> Html:
    """A line of words."""
    return Html(f"<p{' class=bad' if bad else ''}>{escape(text)}</p>")


def folded(title: str, *parts: Html) -> Html:
    """Parts that a click shows."""
    body = "".join(part.text for part in parts)
    return Html(f"<details><summary>{escape(title)}</summary>{body}</details>")


def picture(svg: str, words: str) -> Html:
    """An SVG document as an image, whose styles and ids stay its own; `words` describe it."""
    from base64 import b64encode

    content = b64encode(svg.encode()).decode("ascii")
    return Html(f'<img alt="{escape(words)}" src="data:image/svg+xml;base64,{content}">')
