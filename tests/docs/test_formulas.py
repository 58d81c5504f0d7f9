"""Formulas of the manual are drawn by the build; a reader needs no network."""

from __future__ import annotations

import importlib.util
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.docs.test_pages import DOCS, PAGES

CODE = re.compile(r"^(`{3,}).*?^\1|`[^`\n]*`", re.M | re.S)
FORMULA = re.compile(r"\$\$(?P<block>.+?)\$\$|(?<!\$)\$(?P<inline>[^$]+?)\$(?!\$)", re.S)


def _extension() -> ModuleType:
    name = "svg_math"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        with warnings.catch_warnings():  # of ziamath, about how it reads its font
            warnings.simplefilter("ignore", DeprecationWarning)
            spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def formulas(page: Path) -> list[tuple[str, bool]]:
    """Each formula of a page, and whether it stands on a line of its own."""
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    return [(m["block"] or m["inline"], m["block"] is not None) for m in FORMULA.finditer(text)]


@pytest.mark.thorough
def test_every_formula_is_drawn() -> None:
    found = [(page, *formula) for page in PAGES for formula in formulas(page)]
    assert len(found) > 300
    for page, tex, display in found:
        svg = _extension().drawing(tex, display)
        root = ElementTree.fromstring(svg)
        assert root.attrib["aria-label"] == " ".join(tex.split()), page
        assert len(root) > 0, (page, tex)


def test_an_unknown_command_is_an_error() -> None:
    with pytest.raises(ValueError, match="nosuch"):
        _extension().drawing(r"\nosuch x", False)


def test_a_formula_stands_on_the_line_of_its_text() -> None:
    """`p` reaches below the base line by its depth, and `-` does not."""

    def depth(tex: str) -> float:
        match = re.search(r"vertical-align:(-?[\d.]+)em", _extension().drawing(tex, False))
        assert match is not None
        return float(match[1])

    assert depth("p") < -0.2 < depth("-")


@pytest.mark.parametrize("text", ["cdn.", "mathjax"])
def test_no_page_asks_for_a_script_from_elsewhere(text: str) -> None:
    assert text not in (DOCS / "conf.py").read_text(encoding="utf-8").lower()
