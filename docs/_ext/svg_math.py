"""Formulas as SVG, drawn by the build: a browser needs no script, no font and no network."""

from __future__ import annotations

import re
from functools import cache
from html import escape

import ziamath
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.writers.html5 import HTML5Translator

_UNIT = 16.0  # units of the drawing to one em of text
_BOX = re.compile(r'<svg [^>]*viewBox="(?P<box>[^"]*)"[^>]*>')
_FIRST = re.compile(r'(?:[MLQC] |<rect x=")(-?[\d.]+)')
ziamath.config.svg2 = False  # paths in place of symbols, whose names would clash on a page
ziamath.config.math.color = "currentColor"


@cache
def drawing(tex: str, display: bool) -> str:
    """The formula, on the base line of the text around it, with its source as its label.

    Raises ValueError for a command that is not known.
    """
    formula = ziamath.Latex(tex.strip(), size=1.08 * _UNIT, inline=not display)
    unknown = re.search(r"\\\w+", str(formula.mathmlstr()))
    if unknown:
        raise ValueError(f"unknown command {unknown[0]}")
    svg = formula.svg()
    match = _BOX.match(svg)
    assert match is not None
    left, top, width, height = (float(n) for n in match["box"].split())
    ink = min((float(x) for x in _FIRST.findall(svg)), default=left)  # an accent's box is wider
    left, width = ink, width - (ink - left)
    em = [n / _UNIT for n in (width, height, -top - height)]
    style = "width:{:.3f}em;height:{:.3f}em;vertical-align:{:.3f}em".format(*em)
    box = f"{left:.3f} {top:.3f} {width:.3f} {height:.3f}"
    label = escape(" ".join(tex.split()), quote=True)
    head = f'<svg role="img" aria-label="{label}" style="{style}" viewBox="{box}">'
    return head + svg[match.end() :]


def draw(node: nodes.Element, display: bool) -> str:
    """The formula of a node. Raises ExtensionError, with its place, for one that is no TeX."""
    tex = node.astext()
    try:
        return drawing(tex, display)
    except Exception as problem:
        where = f"{node.source}:{node.line}"
        raise ExtensionError(f"{where}: cannot draw {tex!r}: {problem}") from problem


def inline(self: HTML5Translator, node: nodes.Element) -> None:
    """Within a line of text."""
    self.body.append(f'<span class="formula">{draw(node, False)}</span>')
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.Element) -> None:
    """On lines of its own."""
    self.body.append(f'<div class="formula">{draw(node, True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """The renderer `svg`, for `html_math_renderer`."""
    app.add_html_math_renderer("svg", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
