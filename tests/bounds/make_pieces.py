"""The table of piecewise bounds of log(1 + e^x), computed anew (Khan 2012, section 4.2; Marlin,
Khan and Murphy 2011).

python tests/bounds/make_pieces.py      # rewrites lgmdsl/bounds/pieces.json

Pieces are marched outwards from 0, each as long as a gap eps allows, and eps is solved for so that
the last break meets t = -log expm1(eps), where the final piece x + eps begins. The left half is the
mirror image: (a, b, c) on [l, r] is (a, 1 - b, c) on [-r, -l].
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

TABLE = Path(__file__).resolve().parents[2] / "lgmdsl" / "bounds" / "pieces.json"
SIZES = range(3, 41)
FARTHEST = 20.0  # where a march at too large a gap is given up; the last breaks are below 12

Piece = tuple[float, float, float]


@dataclass(frozen=True)
class Half:
    """The pieces that reach right of 0: breaks[k] is where piece k begins, except that the centre
    piece of an odd number begins at -breaks[1]; breaks[0] = 0 either way."""

    gap: float
    breaks: list[float]
    pieces: list[Piece]


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def sigmoid(x: float) -> float:
    e = math.exp(-abs(x))
    return 1.0 / (1.0 + e) if x >= 0.0 else e / (1.0 + e)


def remez(a: float, b: float) -> tuple[Piece, float]:
    """The minimax quadratic of softplus on [a, b], a >= 0, and its error e.

    The third derivative is negative there, so p - softplus alternates -e, e, -e, e from a to b.
    Fitted is softplus - x = log(1 + e^-x), which has the same errors and keeps its digits.
    """
    middle, half = 0.5 * (a + b), 0.5 * (b - a)
    points = middle + half * np.cos(np.pi * np.arange(3, -1, -1) / 3.0)
    sign = np.array([-1.0, 1.0, -1.0, 1.0])
    for _ in range(40):
        h = (points - middle) / half
        rows = np.stack([h * h, h, np.ones(4), -sign], axis=1)
        q, r, s, e = np.linalg.solve(rows, [softplus(-x) for x in points])

        def slope(x: float, q: float = q, r: float = r) -> float:
            return float((2.0 * q * (x - middle) / half + r) / half + sigmoid(-x))

        def bend(x: float, q: float = q) -> float:
            return float(2.0 * q / half**2 - sigmoid(x) * sigmoid(-x))

        # The error's slope is convex, and negative between its two roots.
        lowest = float(brentq(bend, a, b))
        one, two = (
            float(brentq(slope, *ends, xtol=1e-15, rtol=1e-15))
            for ends in ((a, lowest), (lowest, b))
        )
        moved = max(abs(one - points[1]), abs(two - points[2]))
        points = np.array([a, one, two, b])
        if moved < 1e-9 * half:  # the error is flat at its extremes: 1e-18 there
            break
    second = q / half**2
    first = 1.0 + r / half - 2.0 * second * middle
    return (second, first, s - middle * r / half + second * middle**2), e


def chord(a: float, b: float) -> tuple[Piece, float]:
    """The chord of softplus on [a, b] and its largest gap."""
    slope = (softplus(b) - softplus(a)) / (b - a)
    x = math.log(slope) - math.log1p(-slope)
    return (0.0, slope, softplus(a) - slope * a), softplus(a) + slope * (x - a) - softplus(x)


def centre(b: float) -> tuple[Piece, float]:
    """On [-b, b]: x/2 and the chord of g(u) = log 2cosh(sqrt(u)/2) in u = x^2, shifted up."""
    log2 = math.log(2.0)

    def g(x: float) -> float:
        return 0.5 * x + math.log1p(math.exp(-x))

    slope = (g(b) - log2) / b**2
    x = float(brentq(lambda x: math.tanh(0.5 * x) / (4.0 * x) - slope, 1e-9, b, xtol=1e-15))
    gap = g(x) - log2 - slope * x * x
    return (slope, 0.5, log2 + gap), gap


def quadratic(a: float, b: float) -> tuple[Piece, float]:
    """The minimax quadratic on [a, b], shifted up by its error: the gap is twice that."""
    (q, r, s), e = remez(a, b)
    return (q, r, s + e), 2.0 * e


def flat_centre(b: float) -> tuple[Piece, float]:
    """On [-b, b]: x/2 + log 2cosh(b/2)."""
    top = 0.5 * b + math.log1p(math.exp(-b))
    return (0.0, 0.5, top), top - math.log(2.0)


KINDS = {"linear": (flat_centre, chord), "quadratic": (centre, quadratic)}


def longest(gap_to: Callable[[float], float], a: float, gap: float) -> float:
    """b at which the gap of a piece from a reaches `gap`, or FARTHEST."""
    width = 0.5
    while gap_to(a + width) > gap:
        width *= 0.5
    while gap_to(a + 2.0 * width) < gap:
        width *= 2.0
        if a + width > FARTHEST:
            return FARTHEST
    low, high = a + width, a + 2.0 * width
    return float(brentq(lambda x: math.log(gap_to(x) / gap), low, high, xtol=1e-14, rtol=1e-14))


def march(kind: str, size: int, gap: float) -> tuple[Half, float]:
    """All pieces at a gap, and by how much the last break misses the start of the final piece."""
    middle, right = KINDS[kind]
    breaks, pieces = [0.0], []
    if size % 2:
        breaks.append(longest(lambda b: middle(b)[1], 0.0, gap))
        pieces.append(middle(breaks[1])[0])
    while len(breaks) < (size + 1) // 2:
        a = breaks[-1]
        if a >= FARTHEST:
            break
        breaks.append(longest(lambda b, a=a: right(a, b)[1], a, gap))  # type: ignore[misc]
        pieces.append(right(a, breaks[-1])[0])
    return Half(gap, breaks, [*pieces, (0.0, 1.0, gap)]), breaks[-1] + math.log(math.expm1(gap))


def build(kind: str, size: int) -> Half:
    """The pieces of equal gap."""
    guess = 2.0 / size**2 if kind == "linear" else 1.5 / size**3
    low, high = math.log(0.3 * guess), math.log(min(3.0 * guess, 0.5))
    root = brentq(lambda t: march(kind, size, math.exp(t))[1], low, high, xtol=1e-14, rtol=1e-14)
    return march(kind, size, math.exp(float(root)))[0]


def write() -> None:
    """All sizes of both kinds, one line each."""
    lines = []
    for kind in KINDS:
        for size in SIZES:
            half = build(kind, size)
            entry = {"gap": half.gap, "breaks": half.breaks, "pieces": half.pieces}
            lines.append(f'"{kind}-{size}": {json.dumps(entry)}')
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write()
