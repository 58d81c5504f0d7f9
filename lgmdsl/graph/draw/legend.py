"""The legend of a drawing: one key for each look in it."""

from __future__ import annotations

from dataclasses import dataclass

from lgmdsl.graph.draw.shapes import outline
from lgmdsl.graph.draw.styles import DETAIL_SIZE, EM, STYLES, Look, columns
from lgmdsl.graph.draw.text import xml

ROW, KEY, BETWEEN, TOP = 24.0, 26.0, 18.0, 26.0


@dataclass(frozen=True)
class Legend:
    """Elements from (0, 0) downwards, and the room they take."""

    width: float
    height: float
    parts: tuple[str, ...]


def legend(looks: tuple[Look, ...], boxed: bool, mapped: bool, room: float) -> Legend:
    """Keys in rows no wider than `room` (or than one key), with a line each on boxes and dashes."""
    keys: list[tuple[str, str]] = [
        (outline(STYLES[k].shape, KEY / 2, 0, KEY, 15.0, attributes(k)), STYLES[k].words)
        for k in looks
    ]
    if boxed:
        plate = f'<rect class="plate" y="-7.5" width="{KEY:g}" height="15" rx="5" {PLATE_LINE}/>'
        keys.append((plate, "repeats over an index set"))
    if mapped:
        line = f'<path class="line" d="M0 0H{KEY:g}" {MAP_LINE}/>'
        keys.append((line, "map: says which entry"))
    parts: list[str] = []
    x, y, widest = 0.0, TOP, 0.0
    for key, words in keys:
        wide = KEY + 8 + columns(words) * DETAIL_SIZE * EM
        if x > 0 and x + wide > room:
            x, y = 0.0, y + ROW
        parts.append(
            f'<g transform="translate({x:.1f} {y:.1f})">{key}'
            f'<text class="ink" x="{KEY + 8:g}" y="3.5" fill="{INK}">{xml(words)}</text></g>'
        )
        widest = max(widest, x + wide)
        x += wide + BETWEEN
    return Legend(widest, y + 10 if parts else 0.0, tuple(parts))


INK, PAGE, LINE, PLATE = "#1b2027", "#ffffff", "#5b6673", "#8a94a0"
PLATE_LINE = f'fill="none" stroke="{PLATE}" stroke-width="1.2"'
MAP_LINE = f'fill="none" stroke="{LINE}" stroke-width="1.2" stroke-dasharray="5 3"'


def attributes(look: Look) -> str:
    """Class, colours and line of a node's outline."""
    style = STYLES[look]
    dashes = ' stroke-dasharray="5 3"' if style.dashed else ""
    return (
        f'class="k-{look}" fill="{style.fill}" stroke="{style.stroke}" stroke-width="1.4"{dashes}'
    )


def dark_style() -> str:
    """The colours of a dark page; on a light one the elements' own attributes hold."""
    rules = [
        ".page{fill:#14181d}",
        ".ink{fill:#e6eaf0}",
        ".soft{fill:#b4bdc8}",
        ".line{stroke:#9aa5b1}",
        ".head{fill:#9aa5b1}",
        ".plate{stroke:#76818d}",
    ]
    rules += [
        f".k-{look}{{fill:{style.dark_fill};stroke:{style.dark_stroke}}}"
        for look, style in STYLES.items()
    ]
    return "@media (prefers-color-scheme: dark){" + "".join(rules) + "}"
