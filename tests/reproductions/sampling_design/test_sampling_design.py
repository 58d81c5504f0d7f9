"""Which lines of k-space to measure (Seeger, Nickisch, Pohmann and Schoelkopf 2009, the application
that Nickisch and Seeger 2009 name): lines by information gain against low-pass and random ones, on
small images with total variation, and the information by draws and solves against the exact
one.

A line is one phase encoding, row k of the spectrum: n complex coefficients, two rows of n real
numbers (those of row k and of its conjugate -k). An image is real, so that the rows k and -k are
one line.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.acquisition.measuring import bounds, information
from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.model import some_rows
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.linear import Predictor
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.operators.fourier import Fourier
from tests.benchmarks.image_models import TEXT, Measured, course, halved, picture
from tests.reproductions.record import COLOURS, figure, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
CASES = (("camera", 32), ("camera", 64))  # images, pixels on a side
NOISE, SCALE = 0.01, 0.03
FIRST = 2  # lines 0 to 2, the lowest frequencies, are measured at the start
STEPS, EVERY = 8, 2  # lines that are chosen, lines of a block
SEEDS = (0, 1)
ENGINE = {"engine": "iterative"}
MODEL = TEXT.format(data="", kind="real?", seen="fft(u)", noise=NOISE, scale=SCALE)


@dataclass(frozen=True, eq=False)
class Scan:
    """An image, its spectrum as pairs of real numbers, without and with noise, and the line of each
    entry."""

    image: Array
    spectrum: Array
    y: Array
    line: IntArray

    def kept(self, lines: list[int]) -> Array:
        """The data with these lines alone."""
        return np.where(np.isin(self.line, lines), self.y, np.nan)


def scan(shared: Path, name: str, n: int) -> Scan:
    image = picture(shared, name)
    while len(image) > n:
        image = halved(image)
    spectrum = Fourier(image.shape).matvec(image.reshape(-1)).reshape(image.shape)
    y = spectrum + NOISE * np.random.default_rng(0).normal(size=image.shape)
    k = np.arange(n)
    line = np.broadcast_to(np.minimum(k, n - k)[:, None], image.shape)
    return Scan(image, spectrum, y, line)


def psnr(error: float) -> float:
    """In dB, from a root mean square error of the spectrum: the transform is unitary."""
    return -20.0 * float(np.log10(error))


@dataclass(frozen=True, eq=False)
class Result:
    """The lines of a design in their order, PSNR by the number of lines measured, the information
    that each was chosen for, the posterior mean at the end, and CPU seconds."""

    lines: list[int]
    quality: dict[int, float]
    information: list[float]
    computed: list[int]
    mean: Array
    seconds: float


def designed(s: Scan, score: str, seed: int = 0) -> Result:
    begun = list(range(FIRST + 1))
    began = time.process_time()
    found = lgm.design_measurements(
        lgm.loads(MODEL),
        {"y": s.kept(begun)},
        "line",
        {"line": s.line},
        score,
        STEPS,
        EVERY,
        {"y": s.y},
        {"y": s.spectrum},
        seed=seed,
        options=ENGINE,
    )
    seconds = time.process_time() - began
    assert all(p.status.name == "converged" for p in found.course)
    quality = {
        len(begun) + p.included: psnr(p.test_error)
        for p in found.course
        if p.test_error is not None
    }
    lines = [int(c.line) for c in found.choices]
    scores = [c.score for c in found.choices if c.score is not None]
    computed = [c.computed for c in found.choices]
    mean = np.zeros(0)
    if score == "information" or seed == 0:
        fit = lgm.fit(lgm.loads(MODEL), {"y": s.kept(begun + lines)}, "double-loop", options=ENGINE)
        mean = np.asarray(fit.mean("u"))
    return Result(begun + lines, quality, scores, computed, mean, seconds)


def low_pass(s: Scan) -> Result:
    quality, mean = {}, s.image
    began = time.process_time()
    for count in range(FIRST + 1, FIRST + 2 + STEPS, EVERY):
        data = {"y": s.kept(list(range(count)))}
        mean = np.asarray(lgm.fit(lgm.loads(MODEL), data, "double-loop", options=ENGINE).mean("u"))
        quality[count] = psnr(float(np.sqrt(np.mean((mean - s.image) ** 2))))
    lines = list(range(FIRST + 1 + STEPS))
    return Result(lines, quality, [], [], mean, time.process_time() - began)


def mask(s: Scan, lines: list[int]) -> Array:
    """When each row of the spectrum was measured, zero frequency in the middle; NaN for never."""
    when = np.full(s.image.shape, np.nan)
    for place, line in enumerate(lines):
        when[s.line == line] = max(0, place - FIRST)
    return np.fft.fftshift(when, axes=0)


@pytest.mark.parametrize(("image", "size"), CASES)
def test_lines_by_information(shared: Path, image: str, size: int) -> None:
    s, name = scan(shared, image, size), f"{image}_{size}"
    made = {"information": designed(s, "information"), "low-pass": low_pass(s)}
    made |= {f"random {k}": designed(s, "random", k) for k in SEEDS}
    counts = range(FIRST + 1, FIRST + 2 + STEPS, EVERY)
    rows: list[list[object]] = [
        [kind, *(result.quality[k] for k in counts), round(result.seconds)]
        for kind, result in made.items()
    ]
    heads = ["design", *(f"{k} lines" for k in counts), "CPU seconds"]
    table(FOLDER, heads, rows, name=name, digits=4)
    best = made["information"]
    chosen = zip(best.lines[FIRST + 1 :], best.information, best.computed, strict=True)
    order: list[list[object]] = [[k, *choice] for k, choice in enumerate(chosen, 1)]
    heads = ["choice", "line", "information in nats", "lines computed"]
    table(FOLDER, heads, order, name=f"{name}_order", digits=5)
    drawn(s, image, name, made)
    random = np.mean([made[f"random {k}"].quality[counts[-1]] for k in SEEDS])
    assert best.quality[counts[-1]] > random + 1.0


def drawn(s: Scan, image: str, name: str, made: dict[str, Result]) -> None:
    with figure(FOLDER, 8.6, 3.6, name=name, dpi=90) as canvas:
        panels = canvas.subplot_mosaic([["curve", "m0", "m1", "m2"], ["curve", "i0", "i1", "i2"]],
                                       width_ratios=[2.2, 1, 1, 1])  # fmt: skip
        axes = panels["curve"]
        for k, (kind, colour) in enumerate(
            zip(("information", "low-pass", "random"), COLOURS, strict=False)
        ):
            several = [r for n, r in made.items() if n.startswith(kind)]
            for r in several:
                thin = len(several) > 1
                axes.plot(
                    list(r.quality),
                    list(r.quality.values()),
                    color=colour,
                    linewidth=0.7 if thin else 1.4,
                    marker="" if thin else "o",
                    markersize=3,
                    label=kind if r is several[0] else None,
                )
            r = several[0]
            top = panels[f"m{k}"]
            top.imshow(mask(s, r.lines), cmap="viridis_r", vmin=0, vmax=STEPS, aspect="auto",
                       interpolation="nearest")  # fmt: skip
            top.set_title(f"{kind}: when", fontsize=8)
            top.set_xticks([])
            top.set_yticks([])
            below = panels[f"i{k}"]
            below.imshow(r.mean.reshape(s.image.shape), cmap="gray", vmin=0, vmax=1,
                         interpolation="nearest")  # fmt: skip
            below.set_title(f"{r.quality[FIRST + 1 + STEPS]:.1f} dB", fontsize=8)
            below.set_axis_off()
        axes.set_xlabel(f"lines measured, of {len(s.image) // 2 + 1}")
        axes.set_ylabel("PSNR of the posterior mean in dB")
        axes.set_title(f"{image}, {len(s.image)} x {len(s.image)}")
        axes.legend()


def test_scores_by_draws_and_solves_are_those_of_dense_algebra(shared: Path) -> None:
    """At the same widths: 32 x 32, lines 0 to 3 measured."""
    s = scan(shared, "camera", 32)
    y = s.kept([0, 1, 2, 3])
    case = Measured(s.image, MODEL, {"y": y}, y, np.isfinite(y), _none, _none, NOISE, SCALE)
    problem = case.problem(PrecisionEngine)
    q = course(problem).point.conditioned
    linear = problem.engine.linear
    other = IterativeEngine(linear).condition(q.weight, q.shift)
    assert not isinstance(other, Failed)
    whole = Predictor({"u": Fourier(s.image.shape)}, np.zeros(s.image.size))
    groups = [np.flatnonzero(s.line.reshape(-1) == k) for k in range(4, 17)]
    precision = np.full(s.image.size, NOISE**-2.0)
    value, error = bounds(other, linear, whole, precision, groups, np.random.default_rng(0))
    rows: list[list[object]] = []
    for k, group in enumerate(groups):
        exact = information(q, some_rows(whole, group), precision[group])
        _, variance = q.project(some_rows(whole, group))
        bound = 0.5 * float(np.log1p(precision[group] * variance).sum())
        solved = information(other, some_rows(whole, group), precision[group])
        assert abs(solved - exact) < 1e-6 * exact
        assert abs(value[k] - bound) < 4.0 * error[k]
        rows.append([4 + k, exact, solved, bound, float(value[k]), float(error[k])])
    heads = ["line", "exact", "by solves", "bound", "bound by 32 draws", "its standard error"]
    table(FOLDER, heads, rows, name="scores")
    columns = np.array([[float(str(cell)) for cell in row] for row in rows]).T
    with figure(FOLDER, 6.0, 3.0, name="scores") as canvas:
        axes = canvas.subplots()
        axes.plot(columns[0], columns[1], "o-", color=COLOURS[0], label="exact, and by solves")
        axes.plot(columns[0], columns[3], "--", color=COLOURS[1], label="Hadamard's bound")
        axes.errorbar(
            columns[0], columns[4], 3.0 * columns[5], fmt="s", markersize=3, color=COLOURS[2],
            label="the bound by 32 draws, 3 standard errors",
        )  # fmt: skip
        axes.set_xlabel("line")
        axes.set_ylabel("information in nats")
        axes.legend()


def _none(x: Array) -> Array:
    return x
